"""Networks of blocks, and the CRaWl network as one of them (paper, section 2.2 and appendix A.3)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from crawl.checks import MAX_CHANNELS, MAX_LAYERS, MAX_WIDTH, check_choice, check_type, truth, whole_number
from crawl.choices import Head, Implementation, Pool, Precision, Strategy
from crawl.edge_lists import weights_differ
from crawl.graph import Graph
from crawl.nn.batch import Batch
from crawl.nn.block import Block, BlockSettings, Parallel, State
from crawl.nn.blocks import BLOCKS
from crawl.nn.encoders import Dense, Encoder, OneHot
from crawl.nn.linear import Linear
from crawl.nn.readout import Readout
from crawl.ops.precision import check_precision, precision
from crawl.tensor_checks import in_memory, plain_tensor
from crawl.walks.plan import WalkPlan
from crawl.walks.walks import Walks

if TYPE_CHECKING:
    from torch_geometric.data import Data

LayerPart = str | Block | tuple["LayerPart", ...]


class Network(nn.Module):
    """Encoders → layers of blocks → readout.

    Blocks with walks all use the same ones. Every forward pass draws fresh walks, so its result is a random variable:
    `seed` fixes it, `walks` gives the walks.

    A network whose first block is a walk convolution and whose edges keep their features takes the features as they
    are, as in the paper. Elsewhere a linear map without bias brings nodes, and edges if a block changes them, to the
    width of the layers first.

    Args:
        in_channels: The width of the node features `x`, or an encoder for them. With 1, data without `x` gets ones.
        out_channels: The width of the answer.
        layer: The blocks of a layer: names (`walk`, `virtual_node`, `edge_update`, `gine`, …, see `crawl.nn.BLOCKS`) or
            `Block` objects, which are copied for each layer. A tuple among them is a `Parallel` of its blocks. The
            virtual node is left out of the last layer, where no layer would hear it.
        num_layers: The number of layers (L).
        layers: All blocks one by one instead, as names or objects; the same object twice shares its weights.
        hidden_channels: The width of the layers (d).
        edge_dim: The width of the edge features `edge_attr`, or an encoder for them. With 1, data may come without
            `edge_attr`, as if it were zero: a constant would tell the first position of a walk from the others. 0 for
            data without edge features; None ignores those that data may have.
        window_size: How far back the structural bits look (s).
        kernel_size: The width of the convolutions along walks, odd; s + 1 when None.
        identity: Use the identity bits.
        adjacency: Use the adjacency bits.
        pool: `sum` or `mean` over the nodes of a graph; None for one answer per node.
        head: `mlp` or `linear`.
        dropout: The dropout rate in the blocks and before the head.
        num_heads: The number of heads of attention.
        mean_log_degree: For `pna`, the mean of log(degree + 1) over the nodes of the training graphs.
        strategy: The kind of walk: `non_backtracking`, `uniform` or `node2vec`.
        p: node2vec's return parameter.
        q: node2vec's in-out parameter.
        num_steps: Steps of the walks in training.
        num_eval_steps: Steps of the walks in evaluation.
        start_share: The share of nodes that start a walk in training (p*).
        eval_start_share: The share of nodes that start a walk in evaluation.
        implementation: `fast` or `reference`; see `CRaWlConv`.
        precision: `tf32`, `bf16` or `float32`, on a GPU; see `CRaWlConv`.

    Attributes:
        walk_plan: The walks it draws; None if no block uses walks.
    """

    @in_memory("A model of this size")
    def __init__(
        self,
        in_channels: int | Encoder,
        out_channels: int,
        *,
        layer: Sequence[LayerPart] = ("walk", "virtual_node"),
        num_layers: int = 3,
        layers: Sequence[LayerPart] | None = None,
        hidden_channels: int = 128,
        edge_dim: int | Encoder | None = 0,
        window_size: int = 8,
        kernel_size: int | None = None,
        identity: bool = True,
        adjacency: bool = True,
        pool: Pool | None = "mean",
        head: Head = "mlp",
        dropout: float = 0.0,
        num_heads: int = 4,
        mean_log_degree: float = 1.0,
        strategy: Strategy = "non_backtracking",
        p: float = 1.0,
        q: float = 1.0,
        num_steps: int = 50,
        num_eval_steps: int = 150,
        start_share: float = 1.0,
        eval_start_share: float = 1.0,
        implementation: Implementation = "fast",
        precision: Precision = "tf32",
    ) -> None:
        super().__init__()
        channels = self.hidden_channels = whole_number("hidden_channels", hidden_channels, 1, MAX_WIDTH)
        check_precision(precision)
        self.precision = precision
        self.node_encoder = _as_encoder("in_channels", in_channels, 1)
        self.edge_encoder = _as_encoder("edge_dim", 0 if edge_dim is None else edge_dim, 0)
        self.ignores_edges = edge_dim is None
        plan = WalkPlan(strategy, num_steps, num_eval_steps, start_share, eval_start_share, window_size, p=p, q=q)
        parts = _parts(layer, num_layers) if layers is None else list(layers)
        width, edge_width = self.node_encoder.out_channels, self.edge_encoder.out_channels
        self.changes_edges = any(_has(part, "changes_edges") for part in parts)
        self.edge_embedding: Linear | None = None
        if self.changes_edges:
            self.edge_embedding = Linear(edge_width, channels) if edge_width else None
            edge_width = channels
        self.node_embedding: Linear | None = None
        if not _takes(parts[0] if parts else None, width) or self.changes_edges:
            self.node_embedding, width = Linear(width, channels), channels
        settings = BlockSettings(
            in_channels=width,
            channels=channels,
            edge_channels=edge_width,
            dropout=dropout,
            window_size=plan.window_size,
            kernel_size=kernel_size,
            identity=identity,
            adjacency=adjacency,
            num_heads=num_heads,
            mean_log_degree=mean_log_degree,
            implementation=implementation,
        )
        blocks = []
        for part in parts:
            blocks.append(_built(part, settings))
            settings = replace(settings, in_channels=channels)
        self.blocks = nn.ModuleList(dict.fromkeys(blocks))  # each once, also if it is used twice
        self.order = tuple(list(self.blocks).index(block) for block in blocks)
        self.walk_plan = plan if any(block.uses_walks for block in blocks) else None
        self.readout = Readout(channels, out_channels, pool=pool, head=head, dropout=dropout)
        if edge_width and not any(block.sees_edges for block in blocks):
            raise ValueError("No block of this network sees edge features: leave out edge_dim, or give edge_dim=None.")

    def forward(
        self, data: Data | Batch, walks: Walks | None = None, num_steps: int | None = None, seed: int | None = None
    ) -> Tensor:
        """`[G, out_channels]`, or `[N, out_channels]` when the model answers per node.

        Args:
            data: A PyG `Data` or `Batch`, which is only read. `x`, `edge_attr` and `batch` may be missing. If it has
                `graph_keys`, `[G]` numbers from 0 to 2^31 - 1, a graph gets the same walks whichever batch it is in.
                If it has `edge_weight`, steps are drawn in proportion to it. Or a `crawl.nn.Batch` with its walks.
            walks: The walks to use; drawn afresh when None.
            num_steps: Steps of the walks drawn; `num_steps` in training and `num_eval_steps` in evaluation when None.
            seed: The seed of the walks drawn; taken from torch's generator when None.
        """
        batch = data if isinstance(data, Batch) else self._batch(data, walks, num_steps, seed)
        batch = batch if batch.is_encoded else self.encode(batch)
        with precision(self.precision):
            state = self.first_state(batch)
            for i in self.order:
                state = self.blocks[i](state, batch)
            out: Tensor = self.readout(state.nodes, batch.nodes)
        return out

    def _batch(self, data: Data, walks: Walks | None, num_steps: int | None, seed: int | None) -> Batch:
        """The batch of data that come from outside, with walks."""
        if walks is not None:
            check_type("walks", walks, Walks, "call model.sample_walks(graph)")
        edge_weight = getattr(data, "edge_weight", None)
        draws = self.walk_plan is not None and walks is None
        if not draws and walks is None and weights_differ(edge_weight):
            raise ValueError(
                "A network without walks does not use edge_weight: make it a feature (edge_attr), or take it away "
                "(del data.edge_weight)."
            )
        # Walks that are given may run where edges do not lead.
        graph = Graph.from_data(data, weighted=draws and edge_weight is not None, undirected=not draws)
        if draws:
            walks = self.sample_walks(graph, num_steps, seed, data.graph_keys if "graph_keys" in data else None)
        batch = Batch.from_data(data, graph, walks, self._like.device)
        x, edge_attr = self.checked_features(data.x, graph.num_nodes, data.edge_attr, graph.num_edges)
        return replace(batch, x=x, edge_attr=edge_attr)

    def checked_features(
        self, x: Tensor | None, num_nodes: int, edge_attr: Tensor | None, num_edges: int
    ) -> tuple[Tensor | None, Tensor | None]:
        """Features of nodes and edges as the encoders take them.

        Raises:
            ValueError: If they do not fit the network.
        """
        x = _checked(self.node_encoder, x, num_nodes)
        self._refuse_unused(edge_attr)
        if not self.edge_encoder.out_channels or (edge_attr is None and self._edges_may_be_bare):
            return x, None
        return x, _checked(self.edge_encoder, edge_attr, num_edges)

    def encode(self, batch: Batch) -> Batch:
        """The batch with the features that the first block sees; it waits for no device."""
        x = _encoded(self.node_encoder, batch.x, batch.num_nodes, self._like)
        edge_attr = batch.edge_attr
        if edge_attr is not None or (self.edge_encoder.out_channels and not self._edges_may_be_bare):
            edge_attr = _encoded(self.edge_encoder, edge_attr, batch.num_edges, self._like)
        return replace(batch, x=x, edge_attr=edge_attr, is_encoded=True)

    @property
    def passes_messages(self) -> bool:
        """Whether a block sums over the edges of each node."""
        return any(block.passes_messages for block in self.blocks)

    @property
    def can_encode_ahead(self) -> bool:
        """Whether the encoders have no weights, so that `encode` need not be part of a training step."""
        encoders = (self.node_encoder, self.edge_encoder)
        return all(isinstance(encoder, Dense | OneHot) for encoder in encoders)

    def first_state(self, batch: Batch) -> State:
        """What the first block sees of an encoded batch."""
        nodes, edges = batch.x, batch.edge_attr
        assert nodes is not None
        if self.node_embedding is not None:
            nodes = self.node_embedding(nodes)
        if self.changes_edges and edges is None:
            edges = nodes.new_zeros(batch.num_edges, self.hidden_channels)
        elif self.edge_embedding is not None:
            edges = self.edge_embedding(edges)
        return State(nodes, edges, nodes.new_zeros(batch.num_graphs, self.hidden_channels))

    @property
    def _like(self) -> Tensor:
        """A parameter, which tells the dtype and the device."""
        return self.readout.norm.weight

    def _refuse_unused(self, edge_attr: Tensor | None) -> None:
        """Refuse edge features that the model would not see, unless it was made to ignore them."""
        if self.edge_encoder.out_channels or self.ignores_edges or edge_attr is None:
            return
        if plain_tensor("edge_attr", edge_attr).numel() == 0:
            return
        width = edge_attr.shape[1] if edge_attr.dim() > 1 else 1
        raise ValueError(
            f"The data has edge_attr, but the model edge_dim=0: give it edge_dim={width} to use them, or edge_dim=None "
            "to ignore them."
        )

    @property
    def _edges_may_be_bare(self) -> bool:
        return isinstance(self.edge_encoder, Dense) and self.edge_encoder.out_channels == 1

    def sample_walks(
        self, graph: Graph, num_steps: int | None = None, seed: int | None = None, graph_keys: Tensor | None = None
    ) -> Walks:
        """Walks as `forward` draws them, in the mode the model is in; the arguments are those of `WalkPlan.sample`.

        Raises:
            ValueError: If no block of the network uses walks.
        """
        if self.walk_plan is None:
            raise ValueError("No block of this network uses walks.")
        return self.walk_plan.sample(
            graph, is_training=self.training, num_steps=num_steps, seed=seed, graph_keys=graph_keys
        )


class CRaWl(Network):
    """The network of the paper: walk convolutions with residuals on one set of walks, then a readout.

    Args:
        in_channels: The width of the node features `x`, or an encoder for them.
        out_channels: The width of the answer.
        virtual_node: Put a virtual node after every layer except the last.
        settings: As in `Network`, except `layer` and `layers`.
    """

    def __init__(
        self, in_channels: int | Encoder, out_channels: int, *, virtual_node: bool = False, **settings: Any
    ) -> None:
        if named := settings.keys() & {"layer", "layers"}:
            raise ValueError(f"CRaWl has the layers of the paper: use crawl.Network to give {', '.join(named)}.")
        layer = ("walk", "virtual_node") if truth("virtual_node", virtual_node) else ("walk",)
        super().__init__(in_channels, out_channels, layer=layer, **settings)


def _parts(layer: Sequence[LayerPart], num_layers: int) -> list[LayerPart]:
    """The parts of all layers; the virtual node not in the last."""
    num_layers = whole_number("num_layers", num_layers, 1, MAX_LAYERS)
    if isinstance(layer, str):
        raise ValueError(f"layer must be a list of blocks, such as [{layer!r}], not {layer!r}.")
    parts = [copy.deepcopy(part) for _ in range(num_layers) for part in layer]
    last = len(parts) - len(layer)
    return [part for i, part in enumerate(parts) if i < last or part != "virtual_node"]


def _built(part: LayerPart, settings: BlockSettings) -> Block:
    if isinstance(part, Block):
        return part
    if isinstance(part, tuple | list):
        return Parallel(*(_built(inner, settings) for inner in part))
    check_choice("A block of layer", part, BLOCKS)
    return BLOCKS[part].build(settings)


def _has(part: LayerPart, attribute: str) -> bool:
    """Whether a block has an attribute that is true, or one of the blocks in parallel."""
    if isinstance(part, tuple | list):
        return any(_has(inner, attribute) for inner in part)
    return bool(getattr(BLOCKS.get(part) if isinstance(part, str) else part, attribute, False))


def _takes(part: LayerPart | None, width: int) -> bool:
    """Whether the first block can take features of this width as they are."""
    return part == "walk" or (isinstance(part, Block) and part.in_channels == width)


def _as_encoder(name: str, given: int | Encoder, low: int) -> Encoder:
    """The encoder, or one for this many numbers."""
    if not isinstance(given, nn.Module):
        return Dense(whole_number(name, given, low, MAX_CHANNELS))
    if not hasattr(given, "out_channels"):
        raise ValueError(f"{name} must be a number or an encoder with `out_channels`, not {type(given).__name__}.")
    return given


def _checked(encoder: Any, features: Tensor | None, num_rows: int) -> Tensor | None:
    """Features that an encoder takes; one of the user's own may check for itself."""
    checked: Tensor | None = encoder.checked(features, num_rows) if hasattr(encoder, "checked") else features
    return checked


def _encoded(encoder: Any, features: Tensor | None, num_rows: int, like: Tensor) -> Tensor:
    encoded: Tensor = getattr(encoder, "encode", encoder)(features, num_rows, like)
    return encoded
