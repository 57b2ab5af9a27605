"""Centred walks in plain torch: the specification that every other sampler equals bit for bit.

A centred walk of t steps has its start at position c = floor(t / 2), where two arms begin. Steps 0 to t - c - 1 lead
ahead from it, as those of any walk. Steps t - c to t - 1 lead to the positions c - 1, c - 2, …, 0: from the start, too,
the first one as if the walk had come from position c + 1. This arm is read backwards, so its edges are those of the
arcs that lead back.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crawl.walks.arcs import SortedArcs

Draw = Callable[[list[Tensor], int], Tensor]  # the next arc of each walk: nodes visited, number of the step → arc


def with_arm_behind(
    arcs: SortedArcs,
    visited: list[Tensor],
    walked: list[Tensor],
    num_back: int,
    draw: Draw,
) -> tuple[list[Tensor], list[Tensor]]:
    """The nodes and edges of an arm ahead, with those of an arm of `num_back` steps before them."""
    graph, num_ahead = arcs.graph, len(walked)
    behind, edges = [visited[1], visited[0]], []
    for step in range(num_ahead, num_ahead + num_back):
        arc = draw(behind, step)
        edges.append(graph.edge_id[reverse_arc(arcs, behind[-1], arc)])
        behind.append(graph.col[arc].long())
    return behind[:1:-1] + visited, edges[::-1] + walked


def reverse_arc(arcs: SortedArcs, source: Tensor, arc: Tensor) -> Tensor:
    """The arc that leads back to the source of one; of parallel arcs the one of its rank, or the last if fewer."""
    target = arcs.graph.col[arc].long()
    rank = arc - arcs.between(source, target)[0]
    first, last = arcs.between(target, source)
    return torch.minimum(first + rank, last - 1)


def why_inexact(strategy: str, *, is_weighted: bool) -> str:
    """Why centred walks do not have the law of a long walk seen from its middle; empty for others.

    Weights that both directions share leave a stationary `uniform` walk as likely as its reverse. Non-backtracking
    walks are not: with what chance they leave a node depends on the weight of the arc that they do not take back, and
    their stationary law, on which the arm that is read backwards depends, has no closed form.
    """
    if not is_weighted or strategy != "non_backtracking":
        return ""
    return (
        "Edges have weights, so centred non-backtracking walks do not have the law of a long walk seen from its middle "
        "(docs/walks.md)"
    )


def check_both_ways(one_way: tuple[int, int] | None) -> None:
    """Refuses a graph, given its `one_way`, if an edge cannot be walked back along."""
    if one_way is not None:
        u, v = one_way
        raise ValueError(
            f"Centred walks take edges in both directions, but no edge leads from node {v} back to node {u}: pass "
            "undirected=True, make the data undirected (PyG: ToUndirected), or take walks that are not centred."
        )
