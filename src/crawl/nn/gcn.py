"""GCN: the normalised adjacency matrix (Kipf and Welling, 2017)."""

from __future__ import annotations

from torch import Tensor

from crawl.nn.batch import Batch
from crawl.nn.block import State
from crawl.nn.linear import Linear
from crawl.nn.message_passing import MessagePassing


class GCN(MessagePassing):
    """Sums over neighbours and oneself, scaled by degrees.

        conv(h)(v) = Σ_(u→v) W h(u) / √(deg(u) deg(v))

    where every node has one self-loop, which counts in its degree, whether the graph has none or several. It does not
    see edge features.
    """

    sees_edges = False

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.linear = Linear(channels, channels)

    def conv(self, state: State, batch: Batch) -> Tensor:
        """`[N, d]`: the scaled sums."""
        rows: Tensor = self.linear(state.nodes)
        source, target = batch.edge_index
        is_proper = (source != target).unsqueeze(1).to(rows.dtype)  # the graph's own loops do not count
        scale = (1 + batch.edges.sum(is_proper)).rsqrt()
        scaled = scale * rows
        return scale * (scaled + batch.edges.sum(is_proper * batch.sources.spread(scaled)))
