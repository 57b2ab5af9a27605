"""From node features to the answer: per graph, or per node (paper, appendix A.3)."""

from __future__ import annotations

from torch import Tensor, nn

from crawl.choices import Head, Pool
from crawl.nn.dropout import Dropout
from crawl.nn.membership import Membership
from crawl.nn.norm import BatchNorm


class Readout(nn.Module):
    """BatchNorm → ReLU → sum or mean over each graph, or neither → Dropout → head.

    Args:
        in_channels: The width of the node features.
        out_channels: The width of the answer.
        pool: `sum` or `mean` over the nodes of each graph; None for one answer per node.
        head: `linear`, or `mlp` with one hidden layer of the width of the node features.
        dropout: The dropout rate before the head.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        pool: Pool | None = "mean",
        head: Head = "mlp",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if pool not in ("sum", "mean", None):
            raise ValueError(f"pool must be 'sum', 'mean' or None (one answer per node), not {pool!r}.")
        if head not in ("mlp", "linear"):
            raise ValueError(f"head must be 'mlp' or 'linear', not {head!r}.")
        self.pool = pool
        self.norm = BatchNorm(in_channels)
        self.dropout = Dropout(dropout)
        last = nn.Linear(in_channels, out_channels)
        self.head = last if head == "linear" else nn.Sequential(nn.Linear(in_channels, in_channels), nn.ReLU(), last)

    def forward(self, x: Tensor, members: Membership) -> Tensor:
        """`[G, out_channels]`, or `[N, out_channels]` without pooling. A graph without nodes pools to 0."""
        x = self.norm(x, members.num_nodes, relu=True)
        if self.pool is not None:
            x = members.sum(x) if self.pool == "sum" else members.mean(x)
        out: Tensor = self.head(self.dropout(x))
        return out
