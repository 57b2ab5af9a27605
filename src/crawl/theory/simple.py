"""The graphs that section 3 of the paper speaks of: undirected, simple, without labels."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from crawl.graph import Graph

AnyGraph: TypeAlias = Graph | nx.Graph
Ints = NDArray[np.int64]


def simple_graph(graph: AnyGraph) -> Graph:
    """The graph, from networkx if need be, once it is known to be undirected, simple and without weights.

    Node and edge attributes of a networkx graph are not read. A batch counts as one graph, the union of its parts.
    """
    if not isinstance(graph, Graph):
        graph = Graph.from_networkx(graph)
    if graph.is_weighted:
        raise ValueError("The graph has edge weights; the theory is about graphs without: leave them out.")
    source, target = arcs(graph)
    if bool((source == target).any()):
        raise ValueError(f"Node {int(source[source == target][0])} has a self-loop: remove it, the theory knows none.")
    key, reverse = source * graph.num_nodes + target, np.sort(target * graph.num_nodes + source)
    if not np.array_equal(key, reverse):  # arcs are sorted by source and target
        raise ValueError("The graph is directed: make it undirected (networkx: to_undirected()).")
    if bool((key[1:] == key[:-1]).any()):
        raise ValueError("The graph has parallel edges: merge them (networkx: nx.Graph(graph)).")
    return graph


def arcs(graph: Graph) -> tuple[Ints, Ints]:
    """Source and target of every arc, sorted by both."""
    rowptr = graph.rowptr.cpu().numpy().astype(np.int64)
    source = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), np.diff(rowptr))
    return source, graph.col.cpu().numpy().astype(np.int64)


def as_networkx(graph: AnyGraph) -> nx.Graph:
    """The graph for networkx."""
    graph = simple_graph(graph)
    drawn = nx.empty_graph(graph.num_nodes)
    drawn.add_edges_from(zip(*(ends.tolist() for ends in arcs(graph)), strict=True))
    return drawn


def neighbours(graph: AnyGraph) -> list[tuple[int, ...]]:
    """The neighbours of each node, ascending."""
    graph = simple_graph(graph)
    rowptr, col = graph.rowptr.tolist(), graph.col.tolist()
    return [tuple(col[first:last]) for first, last in pairwise(rowptr)]


def adjacency_matrix(graph: AnyGraph) -> NDArray[np.bool_]:
    """`[N, N]` where there are edges."""
    graph = simple_graph(graph)
    matrix = np.zeros((graph.num_nodes, graph.num_nodes), dtype=np.bool_)
    matrix[arcs(graph)] = True
    return matrix
