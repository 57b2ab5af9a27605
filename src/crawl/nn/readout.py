"""From node features to the answer, for graphs or nodes (paper, appendix A.3)."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from crawl.checks import MAX_CHANNELS, MAX_WIDTH, check_choice, whole_number
from crawl.choices import Head, NormName, Pool
from crawl.nn.checks import check_graph_features, check_rows, check_targets
from crawl.nn.dropout import Dropout
from crawl.nn.linear import Linear
from crawl.nn.norm import make_norm
from crawl.ops.segments import Segments
from crawl.tensor_checks import in_memory


class Readout(nn.Module):
    """Norm → ReLU → sum or mean over each graph, or neither → features of graphs beside it → Dropout → head.

    Args:
        in_channels: The width of the node features.
        out_channels: The width of the answer.
        pool: `sum` or `mean` over the nodes of each graph; None for one answer per node.
        head: `linear`, or `mlp` with one hidden layer of the width of the node features.
        dropout: The dropout rate before the head.
        graph_channels: The width of the features of graphs that the head sees besides.
        norm: `batch`, `layer`, or `none` for a learned scale and shift alone.
    """

    @in_memory("A readout of this size")
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        pool: Pool | None = "mean",
        head: Head = "mlp",
        dropout: float = 0,
        graph_channels: int = 0,
        norm: NormName = "batch",
    ) -> None:
        super().__init__()
        check_choice("pool", pool, (*get_args(Pool), None))
        check_choice("head", head, get_args(Head))
        in_channels = whole_number("in_channels", in_channels, 1, MAX_WIDTH)
        out_channels = whole_number("out_channels", out_channels, 1, MAX_CHANNELS)
        self.graph_channels = whole_number("graph_channels", graph_channels, 0, MAX_CHANNELS)
        seen = in_channels + self.graph_channels
        self.pool, self.norm, self.dropout = pool, make_norm(norm, in_channels), Dropout(dropout)
        self.head: nn.Module = Linear(seen if head == "linear" else in_channels, out_channels, bias=True)
        if head == "mlp":
            self.head = nn.Sequential(Linear(seen, in_channels, bias=True), nn.ReLU(), self.head)

    def forward(
        self, x: Tensor, members: Segments, targets: tuple[Segments, ...] | None = None, u: Tensor | None = None
    ) -> Tensor:
        """`[G, out_channels]`, or N rows without pooling; for the arguments see `embed`. No nodes pool to 0."""
        out: Tensor = self.head(self.dropout(self.embed(x, members, targets, u)))
        return out

    def embed(
        self, x: Tensor, members: Segments, targets: tuple[Segments, ...] | None = None, u: Tensor | None = None
    ) -> Tensor:
        """What the head sees, `[G, in_channels + graph_channels]`, or with N rows without pooling.

        Args:
            x: `[N, in_channels]` node features.
            members: The graph of each node; `Segments.of(batch, num_graphs)`.
            targets: The nodes to answer for, as the owners of M rows; all when None.
            u: `[G, graph_channels]` features of the graphs; a node sees those of its graph.
        """
        check_graph_features(u, self.graph_channels)
        check_rows(x, members, self.norm.bias)
        check_targets(targets, self.pool)
        x = self.norm(x, members.rows, relu=True)
        if self.pool is not None:
            x = members.sum(x) if self.pool == "sum" else members.mean(x)
            return x if u is None else torch.cat([x, u], dim=1)
        x = x if u is None else torch.cat([x, members.spread(u)], dim=1)
        return x if targets is None else targets[0].spread(x)
