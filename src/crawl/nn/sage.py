"""GraphSAGE: the mean over neighbours (Hamilton et al., 2017)."""

from __future__ import annotations

from torch import Tensor

from crawl.choices import NormName
from crawl.nn.batch import Batch
from crawl.nn.block import State
from crawl.nn.linear import Linear
from crawl.nn.message_passing import MessagePassing
from crawl.ops.neighbours import sum_neighbours


class SAGE(MessagePassing):
    """The mean over neighbours beside the node itself; it does not see edge features.

    conv(h)(v) = W₁ mean_(u→v) h(u) + W₂ h(v)
    """

    sees_edges = False

    def __init__(self, channels: int, *, norm: NormName = "batch", dropout: float = 0.0, residual: bool = True) -> None:
        super().__init__(channels, norm=norm, dropout=dropout, residual=residual)
        self.neighbours, self.own = Linear(channels, channels), Linear(channels, channels)

    def conv(self, state: State, batch: Batch) -> Tensor:
        """`[N, d]`: both parts, added."""
        heard = sum_neighbours(state.nodes, batch.sources, batch.edges) / batch.edges.count.clamp_min(1).unsqueeze(1)
        out: Tensor = self.own(state.nodes, add=self.neighbours(heard))
        return out
