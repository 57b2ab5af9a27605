"""The structural encodings of one graph, or of a batch of graphs, as rows of numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.encodings.cycles import cycle_counts
from crawl.encodings.probabilities import return_probabilities, walk_probabilities
from crawl.encodings.settings import Encodings
from crawl.graph import Graph


def encoding_rows(graph: Graph, encodings: Encodings) -> tuple[Tensor | None, Tensor | None]:
    """`[N, node_width]` and `[E, edge_width]` float32, in the order that `with_encodings` says; None for a width of 0.

    Raises:
        ValueError: If there are too many steps or too long cycles for such large graphs.
    """
    of_nodes, of_edges = [], []
    if encodings.return_steps:
        of_nodes.append(return_probabilities(graph, encodings.return_steps))
    if encodings.walk_steps:
        of_edges.append(walk_probabilities(graph, encodings.walk_steps))
    if encodings.longest_cycle:
        counts = cycle_counts(graph, encodings.longest_cycle)
        of_nodes.append(counts.nodes.float().sqrt())  # which all machines round alike
        of_edges.append(counts.edges.float().sqrt())
    if encodings.degree:
        of_nodes.append(graph.degree.double().log1p().float().unsqueeze(1))  # rounded once, so alike on all machines
    return torch.cat(of_nodes, dim=1) if of_nodes else None, torch.cat(of_edges, dim=1) if of_edges else None
