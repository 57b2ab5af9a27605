"""The links of a graph as a list: numbers, features both ways, and parts of it."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from crawl.data.link_list import LinkList
from crawl.data.pairs import pairs_of_numbers


def test_each_link_once_with_the_features_of_both_ways() -> None:
    edge_index = torch.tensor([[0, 1, 2, 1, 2, 2, 0], [1, 0, 1, 2, 2, 1, 1]])
    links = LinkList.of(Data(edge_index=edge_index, edge_attr=torch.arange(7), num_nodes=3), undirected=False)
    assert pairs_of_numbers(links.numbers).tolist() == [[0, 1], [1, 2]]
    assert links.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert links.edge_attr.tolist() == [0, 3, 1, 2]  # of parallel edges the first
    assert links.skipped == (
        "self-loops, which are not links: 1",
        "parallel edges, of which the first counts: 2",
    )
    one = links.only(torch.tensor([1]))
    assert (one.edge_index.tolist(), one.edge_attr.tolist()) == ([[1, 2], [2, 1]], [3, 2])


def test_an_edge_without_a_reverse_is_refused_or_taken() -> None:
    data = Data(edge_index=torch.tensor([[0], [2]]), edge_attr=torch.tensor([7.0]), num_nodes=3)
    with pytest.raises(ValueError, match="The edge from 0 to 2 has no reverse, and links have no direction"):
        LinkList.of(data, undirected=False)
    links = LinkList.of(data, undirected=True)
    assert (links.edge_index.tolist(), links.edge_attr.tolist()) == ([[0, 2], [2, 0]], [7, 7])
