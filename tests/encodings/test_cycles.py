"""Counts of cycles against those of networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from small_graphs import batch_of

from crawl import Graph
from crawl.encodings import cycle_counts


def test_equal_those_of_networkx(example):
    graph, edge_index = example
    counts = cycle_counts(graph, 6)
    whole = nx.Graph()
    whole.add_nodes_from(range(graph.num_nodes))
    whole.add_edges_from(edge_index.t().tolist())
    nodes, edges = np.zeros((graph.num_nodes, 4), int), {}
    for cycle in nx.simple_cycles(whole, length_bound=6):
        for u, v in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            nodes[u, len(cycle) - 3] += 1
            for edge in ((u, v), (v, u)):
                edges.setdefault(edge, np.zeros(4, int))[len(cycle) - 3] += 1
    assert counts.nodes.tolist() == nodes.tolist()
    assert counts.edges.tolist() == [list(edges.get(tuple(edge), np.zeros(4, int))) for edge in edge_index.t().tolist()]


def test_parallel_edges_count_once_and_loops_never():
    edge_index = torch.tensor([[0, 1, 2, 0, 0], [1, 2, 0, 1, 0]])
    counts = cycle_counts(Graph.from_edge_index(edge_index, undirected=True), 4)
    assert counts.nodes.tolist() == [[1, 0]] * 3
    assert counts.edges.tolist() == [[1, 0]] * 4 + [[0, 0]]


def test_refuses_too_many_paths(monkeypatch):
    monkeypatch.setattr("crawl.encodings.cycles._MOST_PATHS", 1000)
    graph, _ = batch_of(nx.complete_graph(12))
    with pytest.raises(ValueError, match="shorter"):
        cycle_counts(graph, 8)


def test_of_graphs_without_edges_are_zero():
    counts = cycle_counts(Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=2), 4)
    assert counts.nodes.tolist() == [[0, 0]] * 2
    assert counts.edges.shape == (0, 2)


def test_directions_do_not_matter():
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]]))
    assert cycle_counts(graph, 3).nodes.tolist() == [[1]] * 3


def test_do_not_depend_on_how_the_work_is_shared_out(monkeypatch, example):
    whole = cycle_counts(example[0], 6)
    monkeypatch.setattr("crawl.encodings.cycles._NODES_AT_ONCE", 5)
    parts = cycle_counts(example[0], 6)
    assert torch.equal(parts.nodes, whole.nodes)
    assert torch.equal(parts.edges, whole.edges)
