"""GatedGCN: messages through gates, with a state of each edge (Bresson and Laurent, 2017; Dwivedi et al., 2020)."""

from __future__ import annotations

import torch

from crawl.checks import truth
from crawl.choices import NormName
from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.dropout import Dropout
from crawl.nn.linear import Linear
from crawl.nn.norm import make_norm

_EPSILON = 1e-6


class GatedGCN(Block):
    """Means over neighbours whose weights, one for each channel, come from the edges; edges learn along with nodes.

        g(u→v) = A h(u) + B h(v) + C e(u→v);   η(u→v) = σ(g(u→v)) / (Σ_(w→v) σ(g(w→v)) + 1e-6)
        h(v) ← h(v) + Dropout(ReLU(Norm(U h(v) + Σ_(u→v) η(u→v) V h(u))))
        e(u→v) ← e(u→v) + Dropout(ReLU(Norm(g(u→v))))

    Args:
        channels: The width of the states of nodes and edges.
        norm, dropout, residual: As in `MessagePassing`.
    """

    uses_walks = False
    changes_edges = True

    def __init__(self, channels: int, *, norm: NormName = "batch", dropout: float = 0.0, residual: bool = True) -> None:
        super().__init__()
        self.source = Linear(channels, 2 * channels)  # A and V: one product, and rows go to the edges once
        self.target, self.edge, self.own = (Linear(channels, channels) for _ in range(3))  # B, C and U
        self.norm, self.edge_norm = make_norm(norm, channels), make_norm(norm, channels)
        self.dropout, self.residual = Dropout(dropout), truth("residual", residual)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes and edges."""
        nodes, edges = state.nodes, state.edges
        assert edges is not None  # the network makes them
        from_source, value = batch.sources.spread(self.source(nodes)).chunk(2, dim=1)
        gate = self.edge(edges, add=from_source + batch.edges.spread(self.target(nodes)))
        weight = gate.sigmoid()
        heard, total = batch.edges.sum(torch.cat([weight * value, weight], 1)).chunk(2, dim=1)
        update = self.own(nodes, add=heard / (total + _EPSILON))
        new_nodes = self.dropout(self.norm(update, batch.nodes.rows, relu=True))
        new_edges = self.dropout(self.edge_norm(gate, batch.edges.rows, relu=True))
        if self.residual:
            new_nodes, new_edges = nodes + new_nodes, edges + new_edges
        return State(new_nodes, new_edges, state.graphs)
