"""Attention between all nodes of a graph (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.checks import channels_per_head
from crawl.nn.dropout import Dropout
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm


class Attention(Block):
    """Multi-head self-attention over the nodes of each graph, with the norm before it and a residual.

        h ← h + Dropout(W heads);   head = softmax(q kᵀ / √c) v;   [q | k | v] = W' BatchNorm(h)

    with c the width of a head. Nodes are laid out as `[G, longest, d]`, so time and memory grow with the square of the
    largest graph. Without another block it does not see the edges.

    Args:
        channels: The width of the nodes' state.
        num_heads: The number of heads; they share the channels.
        dropout: The dropout rate.

    Raises:
        ValueError: If `channels` is not a multiple of `num_heads`.
    """

    uses_walks = passes_messages = sees_edges = False

    def __init__(self, channels: int, num_heads: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads, self.head_channels = num_heads, channels_per_head(channels, num_heads)
        self.norm = BatchNorm(channels)
        self.first, self.last = Linear(channels, 3 * channels), Linear(channels, channels)
        self.dropout = Dropout(dropout)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        slots, count = batch.nodes.slots, batch.nodes.count
        longest = slots.owners.size // max(batch.num_graphs, 1)
        rows = slots.sum(self.first(self.norm(state.nodes, batch.nodes.rows)))
        grid = rows.view(batch.num_graphs, longest, 3, self.num_heads, self.head_channels)
        query, key, value = grid.permute(2, 0, 3, 1, 4)
        is_empty = torch.arange(longest, device=count.device) >= count.view(-1, 1, 1, 1)
        scores = query @ key.transpose(2, 3) / math.sqrt(self.head_channels)
        # Not minus infinity: a graph without nodes has nothing else, and its softmax would not be a number.
        weights = scores.masked_fill(is_empty, torch.finfo(scores.dtype).min).softmax(3)
        heard = slots.spread((weights @ value).transpose(1, 2).reshape(rows.shape[0], -1))
        return replace(state, nodes=state.nodes + self.dropout(self.last(heard)))
