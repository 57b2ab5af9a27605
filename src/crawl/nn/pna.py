"""PNA: several ways to pool messages, scaled by degrees (Corso et al., 2020)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from crawl.checks import positive_number
from crawl.choices import NormName
from crawl.nn.batch import Batch
from crawl.nn.block import State
from crawl.nn.linear import Linear
from crawl.nn.message_passing import MessagePassing


class PNA(MessagePassing):
    """Mean, minimum, maximum and standard deviation of messages, each as it is, amplified and attenuated.

        m(u→v) = W₁ h(u) + W₂ h(v) + W₃ e(u→v);   p = [mean m | min m | max m | std m]
        conv(h)(v) = W₄ [h(v) | p(v) | p(v) a(v) | p(v) / a(v)];   a(v) = log(deg(v) + 1) / mean_log_degree

    Args:
        channels: The width of the nodes' state.
        edge_channels: The width of the edges' state; 0 for none.
        mean_log_degree: The mean of log(deg + 1) over the nodes of the training graphs.
        norm, dropout, residual: As in `MessagePassing`.
    """

    def __init__(
        self,
        channels: int,
        edge_channels: int = 0,
        mean_log_degree: float = 1.0,
        *,
        norm: NormName = "batch",
        dropout: float = 0.0,
        residual: bool = True,
    ) -> None:
        super().__init__(channels, norm=norm, dropout=dropout, residual=residual)
        self.sees_edges = edge_channels > 0
        self.mean_log_degree = positive_number("mean_log_degree", mean_log_degree)
        self.source, self.target = Linear(channels, channels), Linear(channels, channels)
        self.edge = Linear(edge_channels, channels) if edge_channels else None
        self.last = Linear(13 * channels, channels)

    def conv(self, state: State, batch: Batch) -> Tensor:
        """`[N, d]`: all that was pooled, in one linear map."""
        nodes, edges = state.nodes, batch.edges
        message = batch.sources.spread(self.source(nodes)) + edges.spread(self.target(nodes))
        if self.edge is not None and state.edges is not None:
            message = self.edge(state.edges, add=message)
        pooled = torch.cat([edges.mean(message), edges.min(message), edges.max(message), edges.std(message)], 1)
        log_degree = (edges.count.to(nodes.dtype) + 1).log().unsqueeze(1)
        amplified = pooled * (log_degree / self.mean_log_degree)
        attenuated = pooled * (self.mean_log_degree / log_degree.clamp_min(math.log(2)))  # a node without edges has 0
        out: Tensor = self.last(torch.cat([nodes, pooled, amplified, attenuated], 1))
        return out
