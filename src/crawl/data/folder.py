"""A folder of graphs, one in each GraphML or node-link JSON file, with a table of their targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.parsers import expat

import networkx as nx
import torch
from torch_geometric.data import Data

from crawl.checks import as_path, truth
from crawl.data.dataset import Dataset
from crawl.data.features import Columns, Unknown, category_sizes, check_names, encode_columns, find_columns
from crawl.data.labelled import BadRows, choose_targets, label, split_labelled
from crawl.data.splits import Folds, Fractions, Split
from crawl.data.store import GraphStore
from crawl.data.table import Row, Table
from crawl.data.targets import AnyKind
from crawl.files import parse_json


def from_folder(
    folder: str | Path,
    labels: str | Path = "labels.csv",
    target_columns: str | Sequence[str] = (),
    *,
    file_column: str = "file",
    undirected: bool = False,
    split: str | Path | Split | Folds = "random",
    fractions: Fractions = (0.8, 0.1, 0.1),
    seed: int = 0,
    bad_rows: BadRows = "skip",
    task: AnyKind = "auto",
    metric: str | None = None,
    weight_column: str | None = None,
) -> Dataset:
    """The graphs of the `.graphml` and `.json` files in a folder.

    All attributes of nodes and edges become features, as `find_columns` says, weights of edges, too; each must be
    there at every node or every edge. A graph with other attributes than most have is a bad row. Edges of undirected
    graphs are listed both ways, edges of directed graphs as they are. A file is a bad row, too, if its graph has no
    nodes, two nodes of the same name, or an edge to a node that is not listed.

    Args:
        folder: The folder.
        labels: The table, a CSV file in the folder or elsewhere: a row for each graph.
        target_columns: The columns to predict; may be left out if there is only one besides.
        file_column: The column with the names of the files.
        undirected: Forget the directions of directed graphs. Otherwise a node that can be entered but not left makes a
            graph unusable, because a walk would end there.
        split: As in `from_csv`, except `scaffold`; so are `fractions`, `seed`, `task`, `metric` and `weight_column`.
        bad_rows: As in `from_csv`. Bad are also files that cannot be read, and attributes that most other graphs do not
            have or that are not finite.

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
    targets = choose_targets(table, target_columns, taken=(file_column, split, weight_column))
    examples = [(row, row.problem or _graph(folder / row.cells[file_column], undirected)) for row in table]
    examples = _alike(examples)
    labelled = label(table, examples, targets, bad_rows=bad_rows, task=task, metric=metric, weight_column=weight_column)
    files = tuple(row.cells[file_column] for row in labelled.rows)
    of_nodes = _columns([node for graph in labelled.graphs for node in graph.nodes])
    of_edges = _columns([edge for graph in labelled.graphs for edge in graph.edges])
    columns = Columns(find_columns(of_nodes), find_columns(of_edges))
    x = encode_columns("node", of_nodes, columns.nodes, Unknown())
    edge_attr = encode_columns("edge", of_edges, columns.edges, Unknown())
    plain = GraphStore.from_graphs(graph.data for graph in labelled.graphs)
    return Dataset(
        name=folder.resolve().name,
        store=replace(plain, x=x, edge_attr=edge_attr, y=labelled.y, sample_weight=labelled.sample_weight),
        task=labelled.task,
        split=split_labelled(labelled, split, fractions, seed),
        node_categories=category_sizes(columns.nodes),
        edge_categories=category_sizes(columns.edges),
        skipped=labelled.skipped,
        graph_names=files,
        columns=columns,
    )


def read_folder(folder: str | Path, columns: Columns, unknown: Unknown) -> Iterator[tuple[str, Data | str]]:
    """Each file of a folder with its graph, or with the reason why there is none. No targets are needed.

    The files are those that `labels.csv` lists in its column `file`, or else all `.graphml` and `.json` files. They are
    read as they are asked for. Features are those of training, `columns`; categories that did not occur there are
    counted in `unknown`.
    """
    folder = Path(folder)
    if (labels := folder / "labels.csv").exists():
        table = Table(labels)
        table.check_column("file")
        files = [(row.cells["file"], row.problem) for row in table]
    else:
        names = sorted(path.name for path in folder.iterdir() if path.suffix in (".graphml", ".json"))
        files = [(name, None) for name in names]
    if not files:
        raise ValueError(f"{folder} holds no graphs: neither files of the TU format nor .graphml or .json files.")
    return ((file, problem or _with_features(folder / file, columns, unknown)) for file, problem in files)


def read_graph(path: str | Path) -> nx.Graph:
    """The networkx graph in a GraphML file (`.graphml`) or a node-link JSON file (`.json`)."""
    path = Path(path)
    if path.suffix not in (".graphml", ".json"):
        raise ValueError(f"{path.name!r} is neither a .graphml nor a .json file")
    try:
        if path.suffix == ".graphml":
            _check_graphml(path)
            return nx.read_graphml(path)
        document = parse_json(path.read_text(encoding="utf-8"))
        return nx.node_link_graph(document, edges=_check_node_link(document))
    except OSError as error:
        raise ValueError(f"{path.name!r} cannot be read: {error.strerror}") from None
    except Exception as error:  # networkx and the parser of XML have many for what is not a graph
        raise ValueError(f"{path.name!r} is not a graph: {error}") from None


def _check_graphml(path: Path) -> None:
    """Refuse nodes as `_check_nodes` does, and abbreviations of the file's own: a few lines can stand for gigabytes.

    Newer versions of expat have a limit for these; this holds for all.
    """
    nodes: list[str | None] = []
    edges: list[tuple[str | None, str | None]] = []

    def on_entity(name: str, *_: object) -> None:
        raise ValueError(f"it declares the entity {name!r}, which GraphML does not need; write it out")

    def on_element(name: str, attributes: dict[str, str]) -> None:
        match name.split()[-1]:  # without its name space
            case "node":
                nodes.append(attributes.get("id"))
            case "edge":
                edges.append((attributes.get("source"), attributes.get("target")))

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.EntityDeclHandler = on_entity
    parser.StartElementHandler = on_element
    with path.open("rb") as file, suppress(expat.ExpatError):  # networkx says what is wrong with it
        parser.ParseFile(file)
        _check_nodes(nodes, edges)


def _check_node_link(document: Any) -> str:
    """Under which name the edges are listed."""
    if not isinstance(document, dict):
        raise ValueError("it is not an object with the lists 'nodes' and 'edges'")
    names = [name for name in ("edges", "links") if name in document]
    if len(names) > 1:
        raise ValueError("it has both 'edges' and 'links', of which one would not be read; keep one list")
    if not names:
        raise ValueError("it has no list 'edges'; give an empty one to a graph without edges")
    for name in ("nodes", *names):
        entries = document.get(name)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError(f"it has no list {name!r} of objects")
    for name in ("directed", "multigraph"):
        if not isinstance(document.get(name, False), bool):
            raise ValueError(f"its {name!r} is {str(document[name])[:40]!r}, not true or false")
    for edge in document[names[0]]:
        if not {"source", "target"} <= edge.keys():
            raise ValueError(f"the edge {str(edge)[:40]} does not have both 'source' and 'target'")
    nodes = (_name(node.get("id", i)) for i, node in enumerate(document["nodes"]))
    _check_nodes(nodes, ((_name(edge["source"]), _name(edge["target"])) for edge in document[names[0]]))
    return names[0]


def _name(node: Any) -> Any:
    """The node as networkx calls it."""
    if node is None or isinstance(node, dict):
        raise ValueError(f"a node is called {str(node)[:40]}; use numbers or words")
    return tuple(map(_name, node)) if isinstance(node, list) else node


def _check_nodes(nodes: Iterable[Any], edges: Iterable[tuple[Any, Any]]) -> None:
    """Refuse nodes of the same name, which networkx merges, and nodes that only edges name, which it adds."""
    known = set()
    for node in nodes:
        if node in known:
            raise ValueError(f"two nodes are called {node!r}")
        known.add(node)
    for source, target in edges:
        for node in (source, target):
            if node not in known:
                raise ValueError(f"it has an edge from {source!r} to {target!r}, but no node {node!r}")


@dataclass(frozen=True)
class _Graph:
    """A graph without its attributes, and those of each node and edge."""

    data: Data
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]


def _graph(path: Path, undirected: bool) -> _Graph | str:
    """The graph, or the reason why there is none that can be walked on. Edges go both ways in an undirected one."""
    try:
        graph = read_graph(path)
    except ValueError as error:
        return str(error)
    if not len(graph):
        return f"{path.name!r} has no nodes"
    if undirected and graph.is_directed():
        graph = graph.to_undirected()
    if graph.is_directed():
        dead_ends = [node for node in graph if graph.in_degree(node) and not graph.out_degree(node)]
        if dead_ends:
            problem = f"node {dead_ends[0]!r} can be entered but not left; use undirected=True"
            return f"{path.name!r} is directed, and {problem}"
    index = {node: i for i, node in enumerate(graph.nodes)}
    ends, edges = [], []
    for source, target, attributes in graph.edges(data=True):
        ways = [(index[source], index[target])]
        if not graph.is_directed() and source != target:
            ways.append((index[target], index[source]))
        ends += ways
        edges += [attributes] * len(ways)
    edge_index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t().contiguous()
    nodes = [attributes for _, attributes in graph.nodes(data=True)]
    return _Graph(Data(edge_index=edge_index, num_nodes=len(index)), nodes, edges)


def _columns(owners: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values of each attribute at all nodes, or edges, which are alike."""
    return {name: [attributes[name] for attributes in owners] for name in sorted(owners[0] if owners else ())}


def _alike(examples: Sequence[tuple[Row, _Graph | str]]) -> list[tuple[Row, _Graph | str]]:
    """The same rows, with the reason in the place of a graph whose attributes cannot be used beside those of most."""
    kept = list(examples)
    for what in ("node", "edge"):
        found: dict[int, tuple[tuple[str, str], ...]] = {}
        for i, (row, graph) in enumerate(kept):
            if isinstance(graph, str):
                continue
            try:
                kinds = _kinds(what, getattr(graph, f"{what}s"))
            except ValueError as error:
                kept[i] = row, str(error)
            else:
                found |= {} if kinds is None else {i: tuple(sorted(kinds.items()))}
        if not found:
            continue
        ((usual, count),) = Counter(found.values()).most_common(1)
        if 2 * count <= len(found):
            raise ValueError(
                f"Only {count} of {len(found)} graphs have the {what} attributes {_listed(usual)}, and others are "
                "rarer: give all graphs the same attributes."
            )
        for i, own in found.items():
            if own != usual:
                problem = f"its {what} attributes are {_listed(own)}, but those of most graphs {_listed(usual)}"
                kept[i] = kept[i][0], problem
    return kept


def _kinds(what: str, owners: Iterable[dict[str, Any]]) -> dict[str, str] | None:
    """What the values of each attribute are; None if there are no nodes, or no edges."""
    usual: dict[str, str] | None = None
    for attributes in owners:
        kinds = {name: _kind(what, name, value) for name, value in attributes.items()}
        usual = kinds if usual is None else usual
        if kinds != usual:
            name = min(name for name, _ in kinds.items() ^ usual.items())
            raise ValueError(f"attribute {name!r} must be there at every {what} of a graph, and of the same kind")
    return usual


def _kind(what: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return "word"
    if _is_number(value):
        return "number"
    if isinstance(value, list | tuple) and all(map(_is_number, value)):
        return f"{len(value)} numbers"
    raise ValueError(f"attribute {name!r} of {what}s is {str(value)[:40]}, not a finite number, a word or a list")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= torch.finfo(torch.float32).max


def _listed(kinds: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in kinds) or "none"


def _with_features(path: Path, columns: Columns, unknown: Unknown) -> Data | str:
    """The graph with features as these columns say, or the reason why there is none."""
    graph = _graph(path, undirected=False)
    if isinstance(graph, str):
        return graph
    found = Unknown()
    try:
        _kinds("node", graph.nodes)
        _kinds("edge", graph.edges)
        data, of_nodes, of_edges = graph.data, _columns(graph.nodes), _columns(graph.edges)
        check_names("node", of_nodes, columns.nodes, data.num_nodes)
        check_names("edge", of_edges, columns.edges, data.num_edges)
        data.x = encode_columns("node", of_nodes, columns.nodes, found)
        data.edge_attr = encode_columns("edge", of_edges, columns.edges, found)
    except ValueError as error:
        return str(error).removesuffix(".")
    unknown.update(found)
    return data
