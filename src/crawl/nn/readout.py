"""From node features to the answer: for graphs or nodes (paper, appendix A.3), or for pairs of nodes."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from crawl.checks import MAX_CHANNELS, MAX_WIDTH, check_choice, whole_number
from crawl.choices import Head, PairScore, Pool
from crawl.nn.checks import check_rows
from crawl.nn.dropout import Dropout
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm
from crawl.ops.segments import Segments
from crawl.tensor_checks import in_memory

_OWNERS = {1: "nodes", 2: "pairs of nodes"}


class Readout(nn.Module):
    """BatchNorm → ReLU → sum or mean over each graph, or neither → Dropout → head.

    Args:
        in_channels: The width of the node features.
        out_channels: The width of the answer.
        pool: `sum` or `mean` over the nodes of each graph; None for one answer per node.
        head: `linear`, or `mlp` with one hidden layer of the width of the node features.
        dropout: The dropout rate before the head.
    """

    @in_memory("A readout of this size")
    def __init__(
        self, in_channels: int, out_channels: int, *, pool: Pool | None = "mean", head: Head = "mlp", dropout: float = 0
    ) -> None:
        super().__init__()
        check_choice("pool", pool, (*get_args(Pool), None))
        check_choice("head", head, get_args(Head))
        in_channels = whole_number("in_channels", in_channels, 1, MAX_WIDTH)
        out_channels = whole_number("out_channels", out_channels, 1, MAX_CHANNELS)
        self.pool, self.norm, self.dropout = pool, BatchNorm(in_channels), Dropout(dropout)
        self.head: nn.Module = Linear(in_channels, out_channels, bias=True)
        if head == "mlp":
            self.head = nn.Sequential(Linear(in_channels, in_channels, bias=True), nn.ReLU(), self.head)

    def forward(self, x: Tensor, members: Segments, targets: tuple[Segments, ...] | None = None) -> Tensor:
        """`[G, out_channels]`, or `[N, out_channels]` without pooling. A graph without nodes pools to 0.

        Args:
            x: `[N, in_channels]` node features.
            members: The graph of each node; `Segments.of(batch, num_graphs)`.
            targets: The nodes to answer for, `[M, out_channels]`, as the owners of M rows; all when None.
        """
        check_rows(x, members, self.norm.weight)
        if targets is not None and (self.pool is not None or len(targets) > 1):
            wanted = "pair, such as pair='mlp'" if len(targets) > 1 else "pool=None"
            raise ValueError(f"The targets of this batch are {_OWNERS[len(targets)]}: the network needs {wanted}.")
        x = self.norm(x, members.rows, relu=True)
        if self.pool is not None:
            x = members.sum(x) if self.pool == "sum" else members.mean(x)
        elif targets is not None:
            x = targets[0].spread(x)
        out: Tensor = self.head(self.dropout(x))
        return out


class PairReadout(nn.Module):
    """BatchNorm → ReLU → Dropout → Linear, then a score of the two nodes of a pair, whichever comes first.

    With z and w the two nodes: `dot` is z · w, `bilinear` is zᵀ (A + Aᵀ) w for each output, and `mlp` a network with
    one hidden layer on [z * w | |z - w|].

    Args:
        in_channels: The width of the node features.
        out_channels: The width of the answer; 1 for `dot`.
        score: `dot`, `bilinear` or `mlp`.
        dropout: The dropout rate before the linear map.
    """

    @in_memory("A readout of this size")
    def __init__(self, in_channels: int, out_channels: int, *, score: PairScore = "mlp", dropout: float = 0) -> None:
        super().__init__()
        check_choice("pair", score, get_args(PairScore))
        in_channels = whole_number("in_channels", in_channels, 1, MAX_WIDTH)
        out_channels = whole_number("out_channels", out_channels, 1, MAX_CHANNELS)
        if score == "dot" and out_channels != 1:
            raise ValueError(f"pair='dot' gives one number for each pair, not {out_channels}: use 'bilinear' or 'mlp'.")
        self.score, self.norm, self.dropout = score, BatchNorm(in_channels), Dropout(dropout)
        self.embedding = Linear(in_channels, in_channels, bias=True)
        self.bilinear = Linear(in_channels, out_channels * in_channels) if score == "bilinear" else None
        self.head: nn.Module | None = None
        if score == "mlp":
            hidden = Linear(2 * in_channels, in_channels, bias=True)
            self.head = nn.Sequential(hidden, nn.ReLU(), Linear(in_channels, out_channels, bias=True))

    def forward(self, x: Tensor, members: Segments, targets: tuple[Segments, ...] | None = None) -> Tensor:
        """`[M, out_channels]` for the M pairs of `targets`; see `Readout`."""
        check_rows(x, members, self.norm.weight)
        if targets is None or len(targets) != 2:
            raise ValueError("This network answers for pairs of nodes, but the batch has none as targets: give pairs.")
        x = self.embedding(self.dropout(self.norm(x, members.rows, relu=True)))
        first, second = (end.spread(x) for end in targets)
        if self.head is not None:
            out: Tensor = self.head(torch.cat([first * second, (first - second).abs()], dim=1))
            return out
        if self.bilinear is None:
            return (first * second).sum(dim=1, keepdim=True)
        shape = (len(first), -1, first.shape[1])
        one_way = (self.bilinear(first).view(shape) * second.unsqueeze(1)).sum(dim=2)
        other_way = (self.bilinear(second).view(shape) * first.unsqueeze(1)).sum(dim=2)
        both: Tensor = one_way + other_way
        return both
