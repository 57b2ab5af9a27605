"""A feed-forward network for each node on its own."""

from __future__ import annotations

from dataclasses import replace

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.dropout import Dropout
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm


class FeedForward(Block):
    """An MLP with a residual, as after the attention of a transformer.

        h ← h + Dropout(W₂ ReLU(BatchNorm(W₁ h)))

    Its hidden layer is twice as wide as the state.
    """

    uses_walks = passes_messages = sees_edges = False

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.norm = Linear(channels, 2 * channels), BatchNorm(2 * channels)
        self.last, self.dropout = Linear(2 * channels, channels), Dropout(dropout)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        hidden = self.norm(self.first(state.nodes), batch.nodes.rows, relu=True)
        return replace(state, nodes=state.nodes + self.dropout(self.last(hidden)))
