"""One graph of any size in a folder: graph.crawl with the edges and features, labels.csv with labels of some nodes."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from crawl.checks import as_path
from crawl.data.dataset import Dataset
from crawl.data.node_labels import LabelChoice
from crawl.data.one_graph import OneGraph
from crawl.data.pyg import categories_of
from crawl.data.table import UNNAMED, Row, Table, in_folder
from crawl.graph import Graph
from crawl.graph_files.layout import open_graph_and_features

GRAPH, LABELS = "graph.crawl", "labels.csv"
_MOST_DIGITS = 10  # of the number of a node


def has_graph_file(folder: str | Path) -> bool:
    """Whether a folder has a graph file in the place of tables. Refuses one that has both."""
    folder = as_path("folder", folder)
    if not (folder / GRAPH).is_file():
        return False
    for name in ("nodes.csv", "nodes.csv.gz", "edges.csv", "edges.csv.gz"):
        if (folder / name).exists():
            raise ValueError(
                f"{folder} has {GRAPH} and {name}: leave one of them elsewhere, so that the graph is clear."
            )
    return True


def from_graph_folder(folder: str | Path, choice: LabelChoice) -> Dataset:
    """The graph in `graph.crawl`, mapped into memory, with the labels in `labels.csv` as targets, in closed batches.

    `labels.csv` has a column `id` with the numbers of nodes, a label and perhaps `split`; it may be compressed with
    gzip, its name then ends in .gz. Features are those in the graph file: integers from 0 on are categories, others are
    numbers.

    Args:
        folder: The folder.
        choice: Which column is the label, and how to split.

    Raises:
        ValueError: If the graph file is damaged, for a label of a node that does not exist or that has one already, and
            as in `from_nodes`.
    """
    folder = as_path("folder", folder)
    path = in_folder(folder, LABELS)
    if path is None:
        raise ValueError(f"There is no {folder / LABELS}: beside {GRAPH} it has the columns id, label and split.")
    table = Table(path)
    labels = choice.of(table)
    for name in table.columns:
        if name not in labels.columns and not name.startswith(UNNAMED):
            raise ValueError(
                f"{path}: the column {name!r} would not be used, since features are in {GRAPH}: remove it."
            )
    graph, x, categories = opened_graph(folder)
    columns: dict[str, list[str]] = {name: [] for name in {choice.label, labels.split_column} if name is not None}
    lines, nodes = array("q"), array("q")
    for row in table:
        nodes.append(_node(row, path, graph.num_nodes))
        lines.append(row.line)
        for name, cells in columns.items():
            cells.append(sys.intern(row.cells[name]))  # few words, many times
    if not lines:
        raise ValueError(f"{path} has a header but no rows.")
    owners = torch.from_numpy(np.frombuffer(nodes, np.int64).copy())
    _refuse_repeated(owners, lines, path)
    found = labels.labelled(columns.__getitem__, lines)
    store = OneGraph(graph, owners[found.places], x, None, found.y, batches="closed")
    return Dataset(
        name=folder.resolve().name,
        store=store,
        task=found.task,
        split=found.split,
        node_categories=categories,
        skipped=found.skipped,
    )


def read_graph_folder(folder: str | Path, only: str | Path | None = None) -> OneGraph:
    """The graph in `graph.crawl` with all nodes as targets without `y`, or with those in a table.

    Args:
        folder: The folder; labels are not looked at.
        only: A table with a column `id`.

    Raises:
        ValueError: If the graph file is damaged, or the table names a node that does not exist.
    """
    graph, x, _ = opened_graph(as_path("folder", folder))
    if only is None:
        return OneGraph(graph, torch.arange(graph.num_nodes), x)
    table = Table(only)
    table.check_column("id")
    nodes = array("q", (_node(row, table.path, graph.num_nodes) for row in table))
    if not nodes:
        raise ValueError(f"{table.path} has a header but no rows.")
    return OneGraph(graph, torch.from_numpy(np.frombuffer(nodes, np.int64).copy()), x)


def rows_of(store: OneGraph, only: str | Path | None = None) -> tuple[Sequence[str], Iterator[dict[str, str]]]:
    """The columns and the rows of the nodes that `read_graph_folder` has as targets: their numbers, or the table."""
    if only is None:
        return ("id",), ({"id": str(int(node))} for node in store.owners)
    table = Table(only)
    return table.columns, (row.cells for row in table)


def opened_graph(folder: Path) -> tuple[Graph, Tensor | None, tuple[int, ...]]:
    """The graph, its features, and the sizes of categories if these are any."""
    arguments, features = open_graph_and_features(folder / GRAPH)
    x, categories = categories_of("x", features)
    return Graph(**arguments), x, categories


def _node(row: Row, path: Path, num_nodes: int) -> int:
    """The number in the column `id`. Refuses what is not a node of the graph."""
    text = row.cells["id"]
    if row.problem:
        raise ValueError(f"{path}, line {row.line}: {row.problem}; correct it.")
    if (node := node_of(text, num_nodes)) is None:
        raise ValueError(
            f"{path}, line {row.line}: its id is {text!r}, which is not a node of {GRAPH}: these are 0 to "
            f"{num_nodes - 1}."
        )
    return node


def node_of(text: str, num_nodes: int) -> int | None:
    """The node whose number is written so; None if there is no such node."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number and int(text) < num_nodes else None


def _refuse_repeated(nodes: Tensor, lines: Sequence[int], path: Path) -> None:
    order = torch.sort(nodes, stable=True).indices
    repeated = (nodes[order[1:]] == nodes[order[:-1]]).nonzero().flatten()
    if repeated.numel():
        second = order[repeated + 1]
        which = int(second.argmin())
        here, before = int(second[which]), int(order[repeated[which]])
        raise ValueError(
            f"{path}, line {lines[here]}: node {int(nodes[here])} is in line {lines[before]} already: a node has one "
            "label and one part of the split."
        )
