"""A recurrent network along walks."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm
from crawl.nn.settings import BlockSettings
from crawl.ops.precision import recurrence
from crawl.walks.walks import num_bits


class WalkGRU(Block):
    """A GRU along each walk, whose states are averaged into the nodes that they visit, with a residual.

        X = W [h | e | I | A];   p(v) = mean of GRU(X) over all visits of v;   h(v) ← h(v) + MLP(p(v))

    with MLP = Linear(d, 2d) → BatchNorm → ReLU → Linear(2d, d), without bias. A node that no walk visits has p = 0.

    Args:
        channels: The width of the nodes' state, and of the edges' state if they are pooled into.
        edge_channels: The width of the edges' state; 0 for none.
        window_size: How far back the bits of the walks look (s).
        bits: Which of them are used: the identity bits, the adjacency bits.
        pools_edges: Average into the edges walked along, too: e ← e + W p.
        jumps: Take walks that jump: a row of weights is added where a jump led.
    """

    passes_messages = False

    def __init__(
        self,
        channels: int,
        edge_channels: int = 0,
        window_size: int = 8,
        bits: tuple[bool, bool] = (True, True),
        pools_edges: bool = False,
        jumps: bool = False,
    ) -> None:
        super().__init__()
        self.sees_edges, self.changes_edges = edge_channels > 0, pools_edges
        self.node, self.edge = Linear(channels, channels), Linear(edge_channels, channels) if edge_channels else None
        self.bits = nn.Parameter(torch.empty(num_bits(window_size), channels).uniform_(-1, 1) / channels**0.5)
        is_used = [bits[0]] * window_size + [bits[1]] * max(window_size - 1, 0)
        self.is_used: Tensor
        self.register_buffer("is_used", torch.tensor(is_used, dtype=torch.bool).unsqueeze(1), persistent=False)
        self.gru = nn.GRU(channels, channels, batch_first=True)
        self.first, self.norm = Linear(channels, 2 * channels), BatchNorm(2 * channels)
        self.last = Linear(2 * channels, channels)
        self.to_edge = Linear(channels, channels) if pools_edges else None
        self.jump = nn.Parameter(torch.empty(channels).uniform_(-1, 1) / channels**0.5) if jumps else None

    @classmethod
    def build(cls, settings: BlockSettings) -> WalkGRU:
        """The block for a network that names it `gru`."""
        bits = settings.identity, settings.adjacency
        return cls(settings.channels, settings.edge_channels, settings.window_size, bits, jumps=settings.jumps)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes, and edges if they are pooled into."""
        walks, edges = batch.walks, state.edges
        assert walks is not None  # the network draws them
        seen = None if self.edge is None or edges is None else self.edge(edges)
        if walks.has_jumps and self.jump is None:
            raise ValueError("These walks jump, so give WalkGRU jumps=True, or take walks of another strategy.")
        jump = self.jump if walks.has_jumps else None
        along = walks.gather(self.node(state.nodes), seen, self.bits * self.is_used, jump)
        if walks.num_walks:  # not every device has a GRU for none
            with recurrence():
                along, _ = self.gru(along)
        hidden = self.norm(self.first(walks.mean_at_nodes(along)), batch.nodes.rows, relu=True)
        if self.to_edge is not None:
            edges = self.to_edge(walks.mean_at_edges(along), add=edges)
        return replace(state, nodes=self.last(hidden, add=state.nodes), edges=edges)
