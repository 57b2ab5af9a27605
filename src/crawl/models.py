"""Networks of blocks, and the CRaWl network as one of them (paper, section 2.2 and appendix A.3).

batch  = the graphs, with fresh random walks on them
state  = encoded features of the nodes and edges, zeros for the graphs
state  = block(state, batch), for every block of every layer
answer = readout(state.nodes, features of the graphs), per graph or per node
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from crawl.checks import MAX_WIDTH, truth, whole_number
from crawl.choices import Head, Implementation, NormName, PairScore, Pool, Precision, Strategy
from crawl.nn.batch import Batch
from crawl.nn.block import State
from crawl.nn.blocks import LayerPart, built_blocks, parts_of_layers, width_taken
from crawl.nn.checks import state_after
from crawl.nn.encoders import Encoder
from crawl.nn.graph_features import GraphFeatures
from crawl.nn.inputs import NetworkInputs
from crawl.nn.pair_readout import readout_for
from crawl.nn.settings import BlockSettings
from crawl.ops.precision import check_precision, precision
from crawl.tensor_checks import in_memory
from crawl.walks.plan import WalkPlan
from crawl.walks.walks import Walks

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Network(NetworkInputs):
    """Encoders → layers of blocks → readout.

    Every forward pass draws fresh walks, the same for all blocks, so its result is a random variable: `seed` fixes it,
    `walks` gives the walks.

    A network whose first block is a walk convolution and whose edges keep their features takes the features as they
    are, as in the paper. Otherwise a linear map without bias first brings nodes, and edges if a block changes them, to
    the width of the layers. A setting that no block uses is refused, unless it is the default.

    Args:
        in_channels: The width of the node features `x`, or an encoder for them. With 1, data without `x` gets ones.
        out_channels: The width of the answer.
        layer: The blocks of a layer: names (`walk`, `virtual_node`, `edge_update`, `gine`, …, see `crawl.nn.BLOCKS`) or
            `Block` objects, which are copied for each layer. A tuple among them is a `Parallel` of its blocks. What
            nothing after it would hear is left out of the last layer: a virtual node at the end, and an edge update
            that no later block sees. `walk, virtual_node` when None.
        num_layers: The number of layers (L); 3 when None.
        layers: All blocks one by one instead, as names or objects; the same object twice shares its weights.
        hidden_channels: The width of the layers (d).
        edge_dim: The width of the edge features `edge_attr`, or an encoder for them. With 1, data may come without
            `edge_attr`, as if it were zero: a constant would tell the first position of a walk from the others. 0 for
            data without edge features; None ignores those that data may have.
        window_size, kernel_size, identity, adjacency, padding, implementation: The walk convolutions; see `CRaWlConv`.
        pool: `sum` or `mean` over the nodes of a graph; None for one answer per node.
        head: `mlp` or `linear`.
        pair: `dot`, `bilinear` or `mlp` for one answer per pair of nodes, see `PairReadout`; it needs `pool=None`.
        dropout: The dropout rate in the blocks and before the head.
        graph_channels: The width of the features `u` of graphs, which the head sees beside the pooled nodes, or
            `crawl.nn.GraphFeatures` with their means and deviations. 0 for data without.
        input_dropout: The dropout rate of the node features.
        norm: `batch`, `layer` or `none`, in the readout, too; see `crawl.nn.BlockSettings`.
        residual, num_heads, mean_log_degree: Other blocks than those of the paper; see there.
        strategy, p, q, restart, num_steps, num_eval_steps, start_share, eval_start_share, centred, num_walks,
            num_eval_walks: Which walks; see `crawl.WalkPlan`.
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
        layer: Sequence[LayerPart] | None = None,
        num_layers: int | None = None,
        layers: Sequence[LayerPart] | None = None,
        hidden_channels: int = 128,
        edge_dim: int | Encoder | None = 0,
        window_size: int = 8,
        kernel_size: int | None = None,
        identity: bool = True,
        adjacency: bool = True,
        padding: bool = False,
        pool: Pool | None = "mean",
        head: Head = "mlp",
        pair: PairScore | None = None,
        dropout: float = 0.0,
        graph_channels: int | GraphFeatures = 0,
        input_dropout: float = 0.0,
        norm: NormName = "batch",
        residual: bool = True,
        num_heads: int = 4,
        mean_log_degree: float = 1.0,
        strategy: Strategy = "non_backtracking",
        p: float = 1.0,
        q: float = 1.0,
        restart: float = 0.1,
        num_steps: int = 50,
        num_eval_steps: int = 150,
        start_share: float = 1.0,
        eval_start_share: float = 1.0,
        centred: bool = False,
        num_walks: int = 1,
        num_eval_walks: int | None = None,
        implementation: Implementation = "fast",
        precision: Precision = "tf32",
    ) -> None:
        parts = parts_of_layers(layer, num_layers, layers)
        channels = whole_number("hidden_channels", hidden_channels, 1, MAX_WIDTH)
        check_precision(precision)
        super().__init__(in_channels, edge_dim, parts, channels, graph_channels, input_dropout)
        self.precision = precision
        steps, shares = (num_steps, num_eval_steps), (start_share, eval_start_share)
        plan = WalkPlan(strategy, *steps, *shares, window_size, p, q, restart, centred, num_walks, num_eval_walks)
        widths = (self.node_channels, channels, self.edge_channels)
        settings = BlockSettings(
            *(*widths, dropout, plan.window_size, kernel_size, identity, adjacency, num_heads, mean_log_degree),
            *(implementation, padding, plan.has_jumps, norm, residual),
        )
        blocks = built_blocks(parts, settings, plan)
        self.blocks = nn.ModuleList(dict.fromkeys(blocks))  # each once, also if it is used twice
        self.order = tuple(list(self.blocks).index(block) for block in blocks)
        self.walk_plan = plan if any(block.uses_walks for block in blocks) else None
        self.widths = [width_taken(block, channels) for block in (*blocks[1:], None)]
        self.readout = readout_for(channels, out_channels, pool, head, pair, dropout, norm, self.graph_features)

    def forward(
        self, data: Data | Batch, walks: Walks | None = None, num_steps: int | None = None, seed: int | None = None
    ) -> Tensor:
        """`[G, out_channels]`, or `[N, out_channels]` when the model answers per node.

        Args:
            data: A PyG `Data` or `Batch`, which is only read. `x`, `edge_attr` and `batch` may be missing; `u`, `[G,
                graph_channels]`, must be there if the network has `graph_channels`. If it has `graph_keys`, `[G]`
                numbers from 0 to 2^31 - 1, a graph gets the same walks whichever batch it is in. If it has
                `edge_weight`, steps are drawn in proportion to it. Or a `crawl.nn.Batch` with its walks.
            walks: The walks to use; drawn afresh when None. With them, `num_steps` and `seed` are refused.
            num_steps: Steps of the walks drawn; `num_steps` in training and `num_eval_steps` in evaluation when None.
            seed: The seed of the walks drawn; taken from torch's generator when None.
        """
        batch = self.encoded(data, walks, num_steps, seed)
        with precision(self.precision):
            answer: Tensor = self.readout(self.last_state(batch).nodes, batch.nodes, batch.targets, batch.u)
        return answer

    def embed(
        self, data: Data | Batch, walks: Walks | None = None, num_steps: int | None = None, seed: int | None = None
    ) -> Tensor:
        """`[G, hidden_channels + graph_channels]`, or N rows: what the head sees; for the arguments see `forward`."""
        batch = self.encoded(data, walks, num_steps, seed)
        with precision(self.precision):
            return self.readout.embed(self.last_state(batch).nodes, batch.nodes, batch.targets, batch.u)

    def last_state(self, batch: Batch) -> State:
        """The state after the last block, for a batch that is encoded."""
        state = self.first_state(batch)
        for i, width in zip(self.order, self.widths, strict=True):
            state = state_after(self.blocks[i], state, batch, width)
        return state


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
