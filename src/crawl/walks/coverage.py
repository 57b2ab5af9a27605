"""How much of a graph walks see: a diagnostic."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from crawl.graph import Graph
from crawl.walks.checks import check_graph_of


class Coverage(NamedTuple):
    """How much of each graph walks see: `[G]` shares from 0 to 1; 1 where a graph has none of them.

    Attributes:
        nodes: Of the nodes, isolated ones included.
        edges: Of the pairs of neighbours, those that a step leads from one to the other, in either direction.
    """

    nodes: Tensor
    edges: Tensor


def coverage(
    nodes: Tensor, edges: Tensor, num_nodes: int | None, num_edges: int | None, has_jumps: bool, graph: Graph
) -> Coverage:
    """The coverage of walks, given by their tensors and sizes, on the graph, which must be theirs."""
    edges = edges[edges < graph.num_edges] if has_jumps else edges
    check_graph_of(nodes, num_nodes, edges, num_edges, graph)
    is_visited = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    is_visited[nodes.long()] = True
    is_walked = torch.zeros(graph.num_edges, dtype=torch.bool, device=graph.device)
    is_walked[edges.long()] = True
    source = torch.repeat_interleave(graph.degree.long(), output_size=graph.num_arcs)
    low, high = torch.minimum(source, graph.col), torch.maximum(source, graph.col)
    pairs, pair_of_arc = torch.unique(low * graph.num_nodes + high, return_inverse=True)
    is_seen = torch.zeros_like(pairs, dtype=torch.bool)
    is_seen[pair_of_arc[is_walked[graph.edge_id.long()]]] = True
    graph_of_pair = graph.batch[pairs // max(graph.num_nodes, 1)]
    return Coverage(
        *(_share_of_each(*of, graph.num_graphs) for of in ((is_visited, graph.batch), (is_seen, graph_of_pair)))
    )


def _share_of_each(is_seen: Tensor, owner: Tensor, num_owners: int) -> Tensor:
    total, seen = (torch.bincount(rows, minlength=num_owners) for rows in (owner, owner[is_seen]))
    return torch.where(total > 0, seen / total.clamp_min(1), 1.0)
