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

from crawl.graph import Graph
from crawl.walks.arcs import SortedArcs

Draw = Callable[[list[Tensor], int], Tensor]  # the next arc of each walk: nodes visited, number of the step → arc
_ARCS = 2**22  # are looked at together


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


def why_inexact(strategy: str, graph: Graph | None) -> str:
    """Why centred walks need not have the law of a long walk seen from its middle; empty for others.

    Weights that both directions share leave a stationary `uniform` walk as likely as its reverse. Non-backtracking
    walks are not: with what chance they leave a node depends on the weight of the arcs that they do not take back, and
    their stationary law, on which the arm that is read backwards depends, has no closed form. Parallel edges are such
    weights, and so is the minimum-degree rule. Without a graph, what can be said of the strategy alone.
    """
    if strategy == "min_degree_non_backtracking":
        reason = "Steps are drawn by degrees"
    elif strategy != "non_backtracking" or graph is None:
        return ""
    elif graph.is_weighted:
        reason = "Edges have weights"
    elif _has_parallel_edges(graph):
        reason = "Some edges are listed several times"
    else:
        return ""
    return (
        f"{reason}, so centred non-backtracking walks need not have the law of a long walk seen from its middle "
        "(docs/walks.md)"
    )


def _has_parallel_edges(graph: Graph) -> bool:
    """Whether two arcs lead from one node to the same one. Arcs may be mapped from a file: some are read at a time."""
    rowptr = graph.rowptr
    for first in range(0, graph.num_arcs, _ARCS):
        col = graph.col[first : first + _ARCS + 1]
        second = (first + 1 + (col[1:] == col[:-1]).nonzero().flatten()).to(rowptr.dtype)
        if bool((rowptr[torch.searchsorted(rowptr, second)] != second).any()):  # not the first arc of its row
            return True
    return False


def check_both_ways(one_way: tuple[int, int] | None) -> None:
    """Refuses a graph, given its `one_way`, if an edge cannot be walked back along."""
    if one_way is not None:
        u, v = one_way
        raise ValueError(
            f"Centred walks take edges in both directions, but no edge leads from node {v} back to node {u}: pass "
            "undirected=True, make the data undirected (PyG: ToUndirected), or take walks that are not centred."
        )
