"""GCN: the normalised adjacency matrix (Kipf and Welling, 2017)."""

from __future__ import annotations

from torch import Tensor

from crawl.choices import NormName
from crawl.nn.batch import Batch
from crawl.nn.block import State
from crawl.nn.linear import Linear
from crawl.nn.message_passing import MessagePassing
from crawl.ops.neighbours import sum_neighbours


class GCN(MessagePassing):
    """Sums over neighbours and oneself, scaled by degrees.

        conv(h)(v) = Σ_(u→v) W h(u) / √(deg(u) deg(v))

    where every node has one self-loop, which counts in its degree, whether the graph has none or several. It does not
    see edge features. The other arguments are those of `MessagePassing`.
    """

    sees_edges = False

    def __init__(self, channels: int, *, norm: NormName = "batch", dropout: float = 0.0, residual: bool = True) -> None:
        super().__init__(channels, norm=norm, dropout=dropout, residual=residual)
        self.linear = Linear(channels, channels)

    def conv(self, state: State, batch: Batch) -> Tensor:
        """`[N, d]`: the scaled sums."""
        rows: Tensor = self.linear(state.nodes)
        of_edges, of_own = edge_weights(rows, batch)
        return sum_neighbours(rows, batch.sources, batch.edges, of_edges, add=of_own * rows)


def edge_weights(nodes: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """`[E]` the weights 1/√(deg(u) deg(v)) of edges, 0 for the graph's own self-loops, and `[N, 1]` of one's own row.

    They are in the type of `nodes`.
    """
    source, target = batch.edge_index
    is_proper = (source != target).unsqueeze(1).to(nodes.dtype)  # the graph's own loops do not count
    scale = (1 + batch.edges.sum(is_proper)).rsqrt()
    return (is_proper * batch.sources.spread(scale) * batch.edges.spread(scale)).squeeze(1), scale.square()
