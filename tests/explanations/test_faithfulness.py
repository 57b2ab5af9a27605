"""What is removed is removed, random subgraphs are connected, and numbers are compared in pairs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import to_networkx

from crawl.explanations import Deletion, Subject, compare, delete_subgraphs, explain_subject
from crawl.explanations.faithfulness import random_subgraphs, without
from tests.explanations.small_models import house, network


def test_nodes_are_removed_with_their_edges() -> None:
    data = house()
    rest = without(data, {0, 4})
    assert rest.num_nodes == 4
    assert torch.equal(rest.x, data.x[[1, 2, 3, 5]])
    pairs = [(u, v) for u, v in data.edge_index.t().tolist() if not {u, v} & {0, 4}]
    names = {1: 0, 2: 1, 3: 2, 5: 3}
    assert rest.edge_index.t().tolist() == [[names[u], names[v]] for u, v in pairs]
    kept = [i for i, pair in enumerate(data.edge_index.t().tolist()) if tuple(pair) in pairs]
    assert torch.equal(rest.edge_attr, data.edge_attr[kept])
    assert without(data, ()).num_nodes == 6


def test_random_subgraphs_are_connected_and_of_the_size() -> None:
    subject, data = Subject(network(), 0), house()
    found = explain_subject(subject, data, num_repeats=2, num_points=2)
    graph = to_networkx(data, to_undirected=True)
    drawn = list(random_subgraphs(found, 3, 20, np.random.default_rng(0)))
    assert len(drawn) == 20
    assert len(set(drawn)) > 3
    assert all(len(nodes) == 3 and nx.is_connected(graph.subgraph(nodes)) for nodes in drawn)
    assert list(random_subgraphs(found, 7, 3, np.random.default_rng(0))) == []


def test_changes_are_those_of_the_predictions() -> None:
    model, data = network(), house()
    subject = Subject(model, 0)
    found = explain_subject(subject, data, num_repeats=2, num_points=4)
    deletion = delete_subgraphs(subject, data, found, num_random=3, num_repeats=2)
    assert deletion is not None
    top = found.subgraphs[0]
    assert (deletion.size, deletion.num_nodes, deletion.score) == (len(top.nodes), 6, top.score)
    seeds = [subject.seed_of(i) for i in range(2)]
    with torch.no_grad():
        before, after = (
            np.mean([float(model(graph, seed=seed)[0, 0]) for seed in seeds])
            for graph in (data, without(data, top.nodes))
        )
    assert deletion.top == pytest.approx(before - after, abs=1e-5)
    assert len(deletion.random) == 3


def test_a_node_that_is_explained_stays() -> None:
    subject, data = Subject(network(pool=None), 0), house()
    found = explain_subject(subject, data, node=5, num_repeats=2, num_points=4)
    assert all(5 not in nodes for nodes in random_subgraphs(found, 2, 10, np.random.default_rng(0)))
    assert delete_subgraphs(subject, data, found, num_random=2, num_repeats=1) is not None


def test_deletions_are_compared_in_pairs() -> None:
    deletions = [Deletion(10, 3, score, top, (0.5, -1.5)) for score, top in ((2.0, 3.0), (-1.0, -2.0), (0.5, 0.5))]
    assert [each.advantage for each in deletions] == [2.0, 1.0, -0.5]
    assert [each.lead for each in deletions] == [3.5, 1.5, 1.0]
    found = compare(deletions)
    assert (found.num_graphs, found.random, found.agreement) == (3, 1.0, pytest.approx(1.0))
    assert found.top == pytest.approx(5.5 / 3)
    assert found.top_wins == pytest.approx(2 / 3)
    assert found.lead_wins == 1
    assert found.advantage_error == pytest.approx(np.std([2, 1, -0.5], ddof=1) / 3**0.5)
    assert found.lead_p_value == pytest.approx(1 / 8)
    with pytest.raises(ValueError, match="no deletions"):
        compare([])
