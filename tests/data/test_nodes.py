"""One graph with targets of its nodes: masks, folds, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from crawl import WalkPlan
from crawl.data import from_graph
from crawl.data.target_assembly import ClosedGraph, FullGraph


def ring(num_nodes: int = 12, **changes) -> Data:
    """A ring of nodes with two classes and masks; the last node is isolated."""
    node = torch.arange(num_nodes - 1)
    edges = torch.stack([node, (node + 1) % (num_nodes - 1)])
    place = torch.arange(num_nodes) % 4
    data = Data(
        x=torch.rand(num_nodes, 2),
        edge_index=torch.cat([edges, edges.flip(0)], dim=1),
        y=(torch.arange(num_nodes) % 3 > 0).long(),
        train_mask=place < 2,
        val_mask=place == 2,
        test_mask=place == 3,
    )
    for name, value in changes.items():
        data[name] = value
    return data


def test_masks_become_the_split():
    dataset = from_graph(ring())
    assert (dataset.task.kind, dataset.task.level, dataset.owner, dataset.batches) == ("binary", "node", "node", "full")
    assert dataset.store.owners.tolist() == list(range(12))
    assert dataset.split.val.tolist() == [2, 6, 10]
    few = from_graph(ring(test_mask=torch.arange(12) == 3))
    assert few.store.owners.tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10]  # those that are in a part
    assert few.store.owners[few.split.test].tolist() == [3]


def test_several_masks_are_folds():
    data = ring()
    for part in ("train", "val", "test"):
        data[f"{part}_mask"] = torch.stack([data[f"{part}_mask"], data[f"{part}_mask"].roll(1)], dim=1)
    assert from_graph(data, fold=1).split.val.tolist() == [3, 7, 11]
    with pytest.raises(ValueError, match="fold must be a whole number from 0 to 1, not 2"):
        from_graph(data, fold=2)
    with pytest.raises(ValueError, match="fold=1 chooses a column of the masks, which split='random' does not use"):
        from_graph(data, fold=1, split="random")
    with pytest.raises(ValueError, match=r"^fold=1 chooses a column of the masks, which have one: leave it out\.$"):
        from_graph(ring(), fold=1)
    with pytest.raises(ValueError, match="fold=1 chooses a column of train_mask"):
        from_graph(ring(train_mask=None, val_mask=None, test_mask=None), fold=1)


def test_a_mask_of_one_column_is_that_of_all_folds():
    data = ring()
    for part in ("train", "val"):
        data[f"{part}_mask"] = torch.stack([data[f"{part}_mask"], data[f"{part}_mask"] & (torch.arange(12) > 3)], dim=1)
    first, second = (from_graph(data, fold=fold) for fold in (0, 1))
    assert (len(first.split.train), len(second.split.train)) == (6, 4)
    tests = [dataset.store.owners[dataset.split.test].tolist() for dataset in (first, second)]
    assert tests == [[3, 7, 11]] * 2
    data.val_mask = data.val_mask[:, [0, 0, 0]]
    with pytest.raises(ValueError, match=r"2 columns \(train_mask\) and 3 columns \(val_mask\): give as many"):
        from_graph(data)


def test_one_of_several_numbers_may_be_missing():
    y = torch.rand(12, 2)
    y[3, 1] = torch.nan
    dataset = from_graph(ring(y=y))
    assert dataset.task.kind == "regression"
    assert int(dataset.store.y.isnan().sum()) == 1
    y[3, 0] = torch.nan
    with pytest.raises(ValueError, match=r"The target of node 3 is missing \(NaN\): leave that node out"):
        from_graph(ring(y=y))


def test_without_masks_nodes_without_a_target_are_left_out():
    y = torch.arange(12.0)
    y[4] = torch.nan
    dataset = from_graph(ring(y=y, train_mask=None, val_mask=None, test_mask=None), batches="closed")
    assert (dataset.task.kind, len(dataset), dataset.batches) == ("regression", 11, "closed")


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        (
            {"val_mask": torch.arange(12) % 4 < 1},
            {},
            r"^Node 0 is in train_mask and in val_mask: masks must not overlap\.$",
        ),
        ({"val_mask": None}, {}, r"^data has masks, but no val_mask: give train_mask, val_mask and test_mask\.$"),
        ({"val_mask": torch.ones(3, dtype=torch.bool)}, {}, "val_mask must be booleans, one for each of 12 nodes"),
        ({}, {"nodes": [3, 12]}, r"^There is no node 12: the graph has nodes 0 to 11\.$"),
        ({}, {"nodes": [3, 4, 3]}, r"^Node 3 is in nodes twice, so it might be in two parts: name each node once\.$"),
        (
            {},
            {"nodes": torch.ones(12, dtype=torch.bool)},
            r"^nodes must be a list of numbers of nodes \(of a mask, give",
        ),
        ({}, {"fractions": (0.5, 0.2, 0.3)}, "cannot change the split in the masks: leave it out, or pass split='rand"),
        ({"edge_weight": torch.arange(22) + 1.0}, {}, "^data has edge_weight, which is not used: make it a feature"),
        (
            {"y": torch.where(torch.arange(12) == 9, torch.nan, torch.arange(12) % 2)},
            {"nodes": [8, 9, 10]},
            r"^The target of node 9 is missing \(NaN\): leave that node out\.$",
        ),
        ({"y": (torch.arange(12) == 3).long()}, {}, r"^No target of class 1 is in the training split: choose another"),
        (
            {"train_mask": torch.zeros(12, dtype=torch.bool)},
            {},
            "^No node is for training: train_mask is False for all of them; mark those to learn from",
        ),
        ({"y": torch.arange(5)}, {}, "^y must have a row for each of the 12 nodes"),
        (
            {"test_mask": torch.arange(12) == 3},
            {"nodes": [0, 2, 3, 7, 4]},
            "^Node 7 is in nodes, but in none of train_mask, val_mask and test_mask: leave it out, or pass split='rand",
        ),
    ],
)
def test_refuses_in_one_line(changes, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        from_graph(ring(**changes), **settings)
    assert "\n" not in str(caught.value)


def test_numbers_below_0_are_not_classes():
    data = ring()
    data.y = data.y.long().clone()
    data.y[4] = -1
    with pytest.raises(ValueError, match=r"The label of node 4 is -1, and classes are words, or numbers from 0: leave"):
        from_graph(data, nodes=range(len(data.y)), split="random")


def test_floats_from_minus_1_on_may_be_classes_or_numbers():
    classes = (torch.arange(12) % 3).float() - 1
    labels = torch.stack([classes.clamp_min(0), classes.abs()], dim=1)
    labels[0], labels[1, 1], labels[2, 0] = 0, -1, torch.nan
    for y, node in ((classes, 0), (labels, 1), (torch.where(classes == 0, -1.0, 1.0), 1)):
        with pytest.raises(
            ValueError, match=f"^The target of node {node} is -1, .* or pass task='regression' if it is"
        ):
            from_graph(ring(y=y))
        assert from_graph(ring(y=y), task="regression").task.kind == "regression"
    for task in ("multiclass", "multilabel"):
        with pytest.raises(
            ValueError, match=r"^The label of node 0 is -1\.0, and classes are words, or numbers from 0"
        ):
            from_graph(ring(y=classes), task=task)
    for y in (classes - 1, classes * 1.5, classes[:, None] + torch.tensor([0.0, 0.5])):
        assert from_graph(ring(y=y)).task.kind == "regression"
    assert from_graph(ring(40, y=torch.arange(40.0) - 1)).task.kind == "regression"  # too many for classes


def test_a_float_of_minus_100_is_refused_as_minus_1_is():
    classes = (torch.arange(12) % 3).float()
    for y, node in ((torch.where(classes == 0, -100.0, classes), 0), (torch.where(classes > 1, -100.0, classes), 2)):
        with pytest.raises(
            ValueError, match=f"^The target of node {node} is -100, .* or pass task='regression' if it is a number"
        ):
            from_graph(ring(y=y))
        assert from_graph(ring(y=y), task="regression").task.kind == "regression"
    assert from_graph(ring(y=50 * classes - 100)).task.kind == "regression"  # -50 is no class


@pytest.mark.parametrize(
    "parts", [{}, {"train_mask": None, "val_mask": None, "test_mask": None}], ids=["masks", "none"]
)
def test_floats_of_which_some_are_missing_may_be_classes_or_numbers(parts):
    node = torch.arange(24)
    classes = torch.where(node == 5, torch.nan, (node % 3).float())
    if not parts:
        parts = {f"{part}_mask": ring(24)[f"{part}_mask"] & (node != 5) for part in ("train", "val", "test")}
    for y in (classes, classes[:, None]):
        with pytest.raises(
            ValueError, match=r"^The target of node 5 is missing \(NaN\), .* 3 whole .* task='multiclass' or task='regr"
        ):
            from_graph(ring(24, y=y, **parts))
        for task in ("multiclass", "regression"):
            found = from_graph(ring(24, y=y, **parts), task=task)
            assert (found.task.kind, len(found)) == (task, 23)
    assert from_graph(ring(24, y=classes.clamp_max(1), **parts)).task.kind == "binary"
    for numbers in (
        classes / 2,
        torch.where(node == 5, torch.nan, node.float()),
        torch.stack([classes, classes + 1], 1),
    ):
        assert from_graph(ring(24, y=numbers, **parts)).task.kind == "regression"


def test_what_is_not_used_is_told_of():
    more = {"pos": torch.rand(12, 2), "u": torch.rand(1, 3), "train_idx": torch.arange(4), "name": "a ring", "z": None}
    with pytest.warns(
        UserWarning, match=r"^Of the graph, pos, train_idx, u will not be used: put .* into x or edge_attr\.$"
    ) as told:
        from_graph(ring(**more, num_nodes=12, edge_weight=torch.ones(22)))
    assert [Path(warning.filename).name for warning in told] == [Path(__file__).name]


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_edges_that_are_listed_once_may_lead_both_ways(batches: str) -> None:
    """For walks, bits and messages; the features of an edge go both ways."""
    data = ring(edge_index=None, edge_attr=torch.arange(12.0).unsqueeze(1), edge_weight=torch.ones(12))
    data.edge_index = torch.tensor([[*range(11), 1], [*range(1, 11), 0, 0]])  # the first one is there both ways
    store = from_graph(data, undirected=True, batches=batches).store
    listed = dict(zip(map(tuple, data.edge_index.t().tolist()), data.edge_attr.flatten().tolist(), strict=True))
    expected = {(v, u): value for (u, v), value in listed.items()} | listed
    found = zip(map(tuple, store.edge_index.t().tolist()), store.edge_attr.flatten().tolist(), strict=True)
    assert (dict(found), store.num_edges) == (expected, 22)
    assert store.graph.one_way is None
    assert data.edge_index.shape == (2, 12)
    plan, ids = WalkPlan(strategy="uniform", num_steps=20), torch.arange(8)
    graphs = (FullGraph if batches == "full" else ClosedGraph)(store, torch.device("cpu"))
    batch = graphs.batch(ids, plan, 20, 0)
    steps = torch.stack([batch.walks.nodes[:, :-1], batch.walks.nodes[:, 1:]]).flatten(1).long()
    x = {tuple(row): node for node, row in enumerate(data.x.tolist())}
    back = sum((x[tuple(u)], x[tuple(v)]) not in listed for u, v in batch.x[steps].transpose(0, 1).tolist())
    assert back > 20


@pytest.mark.parametrize(
    ("data", "settings", "message"),
    [
        (ring(y=torch.zeros(12, dtype=torch.complex64)), {}, "^y must hold real numbers, not torch.complex64"),
        (ring(train_mask=None, val_mask=None, test_mask=None), {"nodes": []}, "^No node has a target: name some in"),
        (Data(x=torch.rand(0, 2), y=torch.rand(0), num_nodes=0), {}, "^The graph has no nodes, so there is nothing to"),
    ],
)
def test_refuses_what_holds_no_targets(data, settings, message):
    with pytest.raises(ValueError, match=message):
        from_graph(data, **settings)
