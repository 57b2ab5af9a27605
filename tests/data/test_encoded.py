"""The encodings of a whole data set: those of each graph alone, after features of every kind."""

from __future__ import annotations

import math

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

from crawl import Graph
from crawl.data import GraphStore, with_encodings
from crawl.encodings import Encodings, cycle_counts, return_probabilities, walk_probabilities
from crawl.nn.encoders import UNKNOWN

ALL = Encodings(return_steps=4, walk_steps=3, longest_cycle=5, degree=True)


def graphs(**features) -> list[Data]:
    found = []
    for graph in (nx.cycle_graph(4), nx.complete_graph(4), nx.empty_graph(2), nx.empty_graph(0), nx.path_graph(3)):
        edges = torch.tensor(list(graph.to_directed().edges), dtype=torch.long).t().reshape(2, -1)
        found.append(Data(edge_index=edges, num_nodes=len(graph)))
        for name, make in features.items():
            found[-1][name] = make(len(graph) if name == "x" else edges.shape[1])
    return found


def test_each_graph_gets_its_own_after_its_features():
    given = graphs(x=lambda n: torch.arange(n), edge_attr=lambda n: torch.rand(n, 2))
    store = GraphStore.from_graphs(given)
    found = with_encodings(store, ALL)
    assert (found.x.shape[1], found.edge_attr.shape[1]) == (1 + ALL.node_width, 2 + ALL.edge_width) == (9, 8)
    for i, data in enumerate(given):
        graph, alone = Graph.from_data(data), found.graph(i)
        counts = cycle_counts(graph, 5)
        degree = torch.tensor([[math.log(1 + int(d))] for d in graph.degree]).view(-1, 1)
        of_nodes = [data.x.float().view(-1, 1), return_probabilities(graph, 4), counts.nodes.float().sqrt(), degree]
        assert torch.equal(alone.x, torch.cat(of_nodes, dim=1))
        of_edges = [data.edge_attr, walk_probabilities(graph, 3), counts.edges.float().sqrt()]
        assert torch.equal(alone.edge_attr, torch.cat(of_edges, dim=1))
    assert store.x.dtype == torch.long  # as it was


def test_graphs_without_features_get_encodings_alone():
    found = with_encodings(GraphStore.from_graphs(graphs()), Encodings(return_steps=2))
    assert found.x.shape == (13, 2)
    assert found.edge_attr is None


def test_no_encodings_change_nothing():
    store = GraphStore.from_graphs(graphs())
    assert with_encodings(store, Encodings()) is store


def test_unknown_categories_stay_unknown():
    store = GraphStore.from_graphs(graphs(x=lambda n: torch.full((n, 1), UNKNOWN)))
    assert set(with_encodings(store, ALL).x[:, 0].long().tolist()) == {UNKNOWN}


def test_refuses_what_is_not_a_store_or_settings():
    with pytest.raises(ValueError, match=r"store.*from_graphs"):
        with_encodings(graphs(), ALL)
    with pytest.raises(ValueError, match=r"encodings.*Encodings"):
        with_encodings(GraphStore.from_graphs(graphs()), {"return_steps": 3})
