"""One graph with targets: what is wrong in it is found, however many numbers are looked at together."""

from __future__ import annotations

import pytest
import torch

from crawl import Graph
from crawl.data import OneGraph


@pytest.mark.parametrize("numbers", [1, 4, 7, 1000])
def test_numbers_are_checked_in_pieces(monkeypatch, numbers):
    monkeypatch.setattr("crawl.data.one_graph._NUMBERS", numbers)
    graph, x = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 6), torch.rand(6, 3)
    assert OneGraph(graph, torch.tensor([2]), x).checked().x is x  # not copied
    x[4, 1] = torch.inf
    with pytest.raises(ValueError, match=r"^x has inf in row 4: give finite numbers\.$"):
        OneGraph(graph, torch.tensor([2]), x).checked()
    with pytest.raises(ValueError, match="There is no node 6: the graph has nodes 0 to 5"):
        OneGraph(graph, torch.tensor([6])).checked()


def test_batches_of_the_full_graph_are_made_of_edge_index():
    one_way = torch.tensor([[0, 1, 2], [1, 2, 0]])
    both = torch.cat([one_way, one_way.flip(0)], dim=1)
    nodes, weight = torch.arange(3), torch.tensor([1.0, 2.0, 3.0])

    def full(graph, edge_index=None):
        return OneGraph(graph, nodes, edge_index=edge_index, batches="full")

    assert full(Graph.from_edge_index(both, 3), both).num_edges == 6
    order = torch.tensor([5, 0, 3, 1, 4, 2])
    for graph, edge_index, message in (
        (Graph.from_edge_index(both, 3), None, "need edge_index"),
        (Graph.from_edge_index(one_way, 3, edge_weight=weight), one_way, "no weights of edges: use batches='closed'"),
        (Graph.from_edge_index(one_way, 3, undirected=True), one_way, r"\[2, 3\].*6 arcs: list both directions"),
        (Graph.from_edge_index(both, 3), one_way, r"\[2, 3\].*6 arcs"),
        (Graph.from_edge_index(both, 3), both[:, order], "other edges: make the graph of edge_index"),
        (Graph.from_edge_index(both, 3), both.flip(0), "other edges"),
    ):
        with pytest.raises(ValueError, match=message):
            full(graph, edge_index)
