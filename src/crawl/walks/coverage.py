"""How much of a graph walks see: a diagnostic."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from crawl.graph import Graph
from crawl.walks.checks import check_graph, check_graph_of


class Coverage(NamedTuple):
    """How much of each graph walks see: `[G]` shares from 0 to 1; 1 where a graph has none of them.

    Attributes:
        nodes: Of the nodes, isolated ones included.
        edges: Of the pairs of neighbours, those that a step leads from one to the other, in either direction.
    """

    nodes: Tensor
    edges: Tensor


class Seen:
    """The nodes and edges of a graph that walks have seen so far: a byte for each."""

    def __init__(self, graph: Graph) -> None:
        check_graph(graph)
        self.graph = graph
        self.is_visited = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
        self.is_walked = torch.zeros(graph.num_edges, dtype=torch.bool, device=graph.device)

    def add(self, nodes: Tensor, edges: Tensor, num_nodes: int | None, num_edges: int | None, has_jumps: bool) -> None:
        """Add walks, given by their tensors and sizes; the graph must be theirs."""
        edges = edges[edges < self.graph.num_edges] if has_jumps else edges
        check_graph_of(nodes, num_nodes, edges, num_edges, self.graph)
        self.is_visited[nodes.long()] = True
        self.is_walked[edges.long()] = True

    def coverage(self) -> Coverage:
        """The shares of what there is."""
        graph = self.graph
        visited = torch.bincount(graph.batch[self.is_visited], minlength=graph.num_graphs)
        nodes = _shares(graph.graph_ptr.diff(), visited)
        if graph.device.type != "cpu":
            return Coverage(nodes, _shares(*self.pairs()))
        from crawl.walks.coverage_cpu import pairs  # numba takes a second to import

        return Coverage(nodes, _shares(*pairs(graph, self.is_walked)))

    def pairs(self) -> tuple[Tensor, Tensor]:
        """The number of pairs of neighbours in each graph, and of those that were seen."""
        graph = self.graph
        source = torch.repeat_interleave(graph.degree.long(), output_size=graph.num_arcs)
        low, high = torch.minimum(source, graph.col), torch.maximum(source, graph.col)
        pairs, pair_of_arc = torch.unique(low * graph.num_nodes + high, return_inverse=True)
        is_seen = torch.zeros_like(pairs, dtype=torch.bool)
        is_seen[pair_of_arc[self.is_walked[graph.edge_id.long()]]] = True
        owner = graph.batch[pairs // max(graph.num_nodes, 1)]
        total, seen = (torch.bincount(rows, minlength=graph.num_graphs) for rows in (owner, owner[is_seen]))
        return total, seen


def _shares(total: Tensor, seen: Tensor) -> Tensor:
    return torch.where(total > 0, seen / total.clamp_min(1), 1.0)
