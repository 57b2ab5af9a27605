"""What most message-passing layers have in common: a convolution, a norm, a ReLU and a residual."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.norm import BatchNorm


class MessagePassing(Block):
    """Messages along edges, as `conv` says, with a residual.

    h ← h + ReLU(BatchNorm(conv(h)))
    """

    uses_walks = False

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = BatchNorm(channels)

    def conv(self, state: State, batch: Batch) -> Tensor:
        """`[N, d]`: what the nodes hear from their neighbours and themselves."""
        raise NotImplementedError(f"{type(self).__name__} must say what nodes hear: write its conv.")

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        return replace(state, nodes=state.nodes + self.norm(self.conv(state, batch), batch.nodes.rows, relu=True))
