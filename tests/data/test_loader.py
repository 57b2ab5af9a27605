"""Batches of walks on a graph that is mapped from a file, with its features: the same as in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

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


PLAN = WalkPlan(num_steps=6, window_size=2, centred=True)


def path(**changes: Any) -> Data:
    """A path of six nodes whose classes are their numbers."""
    node = torch.arange(5)
    edges = torch.stack([node, node + 1])
    data = Data(x=torch.arange(6.0)[:, None], edge_index=torch.cat([edges, edges.flip(0)], 1), y=torch.arange(6))
    for name, value in changes.items():
        data[name] = value
    return data


@pytest.mark.parametrize("owners", [[3, 1], [[3, 1], [0, 5]]], ids=["nodes", "pairs"])
def test_owners_may_be_lists_and_arrays(owners: list[Any]) -> None:
    for same in (owners, np.array(owners)):
        expected = WalkLoader(path(), PLAN, torch.tensor(owners), batch_size=1)
        assert_same(WalkLoader(path(), PLAN, same, batch_size=1), expected)


@pytest.mark.parametrize("owners", [[], np.empty((0, 2)), torch.empty(0, dtype=torch.long)])
def test_without_owners_there_are_no_batches(owners: Any) -> None:
    loader = WalkLoader(path(), PLAN, owners)
    assert (len(loader), list(loader)) == (0, [])


def test_classes_come_as_floats_and_features_with_two_dimensions() -> None:
    (batch,) = WalkLoader(path(x=torch.arange(6.0), edge_attr=torch.arange(10.0)), PLAN, [4, 2])
    assert (batch.y.dtype, batch.y.tolist()) == (torch.float32, [4.0, 2.0])
    assert batch.x[batch.targets[0].owner].tolist() == [[4.0], [2.0]]
    assert batch.edge_attr.shape == (batch.num_edges, 1)
    store = OneGraph(Graph.from_data(path()), torch.tensor([4]), x=torch.arange(6.0))
    assert next(iter(WalkLoader(store, PLAN))).x.shape[1:] == (1,)


@pytest.mark.parametrize(
    ("changes", "plan", "owners", "message"),
    [
        ({}, PLAN, [6], r"^There is no node 6: the graph has nodes 0 to 5\.$"),
        ({}, PLAN, [-1], r"^There is no node -1: the graph has nodes 0 to 5\.$"),
        ({}, PLAN, [[0, 6]], r"^There is no node 6: the graph has nodes 0 to 5\.$"),
        ({}, PLAN, [0.5], r"^owners must be nodes, \[M\] integers, or pairs"),
        ({}, PLAN, ["a"], r"^owners must be an array of numbers, not \['a'\]\.$"),
        (
            {"x": torch.rand(6, 2, 2)},
            PLAN,
            None,
            r"^x must have a row of numbers for each node or edge, not shape",
        ),
        (
            {},
            replace(PLAN, start_share=0.5),
            None,
            r"^A closed batch, whose walks start at .* start_share=0\.5",
        ),
        ({}, replace(PLAN, eval_start_share=0.5), None, r"eval_start_share=0\.5: leave it out\.$"),
        (
            {},
            WalkPlan(strategy="restart"),
            None,
            r"^Closed batches follow edges, which restart walks do not: take",
        ),
        (
            {"edge_weight": torch.arange(10) + 1.0},
            PLAN,
            None,
            r"^data has edge_weight: make it a .*weighted=True",
        ),
    ],
)
def test_refuses_in_one_line(changes: dict[str, Any], plan: WalkPlan, owners: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        WalkLoader(path(**changes), plan, owners)
    assert "\n" not in str(caught.value)


def test_walks_follow_the_weights_of_a_graph() -> None:
    data = path(edge_weight=torch.tensor([1.0, 1, 99, 1, 1, 1, 1, 1, 1, 1]))
    store = OneGraph(Graph.from_data(data, weighted=True), torch.tensor([2]), data.x)
    loader = WalkLoader(store, WalkPlan(num_steps=1, window_size=1))
    ends = [int(batch.x[batch.walks.nodes[0, 1]]) for _ in range(50) for batch in loader]
    assert ends.count(3) > 40
