"""The walk convolution as a block of a network."""

from __future__ import annotations

from dataclasses import replace

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.conv import CRaWlConv
from crawl.nn.settings import BlockSettings


class WalkBlock(Block):
    """A `CRaWlConv` with the edges' state as edge features.

    Args:
        conv: The layer.
    """

    passes_messages = False

    def __init__(self, conv: CRaWlConv) -> None:
        super().__init__()
        if conv.implementation == "reference":
            self.why_not_captured = "the reference implementation counts padding"
        self.conv, self.in_channels, self.sees_edges = conv, conv.in_channels, conv.edge_dim > 0

    @classmethod
    def build(cls, settings: BlockSettings) -> WalkBlock:
        """The block for a network that names it `walk`."""
        conv = CRaWlConv(
            settings.in_channels,
            settings.channels,
            edge_dim=settings.edge_channels,
            window_size=settings.window_size,
            kernel_size=settings.kernel_size,
            identity=settings.identity,
            adjacency=settings.adjacency,
            implementation=settings.implementation,
        )
        return cls(conv)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        edges = state.edges if self.conv.edge_dim else None
        return replace(state, nodes=self.conv(state.nodes, batch.walks, edges, batch.nodes.rows))
