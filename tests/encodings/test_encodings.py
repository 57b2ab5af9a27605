"""Encodings against the plainest way to compute them: matrix powers, networkx, dense eigenvectors."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

from crawl import Graph
from crawl.encodings import (
    cycle_counts,
    estimate_return_probabilities,
    estimate_walk_probabilities,
    laplacian_eigenvectors,
    return_probabilities,
    walk_probabilities,
)


def batch_of(*graphs: nx.Graph) -> tuple[Graph, Tensor]:
    """The graphs side by side, and their edges, both directions of each."""
    edges, batch, first = [], [], 0
    for i, graph in enumerate(graphs):
        graph = nx.convert_node_labels_to_integers(graph)
        edges += [(first + u, first + v) for u, v in graph.to_directed().edges()]
        batch += [i] * len(graph)
        first += len(graph)
    edge_index = torch.tensor(edges).t().reshape(2, -1)
    perm = torch.randperm(edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    edge_index = edge_index[:, perm]
    return Graph.from_edge_index(edge_index, batch=torch.tensor(batch), num_graphs=len(graphs)), edge_index


@pytest.fixture(scope="module")
def example() -> tuple[Graph, Tensor]:
    lonely = nx.path_graph(4)
    lonely.add_node("alone")
    return batch_of(nx.petersen_graph(), lonely, nx.gnp_random_graph(12, 0.3, seed=1), nx.barbell_graph(4, 2))


def powers(graph: Graph, num_steps: int, weight: Tensor | None = None) -> Tensor:
    """`[num_steps, N, N]` the powers of the matrix of one step."""
    source = torch.repeat_interleave(graph.degree.long())
    step = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    values = (
        torch.ones(graph.num_arcs, dtype=torch.float64) if weight is None else weight[graph.edge_id.long()].double()
    )
    step.index_put_((source, graph.col.long()), values, accumulate=True)
    step = step / step.sum(1, keepdim=True).clamp_min(1e-300)
    return torch.stack([torch.linalg.matrix_power(step, k) for k in range(1, num_steps + 1)])


class TestProbabilities:
    def test_equal_powers_of_the_matrix_of_a_step(self, example):
        graph, edge_index = example
        expected = powers(graph, 9)
        assert torch.allclose(return_probabilities(graph, 9).double(), expected.diagonal(dim1=1, dim2=2).t(), atol=1e-7)
        found = walk_probabilities(graph, 9).double()
        assert torch.allclose(found, expected[:, edge_index[0], edge_index[1]].t(), atol=1e-7)

    def test_follow_weights_parallel_edges_and_loops(self):
        edge_index = torch.tensor([[0, 1, 1, 2, 0, 1, 2], [1, 0, 2, 1, 1, 0, 2]])
        weight = torch.tensor([1.0, 2.0, 3.0, 0.5, 1.5, 1.0, 2.0])
        graph = Graph.from_edge_index(edge_index, edge_weight=weight)
        expected = powers(graph, 5, weight)
        assert torch.allclose(return_probabilities(graph, 5).double(), expected.diagonal(dim1=1, dim2=2).t(), atol=1e-7)
        found = walk_probabilities(graph, 5).double()
        assert torch.allclose(found, expected[:, edge_index[0], edge_index[1]].t(), atol=1e-7)

    def test_an_edge_given_once_gets_the_mean_of_both_directions(self):
        graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), undirected=True)
        assert torch.allclose(walk_probabilities(graph, 1), torch.tensor([[0.75], [0.75]]))

    def test_do_not_depend_on_the_rest_of_the_batch(self):
        alone, _ = batch_of(nx.petersen_graph())
        together, _ = batch_of(nx.star_graph(3), nx.petersen_graph())
        assert torch.equal(return_probabilities(alone, 8), return_probabilities(together, 8)[4:])

    def test_of_nothing_is_nothing(self):
        empty = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
        assert torch.equal(return_probabilities(empty, 2), torch.zeros(3, 2))
        assert walk_probabilities(empty, 2).shape == (0, 2)
        assert return_probabilities(
            Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=0), 2
        ).shape == (0, 2)

    def test_refuses_what_would_take_hours(self, monkeypatch, example):
        monkeypatch.setattr("crawl.encodings.probabilities._MOST_WORK", 100)
        with pytest.raises(ValueError, match="estimate"):
            return_probabilities(example[0], 20)


class TestEstimates:
    def test_are_near_the_exact_ones_and_repeat(self, example):
        graph, _ = example
        settings = {"num_walks": 4000, "seed": 3}
        found = estimate_return_probabilities(graph, 6, **settings)
        assert float((found - return_probabilities(graph, 6)).abs().max()) < 5 * 0.5 / 4000**0.5
        of_edges = estimate_walk_probabilities(graph, 6, **settings)
        assert float((of_edges - walk_probabilities(graph, 6)).abs().max()) < 5 * 0.5 / 4000**0.5
        assert torch.equal(found, estimate_return_probabilities(graph, 6, **settings))

    def test_do_not_depend_on_how_many_walks_are_in_memory(self, monkeypatch, example):
        graph, _ = example
        whole = [
            estimate(graph, 4, num_walks=30)
            for estimate in (estimate_return_probabilities, estimate_walk_probabilities)
        ]
        monkeypatch.setattr("crawl.encodings.estimates._MOST_POSITIONS", 500)
        pieces = [
            estimate(graph, 4, num_walks=30)
            for estimate in (estimate_return_probabilities, estimate_walk_probabilities)
        ]
        assert all(torch.equal(a, b) for a, b in zip(whole, pieces, strict=True))


class TestEigenvectors:
    def test_span_the_eigenspaces(self, example):
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

    def test_large_graphs_have_the_same_eigenvalues(self, monkeypatch):
        graph, _ = batch_of(nx.connected_watts_strogatz_graph(60, 4, 0.3, seed=2))
        dense = laplacian_eigenvectors(graph, 4)
        monkeypatch.setattr("crawl.encodings.spectrum._MOST_DENSE", 10)
        assert torch.allclose(laplacian_eigenvectors(graph, 4), dense, atol=1e-4)

    def test_signs(self, example):
        graph, _ = example
        plain = laplacian_eigenvectors(graph, 3)
        drawn = [laplacian_eigenvectors(graph, 3, seed=seed) for seed in (1, 1, 2)]
        assert torch.equal(drawn[0], drawn[1])
        assert not torch.equal(drawn[0], drawn[2])
        assert torch.equal(drawn[0].abs(), plain.abs())


class TestCycles:
    def test_equal_those_of_networkx(self, example):
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
        assert counts.edges.tolist() == [
            list(edges.get(tuple(edge), np.zeros(4, int))) for edge in edge_index.t().tolist()
        ]

    def test_parallel_edges_count_once_and_loops_never(self):
        edge_index = torch.tensor([[0, 1, 2, 0, 0], [1, 2, 0, 1, 0]])
        counts = cycle_counts(Graph.from_edge_index(edge_index, undirected=True), 4)
        assert counts.nodes.tolist() == [[1, 0]] * 3
        assert counts.edges.tolist() == [[1, 0]] * 4 + [[0, 0]]

    def test_refuses_too_many_paths(self, monkeypatch):
        monkeypatch.setattr("crawl.encodings.cycles._MOST_PATHS", 1000)
        graph, _ = batch_of(nx.complete_graph(12))
        with pytest.raises(ValueError, match="shorter"):
            cycle_counts(graph, 8)
