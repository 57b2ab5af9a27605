"""Edges that learn from the nodes at their ends."""

from __future__ import annotations

from dataclasses import replace

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm


class EdgeUpdate(Block):
    """A new state of each edge, with a residual.

        e(u→v) ← e(u→v) + ReLU(BatchNorm(W [h(u) | h(v) | e(u→v)]))

    The product is taken at the nodes before their rows go to the edges.

    Args:
        channels: The width of the states of nodes and edges.
    """

    uses_walks = changes_nodes = False
    changes_edges = True

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.source, self.target, self.edge = (Linear(channels, channels) for _ in range(3))
        self.norm = BatchNorm(channels)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new edges."""
        ends = batch.edges.spread(self.target(state.nodes), add=batch.sources.spread(self.source(state.nodes)))
        assert state.edges is not None  # the network makes them
        change = self.norm(self.edge(state.edges, add=ends), batch.edges.rows, relu=True)
        return replace(state, edges=state.edges + change)
