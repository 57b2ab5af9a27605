"""The arcs of a graph in plain torch: where they are, their masses, and which one a draw falls on."""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.graph import Graph


def scaled(word: Tensor, total: Tensor) -> Tensor:
    """floor(word * total / 2^32): a number from 0 to total - 1, from a 32-bit word and a total below 2^63."""
    low = ((word * (total & 0xFFFFFFFF)) >> 32) & 0xFFFFFFFF  # the product wraps around modulo 2^64
    return word * (total >> 32) + low


class SortedArcs:
    """The arcs of a graph as sorted 64-bit keys, so that finding an arc is one binary search."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rowptr = graph.rowptr.long()
        source = torch.repeat_interleave(graph.degree.long())
        self.by_target = source * graph.num_nodes + graph.col
        self.by_mass = None if graph.cum_weight is None else (source << 31) + graph.cum_weight

    def between(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The range [first, last) of arcs from source to target; empty if there is none."""
        key = source * self.graph.num_nodes + target
        return torch.searchsorted(self.by_target, key), torch.searchsorted(self.by_target, key, right=True)

    def mass_before(self, node: Tensor, arc: Tensor) -> Tensor:
        """The mass of the arcs of a node that come before the given one."""
        if self.graph.cum_weight is None:
            return arc - self.rowptr[node]
        return torch.where(arc > self.rowptr[node], self.graph.cum_weight[(arc - 1).clamp_min(0)], 0)

    def total(self, node: Tensor) -> Tensor:
        """The mass of all arcs of a node: their number, or the sum of their integer weights."""
        return self.mass_before(node, self.rowptr[node + 1])

    def at(self, node: Tensor, mass: Tensor) -> Tensor:
        """The arc of a node in which a number from 0 to its total mass - 1 falls."""
        if self.by_mass is None:
            return self.rowptr[node] + mass
        return torch.searchsorted(self.by_mass, (node << 31) + mass, right=True)

    def reverse(self, source: Tensor, arc: Tensor) -> Tensor:
        """The arc that leads back to the source of one; of parallel arcs the one of its rank, or the last if fewer."""
        target = self.graph.col[arc].long()
        rank = arc - self.between(source, target)[0]
        first, last = self.between(target, source)
        return torch.minimum(first + rank, last - 1)
