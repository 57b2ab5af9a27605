"""Colour refinement (1-WL; paper, section 3.2), in time near-linear in the number of edges.

The rounds are those of the paper: in each, all nodes are compared by the colours of the round before. But when a colour
splits, its largest part keeps the name, and the next round only looks at neighbours of nodes with new names. Nodes of
one colour had equally many neighbours in the old colour, so counts in the largest part follow from the others. A node
gets a new name at most log2(N) times (Hopcroft's trick; Cardon and Crochemore, Partitioning a graph in O(|A| log2 |V|),
1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crawl.checks import as_list
from crawl.tensor_checks import as_array
from crawl.theory.simple import AnyGraph, Ints, arcs, simple_graph


@dataclass(frozen=True, eq=False)
class Refinement:
    """The stable colouring of the disjoint union of some graphs.

    Attributes:
        colors: For each graph, the colour of each of its nodes.
        num_colors: The number of colours in all graphs together.
        num_rounds: The rounds in which colours split.
        separated_in: The first round after which some colour occurs in two graphs with different frequencies; 0 if the
            graphs differ in size or in the colours given; None if they are never separated.
    """

    colors: tuple[Ints, ...]
    num_colors: int
    num_rounds: int
    separated_in: int | None


def color_refinement(*graphs: AnyGraph, colors: Sequence[Ints] | None = None) -> Refinement:
    """The coarsest colouring in which nodes of one colour have equally many neighbours of every colour.

    Args:
        graphs: One graph, or several to be coloured together.
        colors: For each graph, numbers from 0 for its nodes to begin with; all alike when None.
    """
    state = _Partition(graphs, colors)
    separated_in = 0 if state.is_separated else None
    num_rounds = 0
    while state.refine():
        num_rounds += 1
        if separated_in is None and state.is_separated:
            separated_in = num_rounds
    parts = tuple(np.split(state.color, np.cumsum(state.sizes)[:-1]))
    return Refinement(parts, state.num_colors, num_rounds, separated_in)


class _Partition:
    """Nodes by colour: those of colour c are `members[start[c] : start[c] + size[c]]`."""

    def __init__(self, graphs: Sequence[AnyGraph], colors: Sequence[Ints] | None) -> None:
        if not graphs:
            raise ValueError("Give a graph, or several.")
        simple = [simple_graph(graph) for graph in graphs]
        self.sizes = [graph.num_nodes for graph in simple]
        num_nodes = sum(self.sizes)
        first_node = np.cumsum([0, *self.sizes])
        self.owner = np.repeat(np.arange(len(simple)), self.sizes)
        degrees = [np.diff(graph.rowptr.cpu().numpy().astype(np.int64)) for graph in simple]
        self.rowptr = np.cumsum(np.concatenate([[0], *degrees]))
        self.col = np.concatenate([arcs(graph)[1] + first for graph, first in zip(simple, first_node, strict=False)])
        given = [np.zeros(size, dtype=np.int64) for size in self.sizes]
        if colors is not None:
            given = [as_array("colors", each) for each in as_list("colors", colors, "arrays")]
        if [each.shape for each in given] != [(size,) for size in self.sizes]:
            raise ValueError(f"colors must have one entry for each node: {self.sizes} of them.")
        names, self.color, sizes = np.unique(np.concatenate(given), return_inverse=True, return_counts=True)
        self.num_colors = len(names)
        self.size, self.start = (np.zeros(num_nodes, dtype=np.int64) for _ in range(2))
        self.size[: self.num_colors] = sizes
        self.start[: self.num_colors] = np.cumsum(sizes) - sizes
        self.members = np.argsort(self.color, kind="stable")
        self.place = np.empty_like(self.members)
        self.place[self.members] = np.arange(num_nodes)
        self.renamed = np.arange(num_nodes)
        self.is_separated = False
        self._compare_graphs()

    def refine(self) -> bool:
        """One round; whether a colour has split."""
        node, signature = self._signatures()
        if not node.size:
            return False
        order = np.lexsort((signature, self.color[node]))
        node, signature = node[order], signature[order]
        old = self.color[node]
        is_first = np.append(True, (old[1:] != old[:-1]) | (signature[1:] != signature[:-1]))
        place = self._move_to_the_end(node, old)
        first = np.flatnonzero(is_first)
        part_old, part_start, part_size = old[first], place[first], np.diff(np.append(first, len(node)))
        # What a colour has besides these parts, the nodes without a renamed neighbour, is one more part.
        color, of_part = np.unique(part_old, return_inverse=True)
        rest_start = self.start[color]
        rest_size = self.size[color] - np.bincount(of_part, weights=part_size).astype(int)
        has_rest = rest_size > 0
        part_old = np.concatenate([part_old, color[has_rest]])
        part_start = np.concatenate([part_start, rest_start[has_rest]])
        part_size = np.concatenate([part_size, rest_size[has_rest]])
        by_size = np.lexsort((part_size, part_old))
        is_largest = np.append(part_old[by_size][1:] != part_old[by_size][:-1], True)
        largest, others = by_size[is_largest], by_size[~is_largest]
        self.start[part_old[largest]], self.size[part_old[largest]] = part_start[largest], part_size[largest]
        names = self.num_colors + np.arange(len(others))
        self.num_colors += len(others)
        self.start[names], self.size[names] = part_start[others], part_size[others]
        self.renamed = self.members[_ranges(part_start[others], part_size[others])]
        self.color[self.renamed] = np.repeat(names, part_size[others])
        self._compare_graphs()
        return len(others) > 0

    def _signatures(self) -> tuple[Ints, Ints]:
        """The nodes with a renamed neighbour, and a number for how many of each name they have."""
        first = self.rowptr[self.renamed]
        degree = self.rowptr[self.renamed + 1] - first
        neighbour = self.col[_ranges(first, degree)]
        name = np.repeat(self.color[self.renamed], degree)
        pair, count = np.unique(neighbour * self.num_colors + name, return_counts=True)
        of_node, name = np.divmod(pair, self.num_colors)
        node, first, length = np.unique(of_node, return_index=True, return_counts=True)
        _, name_and_count = np.unique(name * (count.max(initial=0) + 1) + count, return_inverse=True)
        signature = np.zeros(len(node), dtype=np.int64)
        next_signature = 1
        active = np.arange(len(node))
        for position in range(int(length.max(initial=0))):  # the lists are sorted, so equal ones agree at each position
            active = active[length[active] > position]
            key = signature[active] * (len(pair) + 1) + name_and_count[first[active] + position]
            names, renumbered = np.unique(key, return_inverse=True)
            signature[active] = next_signature + renumbered
            next_signature += len(names)
        return node, signature

    def _move_to_the_end(self, node: Ints, old: Ints) -> Ints:
        """Places at the end of their colour's segment for these nodes, in order; others there take theirs."""
        color, number = np.unique(old, return_counts=True)
        place = _ranges(self.start[color] + self.size[color] - number, number)
        displaced = self.members[place]
        leaves = displaced[~np.isin(displaced, node, assume_unique=True)]
        free = self.place[node][~np.isin(node, displaced, assume_unique=True)]
        self.members[free], self.place[leaves] = leaves, free
        self.members[place], self.place[node] = node, place
        return place

    def _compare_graphs(self) -> None:
        """Note whether a renamed colour is more frequent in one graph than in another."""
        num_graphs = len(self.sizes)
        names, position = np.unique(self.color[self.renamed], return_inverse=True)
        count = np.bincount(position * num_graphs + self.owner[self.renamed], minlength=len(names) * num_graphs)
        count = count.reshape(len(names), num_graphs)
        self.is_separated |= bool((count != count[:, :1]).any())


def _ranges(start: Ints, length: Ints) -> Ints:
    """start[0], start[0] + 1, … (length[0] numbers), start[1], …"""
    ends = np.cumsum(length)
    numbers: Ints = np.arange(ends[-1] if ends.size else 0) + np.repeat(start - (ends - length), length)
    return numbers
