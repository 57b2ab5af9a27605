"""What windows of walks saw: nodes, edges and bits, and the sets of nodes that these are about.

A bit at position i that looks j back is about the positions i - j to i: the walk came back to a node (identity), or
saw an edge to one (adjacency), after it went through those between. So it is about the set of nodes there, which is
connected because a walk went through it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawl.explanations.attribution import Attribution, LayerParts
from crawl.walks.walks import Walks

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def as_sets(rows: Ints, num_nodes: int) -> Ints:
    """The distinct nodes of each row, ascending, filled up with `num_nodes`."""
    rows = np.sort(rows, axis=1)
    rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = num_nodes
    return np.sort(rows, axis=1)


def distinct_rows(rows: Ints) -> Ints:
    """Each row once, in an order that depends on the rows alone; much faster than `numpy.unique` by rows."""
    if not len(rows):
        return rows
    order = np.lexsort(rows.T[::-1])
    rows = rows[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    distinct: Ints = rows[is_new]
    return distinct


def bit_places(walks: Walks) -> list[tuple[str, int, int]]:
    """For each column of `Walks.bits`, what it is, `identity` or `adjacency`, how far it looks back, and its number."""
    s = walks.window_size
    kinds = [("identity", j) for j in range(1, s + 1)] + [("adjacency", j) for j in range(2, s + 1)]
    return [(kind, back, column) for column, (kind, back) in enumerate(kinds)]


def windows_of(layer: LayerParts, walk: Ints, window: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """`[m, size]` the nodes in these windows, and `[m, size - 1]` which steps between them are jumps.

    A window that reaches beyond an end of its walk repeats the node there.
    """
    nodes, steps = (part.cpu().numpy().astype(np.int64) for part in (layer.walks.nodes, layer.walks.edges))
    place = window[:, None] + layer.first + np.arange(layer.size)
    inside = (place[:, 1:] > 0) & (place[:, 1:] < nodes.shape[1])
    jumps = np.zeros(inside.shape, bool)
    if layer.walks.has_jumps:
        step = steps[walk[:, None], (place[:, 1:] - 1).clip(0, max(steps.shape[1] - 1, 0))]
        jumps = inside & (step == layer.walks.num_edges)
    return nodes[walk[:, None], place.clip(0, nodes.shape[1] - 1)], jumps


@dataclass(frozen=True)
class Evidence:
    """What is read of nodes, of edges and of sets of nodes adds to an answer, for one set of walks.

    All together is `answer - baseline - residual` of the attribution.

    Attributes:
        nodes: `[N]` own features, and states that windows read.
        edges: `[E]` the same for edges.
        sets: `[P, L]` the distinct sets of nodes that bits are about, as `as_sets` writes them.
        of_sets: `[P]` what the bits about each of them add.
        node_bits: `[N]` of the same, what identity bits add, at the node that the walk came back to.
        edge_bits: `[E]` what adjacency bits add, at the edges that they saw.
    """

    nodes: Floats
    edges: Floats
    sets: Ints
    of_sets: Floats
    node_bits: Floats
    edge_bits: Floats


def evidence(attribution: Attribution, edge_index: Ints) -> Evidence:
    """The parts of an attribution, sorted by what they are about.

    An adjacency bit is shared evenly by the columns that join its nodes; by the two nodes, if there is no such column.
    """
    num_nodes = attribution.own_nodes.shape[0]
    nodes, edges = (part.double().cpu().numpy().copy() for part in (attribution.own_nodes, attribution.own_edges))
    node_bits, edge_bits = np.zeros_like(nodes), np.zeros_like(edges)
    columns = _Columns(edge_index, num_nodes)
    sets: list[Ints] = []
    values: list[Floats] = []
    width = 1 + max(layer.walks.window_size for layer in attribution.layers)
    for layer in attribution.layers:
        walks = layer.walks
        visited = walks.nodes.cpu().numpy().astype(np.int64)
        np.add.at(nodes, visited, layer.nodes.double().cpu().numpy())
        steps = walks.edges.cpu().numpy().astype(np.int64)
        is_edge = steps < len(edges)  # and not a jump
        np.add.at(edges, steps[is_edge], layer.edges.double().cpu().numpy()[:, 1:][is_edge])
        bits, of_bits = walks.bits().cpu().numpy(), layer.bits.double().cpu().numpy()
        for kind, back, column in bit_places(walks):
            walk, place = bits[:, :, column].nonzero()
            if not len(walk):
                continue
            segments = visited[walk[:, None], place[:, None] + np.arange(-back, 1)]
            value = of_bits[walk, place, column]
            filled = np.full((len(walk), width), num_nodes)
            filled[:, : back + 1] = segments
            sets.append(as_sets(filled, num_nodes))
            values.append(value)
            if kind == "identity":
                np.add.at(node_bits, segments[:, -1], value)
            else:
                columns.add(edge_bits, node_bits, segments[:, -1], segments[:, 0], value)
    if not sets:
        return Evidence(nodes, edges, np.empty((0, width), np.int64), np.empty(0), node_bits, edge_bits)
    distinct, place = np.unique(np.concatenate(sets), axis=0, return_inverse=True)
    total = np.bincount(place.reshape(-1), np.concatenate(values), minlength=len(distinct)).astype(np.float64)
    return Evidence(nodes, edges, distinct, total, node_bits, edge_bits)


class _Columns:
    """Which columns of `edge_index` join two nodes."""

    def __init__(self, edge_index: Ints, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        keys = edge_index[0] * num_nodes + edge_index[1]
        self.keys, self.place, self.count = np.unique(keys, return_inverse=True, return_counts=True)

    def add(self, to_edges: Floats, to_nodes: Floats, source: Ints, target: Ints, value: Floats) -> None:
        """Add values to the columns between nodes, in this direction or else in the other."""
        total = np.zeros(len(self.keys))
        is_left = np.ones(len(value), bool)
        for key in (source * self.num_nodes + target, target * self.num_nodes + source):
            if not len(self.keys):
                break
            at = np.searchsorted(self.keys, key).clip(max=len(self.keys) - 1)
            found = is_left & (self.keys[at] == key)
            np.add.at(total, at[found], value[found])
            is_left &= ~found
        to_edges += total[self.place] / self.count[self.place] if len(self.keys) else 0
        for ends in (source, target):
            np.add.at(to_nodes, ends[is_left], value[is_left] / 2)
