"""One graph whose nodes are to be classified, or have numbers to be predicted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import as_list, check_type, shown, truth, whole_number
from crawl.choices import Batches
from crawl.data.dataset import Dataset
from crawl.data.one_graph import OneGraph
from crawl.data.pyg import categories_of, warn_of_unused
from crawl.data.splits import Fractions, Split, choose_split
from crawl.data.store import GraphStore
from crawl.data.symmetry import symmetric
from crawl.data.targets import MOST_CLASSES, AnyKind, targets_from_tensor
from crawl.edge_lists import edge_index_of, refuse_weights
from crawl.graph import Graph
from crawl.tensor_checks import as_ids, plain_tensor

_PARTS = ("train", "val", "test")
_USUAL_FRACTIONS = (0.8, 0.1, 0.1)
_FILLERS = (-1, -100)  # stand for labels that are missing: of many data sets, and of torch's losses
USED = {"x", "edge_index", "edge_attr", "edge_weight", "y", "num_nodes", "batch", "ptr", "graph_keys"}
USED |= {f"{part}_mask" for part in _PARTS}


def from_graph(
    data: Data,
    *,
    nodes: Tensor | Sequence[int] | None = None,
    split: str | Path | Split = "auto",
    fold: int = 0,
    fractions: Fractions = _USUAL_FRACTIONS,
    seed: int = 0,
    task: AnyKind = "auto",
    metric: str | None = None,
    batches: Batches = "full",
    undirected: bool = False,
    name: str = "graph",
) -> Dataset:
    """One graph with a target for its nodes, or for some of them. Its graph is known whole: a task on one graph is
    transductive, and the split says which targets are for what.

    A warning names what else the data have, such as `pos` or `u`, which is not used, unless it is a string.

    Args:
        data: The graph, with a row of `y` for each node; NaN is a target that is missing.
        nodes: The nodes that have targets. When None, those in `train_mask`, `val_mask` and `test_mask`, if the data
            have these, or else all whose target is not missing. Where the masks are the split, each must be in one.
        split: `auto` takes the masks, if there are any, or else `random`; see `from_pyg` for the others. A split names
            positions in `nodes`.
        fold: Which column of the masks, where these have several.
        fractions, seed: For parts that are drawn.
        task, metric: As in `from_pyg`; but a few whole numbers as floating-point numbers are refused if `task` does not
            say what they are, where -1 or -100 is among them, which often stands for a label that is missing, or where
            some are NaN.
        batches: Whether a batch is the `full` graph, or `closed` walks around its targets; see `OneGraph`.
        undirected: Give every edge a reverse with its features, where it has none, so that walks and messages take it
            both ways. The trained model does the same to graphs that it is asked about.
        name: What to call it in reports.

    Raises:
        ValueError: For anything wrong with the graph, the targets or the masks; the message says what to do.
    """
    check_type("data", data, Data, "give one graph as a PyG Data")
    check_type("name", name, str)
    refuse_weights(data)
    undirected = truth("undirected", undirected)
    data = _both_ways(data) if undirected else data
    graph = Graph.from_data(data)
    if graph.num_graphs != 1:
        raise ValueError(f"data holds {graph.num_graphs} graphs: use crawl.data.from_pyg for a set of graphs.")
    y = data.y
    if graph.num_nodes == 0:
        raise ValueError("The graph has no nodes, so there is nothing to learn.")
    if not isinstance(y, Tensor) or y.dim() == 0 or y.shape[0] != graph.num_nodes:
        raise ValueError(f"y must have a row for each of the {graph.num_nodes} nodes, not {shown(y)}.")
    if y.is_complex():
        raise ValueError(f"y must hold real numbers, not {y.dtype}: give y.real, or both parts as columns.")
    masks = masks_of(data, fold)
    if nodes is not None:
        nodes = as_ids("nodes", nodes, "numbers of nodes (of a mask, give mask.nonzero().flatten())").cpu()
    elif masks is not None:
        nodes = torch.stack(list(masks.values())).any(dim=0).nonzero().flatten()
    else:
        known = ~y.isnan() if y.is_floating_point() else torch.ones_like(y, dtype=torch.bool)
        nodes = known.view(len(y), -1).any(dim=1).nonzero().flatten().cpu()
    if not len(nodes):
        raise ValueError("No node has a target: name some in nodes or in the masks, whose target is not missing (NaN).")
    wrong = nodes[(nodes < 0) | (nodes >= graph.num_nodes)]
    if wrong.numel():
        raise ValueError(f"There is no node {int(wrong[0])}: the graph has nodes 0 to {graph.num_nodes - 1}.")
    order = nodes.sort().values
    repeated = order[1:][order[1:] == order[:-1]]
    if repeated.numel():
        raise ValueError(
            f"Node {int(repeated[0])} is in nodes twice, so it might be in two parts: name each node once."
        )
    rows = _known(y, nodes)
    if task == "auto" and rows.is_floating_point():
        _check_numbers(rows, nodes, y)
    elif task != "regression":
        check_labels(rows, nodes)
    found, targets = targets_from_tensor(rows, task, metric, "node")
    if masks is not None:
        _check_effect(split, fold, fractions)
    if split == "auto" and masks is not None:
        is_marked = torch.stack([mask[nodes] for mask in masks.values()]).any(dim=0)
        if not bool(is_marked.all()):
            raise ValueError(
                f"Node {int(nodes[~is_marked][0])} is in nodes, but in none of train_mask, val_mask and test_mask: "
                "leave it out, or pass split='random'."
            )
        split = Split(*(mask[nodes].nonzero().flatten() for mask in masks.values()))
        check_training(split)
    elif split == "auto":
        split = "random"
    labels = targets if found.kind in ("binary", "multiclass") else None
    chosen = choose_split(split, len(nodes), labels, fractions, seed)
    if labels is not None:
        check_classes(labels, chosen, found.class_names)
    x, node_categories = categories_of("x", data.x)
    edge_attr, edge_categories = categories_of("edge_attr", data.edge_attr)
    store = OneGraph(graph, nodes, x, edge_attr, targets, edge_index_of(data), batches)
    warn_of_unused(data, USED)
    return Dataset(name, store, found, chosen, node_categories, edge_categories, undirected=undirected)


def _both_ways(data: Data) -> Data:
    """The same graph with the reverse of every edge, where it is missing."""
    graph = Graph.from_data(data, undirected=True)  # which refuses what is not a graph
    nodes, edges = torch.tensor([0, graph.num_nodes]), torch.tensor([0, graph.num_edges])
    store = symmetric(GraphStore(nodes, edges, edge_index_of(data), edge_attr=data.edge_attr))
    changed = copy.copy(data)
    changed.num_nodes, changed.edge_index, changed.edge_attr = graph.num_nodes, store.edge_index, store.edge_attr
    changed.edge_weight = None  # they were all alike
    return changed


def _known(y: Tensor, nodes: Tensor) -> Tensor:
    """The targets of nodes. Refuses a node of which nothing is known, by its number."""
    rows = y[nodes.to(y.device)]
    wrong = rows.isnan().view(len(rows), -1).all(dim=1).nonzero() if rows.numel() else rows
    if wrong.numel():
        raise ValueError(f"The target of node {int(nodes[int(wrong[0])])} is missing (NaN): leave that node out.")
    return rows


def check_labels(labels: Tensor, nodes: Tensor | Sequence[Any]) -> None:
    """Refuses numbers below 0 as classes, by the node: -1 often stands for a label that is missing."""
    wrong = (labels < 0).nonzero()
    if wrong.numel():
        row = int(wrong[0, 0])
        node = int(nodes[row]) if isinstance(nodes, Tensor) else shown(nodes[row])
        raise ValueError(
            f"The label of node {node} is {labels[row].tolist()}, and classes are words, or numbers from 0: "
            "leave the node out if its label is missing, or rename the class."
        )


def _check_numbers(targets: Tensor, nodes: Tensor, y: Tensor) -> None:
    """Refuses a few whole numbers, the known ones of `y`, if they look like classes of which some are missing."""
    known = targets[~targets.isnan()].unique()  # type: ignore[no-untyped-call]
    if not 0 < len(known) <= MOST_CLASSES or bool((known != known.floor()).any()):
        return
    least, others = float(known[0]), known[1:]
    if least in _FILLERS and bool((others >= 0).all()):
        node = int(nodes[int((targets == least).nonzero()[0, 0])])
        raise ValueError(
            f"The target of node {node} is {least:g}, and all others are whole numbers from 0 on: leave the node out "
            f"if {least:g} stands for a label that is missing (or write NaN), or pass task='regression' if it is a "
            "number."
        )
    is_one_target, are_yes_or_no = targets.numel() == len(targets), bool((known <= 1).all())
    if is_one_target and least >= 0 and not are_yes_or_no and 2 * len(known) <= len(targets) and bool(y.isnan().any()):
        raise ValueError(
            f"The target of node {int(y.isnan().nonzero()[0, 0])} is missing (NaN), and all others are {len(known)} "
            "whole numbers as floating-point numbers, so they may be classes or numbers: pass task='multiclass' or "
            "task='regression'."
        )


def _check_effect(split: str | Path | Split, fold: int, fractions: Fractions) -> None:
    """Refuses settings of a split that is not the one that is taken."""
    if split == "auto" and tuple(as_list("fractions", fractions, "three shares")) != _USUAL_FRACTIONS:
        raise ValueError(
            f"fractions={shown(tuple(fractions))} cannot change the split in the masks: leave it out, or pass "
            "split='random'."
        )
    if split != "auto" and fold != 0:
        raise ValueError(f"fold={fold} chooses a column of the masks, which split={shown(split)} does not use.")


def masks_of(data: Data, fold: int) -> dict[str, Tensor] | None:
    """The three masks of a PyG `Data`, on the CPU, in the given fold; None if it has none of them.

    A mask with one column is that of all folds, as in data that have one test split for several trainings.
    """
    found = {part: getattr(data, f"{part}_mask", None) for part in _PARTS}
    if all(mask is None for mask in found.values()):
        if fold != 0:
            raise ValueError(f"fold={fold} chooses a column of train_mask, val_mask and test_mask: data has none.")
        return None
    columns = {}
    for part, mask in found.items():
        if mask is None:
            raise ValueError(f"data has masks, but no {part}_mask: give train_mask, val_mask and test_mask.")
        mask = plain_tensor(f"{part}_mask", mask)
        if mask.dtype != torch.bool or mask.dim() not in (1, 2) or mask.shape[0] != data.num_nodes:
            raise ValueError(
                f"{part}_mask must be booleans, one for each of {data.num_nodes} nodes, not {shown(mask)}."
            )
        columns[part] = mask.reshape(len(mask), -1).cpu()
    folds = {part: each.shape[1] for part, each in columns.items() if each.shape[1] != 1}
    if len(set(folds.values())) > 1:
        raise ValueError(
            f"The masks have {' and '.join(f'{n} columns ({p}_mask)' for p, n in folds.items())}: give as many."
        )
    if not folds and whole_number("fold", fold, 0) != 0:
        raise ValueError(f"fold={fold} chooses a column of the masks, which have one: leave it out.")
    whole_number("fold", fold, 0, max(folds.values(), default=1) - 1)
    masks = {part: each[:, fold if part in folds else 0] for part, each in columns.items()}
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        both = (masks[first] & masks[second]).nonzero()
        if both.numel():
            raise ValueError(f"Node {int(both[0])} is in {first}_mask and in {second}_mask: masks must not overlap.")
    return masks


def check_training(split: Split) -> None:
    """Refuses masks of which the one for training is empty."""
    if not len(split.train):
        raise ValueError("No node is for training: train_mask is False for all of them; mark those to learn from.")


def check_classes(
    labels: Tensor, split: Split, names: tuple[str, ...], where: Callable[[int], str] | None = None
) -> None:
    """Refuses a class that validation or test has and training lacks: nothing could learn it.

    `where` says in which file and line the label of a target is.
    """
    missing = sorted(set(labels[split.ids].tolist()) - set(labels[split.train].tolist()))
    if missing:
        name = names[int(missing[0])] if names else int(missing[0])
        first = next(i for i in split.ids.tolist() if labels[i] == missing[0])
        place = "" if where is None else f"{where(first)}: "
        raise ValueError(
            f"{place}No target of class {name} is in the training split: choose another split, or leave it out."
        )
