"""One graph in a folder: nodes.csv with ids, features, a label and a split, and edges.csv with ends and features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from crawl.checks import as_path, shown, truth
from crawl.choices import Batches
from crawl.data.dataset import Dataset
from crawl.data.features import (
    MOST_INTEGERS,
    Column,
    Columns,
    Unknown,
    category_sizes,
    check_names,
    encode_columns,
    find_columns,
)
from crawl.data.graph_folder import from_graph_folder, has_graph_file
from crawl.data.node_labels import USUAL_FRACTIONS, LabelChoice
from crawl.data.one_graph import OneGraph
from crawl.data.splits import Fractions, Split
from crawl.data.table import UNNAMED, Row, Table, in_folder, number_in
from crawl.data.targets import AnyKind
from crawl.graph import Graph

_LARGEST = torch.finfo(torch.float32).max


def from_nodes(
    folder: str | Path,
    *,
    label: str = "label",
    split: str | Path | Split = "auto",
    fractions: Fractions = USUAL_FRACTIONS,
    seed: int = 0,
    task: AnyKind = "auto",
    metric: str | None = None,
    directed: bool = False,
    batches: Batches = "full",
) -> Dataset:
    """The graph of `nodes.csv` and `edges.csv` in a folder, or of a graph file, with labels of its nodes as targets.

    `nodes.csv` has a column `id`, words or numbers, `label` and perhaps `split`; all others are features, as
    `find_columns` says: words and whole numbers of few values are categories, others numbers. `edges.csv` has the
    columns `source` and `target`, and perhaps features. Columns without a name are left out. A folder with
    `graph.crawl` has `labels.csv` instead of both, and needs `batches="closed"`: `crawl.data.graph_folder`.

    Args:
        folder: The folder. Both files may be compressed with gzip, their names then end in .gz.
        label: The column to predict. A node where it is empty has no target; it is a node of the graph all the same. So
            is one where it is a word for missing, such as `none` or `?`, which `skipped` of the data set tells.
        split: `auto` is the column `split`, if there is one, and else `random`; or another column that says `train`,
            `val` or `test`, `random`, `stratified`, a JSON file of row numbers from 0, or the split itself, which
            counts the nodes that have a label.
        fractions, seed: For parts that are drawn.
        task, metric: As in `from_csv`.
        directed: Whether edges lead from source to target only. Otherwise each leads both ways and is listed once.
        batches: Whether a batch is the `full` graph, or `closed` walks around its targets; see `OneGraph`.

    Raises:
        ValueError: For anything wrong with the files or the choices; the message says where and what to do.
    """
    choice = LabelChoice(label, split, fractions, seed, task, metric)
    if has_graph_file(folder):
        _check_graph_file(folder, directed, batches)
        return from_graph_folder(folder, choice)
    found = read_tables(folder, directed)
    assert found.nodes is not None
    labels = choice.of(found.nodes)
    labelled = labels.labelled(lambda column: [row.cells[column] for row in found.rows], [r.line for r in found.rows])
    of_nodes = found.attributes("node", labels.columns)
    of_edges = found.attributes("edge", {"source", "target"})
    columns = Columns(found.columns("node", of_nodes), found.columns("edge", of_edges))
    store = found.store(columns, of_nodes, of_edges, Unknown(), labelled.places, batches)
    return Dataset(
        name=as_path("folder", folder).resolve().name,
        store=replace(store, y=labelled.y),
        task=labelled.task,
        split=labelled.split,
        node_categories=category_sizes(columns.nodes),
        edge_categories=category_sizes(columns.edges),
        skipped=labelled.skipped,
        graph_names=tuple(found.rows[place].cells["id"] for place in labelled.places),
        columns=columns,
    )


@dataclass(frozen=True)
class NodeFolder:
    """The nodes and edges of a folder, as its files list them.

    Attributes:
        nodes: The table of nodes; None if there is none, and the nodes are the ends of edges.
        rows: Its rows; without a table, a row with an `id` for each node, in the order in which edges name them.
        edges: The table of edges.
        edge_rows: Its rows.
        ends: `[2, E]` source and target of each row of edges.
        directed: Whether edges lead one way only.
        skipped: A line for each row of edges that was left out, with the reason.
    """

    nodes: Table | None
    rows: list[Row]
    edges: Table
    edge_rows: list[Row]
    ends: Tensor
    directed: bool
    skipped: tuple[str, ...] = ()

    def attributes(self, owner: str, without: Iterable[str]) -> dict[str, list[str]]:
        """The cells of each column of features. Refuses an empty one."""
        table, rows = self._listed(owner)
        if table is None:
            return {}
        names = [name for name in table.columns if name not in without and not name.startswith(UNNAMED)]
        for name in names:
            table.check_column(name)
        for row in rows:
            for name in names:
                if not row.cells[name]:
                    raise ValueError(f"{table.path}, line {row.line}: {name} is empty; every {owner} needs a value.")
        return {name: [row.cells[name] for row in rows] for name in names}

    def columns(self, owner: str, attributes: Mapping[str, Sequence[str]]) -> tuple[Column, ...]:
        """What each column of features is: whole numbers if all of its values are, else numbers if all are, or words.

        Refuses a column of which that is not clear, and numbers that are not finite.
        """
        return find_columns({name: self._guessed(owner, name, cells) for name, cells in attributes.items()})

    def store(
        self,
        columns: Columns,
        of_nodes: Mapping[str, Sequence[str]],
        of_edges: Mapping[str, Sequence[str]],
        unknown: Unknown,
        owners: Sequence[int],
        batches: Batches,
    ) -> OneGraph:
        """The graph with features as the columns say, and targets of `owners`, without `y`."""
        edge_index = self.ends
        edge_attr = encode_columns("edge", self._typed("edge", of_edges, columns.edges), columns.edges, unknown)
        if not self.directed:
            back = (edge_index[0] != edge_index[1]).nonzero().flatten()  # a self-loop is its own reverse
            edge_index = torch.cat([edge_index, edge_index[:, back].flip(0)], dim=1)
            edge_attr = None if edge_attr is None else torch.cat([edge_attr, edge_attr[back]])
        graph = Graph.from_edge_index(edge_index, len(self.rows))
        x = encode_columns("node", self._typed("node", of_nodes, columns.nodes), columns.nodes, unknown)
        return OneGraph(graph, torch.tensor(owners, dtype=torch.long), x, edge_attr, None, edge_index, batches)

    def _listed(self, owner: str) -> tuple[Table | None, list[Row]]:
        return (self.nodes, self.rows) if owner == "node" else (self.edges, self.edge_rows)

    def _guessed(self, owner: str, name: str, cells: Sequence[str]) -> list[Any]:
        """The values of a column, of the kind that all of them are."""
        are_numbers = [number_in(cell) is not None for cell in cells]
        if not all(are_numbers):
            if all(map(_python_reads, cells)):
                place = are_numbers.index(False)
                self._refuse(
                    owner, place, name, cells, "which may be a number or a word: write the digits 0 to 9 alone"
                )
            return list(cells)
        whole = _whole_numbers(cells)
        if whole is None or len(set(whole)) > MOST_INTEGERS:
            return self._numbers(owner, name, cells)
        return whole

    def _typed(
        self, owner: str, attributes: Mapping[str, Sequence[str]], columns: Sequence[Column]
    ) -> dict[str, list[Any]]:
        """The values in each column, of the kind that it says. Refuses others."""
        found: dict[str, list[Any]] = {}
        for column in columns:
            cells = attributes.get(column.name, ())
            if column.values is None:
                found[column.name] = self._numbers(owner, column.name, cells)
            elif isinstance(column.values[0], int):
                found[column.name] = self._categories(owner, column.name, cells)
            else:
                found[column.name] = list(cells)
        return found

    def _numbers(self, owner: str, name: str, cells: Sequence[str]) -> list[float]:
        """Numbers that the network can take."""
        numbers = []
        for place, cell in enumerate(cells):
            number = number_in(cell)
            if number is None:
                self._refuse(owner, place, name, cells, "not a number as in training: correct it")
            if not abs(number) <= _LARGEST:  # NaN is not, either
                self._refuse(owner, place, name, cells, f"not a finite number up to {_LARGEST:.1e}: correct it")
            numbers.append(number)
        return numbers

    def _categories(self, owner: str, name: str, cells: Sequence[str]) -> list[int]:
        """Whole numbers."""
        numbers = []
        for place, cell in enumerate(cells):
            whole = None if number_in(cell) is None else _whole_numbers([cell])
            if whole is None:
                self._refuse(owner, place, name, cells, "not a whole number as in training: correct it")
            numbers += whole
        return numbers

    def _refuse(self, owner: str, place: int, name: str, cells: Sequence[str], problem: str) -> NoReturn:
        table, rows = self._listed(owner)
        assert table is not None
        where = f"{table.path}, line {rows[place].line}"
        raise ValueError(f"{where}: {name} is {shown(cells[place])}, {problem}.")


def read_nodes(
    folder: str | Path,
    columns: Columns,
    unknown: Unknown,
    *,
    others: Iterable[str] = (),
    directed: bool = False,
    batches: Batches = "full",
) -> tuple[NodeFolder, OneGraph]:
    """What a folder lists, and its graph with features as these columns say, with all nodes as targets without `y`.

    Args:
        folder: A folder as in `from_nodes`; labels are not needed.
        columns: What the features of the training graph were.
        unknown: Values that did not occur there are counted in it.
        others: Columns of nodes that are not features, besides `id`: the label and the split.
        directed, batches: As in the training.

    Raises:
        ValueError: For anything wrong with the files, and for other features than in training.
    """
    found = read_tables(folder, directed)
    of_nodes = found.attributes("node", {"id", "split", *others})
    of_edges = found.attributes("edge", {"source", "target"})
    for owner, names, kinds, number in (
        ("node", of_nodes, columns.nodes, len(found.rows)),
        ("edge", of_edges, columns.edges, len(found.edge_rows)),
    ):
        check_names(owner, names, kinds, number)
    return found, found.store(columns, of_nodes, of_edges, unknown, range(len(found.rows)), batches)


def read_tables(folder: str | Path, directed: bool = False, *, are_links: bool = False) -> NodeFolder:
    """The rows of both tables. Refuses ids that are missing, double or unknown, by their line.

    Links (`are_links`) need no table of nodes, and are between two different nodes: other rows are skipped.
    """
    folder, directed = as_path("folder", folder), truth("directed", directed)
    if not folder.is_dir():
        names = "edges.csv, and perhaps nodes.csv" if are_links else "nodes.csv and edges.csv"
        raise ValueError(f"{folder} is not a folder: give one with {names}.")
    has_nodes = not are_links or in_folder(folder, "nodes.csv") is not None
    nodes, edges = _table(folder, "nodes") if has_nodes else None, _table(folder, "edges")
    for column in ("source", "target"):
        edges.check_column(column)
    edge_rows = list(edges)
    for row in edge_rows:
        if row.problem:
            raise ValueError(f"{edges.path}, line {row.line}: {row.problem}; correct it.")
    rows, place_of = _ends_as_nodes(edges, edge_rows) if nodes is None else _nodes(nodes)
    line_of, ends, kept, skipped = dict[tuple[int, int], int](), [], [], []
    for row in edge_rows:
        where = f"{edges.path}, line {row.line}"
        for end in ("source", "target"):
            if row.cells[end] not in place_of:
                raise ValueError(f"{where}: its {end} is {row.cells[end]!r}, which is not an id in nodes.csv.")
        pair = (place_of[row.cells["source"]], place_of[row.cells["target"]])
        if are_links and pair[0] == pair[1]:
            skipped.append(f"line {row.line} of {edges.path.name}: an edge from a node to itself is not a link")
            continue
        key = pair if directed else (min(pair), max(pair))
        if key in line_of:
            remedy = "list it once" if directed else "list it once, or say directed if edges are listed both ways"
            remedy = "a link has no direction, so list it once" if are_links else remedy
            raise ValueError(f"{where}: this edge is in line {line_of[key]} already; {remedy}.")
        line_of[key] = row.line
        ends.append(pair)
        kept.append(row)
    edge_index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t()
    if directed:
        _refuse_dead_ends(edge_index, rows, edges.path)
    return NodeFolder(nodes, rows, edges, kept, edge_index, directed, tuple(skipped))


def _nodes(table: Table) -> tuple[list[Row], dict[str, int]]:
    """The rows of nodes, and the place of each id."""
    table.check_column("id")
    rows, place_of = list(table), dict[str, int]()
    if not rows:
        raise ValueError(f"{table.path} has a header but no rows.")
    for place, row in enumerate(rows):
        name = row.cells["id"]
        if row.problem or not name:
            raise ValueError(f"{table.path}, line {row.line}: {row.problem or 'its id is empty'}; correct it.")
        if name in place_of:
            first = rows[place_of[name]].line
            raise ValueError(f"{table.path}, line {row.line}: the id {name!r} is in line {first} already.")
        place_of[name] = place
    return rows, place_of


def _ends_as_nodes(edges: Table, edge_rows: Sequence[Row]) -> tuple[list[Row], dict[str, int]]:
    """A row for each id that edges name, and the place of each."""
    if not edge_rows:
        raise ValueError(f"{edges.path} has a header but no rows.")
    place_of: dict[str, int] = {}
    for row in edge_rows:
        for end in ("source", "target"):
            if not row.cells[end]:
                raise ValueError(f"{edges.path}, line {row.line}: its {end} is empty; correct it.")
            place_of.setdefault(row.cells[end], len(place_of))
    return [Row(0, {"id": name}) for name in place_of], place_of


def _table(folder: Path, name: str) -> Table:
    found = in_folder(folder, f"{name}.csv")
    if found is None:
        raise ValueError(f"There is no {folder / name}.csv: a graph is a folder with nodes.csv and edges.csv.")
    return Table(found)


def _refuse_dead_ends(edge_index: Tensor, rows: Sequence[Row], path: Path) -> None:
    left, entered = (torch.bincount(ends, minlength=len(rows)) for ends in edge_index)
    wrong = ((entered > 0) & (left == 0)).nonzero()
    if wrong.numel():
        name = rows[int(wrong[0])].cells["id"]
        raise ValueError(
            f"{path}: node {name!r} can be entered but not left, so a walk would end there; add an edge that leaves "
            "it, or leave out directed."
        )


def _whole_numbers(cells: Sequence[str]) -> list[int] | None:
    """The values of cells that hold numbers, if all are whole."""
    try:
        return [int(cell) for cell in cells]
    except ValueError:
        return None


def _python_reads(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _check_graph_file(folder: str | Path, directed: bool, batches: Batches) -> None:
    """Refuses settings that a graph file does not have."""
    if truth("directed", directed):
        raise ValueError(f"{folder} has a graph file, which knows where its edges lead: leave out directed.")
    if batches != "closed":
        raise ValueError(
            f"{folder} has a graph file, which is never in memory as a whole: choose batches='closed' "
            "(--data.batches closed)."
        )
