"""GAT: attention over neighbours (Veličković et al., 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crawl.choices import NormName
from crawl.nn.batch import Batch
from crawl.nn.block import State
from crawl.nn.checks import channels_per_head
from crawl.nn.linear import Linear
from crawl.nn.message_passing import MessagePassing

_SLOPE = 0.2  # of LeakyReLU below 0


class GAT(MessagePassing):
    """Means over neighbours and oneself, whose weights each head works out from the nodes and the edge.

        conv(h)(v) = Σ_(u→v) α(u→v) W h(u);   α(u→v) = softmax over u of LeakyReLU(a·W h(u) + b·W h(v) + c·e(u→v))

    Every node has one self-loop, whether the graph has none or several; its edge features are the mean of those of the
    node's other incoming edges.

    Args:
        channels: The width of the nodes' state.
        edge_channels: The width of the edges' state; 0 for none.
        num_heads: The number of heads; they share the channels.
        norm, dropout, residual: As in `MessagePassing`.

    Raises:
        ValueError: If `channels` is not a multiple of `num_heads`.
    """

    def __init__(
        self,
        channels: int,
        edge_channels: int = 0,
        num_heads: int = 4,
        *,
        norm: NormName = "batch",
        dropout: float = 0.0,
        residual: bool = True,
    ) -> None:
        super().__init__(channels, norm=norm, dropout=dropout, residual=residual)
        self.sees_edges = edge_channels > 0
        self.linear = Linear(channels, channels)
        shape = num_heads, channels_per_head(channels, num_heads)
        self.source, self.target = (nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape))) for _ in range(2))
        self.edge = Linear(edge_channels, num_heads) if edge_channels else None

    def conv(self, state: State, batch: Batch) -> Tensor:
        """`[N, d]`: the weighted means."""
        rows: Tensor = self.linear(state.nodes).unflatten(1, self.source.shape)
        at_source, at_target = (rows * self.source).sum(2), (rows * self.target).sum(2)
        source, target = batch.edge_index
        is_proper = (source != target).unsqueeze(1)  # the graph's own loops do not count
        edge, loop = batch.sources.spread(at_source) + batch.edges.spread(at_target), at_source + at_target
        if self.edge is not None and state.edges is not None:
            seen = self.edge(state.edges)
            edge = edge + seen
            degree = batch.edges.sum(is_proper.to(seen.dtype)).clamp_min(1)
            loop = loop + batch.edges.sum(seen * is_proper) / degree
        edge, loop = F.leaky_relu(edge, _SLOPE), F.leaky_relu(loop, _SLOPE)
        edge = edge.masked_fill(~is_proper, torch.finfo(edge.dtype).min)
        peak = torch.maximum(batch.edges.max(edge.detach()), loop.detach())
        peak = torch.where(batch.edges.count.unsqueeze(1) > 0, peak, loop.detach())
        edge, loop = (edge - peak[batch.edges.owner]).clamp_max(0).exp(), (loop - peak).exp()
        total = (batch.edges.sum(edge) + loop).clamp_min(1)  # the largest weight is 1; only padding can have less
        heard = batch.edges.sum(edge.unsqueeze(2) * batch.sources.spread(rows)) + loop.unsqueeze(2) * rows
        return (heard / total.unsqueeze(2)).flatten(1)
