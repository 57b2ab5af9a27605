"""Isomorphisms, by colour refinement with single nodes marked: for small graphs, hard ones included."""

from __future__ import annotations

import numpy as np

from crawl.graph import Graph
from crawl.theory.refinement import color_refinement
from crawl.theory.simple import AnyGraph, Ints, arcs, simple_graph


def isomorphism(graph: AnyGraph, other: AnyGraph) -> dict[int, int] | None:
    """For each node of a graph its image in the other, so that edges go to edges and others to others; None if there is
    none. Nodes are numbered as in `Graph`. Time may be exponential where colour refinement learns little from a mark.
    """
    graph, other = simple_graph(graph), simple_graph(other)
    if (graph.num_nodes, graph.num_arcs) != (other.num_nodes, other.num_arcs):
        return None
    blank = np.zeros(graph.num_nodes, dtype=np.int64)
    image = _search(graph, other, blank, blank)
    return None if image is None else dict(enumerate(image.tolist()))


def _search(graph: Graph, other: Graph, mine: Ints, others: Ints) -> Ints | None:
    """The images of the nodes under an isomorphism that keeps the colours."""
    refined = color_refinement(graph, other, colors=(mine, others))
    if refined.separated_in is not None:
        return None
    mine, others = refined.colors
    sizes = np.bincount(mine, minlength=1)
    if sizes.max() <= 1:
        image = np.argsort(others)[mine]
        return image if _maps_edges(graph, other, image) else None
    color = int(np.where(sizes > 1, sizes, len(mine) + 1).argmin())
    marked = mine.copy()
    marked[np.flatnonzero(mine == color)[0]] = len(sizes)
    for node in np.flatnonzero(others == color):
        candidate = others.copy()
        candidate[node] = len(sizes)
        found = _search(graph, other, marked, candidate)
        if found is not None:
            return found
    return None


def _maps_edges(graph: Graph, other: Graph, image: Ints) -> bool:
    source, target = arcs(graph)
    mapped = np.sort(image[source] * graph.num_nodes + image[target])
    source, target = arcs(other)
    return np.array_equal(mapped, source * other.num_nodes + target)
