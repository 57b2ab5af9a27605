"""GCNII: deep propagation that remembers its beginning (Chen et al., 2020)."""

from __future__ import annotations

import math
from dataclasses import replace

from torch import nn

from crawl.checks import between, positive_number, whole_number
from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.dropout import Dropout
from crawl.nn.gcn import edge_weights
from crawl.nn.linear import Linear
from crawl.ops.neighbours import sum_neighbours

_MOST_STEPS = 1000


class GCN2(Block):
    """GCN for many steps, each of which sees the beginning again and changes little.

        z₀ = ReLU(h);   s = (1 - α) P Dropout(z) + α z₀;   z ← ReLU((1 - βₖ) s + βₖ Wₖ s), `num_steps` times;   h ← z

    with P as in `APPNP` and βₖ = log(1 + λ/k) in step k: APPNP with weights. There is no other residual. It does not
    see edge features.

    Args:
        channels: The width of the nodes' state.
        dropout: The dropout rate of what flows.
        num_steps: How often states flow to neighbours.
        share: The part of the beginning in every step (α), between 0 and 1.
        strength: How much the weights of the first steps change (λ).
    """

    uses_walks = sees_edges = False

    def __init__(
        self, channels: int, dropout: float = 0.0, num_steps: int = 16, share: float = 0.1, strength: float = 0.5
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.share, strength = between("share", share, 0, 1), positive_number("strength", strength)
        num_steps = whole_number("num_steps", num_steps, 1, _MOST_STEPS)
        self.parts = [math.log(1 + strength / k) for k in range(1, num_steps + 1)]
        self.steps = nn.ModuleList(Linear(channels, channels) for _ in self.parts)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        first = rows = state.nodes.relu()
        of_edges, of_own = (weight * (1 - self.share) for weight in edge_weights(first, batch))
        kept = self.share * first
        for part, linear in zip(self.parts, self.steps, strict=True):
            rows = self.dropout(rows)
            rows = sum_neighbours(rows, batch.sources, batch.edges, of_edges, add=kept + of_own * rows)
            rows = rows.lerp(linear(rows), part).relu()
        return replace(state, nodes=rows)
