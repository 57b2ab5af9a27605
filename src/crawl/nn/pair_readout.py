"""From node features to the answer, for pairs of nodes; and which readout a network has."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from crawl.checks import MAX_CHANNELS, MAX_WIDTH, check_choice, whole_number
from crawl.choices import Head, NormName, PairScore, Pool
from crawl.nn.checks import check_graph_features, check_rows
from crawl.nn.dropout import Dropout
from crawl.nn.graph_features import GraphFeatures
from crawl.nn.linear import Linear
from crawl.nn.norm import make_norm
from crawl.nn.readout import Readout
from crawl.ops.segments import Segments
from crawl.tensor_checks import in_memory


class PairReadout(nn.Module):
    """Norm → ReLU → Dropout → Linear, then a score of the two nodes of a pair, whichever comes first.

    With z and w the two nodes: `dot` is z · w, `bilinear` is zᵀ (A + Aᵀ) w for each output, and `mlp` a network with
    one hidden layer on [z * w | |z - w|].

    Args:
        in_channels: The width of the node features.
        out_channels: The width of the answer; 1 for `dot`.
        score: `dot`, `bilinear` or `mlp`.
        dropout: The dropout rate before the linear map.
        norm: `batch`, `layer`, or `none` for a learned scale and shift alone.
    """

    @in_memory("A readout of this size")
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        score: PairScore = "mlp",
        dropout: float = 0,
        norm: NormName = "batch",
    ) -> None:
        super().__init__()
        check_choice("pair", score, get_args(PairScore))
        in_channels = whole_number("in_channels", in_channels, 1, MAX_WIDTH)
        out_channels = whole_number("out_channels", out_channels, 1, MAX_CHANNELS)
        if score == "dot" and out_channels != 1:
            raise ValueError(f"pair='dot' gives one number for each pair, not {out_channels}: use 'bilinear' or 'mlp'.")
        self.score, self.norm, self.dropout = score, make_norm(norm, in_channels), Dropout(dropout)
        self.embedding = Linear(in_channels, in_channels, bias=True)
        self.bilinear = Linear(in_channels, out_channels * in_channels) if score == "bilinear" else None
        self.head: nn.Module | None = None
        if score == "mlp":
            hidden = Linear(2 * in_channels, in_channels, bias=True)
            self.head = nn.Sequential(hidden, nn.ReLU(), Linear(in_channels, out_channels, bias=True))

    def forward(
        self, x: Tensor, members: Segments, targets: tuple[Segments, ...] | None = None, u: Tensor | None = None
    ) -> Tensor:
        """`[M, out_channels]` for the M pairs of `targets`; see `Readout`. Features of graphs, `u`, are refused."""
        check_graph_features(u, 0)
        if targets is None or len(targets) != 2:
            raise ValueError("This network answers for pairs of nodes, but the batch has none as targets: give pairs.")
        x = self.embed(x, members)
        first, second = (end.spread(x) for end in targets)
        if self.head is not None:
            out: Tensor = self.head(torch.cat([first * second, (first - second).abs()], dim=1))
            return out
        if self.bilinear is None:
            return (first * second).sum(dim=1, keepdim=True)
        shape = (first.shape[0], -1, first.shape[1])
        one_way = (self.bilinear(first).view(shape) * second.unsqueeze(1)).sum(dim=2)
        other_way = (self.bilinear(second).view(shape) * first.unsqueeze(1)).sum(dim=2)
        both: Tensor = one_way + other_way
        return both

    def embed(
        self, x: Tensor, members: Segments, targets: tuple[Segments, ...] | None = None, u: Tensor | None = None
    ) -> Tensor:
        """`[M, in_channels]` what scores compare, for the nodes of `targets`; `[N, in_channels]` for all when None."""
        check_graph_features(u, 0)
        check_rows(x, members, self.norm.bias)
        if targets is not None and len(targets) != 1:
            raise ValueError("Pairs of nodes have no embeddings: give the graph itself, or nodes as targets.")
        z: Tensor = self.embedding(self.dropout(self.norm(x, members.rows, relu=True)))
        return z if targets is None else targets[0].spread(z)


def readout_for(
    channels: int,
    out_channels: int,
    pool: Pool | None,
    head: Head,
    pair: PairScore | None,
    dropout: float,
    norm: NormName,
    graph_features: GraphFeatures | None,
) -> Readout | PairReadout:
    """The readout of a network with these settings. Refuses settings that one for pairs would not use."""
    if pair is None:
        width = 0 if graph_features is None else graph_features.out_channels
        return Readout(channels, out_channels, pool=pool, head=head, dropout=dropout, graph_channels=width, norm=norm)
    if graph_features is not None:
        raise ValueError("A network for pairs of nodes sees no features of graphs: leave out graph_channels.")
    if pool is not None or head != "mlp":
        raise ValueError(f"pair={pair!r} scores pairs of nodes: give pool=None, and leave out head.")
    return PairReadout(channels, out_channels, score=pair, dropout=dropout, norm=norm)
