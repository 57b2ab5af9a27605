"""APPNP: personalised PageRank of the nodes' states (Gasteiger et al., 2019)."""

from __future__ import annotations

from dataclasses import replace

import torch

from crawl.checks import between, whole_number
from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.dropout import Dropout
from crawl.nn.gcn import edge_weights
from crawl.ops.neighbours import sum_neighbours

_MOST_STEPS = 1000


class APPNP(Block):
    """States that flow along edges for several steps and keep a part of where they began. It has no weights.

        z₀ = Dropout(h);   z ← (1 - α) P z + α z₀, `num_steps` times;   h ← z

    with (P z)(v) = Σ_(u→v) z(u) / √(deg(u) deg(v)), one self-loop at each node included, as in GCN. There is no
    residual: z₀ is one. It does not see edge features.

    Args:
        dropout: The dropout rate of what flows.
        num_steps: How often states flow to neighbours.
        share: The part of the beginning in every step (α), between 0 and 1.
    """

    uses_walks = sees_edges = False

    def __init__(self, dropout: float = 0.0, num_steps: int = 10, share: float = 0.1) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.num_steps = whole_number("num_steps", num_steps, 1, _MOST_STEPS)
        self.share = between("share", share, 0, 1)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        first = self.dropout(state.nodes)
        of_edges, of_own = (weight * (1 - self.share) for weight in edge_weights(first, batch))
        kept, rows = self.share * first, first
        for _ in range(self.num_steps):
            rows = sum_neighbours(rows, batch.sources, batch.edges, of_edges, add=torch.addcmul(kept, of_own, rows))
        return replace(state, nodes=rows)
