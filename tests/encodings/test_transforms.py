"""Transforms of PyG against the functions behind them."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch, Data

from crawl import Graph
from crawl.encodings import (
    AddCycleCounts,
    AddLaplacianEigenvectors,
    AddReturnProbabilities,
    AddWalkProbabilities,
    cycle_counts,
    laplacian_eigenvectors,
    return_probabilities,
    walk_probabilities,
)

EDGES = torch.tensor([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]])
GRAPH = Graph.from_edge_index(EDGES)


def data(**more) -> Data:
    return Data(x=torch.tensor([2, 0, 1, 1]), edge_index=EDGES, edge_attr=torch.rand(8, 2), **more)


def test_return_probabilities_come_after_categories_of_the_same_value():
    given = data()
    found = AddReturnProbabilities(5)(given)
    assert torch.equal(found.x, torch.cat([torch.tensor([[2.0], [0], [1], [1]]), return_probabilities(GRAPH, 5)], 1))
    assert given.x.tolist() == [2, 0, 1, 1]
    assert torch.equal(found.edge_attr, given.edge_attr)


def test_walk_probabilities_come_after_edge_features():
    given = data()
    found = AddWalkProbabilities(5)(given)
    assert torch.equal(found.edge_attr, torch.cat([given.edge_attr, walk_probabilities(GRAPH, 5)], dim=1))
    assert torch.equal(found.x, given.x)


def test_cycle_counts_are_added_to_nodes_and_edges():
    bare = AddCycleCounts(4)(Data(edge_index=EDGES, num_nodes=4))
    counts = cycle_counts(GRAPH, 4)
    assert torch.equal(bare.x, counts.nodes.float())
    assert torch.equal(bare.edge_attr, counts.edges.float())
    named = AddCycleCounts(4, "cycles", "edge_cycles")(data())
    assert torch.equal(named.cycles, bare.x)
    assert torch.equal(named.edge_cycles, bare.edge_attr)


def test_features_of_half_precision_leave_room_for_large_counts():
    pairs = torch.combinations(torch.arange(12)).t()
    found = AddCycleCounts(7)(Data(x=torch.ones(12, 1).half(), edge_index=torch.cat([pairs, pairs.flip(0)], dim=1)))
    assert found.x[0].tolist() == [1, 55, 495, 3960, 27720, 166320]


@pytest.mark.parametrize("transform", [AddReturnProbabilities, AddWalkProbabilities])
def test_an_attribute_of_its_own(transform):
    given = data()
    found = transform(3, attr_name="found")(given)
    assert torch.equal(found.x, given.x)
    assert torch.equal(found.edge_attr, given.edge_attr)
    assert torch.equal(found.found, transform(3)(Data(edge_index=EDGES, num_nodes=4)).to_dict().popitem()[1])


def test_eigenvectors_have_signs_drawn_anew():
    torch.manual_seed(0)
    drawn = [AddLaplacianEigenvectors(3, "pe")(data()).pe for _ in range(8)]
    signs = torch.stack([(pe * laplacian_eigenvectors(GRAPH, 3)).sum(0) for pe in drawn])
    assert torch.allclose(signs.abs(), torch.ones(8, 3))
    assert len({tuple(row) for row in signs.sign().tolist()}) > 1
    torch.manual_seed(0)
    assert torch.equal(AddLaplacianEigenvectors(3)(data()).x[:, 1:], drawn[0])


def test_a_batch_gets_those_of_its_graphs():
    both = AddReturnProbabilities(4)(Batch.from_data_list([data(), data()]))
    assert torch.equal(both.x, AddReturnProbabilities(4)(data()).x.repeat(2, 1))


def test_steps_follow_edge_weights():
    weight = torch.tensor([1.0, 1, 2, 2, 3, 3, 1, 1])
    found = AddReturnProbabilities(4, "pe")(data(edge_weight=weight)).pe
    assert torch.equal(found, return_probabilities(Graph.from_edge_index(EDGES, edge_weight=weight), 4))


def test_refuses_integers_that_floats_cannot_hold():
    given = Data(x=torch.tensor([2**24 + 1, 0, 0, 0]), edge_index=EDGES)
    with pytest.raises(ValueError, match=r"x holds integers.*from 0"):
        AddReturnProbabilities(2)(given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AddReturnProbabilities(0), "num_steps.*not 0"),
        (lambda: AddWalkProbabilities("5"), "num_steps.*'5'"),
        (lambda: AddCycleCounts(2), "longest.*not 2"),
        (lambda: AddWalkProbabilities(5, 7), "name, such as 'pe', not 7"),
        (lambda: AddLaplacianEigenvectors(-1), "number.*-1"),
    ],
)
def test_refuses_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
