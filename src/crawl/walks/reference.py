"""Walks in plain torch: the specification that every other sampler equals bit for bit (paper, section 2.1, A.1).

All walks advance together, one step at a time. Draws are 32-bit integers, laws are integer masses, so nothing depends
on rounding. A choice among n equal arcs takes the arc floor(u * n / 2^32): its bias is below n / 2^32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from crawl.checks import check_centred, check_choice, check_restart
from crawl.choices import Strategy
from crawl.edge_lists import check_both_ways
from crawl.graph import Graph
from crawl.walks.arcs import SortedArcs, scaled
from crawl.walks.depth_first import DepthFirst
from crawl.walks.min_degree import weighed_by_degree
from crawl.walks.node2vec import draw_node2vec_arc, node2vec_odds
from crawl.walks.philox import RESTART, STEP, philox


@dataclass(frozen=True)
class StepLaw:
    """How the next arc is drawn, given the current and the previous node; in proportion to edge weights, if any.

    Attributes:
        skips_previous: Non-backtracking: arcs to the previous node are left out, unless there are no others.
        node2vec: The odds of node2vec, see `node2vec_odds`; None for the other strategies.
        is_by_degree: Whether weights are first divided by the smaller degree of the two nodes of an arc, by `on`.
        is_depth_first: Whether a walk is a depth-first search; see `DepthFirst`.
        restart: A step jumps back to the start of its walk with the chance `restart` / 2^32. It follows no edge; the
            number of edges of the graph stands for it.
        is_centred: Whether a walk of t steps has its start at position c = floor(t / 2), where two arms begin. Steps 0
            to t - c - 1 lead ahead from it, as those of any walk. Steps t - c to t - 1 lead to the positions c - 1,
            c - 2, …, 0: from the start, too, the first one as if the walk had come from position c + 1. This arm is
            read backwards, so its edges are those of the arcs that lead back; see `SortedArcs.reverse`.
    """

    skips_previous: bool = False
    node2vec: tuple[int, int, int, int] | None = None
    is_by_degree: bool = False
    is_depth_first: bool = False
    restart: int = 0
    is_centred: bool = False

    @classmethod
    def named(
        cls, strategy: str, p: float = 1.0, q: float = 1.0, restart: float = 0.1, centred: bool = False
    ) -> StepLaw:
        """The law of a strategy; p and q are those of `node2vec`, `restart` is that of `restart`."""
        check_choice("strategy", strategy, get_args(Strategy))
        centred = check_centred(strategy, centred)
        if strategy == "restart":
            return cls(restart=math.ceil(check_restart(restart) * 2**32))
        if strategy != "node2vec":
            return cls(
                skips_previous=strategy.endswith("non_backtracking"),
                is_by_degree=strategy.startswith("min_degree"),
                is_depth_first=strategy == "depth_first",
                is_centred=centred,
            )
        return cls(node2vec=node2vec_odds(p, q))

    def on(self, graph: Graph) -> Graph:
        """The graph with the weights that steps are drawn in proportion to: what every sampler takes.

        Refuses a graph for centred walks if it cannot be walked both ways.
        """
        if self.is_centred:
            check_both_ways(graph.one_way)
        return weighed_by_degree(graph) if self.is_by_degree else graph


def sample(
    graph: Graph, start: Tensor, keys: Tensor, num_steps: int, law: StepLaw, window_size: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes `[W, T]`, edges `[W, T - 1]` and codes `[W, T]` of one walk from each of the given start nodes."""
    arcs = SortedArcs(graph)
    visited, walked = [start.long()], []
    search = DepthFirst(arcs, visited[0])
    num_back = num_steps // 2 if law.is_centred else 0
    for step in range(num_steps - num_back):
        if law.is_depth_first:
            arc = search.next_arc(visited[-1], _word(seed, step, keys))
        else:
            arc = _draw_arc(arcs, visited, step, keys, law, seed)
        target, edge = graph.col[arc].long(), graph.edge_id[arc]
        if law.restart:
            jumps = philox(seed, step, RESTART, keys)[0] < law.restart
            target, edge = torch.where(jumps, visited[0], target), torch.where(jumps, graph.num_edges, edge)
        visited.append(target)
        walked.append(edge)
    if num_back:  # the arm that is read backwards
        behind = [visited[1], visited[0]]
        for step in range(num_steps - num_back, num_steps):
            arc = _draw_arc(arcs, behind, step, keys, law, seed)
            walked.insert(0, graph.edge_id[arcs.reverse(behind[-1], arc)])
            behind.append(graph.col[arc].long())
        visited = behind[:1:-1] + visited
    nodes = torch.stack(visited, dim=1)
    edges = torch.stack(walked, dim=1) if walked else torch.empty_like(nodes[:, 1:], dtype=graph.edge_id.dtype)
    return nodes.int(), edges, encode(graph, nodes, window_size)


def encode(graph: Graph, nodes: Tensor, window_size: int) -> Tensor:
    """`[W, T]` codes of the bits seen along the given walks; see `Walks.code` for the layout."""
    nodes = nodes.long()
    arcs = SortedArcs(graph)
    code = torch.zeros_like(nodes)
    for j in range(1, min(window_size, nodes.shape[1] - 1) + 1):
        here, back = nodes[:, j:], nodes[:, :-j]
        code[:, j:] |= (here == back).long() << (j - 1)
        if j >= 2:
            first, last = arcs.between(here, back)
            code[:, j:] |= (first < last).long() << (window_size + j - 2)
    return code.to(code_dtype(window_size))


def code_dtype(window_size: int) -> torch.dtype:
    """The smallest integer type that holds 2s - 1 bits and stays non-negative."""
    return torch.int16 if window_size <= 8 else torch.int32 if window_size <= 16 else torch.int64


def _draw_arc(arcs: SortedArcs, visited: list[Tensor], step: int, keys: Tensor, law: StepLaw, seed: int) -> Tensor:
    here = visited[-1]
    total, word = arcs.total(here), _word(seed, step, keys)
    if step == 0 or (not law.skips_previous and law.node2vec is None):
        return arcs.at(here, scaled(word, total))
    first, last = arcs.between(here, visited[-2])
    before = arcs.mass_before(here, first)
    back = arcs.mass_before(here, last) - before
    if law.node2vec is not None:
        return draw_node2vec_arc(arcs, visited, (before, back, total - back), keys, law.node2vec, seed)
    skipped = torch.where(back == total, 0, back)
    mass = scaled(word, total - skipped)
    return arcs.at(here, torch.where(mass >= before, mass + skipped, mass))


def _word(seed: int, step: int, keys: Tensor) -> Tensor:
    """The 32-bit word of a step; a Philox block holds those of four steps."""
    return philox(seed, step // 4, STEP, keys)[step % 4]
