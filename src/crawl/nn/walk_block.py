"""The walk convolution as a block of a network."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.conv import CRaWlConv
from crawl.nn.linear import Linear
from crawl.nn.settings import BlockSettings


class WalkBlock(Block):
    """A `CRaWlConv` with the edges' state as edge features."""

    passes_messages = False

    def __init__(self, conv: CRaWlConv) -> None:
        super().__init__()
        if conv.implementation == "reference":
            self.why_not_captured = "the reference implementation counts padding"
        self.conv, self.in_channels, self.sees_edges = conv, conv.in_channels, conv.edge_dim > 0
        self.to_edge = Linear(conv.out_channels, conv.out_channels) if self.changes_edges else None

    @classmethod
    def build(cls, settings: BlockSettings) -> Self:
        """The block for a network that names it."""
        conv = CRaWlConv(
            settings.in_channels,
            settings.channels,
            edge_dim=settings.edge_channels,
            window_size=settings.window_size,
            kernel_size=settings.kernel_size,
            identity=settings.identity,
            adjacency=settings.adjacency,
            implementation=settings.implementation,
            padding=settings.padding,
            jumps=settings.jumps,
            has_norms=settings.norm != "none",
        )
        return cls(conv)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes, and edges if they are pooled into."""
        edges, walks = state.edges if self.conv.edge_dim else None, batch.walks
        assert walks is not None  # the network draws them
        if batch.starts_at_targets:
            check_pools_starts(self.conv)
        if self.to_edge is None:
            return replace(state, nodes=self.conv(state.nodes, walks, edges, batch.nodes.rows))
        of_nodes, of_edges = self.conv.pooled(state.nodes, walks, edges, into_edges=True)
        nodes = self.conv.updated(state.nodes, of_nodes, batch.nodes.rows)
        return replace(state, nodes=nodes, edges=self.to_edge(of_edges, add=state.edges))


class WalkEdgeBlock(WalkBlock):
    """A `WalkBlock` that pools into the edges, too: e ← e + W p(e), with p as in `CRaWlConv.pooled`."""

    changes_edges = True


def check_pools_starts(conv: CRaWlConv) -> None:
    """Refuses a layer that does not pool the first positions of walks, where these begin at their targets."""
    if not conv.padding:
        raise ValueError(
            "Walks begin at their targets here, and a walk convolution without padding pools nothing at the beginning "
            "of a walk: pass centred=True (--walk.centred), or padding=True (--model.padding)."
        )
