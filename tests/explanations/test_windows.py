"""What windows saw, by hand on a triangle with a tail."""

from __future__ import annotations

import numpy as np
import torch

from crawl import Graph, Walks
from crawl.explanations.attribution import Attribution, LayerParts
from crawl.explanations.windows import as_sets, bit_places, distinct_rows, evidence, windows_of

# 0 - 1 - 2 - 0 is a triangle, 3 hangs at 0. The walk goes around the triangle and out.
EDGES = np.array([[0, 1, 1, 2, 2, 0, 0, 3], [1, 0, 2, 1, 0, 2, 3, 0]])
WALK = [0, 1, 2, 0, 3]


def layer(has_bits: bool = True) -> LayerParts:
    graph = Graph.from_edge_index(torch.from_numpy(EDGES))
    walks = Walks.from_nodes(graph, torch.tensor([WALK]), window_size=3)
    bits = (
        walks.bits().double() * torch.arange(1.0, 6.0) * torch.arange(5).view(1, 5, 1)
        if has_bits
        else walks.bits() * 0.0
    )
    nodes, edges = torch.tensor([[1.0, 2, 4, 8, 16]]), torch.tensor([[0.0, 10, 20, 30, 40]])
    return LayerParts(walks, nodes, edges, bits, torch.tensor([[1.0, -2.0, 3.0]]), first=0, size=3)


def attribution(*layers: LayerParts) -> Attribution:
    zeros = torch.zeros(4), torch.zeros(8)
    return Attribution(0.0, 0.0, 0.0, zeros[0] + 100, zeros[1] + 0.5, layers)


def test_sets_and_rows() -> None:
    assert as_sets(np.array([[3, 1, 3], [2, 2, 2]]), 9).tolist() == [[1, 3, 9], [2, 9, 9]]
    assert distinct_rows(np.array([[1, 2], [0, 5], [1, 2]])).tolist() == [[0, 5], [1, 2]]


def test_bits_of_the_walk_are_as_expected() -> None:
    walks = layer().walks
    places = {(kind, back): column for kind, back, column in bit_places(walks)}
    bits = walks.bits()[0]
    seen = {(int(place), *name) for name, column in places.items() for place in bits[:, column].nonzero()}
    # 2 sees 0 two back; 0 is 0 three back, and sees 1 two back; 3 sees nothing but 0, its step.
    assert seen == {(2, "adjacency", 2), (3, "identity", 3), (3, "adjacency", 2)}


def test_parts_are_sorted_by_what_they_are_about() -> None:
    found = evidence(attribution(layer()), EDGES)
    assert found.nodes.tolist() == [100 + 1 + 8, 100 + 2, 100 + 4, 100 + 16]
    assert found.edges.tolist() == [10.5, 0.5, 20.5, 0.5, 30.5, 0.5, 40.5, 0.5]
    # Columns of bits: identity 1, 2, 3, adjacency 2, 3; the value is (column + 1) * position.
    assert found.sets.tolist() == [[0, 1, 2, 4]]
    assert found.of_sets.tolist() == [4 * 2 + 3 * 3 + 4 * 3]
    assert found.node_bits.tolist() == [3 * 3, 0, 0, 0]
    expected = np.zeros(8)
    expected[4], expected[0] = 4 * 2, 4 * 3  # 2 saw the edge to 0; 0 saw the edge to 1
    assert found.edge_bits.tolist() == expected.tolist()


def test_parallel_edges_share_and_missing_ones_leave_it_to_the_nodes() -> None:
    doubled = np.concatenate([EDGES, [[0], [1]]], axis=1)
    both = Attribution(0.0, 0.0, 0.0, torch.zeros(4), torch.zeros(9), (layer(),))
    found = evidence(both, doubled)
    assert found.edge_bits[[0, 8]].tolist() == [6, 6]
    without = evidence(Attribution(0.0, 0.0, 0.0, torch.zeros(4), torch.zeros(0), (layer(),)), np.empty((2, 0), int))
    assert without.node_bits.tolist() == [9 + 4 + 6, 6, 4, 0]


def test_all_parts_are_there() -> None:
    made = attribution(layer(), layer())
    found = evidence(made, EDGES)
    parts = [
        made.own_nodes,
        made.own_edges,
        *(part for each in made.layers for part in (each.nodes, each.edges, each.bits)),
    ]
    total = sum(float(part.sum()) for part in parts)
    assert found.nodes.sum() + found.edges.sum() + found.of_sets.sum() == total
    assert found.nodes.sum() + found.edges.sum() + found.node_bits.sum() + found.edge_bits.sum() == total


def test_walks_without_bits_have_no_sets() -> None:
    found = evidence(attribution(layer(has_bits=False)), EDGES)
    assert found.of_sets.tolist() == [0.0]


def test_windows() -> None:
    nodes, jumps = windows_of(layer(), np.array([0, 0]), np.array([0, 2]))
    assert nodes.tolist() == [[0, 1, 2], [2, 0, 3]]
    assert not jumps.any()
