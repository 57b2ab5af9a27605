"""Walks by the minimum-degree rule: weights of arcs, computed once for a graph."""

from __future__ import annotations

import gc
from dataclasses import replace

import networkx as nx
import pytest
import torch

from crawl import Graph, WalkPlan, sample_walks
from crawl.data.one_graph import OneGraph
from crawl.data.target_assembly import ClosedGraph
from crawl.walks import min_degree
from crawl.walks.min_degree import weighed_by_degree


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of arcs of each graph that weights were computed for."""
    found: list[int] = []
    weights = min_degree.integer_weight_sums

    def integer_weight_sums(weight, *others):
        found.append(len(weight))
        return weights(weight, *others)

    monkeypatch.setattr(min_degree, "integer_weight_sums", integer_weight_sums)
    return found


def test_an_arc_weighs_less_the_larger_the_smaller_degree_is() -> None:
    graph = Graph.from_networkx(nx.Graph([(0, 1), (0, 2), (1, 2), (2, 3)]))
    sums = weighed_by_degree(graph).cum_weight.double()
    first = sums[graph.rowptr[2] : graph.rowptr[3]]  # node 2, of degree 3, to 0 and 1, of degree 2, and 3, of degree 1
    assert (first / first[-1]).tolist() == pytest.approx([0.25, 0.5, 1.0], abs=1e-8)


def test_closed_batches_weigh_the_arcs_of_a_graph_once(counted: list[int]) -> None:
    graph = Graph.from_networkx(nx.barbell_graph(5, 3))
    plan = WalkPlan("min_degree", num_steps=6, window_size=3, centred=True, num_walks=2)
    closed = ClosedGraph(OneGraph(graph, torch.arange(13)), torch.device("cpu"))
    batches = [closed.batch(ids, plan, 6, seed) for seed, ids in enumerate(torch.arange(12).split(4))]
    assert counted == [graph.num_arcs]
    fresh = ClosedGraph(OneGraph(replace(graph), torch.arange(13)), torch.device("cpu"))
    again = fresh.batch(torch.arange(8, 12), plan, 6, 2)
    assert torch.equal(again.walks.nodes, batches[2].walks.nodes)
    sample_walks(graph, 5, "min_degree_non_backtracking")
    assert len(counted) == 2


def test_weights_are_forgotten_with_their_graph(counted: list[int]) -> None:
    graph = Graph.from_networkx(nx.path_graph(4))
    before = len(min_degree._WEIGHED)
    assert weighed_by_degree(graph) is weighed_by_degree(graph)
    assert len(min_degree._WEIGHED) == before + 1
    del graph
    gc.collect()
    assert len(min_degree._WEIGHED) == before
