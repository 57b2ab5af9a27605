"""Eigenvectors of Laplacians against those of networkx's matrices."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse.linalg import ArpackNoConvergence
from small_graphs import batch_of

from crawl import Graph
from crawl.encodings import laplacian_eigenvectors


def test_span_the_eigenspaces(example):
    graph, _ = example
    vectors = laplacian_eigenvectors(graph, 5).double()
    ptr = graph.graph_ptr.tolist()
    for begin, end in pairwise(ptr):
        part = nx.Graph()
        part.add_nodes_from(range(begin, end))
        part.add_edges_from((u, int(v)) for u in part for v in graph.col[graph.rowptr[u] : graph.rowptr[u + 1]])
        laplacian = torch.from_numpy(nx.normalized_laplacian_matrix(part).toarray())
        values = torch.linalg.eigvalsh(laplacian)[1:6]
        own = vectors[begin:end, : len(values)]
        assert torch.allclose(own.t() @ own, torch.eye(len(values)).double(), atol=1e-5)
        assert torch.allclose(laplacian @ own, own * values, atol=1e-5)


def test_large_graphs_have_the_same_eigenvalues(monkeypatch):
    graph, _ = batch_of(nx.connected_watts_strogatz_graph(60, 4, 0.3, seed=2))
    dense = laplacian_eigenvectors(graph, 4)
    monkeypatch.setattr("crawl.encodings.spectrum._MOST_DENSE", 10)
    assert torch.allclose(laplacian_eigenvectors(graph, 4), dense, atol=1e-4)


@pytest.mark.parametrize(
    "part",
    [
        nx.balanced_tree(2, 7),
        nx.convert_node_labels_to_integers(nx.hypercube_graph(8)),
        nx.disjoint_union_all([nx.path_graph(40 + i) for i in range(12)]),
        nx.complete_graph(300),
    ],
)
def test_of_large_graphs_are_the_smallest(monkeypatch, part):
    """Also where many eigenvectors share an eigenvalue: a single search leaves some of them out."""
    monkeypatch.setattr("crawl.encodings.spectrum._MOST_DENSE", 10)
    vectors = laplacian_eigenvectors(Graph.from_networkx(part), 9).double()
    laplacian = torch.from_numpy(nx.normalized_laplacian_matrix(part).toarray())
    assert torch.allclose((vectors * (laplacian @ vectors)).sum(0), torch.linalg.eigvalsh(laplacian)[1:10], atol=1e-5)
    assert torch.allclose(vectors.t() @ vectors, torch.eye(9).double(), atol=1e-5)


def test_signs(example):
    graph, _ = example
    plain = laplacian_eigenvectors(graph, 3)
    drawn = [laplacian_eigenvectors(graph, 3, seed=seed) for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(drawn[0].abs(), plain.abs())


@pytest.mark.parametrize("part", [nx.cycle_graph(60), nx.random_regular_graph(3, 40, seed=1)])
def test_of_large_graphs_are_eigenvectors(monkeypatch, part):
    """Also of regular graphs, where the vector of ones is an eigenvector itself, and with isolated nodes."""
    part = nx.disjoint_union(part, nx.empty_graph(2))
    graph, _ = batch_of(nx.path_graph(3), part)
    monkeypatch.setattr("crawl.encodings.spectrum._MOST_DENSE", 10)
    vectors = laplacian_eigenvectors(graph, 6).double()[3:]
    laplacian = nx.normalized_laplacian_matrix(part).toarray()
    values = torch.from_numpy(np.linalg.eigvalsh(laplacian)[1:7])
    assert torch.allclose(torch.from_numpy(laplacian) @ vectors, vectors * values, atol=1e-5)
    assert torch.allclose(vectors.t() @ vectors, torch.eye(6).double(), atol=1e-5)


def test_a_graph_with_fewer_has_zeros():
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), batch=torch.tensor([0, 0, 1]))
    assert torch.allclose(laplacian_eigenvectors(graph, 2), torch.tensor([[0.5**0.5, 0], [-(0.5**0.5), 0], [0, 0]]))


def test_do_not_depend_on_the_rest_of_the_batch(example):
    graph, _ = example
    alone, _ = batch_of(nx.petersen_graph())
    assert torch.equal(laplacian_eigenvectors(alone, 4), laplacian_eigenvectors(graph, 4)[:10])


def test_says_when_they_are_not_found(monkeypatch):
    monkeypatch.setattr("crawl.encodings.spectrum._MOST_DENSE", 10)

    def give_up(*_, **__):
        raise ArpackNoConvergence("", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr("crawl.encodings.spectrum.linalg.eigsh", give_up)
    with pytest.raises(ValueError, match=r"60 nodes.*fewer"):
        laplacian_eigenvectors(batch_of(nx.cycle_graph(60))[0], 4)


def weighted_graph() -> tuple[nx.Graph, Graph]:
    """A graph with weights of very different sums at its nodes, each edge in both directions."""
    part = nx.gnp_random_graph(9, 0.5, seed=3)
    for u, v in part.edges:
        part[u][v]["weight"] = 10.0 ** ((u * v) % 3)
    return part, Graph.from_networkx(part, weight="weight")


def test_follow_weights():
    part, graph = weighted_graph()
    vectors = laplacian_eigenvectors(graph, 5).double()
    laplacian = torch.from_numpy(nx.normalized_laplacian_matrix(part, nodelist=range(9)).toarray())
    values = torch.linalg.eigvalsh(laplacian)[1:6]
    assert torch.allclose(laplacian @ vectors, vectors * values, atol=1e-5)


def test_weights_that_lead_one_way_are_refused():
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]), edge_weight=torch.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match=r"one way.*undirected=True"):
        laplacian_eigenvectors(graph, 1)
    assert laplacian_eigenvectors(Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]])), 1).shape == (3, 1)
