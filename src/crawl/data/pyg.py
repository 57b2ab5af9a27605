"""Any PyG data set, or list of `Data`, with a task and a split."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, InMemoryDataset

from crawl.checks import check_type, shown
from crawl.data.dataset import Dataset
from crawl.data.features import sizes_of_categories
from crawl.data.splits import Fractions, Split, choose_split
from crawl.data.store import GraphStore
from crawl.data.targets import AnyKind, targets_from_tensor
from crawl.data.task import Level
from crawl.tensor_checks import plain_tensor

PyGDataset: TypeAlias = InMemoryDataset | Sequence[Data] | Data

_USED = {"x", "edge_index", "edge_attr", "edge_weight", "y", "u", "num_nodes", "batch", "ptr"}
_MOST_CATEGORIES = 10_000  # in one column of integers; more are taken for a mistake


def from_pyg(
    dataset: PyGDataset,
    val: PyGDataset | None = None,
    test: PyGDataset | None = None,
    *,
    split: str | Path | Split = "auto",
    fractions: Fractions = (0.8, 0.1, 0.1),
    seed: int = 0,
    task: AnyKind = "auto",
    metric: str | None = None,
    level: Level | None = None,
    ignore: Collection[str] = (),
    graph_attr: str = "u",
    name: str | None = None,
) -> Dataset:
    """The graphs of a PyG data set or of a list of `Data`, which must all have a target `y`.

    The tensors of a PyG in-memory data set are shared, not copied, where they have the right form already. Features
    that are integers from 0 on are taken for categories, others for numbers.

    Args:
        dataset: All graphs, or those for training if the others are given. A single `Data` is one graph; if its nodes
            have the targets, use `from_graph`.
        val: The graphs for validation.
        test: The graphs for the test.
        split: `random`, `stratified` (by class), a JSON file as `read_split` reads it, or the split itself; `auto`
            takes the one that the data set brings along, as data sets of OGB do, otherwise `random`.
        fractions: The shares of training, validation and test, if they are drawn, which `seed` fixes.
        task: The kind of the task; found from `y` with `auto`, as `targets_from_tensor` says.
        metric: The score; the usual one of the task when None.
        level: Whether `y` belongs to a `graph` or a `node`; found from its shape when None.
        ignore: Names of attributes to leave out: `x`, `edge_attr`, `edge_weight`, `u`. A store does not keep weights of
            edges, so data with weights is refused unless they are ignored. A warning names other attributes, such as
            `pos`, which are not used, unless they are strings.
        graph_attr: The attribute with features of graphs, `[1, K]` or `[K]` in each, which become `u`: the head of a
            network sees them. An attribute `u` may be missing, another name may not.
        name: What to call it in reports; the name of the data set when None.

    Raises:
        ValueError: For anything wrong with the graphs or the choices; the message says what to do.
    """
    if isinstance(dataset, nn.Module):
        raise ValueError(f"{type(dataset).__name__} is a layer, not graphs: use crawl.nn.from_pyg to make it a block.")
    if not isinstance(split, str | Path | Split):
        raise ValueError(f"split must be 'random', 'stratified', a file or a Split, not {shown(split)}.")
    if name is not None:
        check_type("name", name, str)
    if (val is None) != (test is None):
        raise ValueError("Give both val and test, or neither.")
    if check_type("graph_attr", graph_attr, str) and graph_attr != "u":
        dataset = _with_u(dataset, graph_attr)
        val, test = (None if part is None else _with_u(part, graph_attr) for part in (val, test))
    store = GraphStore.from_dataset(dataset, level=level, ignore=ignore)
    if len(store) == 1 and val is None and (store.y_per_node or _has_masks(dataset)):
        raise ValueError(
            "This is one graph with targets of its nodes: use crawl.data.from_graph(data), which takes its train_mask, "
            "val_mask and test_mask."
        )
    if len(store) == 1 and val is None and not isinstance(split, Split):
        raise ValueError("One graph cannot be split into three parts: give graphs for val and test, too, or a Split.")
    if val is not None and test is not None:
        if not (isinstance(split, str) and split == "auto"):
            raise ValueError("Leave out split if val and test are given.")
        level = level if store.y is None else "node" if store.y_per_node else "graph"
        parts = [store, *(GraphStore.from_dataset(part, level=level, ignore=ignore) for part in (val, test))]
        store = GraphStore.concatenate(parts)
        split = Split(*torch.split(torch.arange(len(store)), [len(part) for part in parts]))
    if store.y is None:
        raise ValueError("The graphs have no targets: set y.")
    warn_of_unused(dataset, _USED)
    level = "node" if store.y_per_node else "graph"
    found, y = targets_from_tensor(store.y, task, metric, level)
    if isinstance(split, str) and split == "auto":
        split = _own_split(dataset) or "random"
    labels = y if level == "graph" and found.kind in ("binary", "multiclass") else None
    x, node_categories = categories_of("x", store.x)
    edge_attr, edge_categories = categories_of("edge_attr", store.edge_attr)
    return Dataset(
        name=name or str(getattr(dataset, "name", None) or type(dataset).__name__),
        store=replace(store, x=x, edge_attr=edge_attr, y=y),
        task=found,
        split=choose_split(split, len(store), labels, fractions, seed),
        node_categories=node_categories,
        edge_categories=edge_categories,
    )


def _with_u(dataset: PyGDataset, name: str) -> list[Data]:
    """Copies of the graphs with an attribute as their `u`. Refuses graphs that do not have it, or have a `u`, too."""
    graphs = [dataset] if isinstance(dataset, Data) else [dataset[i] for i in range(len(dataset))]
    found = []
    for i, data in enumerate(graphs):
        if name not in data or "u" in data:
            problem = f"no attribute {name!r}" if name not in data else f"both u and {name}"
            raise ValueError(f"Graph {i} has {problem}: give all graphs one attribute of this name, or graph_attr='u'.")
        found.append(copy.copy(data))
        found[-1].u = found[-1][name]
        del found[-1][name]
    return found


def _has_masks(dataset: Any) -> bool:
    """Whether the one graph of a data set says which of its nodes are for training."""
    data = dataset if isinstance(dataset, Data) else dataset[0]
    return getattr(data, "train_mask", None) is not None


def warn_of_unused(dataset: PyGDataset, used: Collection[str]) -> None:
    """Warns the caller's caller of attributes of graphs that are not used."""
    if unused := sorted(_attributes(dataset).difference(used)):
        what = "graph" if isinstance(dataset, Data) else "graphs"
        remedy = "put what a model should see into x or edge_attr"
        warnings.warn(f"Of the {what}, {', '.join(unused)} will not be used: {remedy}.", UserWarning, stacklevel=3)


def _attributes(dataset: Any) -> set[str]:
    """What graphs have besides names, which are strings; of a data set that is not a list, what its first graph has."""
    graphs = dataset if isinstance(dataset, list | tuple) else [dataset if isinstance(dataset, Data) else dataset[0]]
    return {
        name for data in graphs for name, value in data.to_dict().items() if not isinstance(value, str | list | None)
    }


def _own_split(dataset: Any) -> Split | None:
    if not hasattr(dataset, "get_idx_split"):
        return None
    parts = dataset.get_idx_split()
    return Split(*(torch.as_tensor(parts[name]) for name in ("train", "valid", "test")))


def categories_of(name: str, features: Tensor | None) -> tuple[Tensor | None, tuple[int, ...]]:
    """The features, and how many values each column takes if they are categories."""
    if features is None or plain_tensor(name, features).numel() == 0:
        return None, ()
    columns = features.unsqueeze(1) if features.dim() == 1 else features
    if columns.dim() > 2:
        raise ValueError(f"{name} must have a row of features for each node or edge, not {shown(columns)}.")
    if columns.is_floating_point():
        return columns, ()
    if columns.dtype == torch.bool or bool((columns.long() < 0).any()):
        return columns.float(), ()
    columns = columns if columns.dtype in (torch.uint8, torch.int32) else columns.long()
    return columns, sizes_of_categories(name, columns, _MOST_CATEGORIES)
