"""Isomorphisms, by colour refinement with single nodes marked: for small graphs, hard ones included."""

from __future__ import annotations

import itertools

import numpy as np

from crawl.theory.refinement import color_refinement
from crawl.theory.simple import AnyGraph, Ints, simple_graph


def isomorphism(graph: AnyGraph, other: AnyGraph, max_refinements: int | None = None) -> dict[int, int] | None:
    """For each node of a graph its image in the other, so that edges go to edges and non-edges to non-edges.

    None if there is none, or none was found with `max_refinements` colour refinements. Nodes are numbered as in
    `Graph`. Time may be exponential where colour refinement learns little from a mark.
    """
    graph, other = simple_graph(graph), simple_graph(other)
    if (graph.num_nodes, graph.num_arcs) != (other.num_nodes, other.num_arcs):
        return None
    blank = np.zeros(graph.num_nodes, dtype=np.int64)
    open_: list[tuple[Ints, Ints, int | None]] = [(blank, blank, None)]  # colours, and a node to mark in the second
    for _ in itertools.count() if max_refinements is None else range(max_refinements):
        if not open_:
            return None
        mine, others, node = open_.pop()
        if node is not None:
            others = others.copy()
            others[node] = mine.max()
        refined = color_refinement(graph, other, colors=(mine, others))
        if refined.separated_in is not None:
            continue
        mine, others = refined.colors
        sizes = np.bincount(mine, minlength=1)
        if sizes.max() <= 1:  # nodes of one colour have neighbours of the same colours
            return dict(enumerate(np.argsort(others)[mine].tolist()))
        color = int(np.where(sizes > 1, sizes, len(mine) + 1).argmin())
        mine = mine.copy()
        mine[np.flatnonzero(mine == color)[0]] = len(sizes)
        open_ += [(mine, others, image) for image in reversed(np.flatnonzero(others == color).tolist())]
    return None
