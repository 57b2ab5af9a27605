"""GINE: message passing as strong as 1-WL, with edge features (Hu et al., 2020)."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from crawl.checks import truth
from crawl.choices import NormName
from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.dropout import Dropout
from crawl.nn.linear import Linear
from crawl.nn.norm import make_norm
from crawl.ops.messages import add_messages
from crawl.ops.neighbours import sum_neighbours


class GINE(Block):
    """Messages from neighbours, with a residual.

        h(v) ← h(v) + Dropout(MLP(h(v) + Σ_(u→v) ReLU(h(u) + e(u→v))))

    with MLP = Linear → Norm → ReLU → Linear, without bias. Edges of another width get a linear map first. Without
    edge features this is GIN.

    Args:
        channels: The width of the nodes' state.
        edge_channels: The width of the edges' state; 0 for none.
        norm, dropout, residual: As in `MessagePassing`.
    """

    uses_walks = False

    def __init__(
        self,
        channels: int,
        edge_channels: int = 0,
        *,
        norm: NormName = "batch",
        dropout: float = 0.0,
        residual: bool = True,
    ) -> None:
        super().__init__()
        self.sees_edges = edge_channels > 0
        is_wide = edge_channels in (0, channels)
        self.edge = nn.Identity() if is_wide else Linear(edge_channels, channels)
        self.first, self.last = Linear(channels, channels), Linear(channels, channels)
        self.norm, self.dropout = make_norm(norm, channels), Dropout(dropout)
        self.residual = truth("residual", residual)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        nodes, edges = state.nodes, state.edges
        if self.sees_edges and edges is not None:
            heard = add_messages(nodes, self.edge(edges), batch.sources, batch.edges)
        else:
            said = nodes.relu() if self.sees_edges else nodes
            heard = sum_neighbours(said, batch.sources, batch.edges, add=nodes)
        hidden = self.norm(self.first(heard), batch.nodes.rows, relu=True)
        if self.residual and not self.dropout.p:  # in one product
            return replace(state, nodes=self.last(hidden, add=nodes))
        change = self.dropout(self.last(hidden))
        return replace(state, nodes=nodes + change if self.residual else change)


class GIN(GINE):
    """GINE that does not look at edges: message passing as strong as 1-WL (Xu et al., 2019).

    h(v) ← h(v) + Dropout(MLP(h(v) + Σ_(u→v) h(u)))
    """

    sees_edges = False

    def __init__(self, channels: int, *, norm: NormName = "batch", dropout: float = 0.0, residual: bool = True) -> None:
        super().__init__(channels, norm=norm, dropout=dropout, residual=residual)
