"""The virtual node: global communication between two layers (paper, appendix A.5)."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from crawl.checks import MAX_WIDTH, whole_number
from crawl.choices import Precision
from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.checks import check_rows, check_state
from crawl.nn.dropout import Dropout
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm
from crawl.ops.precision import check_precision, precision
from crawl.ops.segments import Segments
from crawl.tensor_checks import in_memory


class VirtualNode(nn.Module):
    """One state z per graph that hears from all nodes and speaks to all nodes.

        z ← MLP(z + Σ_v h(v));   h(v) ← h(v) + z

    with MLP = Linear → BatchNorm → ReLU → Dropout → Linear, without bias. No node is added to the graph.

    Args:
        channels: The width of the node features and of the state.
        dropout: The dropout rate inside the MLP.
        precision: `tf32`, `bf16` or `float32`, on a GPU; None for what is set around the call. See `CRaWlConv`.
    """

    @in_memory("A virtual node of this size")
    def __init__(self, channels: int, dropout: float = 0.0, precision: Precision | None = None) -> None:
        super().__init__()
        channels = self.channels = whole_number("channels", channels, 1, MAX_WIDTH)
        check_precision(precision)
        self.precision = precision
        self.mlp = nn.Sequential(
            Linear(channels, channels), BatchNorm(channels), nn.ReLU(), Dropout(dropout), Linear(channels, channels)
        )

    def forward(self, x: Tensor, state: Tensor, members: Segments) -> tuple[Tensor, Tensor]:
        """New node features `[N, C]` and new state `[G, C]`.

        Args:
            x: `[N, C]` node features.
            state: `[G, C]` the state after the previous layer; zeros at first.
            members: The graph of each node; `Segments.of(batch, num_graphs)`.
        """
        first, norm, _, dropout, last = self.mlp
        assert isinstance(norm, BatchNorm)
        check_rows(x, members, norm.weight)
        check_state(state, members.owners.size, self.channels)
        with precision(self.precision):
            hidden = norm(first(members.sum(x, add=state)), members.owners, relu=True)
            state = last(dropout(hidden))
        return members.spread(state, add=x), state


class VirtualNodeBlock(Block):
    """A `VirtualNode` between two layers of a network; z is the state of the graphs."""

    uses_walks = passes_messages = sees_edges = False

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.node = VirtualNode(channels, dropout)

    def forward(self, state: State, batch: Batch) -> State:
        """The state after nodes and graphs have spoken to each other."""
        nodes, graphs = self.node(state.nodes, state.graphs, batch.nodes)
        return replace(state, nodes=nodes, graphs=graphs)
