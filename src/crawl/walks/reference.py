"""Walks in plain torch: the specification that every other sampler equals bit for bit (paper, section 2.1, A.1).

All walks advance together, one step at a time. A draw is a 32-bit integer u that depends on the seed, the key of the
walk and the number of the step alone; laws are integer masses, so nothing depends on rounding. A choice among n equal
arcs takes the arc floor(u * n / 2^32): its bias is below n / 2^32.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from crawl.graph import Graph
from crawl.walks.arcs import SortedArcs, scaled
from crawl.walks.centred import Draw, with_arm_behind
from crawl.walks.depth_first import DepthFirst
from crawl.walks.jumps import are_jumps
from crawl.walks.node2vec import draw_node2vec_arc
from crawl.walks.philox import step_word
from crawl.walks.strategies import StepLaw


def sample(
    graph: Graph, start: Tensor, keys: Tensor, num_steps: int, law: StepLaw, window_size: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes `[W, T]`, edges `[W, T - 1]` and codes `[W, T]` of one walk from each of the given start nodes."""
    arcs, visited, walked = SortedArcs(graph), [start.long()], []
    draw: Draw = partial(_draw_arc, arcs, keys, law, seed)
    if law.is_depth_first:
        draw = DepthFirst(arcs, visited[0], keys, seed).next_arc
    num_back = num_steps // 2 if law.is_centred else 0
    for step in range(num_steps - num_back):
        arc = draw(visited, step)
        node, edge = graph.col[arc].long(), graph.edge_id[arc]
        if law.restart:
            jumps = are_jumps(law.restart, step, keys, seed)
            node, edge = torch.where(jumps, visited[0], node), torch.where(jumps, graph.num_edges, edge)
        visited.append(node)
        walked.append(edge)
    if num_back:
        visited, walked = with_arm_behind(arcs, visited, walked, num_back, draw)
    nodes = torch.stack(visited, dim=1)
    edges = torch.stack(walked, dim=1) if walked else torch.empty_like(nodes[:, 1:], dtype=graph.edge_id.dtype)
    return nodes.int(), edges, encode(graph, nodes, window_size)


def _draw_arc(arcs: SortedArcs, keys: Tensor, law: StepLaw, seed: int, visited: list[Tensor], step: int) -> Tensor:
    """The next arc of each walk: any of the current node, or non-backtracking, if the law skips the previous node."""
    here = visited[-1]
    total, word = arcs.total(here), step_word(seed, step, keys)
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
