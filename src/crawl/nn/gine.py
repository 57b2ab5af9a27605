"""GINE: message passing as strong as 1-WL, with edge features (Hu et al., 2020)."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm
from crawl.ops.messages import add_messages


class GINE(Block):
    """Messages from neighbours, with a residual.

        h(v) ← h(v) + MLP(h(v) + Σ_(u→v) ReLU(h(u) + e(u→v)))

    with MLP = Linear → BatchNorm → ReLU → Linear, without bias. Edges of another width get a linear map first. Without
    edge features this is GIN.

    Args:
        channels: The width of the nodes' state.
        edge_channels: The width of the edges' state; 0 for none.
    """

    uses_walks = False

    def __init__(self, channels: int, edge_channels: int = 0) -> None:
        super().__init__()
        self.sees_edges = edge_channels > 0
        is_wide = edge_channels in (0, channels)
        self.edge = nn.Identity() if is_wide else Linear(edge_channels, channels)
        self.first, self.norm, self.last = Linear(channels, channels), BatchNorm(channels), Linear(channels, channels)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        nodes, edges = state.nodes, state.edges
        if self.sees_edges and edges is not None:
            heard = add_messages(nodes, self.edge(edges), batch.sources, batch.edges)
        else:
            messages = batch.sources.spread(nodes)
            heard = batch.edges.sum(messages.relu() if self.sees_edges else messages, add=nodes)
        hidden = self.norm(self.first(heard), batch.nodes.rows, relu=True)
        return replace(state, nodes=self.last(hidden, add=nodes))


class GIN(GINE):
    """GINE that does not look at edges: message passing as strong as 1-WL (Xu et al., 2019).

    h(v) ← h(v) + MLP(h(v) + Σ_(u→v) h(u))
    """

    sees_edges = False

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
