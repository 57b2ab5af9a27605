"""Rows of encodings: which columns come where, and nothing where nothing is asked for."""

from __future__ import annotations

import networkx as nx
import torch

from crawl import Graph
from crawl.data.encoding_rows import encoding_rows
from crawl.encodings import Encodings, cycle_counts, return_probabilities, walk_probabilities


def test_columns_stand_in_the_order_that_is_said() -> None:
    graph = Graph.from_networkx(nx.lollipop_graph(4, 2))
    encodings = Encodings(return_steps=3, walk_steps=2, longest_cycle=4, degree=True)
    nodes, edges = encoding_rows(graph, encodings)
    counts = cycle_counts(graph, 4)
    degree = graph.degree.float().log1p().unsqueeze(1)
    assert torch.allclose(nodes, torch.cat([return_probabilities(graph, 3), counts.nodes.sqrt(), degree], dim=1))
    assert torch.allclose(edges, torch.cat([walk_probabilities(graph, 2), counts.edges.sqrt()], dim=1))
    assert (nodes.shape[1], edges.shape[1]) == (encodings.node_width, encodings.edge_width)


def test_without_encodings_there_are_no_rows() -> None:
    graph = Graph.from_networkx(nx.path_graph(3))
    assert encoding_rows(graph, Encodings()) == (None, None)
    assert encoding_rows(graph, Encodings(degree=True))[1] is None
