"""A folder in the format of the TU benchmark data sets (chrsmrrs.github.io/datasets/docs/format)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crawl.checks import as_path
from crawl.data.dataset import Dataset
from crawl.data.features import Column, Columns, Unknown, category_sizes, check_names, encode_columns
from crawl.data.splits import Folds, Fractions, Split, choose_split
from crawl.data.store import GraphStore, as_ptr
from crawl.data.symmetry import symmetric
from crawl.data.targets import AnyKind, targets_from_tensor, targets_from_text
from crawl.data.task import Task


def from_tu(
    folder: str | Path,
    name: str | None = None,
    *,
    split: str | Path | Split | Folds = "random",
    fractions: Fractions = (0.8, 0.1, 0.1),
    seed: int = 0,
    metric: str | None = None,
) -> Dataset:
    """The graphs of a folder with files `NAME_A.txt`, `NAME_graph_indicator.txt` and so on.

    The task is to tell the class in `NAME_graph_labels.txt` (scored by accuracy), or the numbers in
    `NAME_graph_attributes.txt` if there are no labels. Node and edge labels are categories, attributes are numbers;
    if there are both, labels become one-hot beside the numbers. Edges listed in one direction only get the other.

    Args:
        folder: The folder.
        name: What the files begin with; found when None.
        split: `random`, `stratified` (by class), a JSON file as `read_split` reads it, `Folds`, or the split
            itself.
        fractions: The shares of training, validation and test, if they are drawn, which `seed` fixes.
        metric: The score; when None, accuracy for classes and the mean absolute error for numbers.

    Raises:
        ValueError: For anything wrong with the files; the message names the file.
    """
    folder = as_path("folder", folder)
    name = _found_name(folder) if name is None else str(as_path("name", name))
    task, y = _targets(folder, name, metric)
    store, columns = _read_graphs(folder, name, len(y), None, Unknown())
    return Dataset(
        name=name,
        store=replace(store, y=y),
        task=task,
        split=choose_split(split, len(y), None if task.kind == "regression" else y, fractions, seed),
        node_categories=category_sizes(columns.nodes),
        edge_categories=category_sizes(columns.edges),
        columns=columns,
    )


def read_tu(folder: str | Path, columns: Columns, unknown: Unknown) -> GraphStore:
    """The graphs of such a folder, which needs no targets, with features numbered as in training, by `columns`.

    Labels that did not occur there are counted in `unknown`.
    """
    folder = as_path("folder", folder)
    name = _found_name(folder)
    labels = folder / f"{name}_graph_labels.txt"
    num_graphs = len(labels.read_text(encoding="utf-8").split()) if labels.exists() else None
    store, _ = _read_graphs(folder, name, num_graphs, columns, unknown)
    return store


def _read_graphs(
    folder: Path, name: str, num_graphs: int | None, known: Columns | None, unknown: Unknown
) -> tuple[GraphStore, Columns]:
    """The graphs without targets, and what their features are: as in training if they are `known`."""
    graph_of_node = _matrix(folder / f"{name}_graph_indicator.txt", np.int64, num_columns=1).flatten() - 1
    ends = _matrix(folder / f"{name}_A.txt", np.int64, num_columns=2).t() - 1
    num_nodes = len(graph_of_node)
    if num_graphs is None:
        num_graphs = min(int(graph_of_node.max()) + 1, num_nodes) if num_nodes else 0
    if num_nodes and not 0 <= int(graph_of_node.min()) <= int(graph_of_node.max()) < num_graphs:
        raise ValueError(f"{folder / name}_graph_indicator.txt names other graphs than 1 to {num_graphs}.")
    if ends.numel() and not 0 <= int(ends.min()) <= int(ends.max()) < num_nodes:
        raise ValueError(f"{folder / name}_A.txt names other nodes than 1 to {num_nodes}.")
    graph_of_edge = graph_of_node[ends[0]]
    wrong = (graph_of_edge != graph_of_node[ends[1]]).nonzero()
    if wrong.numel():
        raise ValueError(f"{folder / name}_A.txt, line {int(wrong[0]) + 1}: the edge connects two graphs.")

    known_nodes, known_edges = (None, None) if known is None else (known.nodes, known.edges)
    x, node_columns = _features(folder, name, "node", num_nodes, known_nodes, unknown)
    edge_attr, edge_columns = _features(folder, name, "edge", ends.shape[1], known_edges, unknown)
    node_order, edge_order = graph_of_node.argsort(stable=True), graph_of_edge.argsort(stable=True)
    node_ptr = as_ptr(graph_of_node.bincount(minlength=num_graphs))
    local = torch.empty(num_nodes, dtype=torch.long)
    local[node_order] = torch.arange(num_nodes) - node_ptr[graph_of_node[node_order]]
    store = GraphStore(
        node_ptr=node_ptr,
        edge_ptr=as_ptr(graph_of_edge.bincount(minlength=num_graphs)),
        edge_index=local[ends[:, edge_order]],
        x=None if x is None else x[node_order],
        edge_attr=None if edge_attr is None else edge_attr[edge_order],
    )
    return symmetric(store), Columns(node_columns, edge_columns)


def _found_name(folder: Path) -> str:
    found = sorted(path.name.removesuffix("_A.txt") for path in folder.glob("*_A.txt"))
    if len(found) != 1:
        names = f"several: {', '.join(found)}; say which" if found else "none; give a folder that does"
        raise ValueError(f"{folder} must hold one file called NAME_A.txt, but has {names}.")
    return found[0]


def _targets(folder: Path, name: str, metric: str | None) -> tuple[Task, Tensor]:
    labels, attributes = folder / f"{name}_graph_labels.txt", folder / f"{name}_graph_attributes.txt"
    path = labels if labels.exists() else attributes
    if not path.exists():
        raise ValueError(f"{folder} has neither {labels.name} nor {attributes.name}: there is nothing to predict.")
    try:
        if path == attributes:
            return targets_from_tensor(_matrix(path, np.float64), "regression", metric)
        cells = path.read_text(encoding="utf-8").split()
        kind: AnyKind = "binary" if len(set(cells)) <= 2 else "multiclass"
        task, y, problems = targets_from_text({"label": cells}, kind, "accuracy" if metric is None else metric)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    if problems:
        row, problem = next(iter(problems.items()))
        raise ValueError(f"{path}, line {row + 1}: the {problem}.")
    return task, y


def _features(
    folder: Path, name: str, owner: str, num_rows: int, known: tuple[Column, ...] | None, unknown: Unknown
) -> tuple[Tensor | None, tuple[Column, ...]]:
    """The attributes and the labels of all nodes or edges, and what they are."""
    values: dict[str, list[Any]] = {}
    columns: tuple[Column, ...] = ()
    if (path := folder / f"{name}_{owner}_attributes.txt").exists():
        numbers = _checked_rows(path, _matrix(path, np.float32), num_rows)
        values[f"{owner}_attributes"] = numbers.tolist()
        columns += (Column(f"{owner}_attributes", width=numbers.shape[1]),)
    if (path := folder / f"{name}_{owner}_labels.txt").exists():
        labels = _checked_rows(path, _matrix(path, np.int64), num_rows)
        for k, label in enumerate(labels.t().tolist() if num_rows else (), 1):
            column = f"{owner}_labels {k}" if labels.shape[1] > 1 else f"{owner}_labels"
            values[column] = label
            columns += (Column(column, tuple(sorted(set(label)))),)
    if num_rows == 0:
        return None, known or ()
    if known is not None:
        check_names(owner, values, known, num_rows)
        columns = known
    return encode_columns(owner, values, columns, unknown), columns


def _checked_rows(path: Path, rows: Tensor, num_rows: int) -> Tensor:
    if len(rows) != num_rows:
        raise ValueError(f"{path} must have {num_rows} lines, but has {len(rows)}.")
    return rows


def _matrix(
    path: Path, dtype: type[np.int64] | type[np.float32] | type[np.float64], num_columns: int | None = None
) -> Tensor:
    """The numbers in a file, a row for each line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the file is empty, as it is if there are no edges
            rows = np.loadtxt(path, dtype, comments=None, delimiter=",", ndmin=2)
    except OSError:
        raise ValueError(f"{path} cannot be read; a folder in the TU format has it.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if num_columns is not None and rows.size and rows.shape[1] != num_columns:
        raise ValueError(f"{path} must have {num_columns} numbers in each line, but has {rows.shape[1]}.")
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise ValueError(f"{path}, line {wrong[0] + 1}: NaN and infinite numbers cannot be used.")
    return torch.from_numpy(rows.reshape(-1, num_columns or rows.shape[1]))
