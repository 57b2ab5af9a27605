"""What most message-passing layers have in common: a convolution, a norm, a ReLU, dropout and a residual."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from crawl.checks import truth
from crawl.choices import NormName
from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.dropout import Dropout
from crawl.nn.norm import make_norm


class MessagePassing(Block):
    """Messages along edges, as `conv` says, with a residual.

        h ← h + Dropout(ReLU(Norm(conv(h))))

    Args:
        channels: The width of the nodes' state.
        norm: `batch`, `layer`, or `none` for a learned scale and shift alone.
        dropout: The dropout rate of what is added.
        residual: Add to the state; without it, what would be added is the new state.
    """

    uses_walks = False

    def __init__(self, channels: int, *, norm: NormName = "batch", dropout: float = 0.0, residual: bool = True) -> None:
        super().__init__()
        self.norm, self.dropout = make_norm(norm, channels), Dropout(dropout)
        self.residual = truth("residual", residual)

    def conv(self, state: State, batch: Batch) -> Tensor:
        """`[N, d]`: what the nodes hear from their neighbours and themselves."""
        raise NotImplementedError(f"{type(self).__name__} must say what nodes hear: write its conv.")

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        change = self.dropout(self.norm(self.conv(state, batch), batch.nodes.rows, relu=True))
        return replace(state, nodes=state.nodes + change if self.residual else change)
