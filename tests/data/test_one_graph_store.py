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
