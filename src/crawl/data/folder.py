"""A folder of graphs, one in each GraphML or node-link JSON file, with a table of their targets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx
import torch
from torch_geometric.data import Data

from crawl.checks import as_path, truth
from crawl.data.dataset import Dataset
from crawl.data.features import encode_columns
from crawl.data.labelled import BadRows, choose_targets, label, split_labelled
from crawl.data.splits import Fractions, Split
from crawl.data.store import GraphStore
from crawl.data.table import Table
from crawl.data.targets import AnyKind


def from_folder(
    folder: str | Path,
    labels: str | Path = "labels.csv",
    target_columns: str | Sequence[str] = (),
    *,
    file_column: str = "file",
    undirected: bool = False,
    split: str | Path | Split = "random",
    fractions: Fractions = (0.8, 0.1, 0.1),
    seed: int = 0,
    bad_rows: BadRows = "skip",
    task: AnyKind = "auto",
    metric: str | None = None,
) -> Dataset:
    """The graphs of the `.graphml` and `.json` files in a folder.

    All attributes of nodes and edges become features, as `encode_columns` says; each must be there at every node or
    every edge of every graph. Edges of undirected graphs are listed both ways, those of directed graphs as they are.

    Args:
        folder: The folder.
        labels: The table, a CSV file in the folder or elsewhere: a row for each graph.
        target_columns: The columns to predict; may be left out if there is only one besides.
        file_column: The column with the names of the files.
        undirected: Forget the directions of directed graphs. Else a node that can be entered but not left makes a graph
            unusable, because a walk would end there.
        split: `random`, `stratified` (by class), the name of a column that says `train`, `val` or `test`, or a JSON
            file of row numbers from 0, as `read_split` reads it.
        fractions: The shares of training, validation and test, if they are drawn.
        seed: Fixes the draw.
        bad_rows: Whether to `skip` rows that cannot be used, listing them in `Dataset.skipped`, or to `refuse` the
            table. Bad are files that cannot be read, targets that are none, and missing targets but for `multilabel`.
        task: The kind of the task; found from the targets with `auto`, as `targets_from_text` says.
        metric: The score; the usual one of the task when None.

    Raises:
        ValueError: For anything wrong with the files or the choices; the message says what to do.
    """
    folder, labels = as_path("folder", folder), as_path("labels", labels)
    undirected = truth("undirected", undirected)
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder.")
    found = next((path for path in (folder / labels, Path(labels)) if path.exists()), None)
    if found is None:
        raise ValueError(
            f"There is no table {folder / labels}: write a CSV file with a column {file_column!r} of file names, "
            "and columns of targets."
        )
    table = Table(found)
    table.check_column(file_column)
    targets = choose_targets(table, target_columns, taken=(file_column, split))
    examples = ((row, row.problem or _graph(folder / row.cells[file_column], undirected)) for row in table)
    labelled = label(table, examples, targets, bad_rows=bad_rows, task=task, metric=metric)
    files = tuple(row.cells[file_column] for row in labelled.rows)
    node_attributes = ((attributes for _, attributes in graph.nodes(data=True)) for graph in labelled.graphs)
    edge_attributes = ((attributes for _, _, attributes in _arcs(graph)) for graph in labelled.graphs)
    x, node_categories = encode_columns(_columns("node", files, node_attributes))
    edge_attr, edge_categories = encode_columns(_columns("edge", files, edge_attributes))
    plain = GraphStore.from_graphs(_data(graph) for graph in labelled.graphs)
    return Dataset(
        name=folder.resolve().name,
        store=replace(plain, x=x, edge_attr=edge_attr, y=labelled.y),
        task=labelled.task,
        split=split_labelled(labelled, split, fractions, seed),
        node_categories=node_categories,
        edge_categories=edge_categories,
        skipped=labelled.skipped,
        graph_names=files,
    )


def read_graph(path: str | Path) -> nx.Graph:
    """The networkx graph in a GraphML file (`.graphml`) or a node-link JSON file (`.json`).

    Raises:
        ValueError: If there is none; the message gives the reason.
    """
    path = Path(path)
    if path.suffix not in (".graphml", ".json"):
        raise ValueError(f"{path.name!r} is neither a .graphml nor a .json file")
    try:
        if path.suffix == ".graphml":
            return nx.read_graphml(path)
        document = json.loads(path.read_text(encoding="utf-8"))
        return nx.node_link_graph(document, edges="edges" if "edges" in document else "links")
    except OSError as error:
        raise ValueError(f"{path.name!r} cannot be read: {error.strerror}") from None
    except (ParseError, nx.NetworkXError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name!r} is no graph: {error}") from None


def _graph(path: Path, undirected: bool) -> nx.Graph | str:
    """The graph, or the reason why there is none that can be walked on."""
    try:
        graph = read_graph(path)
    except ValueError as error:
        return str(error)
    if not graph.is_directed():
        return graph
    if undirected:
        return graph.to_undirected()
    for node in graph:
        if graph.in_degree(node) and not graph.out_degree(node):
            return f"{path.name!r} is directed, and node {node!r} can be entered but not left; use undirected=True"
    return graph


def _arcs(graph: nx.Graph) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """All edges; those of an undirected graph both ways, but loops once."""
    for source, target, attributes in graph.edges(data=True):
        yield source, target, attributes
        if not graph.is_directed() and source != target:
            yield target, source, attributes


def _data(graph: nx.Graph) -> Data:
    """The graph without its attributes; nodes and edges are in the order of `graph.nodes` and `_arcs`."""
    index = {node: i for i, node in enumerate(graph.nodes)}
    ends = [(index[source], index[target]) for source, target, _ in _arcs(graph)]
    edge_index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t().contiguous()
    return Data(edge_index=edge_index, num_nodes=len(index))


def _columns(what: str, files: Sequence[str], attributes: Iterable[Iterable[dict[str, Any]]]) -> dict[str, list[Any]]:
    """The values of each attribute at all nodes, or edges, of all graphs."""
    owned = [(file, each) for file, of_graph in zip(files, attributes, strict=True) for each in of_graph]
    columns: dict[str, list[Any]] = {name: [] for name in sorted({name for _, each in owned for name in each})}
    for file, each in owned:
        for name, values in columns.items():
            if name not in each:
                raise ValueError(
                    f"A {what} of {file} has no attribute {name!r}, but others do: give it to all, or to none."
                )
            values.append(each[name])
    return columns
