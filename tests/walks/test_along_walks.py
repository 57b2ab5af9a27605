"""Rows gathered along walks, and means back at nodes and edges, against plain loops; with their gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from crawl import Graph, Walks, sample_walks

EDGES = torch.tensor([[0, 1, 2, 3, 0, 4, 4], [1, 2, 3, 0, 2, 5, 4]])  # node 6 has none; node 4 has a loop


@pytest.fixture(scope="module")
def walks() -> Walks:
    graph = Graph.from_edge_index(EDGES, num_nodes=7, undirected=True)
    return sample_walks(graph, 6, window_size=3, seed=1).sized(7, 7)


def rows(number: int, width: int = 2) -> Tensor:
    return torch.randn(number, width, dtype=torch.float64, generator=torch.Generator().manual_seed(number))


def test_gather_adds_node_edge_and_bits(walks: Walks) -> None:
    nodes, edges, bits = rows(7), rows(7) + 1, rows(5)
    found = walks.gather(nodes, edges, bits)
    for walk in range(len(walks)):
        for position in range(7):
            expected = nodes[walks.nodes[walk, position]].clone()
            if position:
                expected += edges[walks.edges[walk, position - 1]]
            for bit in range(5):
                expected += bits[bit] * float(walks.bits()[walk, position, bit])
            assert torch.allclose(found[walk, position], expected)
    assert torch.allclose(walks.gather(nodes) + walks.gather(torch.zeros_like(nodes), edges, bits), found)


def test_means_are_over_the_positions_at_a_node_and_the_steps_along_an_edge(walks: Walks) -> None:
    values = rows(len(walks) * 7, 3).view(len(walks), 7, 3)
    at_nodes, at_edges = walks.mean_at_nodes(values), walks.mean_at_edges(values)
    assert (at_nodes.shape, at_edges.shape) == ((7, 3), (7, 3))
    for node in range(7):
        visits = values[walks.nodes == node]
        assert torch.allclose(at_nodes[node], visits.mean(0) if len(visits) else torch.zeros(3).double())
    for edge in range(7):
        led_here = values[:, 1:][walks.edges == edge]
        assert torch.allclose(at_edges[edge], led_here.mean(0) if len(led_here) else torch.zeros(3).double())
    assert float(at_nodes[6].abs().sum()) == 0


def test_gradients(walks: Walks) -> None:
    inputs = [tensor.requires_grad_() for tensor in (rows(7), rows(7) + 1, rows(5))]
    assert torch.autograd.gradcheck(walks.gather, inputs)
    values = rows(len(walks) * 7, 1).view(len(walks), 7, 1).requires_grad_()
    assert torch.autograd.gradcheck(walks.mean_at_nodes, values)
    assert torch.autograd.gradcheck(walks.mean_at_edges, values)


@pytest.mark.parametrize(
    ("edges", "bits", "message"),
    [
        (rows(7, 1), None, r"edges.*\[7, 2\].*\[7, 1\]"),
        (None, rows(5, 1), r"bits.*\[7, 2\].*\[5, 1\]"),
        (None, rows(4), "5 bits.*window_size"),
        (rows(6), None, "7"),
    ],
)
def test_rows_that_do_not_fit_are_refused(walks: Walks, edges: Tensor, bits: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        walks.gather(rows(7), edges, bits)


def test_nodes_without_rows_are_refused(walks: Walks) -> None:
    with pytest.raises(ValueError, match=r"nodes must have two dimensions.*\[7\]"):
        walks.gather(torch.zeros(7))


def test_values_of_other_walks_are_refused(walks: Walks) -> None:
    with pytest.raises(ValueError, match=r"7"):
        walks.mean_at_nodes(torch.zeros(len(walks), 6, 1))
