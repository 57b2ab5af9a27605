"""The arcs of a graph in plain torch: where they are, their masses, and which one a draw falls on."""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.compressed_rows import first_not_below
from crawl.graph import Graph


def scaled(word: Tensor, total: Tensor) -> Tensor:
    """floor(word * total / 2^32): a number from 0 to total - 1, from a 32-bit word and a total below 2^63."""
    low = ((word * (total & 0xFFFFFFFF)) >> 32) & 0xFFFFFFFF  # the product wraps around modulo 2^64
    return word * (total >> 32) + low


class SortedArcs:
    """The arcs of a graph, found by binary search in the rows of their nodes; other rows are not looked at."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def row(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """The range [begin, end) of the arcs of a node."""
        return self.graph.rowptr[node].long(), self.graph.rowptr[node + 1].long()

    def between(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The range [first, last) of arcs from source to target; empty if there is none."""
        begin, end = self.row(source)
        first = first_not_below(self.graph.col, begin, end, target)
        return first, first_not_below(self.graph.col, begin, end, target + 1)

    def mass_before(self, node: Tensor, arc: Tensor) -> Tensor:
        """The mass of the arcs of a node that come before the given one."""
        begin, _ = self.row(node)
        if self.graph.cum_weight is None:
            return arc - begin
        return torch.where(arc > begin, self.graph.cum_weight[(arc - 1).clamp_min(0)], 0)

    def total(self, node: Tensor) -> Tensor:
        """The mass of all arcs of a node: their number, or the sum of their integer weights."""
        return self.mass_before(node, self.row(node)[1])

    def at(self, node: Tensor, mass: Tensor) -> Tensor:
        """The arc of a node in which a number from 0 to its total mass - 1 falls."""
        begin, end = self.row(node)
        if self.graph.cum_weight is None:
            return begin + mass
        return first_not_below(self.graph.cum_weight, begin, end, mass + 1)
