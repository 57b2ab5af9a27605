"""Batches of walks on a graph that is mapped from a file, with its features: the same as in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crawl import Graph, WalkPlan, build_graph_file, open_features
from crawl.data import OneGraph
from crawl.data.loader import WalkLoader
from crawl.nn.batch import Batch

FAR = 2**31 + 10  # the first arc, and the first edge
X = torch.rand(61, 3, generator=torch.Generator().manual_seed(0))
OWNERS = {
    "nodes": torch.tensor([0, 3, 60, 7, 3, 41, 59, 12, 29]),  # 60 is isolated
    "pairs": torch.tensor([[0, 3], [60, 1], [7, 7], [33, 12], [59, 0]]),
}


@pytest.fixture
def edge_index() -> Tensor:
    """Many degrees, parallel edges, self-loops and a hub, whose rows are searched, and an isolated node, the last."""
    generator = torch.Generator().manual_seed(1)
    edge_index = torch.randint(60, (2, 150), generator=generator)
    return torch.cat([edge_index, torch.stack([torch.full((100,), 3), torch.arange(100) % 60])], dim=1)


def tensors_of(batch: Batch) -> list[Tensor]:
    found: list[Tensor] = []
    batch.map(lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
    return found


def assert_same(loader: WalkLoader, expected: WalkLoader) -> None:
    num_batches = 0
    for batch, wanted in zip(loader, expected, strict=True):
        num_batches += 1
        pairs = list(zip(tensors_of(batch), tensors_of(wanted), strict=True))
        assert len(pairs) > 8
        for found, same in pairs:
            assert found.dtype == same.dtype
            assert torch.equal(found, same)
    assert num_batches == len(expected) > 1


plans = pytest.mark.parametrize(
    "plan",
    [
        WalkPlan(num_steps=9, window_size=4, centred=True, num_walks=3),
        WalkPlan(strategy="node2vec", p=0.5, q=2.0, num_steps=9, window_size=4),
        WalkPlan(strategy="min_degree", num_steps=9, window_size=4, centred=True),
    ],
    ids=["centred", "node2vec", "min_degree"],
)
each_owner = pytest.mark.parametrize("owners", OWNERS.values(), ids=list(OWNERS))
each_choice_of_edges = pytest.mark.parametrize("with_all_edges", [True, False])


@plans
@each_owner
@each_choice_of_edges
def test_a_mapped_graph(
    tmp_path: Path, edge_index: Tensor, plan: WalkPlan, owners: Tensor, with_all_edges: bool
) -> None:
    path = tmp_path / "graph.crawl"
    build_graph_file(edge_index, path, num_nodes=61, undirected=True, features=X)
    in_memory = Graph.from_edge_index(edge_index, 61, undirected=True)
    edge_attr, y = torch.arange(250.0).unsqueeze(1), torch.arange(len(owners))
    call: dict[str, Any] = {"batch_size": 3, "shuffle": True, "seed": 5, "with_all_edges": with_all_edges}
    mapped = OneGraph(Graph.open(path), owners, x=open_features(path), edge_attr=edge_attr, y=y)
    expected = OneGraph(in_memory, owners, x=X, edge_attr=edge_attr, y=y)
    assert_same(WalkLoader(mapped, plan, **call), WalkLoader(expected, plan, **call))


@each_owner
@each_choice_of_edges
def test_more_than_two_to_the_31_arcs(tmp_path: Path, edge_index: Tensor, owners: Tensor, with_all_edges: bool) -> None:
    """Rows far out in sparse files, of which few pages are stored."""

    def far_away(name: str, values: Tensor) -> Tensor:
        array = np.memmap(tmp_path / name, values.numpy().dtype, "w+", shape=(FAR + len(values) + 16,))
        array[FAR : FAR + len(values)] = values.numpy()
        return torch.from_numpy(array)

    small = Graph.from_edge_index(edge_index, 61, undirected=True)
    big = replace(
        small,
        rowptr=small.rowptr.long() + FAR,
        col=far_away("col", small.col),
        edge_id=far_away("edge_id", small.edge_id.long() + FAR),
        num_edges=small.num_edges + FAR,
    )
    plan = WalkPlan(num_steps=9, window_size=4, centred=True, num_walks=3)
    call: dict[str, Any] = {"batch_size": 3, "with_all_edges": with_all_edges}
    loader, expected = (WalkLoader(OneGraph(graph, owners, x=X), plan, **call) for graph in (big, small))
    assert_same(loader, expected)


def test_walks_of_evaluation_have_a_number_of_their_own(edge_index: Tensor) -> None:
    graph = Graph.from_edge_index(edge_index, 61, undirected=True)
    few, many = WalkPlan(num_walks=2, num_eval_walks=5), WalkPlan(num_walks=5)
    call: dict[str, Any] = {"owners": torch.arange(12), "batch_size": 6, "is_training": False}
    assert_same(WalkLoader(graph, few, **call), WalkLoader(graph, many, **call))
    call["is_training"] = True
    assert_same(WalkLoader(graph, few, **call), WalkLoader(graph, WalkPlan(num_walks=2), **call))
