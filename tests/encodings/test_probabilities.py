"""Exact probabilities against powers of the matrix of one step, and against PyG."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from small_graphs import batch_of
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import AddRandomWalkPE

from crawl import Graph
from crawl.encodings import return_probabilities, walk_probabilities


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


def test_equal_powers_of_the_matrix_of_a_step(example):
    graph, edge_index = example
    expected = powers(graph, 9)
    assert torch.allclose(return_probabilities(graph, 9).double(), expected.diagonal(dim1=1, dim2=2).t(), atol=1e-7)
    found = walk_probabilities(graph, 9).double()
    assert torch.allclose(found, expected[:, edge_index[0], edge_index[1]].t(), atol=1e-7)


def test_follow_weights_parallel_edges_and_loops():
    edge_index = torch.tensor([[0, 1, 1, 2, 0, 1, 2], [1, 0, 2, 1, 1, 0, 2]])
    weight = torch.tensor([1.0, 2.0, 3.0, 0.5, 1.5, 1.0, 2.0])
    graph = Graph.from_edge_index(edge_index, edge_weight=weight)
    expected = powers(graph, 5, weight)
    assert torch.allclose(return_probabilities(graph, 5).double(), expected.diagonal(dim1=1, dim2=2).t(), atol=1e-7)
    found = walk_probabilities(graph, 5).double()
    assert torch.allclose(found, expected[:, edge_index[0], edge_index[1]].t(), atol=1e-7)


def test_an_edge_given_once_gets_the_mean_of_both_directions():
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), undirected=True)
    assert torch.allclose(walk_probabilities(graph, 1), torch.tensor([[0.75], [0.75]]))


def test_do_not_depend_on_the_rest_of_the_batch():
    alone, _ = batch_of(nx.petersen_graph())
    together, _ = batch_of(nx.star_graph(3), nx.petersen_graph())
    assert torch.equal(return_probabilities(alone, 8), return_probabilities(together, 8)[4:])


def test_of_nothing_is_nothing():
    empty = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    assert torch.equal(return_probabilities(empty, 2), torch.zeros(3, 2))
    assert walk_probabilities(empty, 2).shape == (0, 2)
    assert return_probabilities(Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=0), 2).shape == (
        0,
        2,
    )


def test_refuses_what_would_take_hours(monkeypatch, example):
    monkeypatch.setattr("crawl.encodings.probabilities._MOST_WORK", 100)
    with pytest.raises(ValueError, match="estimate"):
        return_probabilities(example[0], 20)


@pytest.mark.parametrize("of", [return_probabilities, walk_probabilities])
def test_do_not_depend_on_how_the_work_is_shared_out(monkeypatch, example, of):
    whole = of(example[0], 7)
    monkeypatch.setattr("crawl.encodings.probabilities._BLOCKS_AT_ONCE", 1)
    assert torch.equal(of(example[0], 7), whole)


def test_follow_the_direction_of_edges():
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]))
    assert return_probabilities(graph, 3).tolist() == [[0, 0, 1]] * 3
    assert walk_probabilities(graph, 4).tolist() == [[1, 0, 0, 1]] * 3


def test_of_directed_graphs_that_come_back_by_other_ways():
    graph = nx.gnp_random_graph(14, 0.2, seed=4, directed=True)
    graph.add_edges_from((i, (i + 1) % 14) for i in range(14))
    edge_index = torch.tensor(list(graph.edges)).t()
    graph = Graph.from_edge_index(edge_index)
    expected = powers(graph, 12)
    found = return_probabilities(graph, 12).double()
    assert torch.allclose(found, expected.diagonal(dim1=1, dim2=2).t(), atol=1e-7)
    found = walk_probabilities(graph, 12).double()
    assert torch.allclose(found, expected[:, edge_index[0], edge_index[1]].t(), atol=1e-7)


def test_of_many_steps_are_those_of_the_stationary_distribution():
    graph, _ = batch_of(nx.petersen_graph())
    assert torch.allclose(return_probabilities(graph, 1000)[:, -1], torch.full((10,), 0.1))


def test_equal_those_of_pyg_on_simple_graphs_with_loops_and_isolated_nodes(example):
    graph, edge_index = example
    edge_index = torch.cat([edge_index, torch.tensor([[0, 5], [0, 5]])], dim=1)
    theirs = AddRandomWalkPE(8, attr_name="pe")(Data(edge_index=edge_index, num_nodes=graph.num_nodes)).pe
    found = return_probabilities(Graph.from_edge_index(edge_index, graph.num_nodes), 8)
    assert torch.allclose(found, theirs, atol=1e-6)


@pytest.mark.parametrize("wrong", [0, 1001, 2.5, "3"])
def test_refuse_wrong_numbers_of_steps(example, wrong):
    with pytest.raises(ValueError, match=r"num_steps.*1.*1000"):
        return_probabilities(example[0], wrong)
