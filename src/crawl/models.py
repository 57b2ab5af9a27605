"""The CRaWl network (paper, section 2.2 and appendix A.3)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from crawl.checks import MAX_CHANNELS, MAX_COUNT, MAX_LAYERS, MAX_WIDTH, check_type, share, truth, whole_number
from crawl.choices import Head, Pool, Precision, Strategy
from crawl.graph import Graph
from crawl.nn.conv import CRaWlConv, Implementation
from crawl.nn.encoders import Dense, Encoder
from crawl.nn.membership import Membership
from crawl.nn.readout import Readout
from crawl.nn.virtual_node import VirtualNode
from crawl.ops.precision import check_precision, precision
from crawl.tensor_checks import in_memory, plain_tensor
from crawl.walks import Walks, sample_walks
from crawl.walks.reference import StepLaw

if TYPE_CHECKING:
    from torch_geometric.data import Data


class CRaWl(nn.Module):
    """Layers with residuals on one set of walks, a virtual node between them if wanted, then a readout.

    Every forward pass draws fresh walks, so its result is a random variable: `seed` fixes it, `walks` gives the walks.

    Args:
        in_channels: The width of the node features `x`, or an encoder for them. With 1, data without `x` gets ones.
        out_channels: The width of the answer.
        hidden_channels: The width of the layers (d).
        num_layers: The number of layers (L).
        edge_dim: The width of the edge features `edge_attr`, or an encoder for them. With 1, data may come without
            `edge_attr`, as if it were zero: a constant would tell the first position of a walk from the others. 0 for
            data without edge features; None ignores those that data may have.
        window_size: How far back the structural bits look (s).
        kernel_size: The width of the convolutions, odd; s + 1 when None.
        identity: Use the identity bits.
        adjacency: Use the adjacency bits.
        virtual_node: Put a virtual node after every layer but the last.
        pool: `sum` or `mean` over the nodes of a graph; None for one answer per node.
        head: `mlp` or `linear`.
        dropout: The dropout rate in the virtual node and before the head.
        strategy: The kind of walk: `non_backtracking`, `uniform` or `node2vec`.
        p: node2vec's return parameter.
        q: node2vec's in-out parameter.
        num_steps: Steps of the walks in training.
        num_eval_steps: Steps of the walks in evaluation.
        start_share: The share of nodes that start a walk in training (p*).
        eval_start_share: The share of nodes that start a walk in evaluation.
        implementation: `fast` or `reference`; see `CRaWlConv`.
        precision: `tf32`, `bf16` or `float32`, on a GPU; see `CRaWlConv`.
    """

    @in_memory("A model of this size")
    def __init__(
        self,
        in_channels: int | Encoder,
        out_channels: int,
        *,
        hidden_channels: int = 128,
        num_layers: int = 3,
        edge_dim: int | Encoder | None = 0,
        window_size: int = 8,
        kernel_size: int | None = None,
        identity: bool = True,
        adjacency: bool = True,
        virtual_node: bool = False,
        pool: Pool | None = "mean",
        head: Head = "mlp",
        dropout: float = 0.0,
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
        num_layers = whole_number("num_layers", num_layers, 1, MAX_LAYERS)
        hidden_channels = whole_number("hidden_channels", hidden_channels, 1, MAX_WIDTH)
        virtual_node = truth("virtual_node", virtual_node)
        check_precision(precision)
        self.hidden_channels, self.precision = hidden_channels, precision
        StepLaw.named(strategy, p, q)  # refuses what it does not know
        self.window_size, self.strategy, self.p, self.q = window_size, strategy, p, q
        self.num_steps = whole_number("num_steps", num_steps, 0, MAX_COUNT - 1)
        self.num_eval_steps = whole_number("num_eval_steps", num_eval_steps, 0, MAX_COUNT - 1)
        self.start_share = share("start_share", start_share)
        self.eval_start_share = share("eval_start_share", eval_start_share)
        self.node_encoder = _as_encoder("in_channels", in_channels, 1)
        self.edge_encoder = _as_encoder("edge_dim", 0 if edge_dim is None else edge_dim, 0)
        self.ignores_edges = edge_dim is None
        widths = [self.node_encoder.out_channels] + num_layers * [hidden_channels]
        self.convs = nn.ModuleList(
            CRaWlConv(
                width_in,
                width_out,
                edge_dim=self.edge_encoder.out_channels,
                window_size=window_size,
                kernel_size=kernel_size,
                identity=identity,
                adjacency=adjacency,
                implementation=implementation,
            )
            for width_in, width_out in pairwise(widths)
        )
        num_virtual = num_layers - 1 if virtual_node else 0
        self.virtual_nodes = nn.ModuleList(VirtualNode(hidden_channels, dropout) for _ in range(num_virtual))
        self.readout = Readout(hidden_channels, out_channels, pool=pool, head=head, dropout=dropout)

    def forward(
        self, data: Data, walks: Walks | None = None, num_steps: int | None = None, seed: int | None = None
    ) -> Tensor:
        """`[G, out_channels]`, or `[N, out_channels]` when the model answers per node.

        Args:
            data: A PyG `Data` or `Batch`, which is only read. `x`, `edge_attr` and `batch` may be missing. If it has
                `graph_keys`, `[G]` numbers from 0 to 2^31 - 1, a graph gets the same walks whichever batch it is in.
                If it has `edge_weight`, steps are drawn in proportion to it.
            walks: The walks to use; drawn afresh when None.
            num_steps: Steps of the walks drawn; `num_steps` in training and `num_eval_steps` in evaluation when None.
            seed: The seed of the walks drawn; taken from torch's generator when None.
        """
        if walks is not None:
            check_type("walks", walks, Walks, "call model.sample_walks(graph)")
        weighted = walks is None and getattr(data, "edge_weight", None) is not None
        # Walks that are given may run where edges do not lead.
        graph = Graph.from_data(data, weighted=weighted, undirected=walks is not None)
        self.refuse_unused(data.edge_attr)
        if walks is None:
            walks = self.sample_walks(graph, num_steps, seed, data.graph_keys if "graph_keys" in data else None)
        like = self.readout.norm.weight  # any parameter tells the dtype and the device
        x = self.node_encoder(data.x, graph.num_nodes, like)
        edge_attr = None
        if self.edge_encoder.out_channels and not (data.edge_attr is None and self._edges_may_be_bare):
            edge_attr = self.edge_encoder(data.edge_attr, graph.num_edges, like)
        members = Membership(graph.batch.to(like.device), graph.graph_ptr.to(like.device))
        return self.network(x, edge_attr, walks.to(like.device), members)

    def network(self, x: Tensor, edge_attr: Tensor | None, walks: Walks, members: Membership) -> Tensor:
        """The answer, from encoded features and walks: `forward` without what concerns the data."""
        state = x.new_zeros(members.ptr.numel() - 1, self.hidden_channels)
        with precision(self.precision):
            for i, conv in enumerate(self.convs):
                x = conv(x, walks, edge_attr, members.num_nodes)
                if i < len(self.virtual_nodes):
                    x, state = self.virtual_nodes[i](x, state, members)
        out: Tensor = self.readout(x, members)
        return out

    def refuse_unused(self, edge_attr: Tensor | None) -> None:
        """Refuse edge features that the model would not see, unless it was made to ignore them.

        Raises:
            ValueError: If there are any.
        """
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

    def starts(self) -> float | None:
        """The share of nodes that start a walk in the mode the model is in; None for all."""
        share = self.start_share if self.training else self.eval_start_share
        return share if share < 1 else None

    def sample_walks(
        self, graph: Graph, num_steps: int | None = None, seed: int | None = None, graph_keys: Tensor | None = None
    ) -> Walks:
        """Walks as `forward` draws them: from `start_share` of the nodes in training, `eval_start_share` in evaluation.

        Args:
            graph: The graph or batch of graphs.
            num_steps: Steps of the walks; `num_steps` in training and `num_eval_steps` in evaluation when None.
            seed: The seed; taken from torch's generator when None.
            graph_keys: `[G]` a number for each graph; see `Graph.node_keys`.
        """
        check_type("graph", graph, Graph, "call Graph.from_data(data)")
        if num_steps is None:
            num_steps = self.num_steps if self.training else self.num_eval_steps
        if seed is None:
            seed = int(torch.randint(2**62, ()))
        return sample_walks(
            graph,
            num_steps=num_steps,
            strategy=self.strategy,
            start=self.starts(),
            window_size=self.window_size,
            seed=seed,
            p=self.p,
            q=self.q,
            keys=None if graph_keys is None else graph.node_keys(graph_keys),
        )


def _as_encoder(name: str, given: int | Encoder, low: int) -> Encoder:
    """The encoder, or one for this many numbers."""
    if not isinstance(given, nn.Module):
        return Dense(whole_number(name, given, low, MAX_CHANNELS))
    if not hasattr(given, "out_channels"):
        raise ValueError(f"{name} must be a number or an encoder with `out_channels`, not {type(given).__name__}.")
    return given
