"""Data sets of any size packed into files: molecules of a CSV file, or graphs of PyG, one piece after the other."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import as_path, check_choice, check_type, shown, suggestion, whole_number
from crawl.data.dataset import Dataset
from crawl.data.features import ATOM_CATEGORIES, BOND_CATEGORIES
from crawl.data.labelled import BadRows, choose_targets, split_for_kept_rows, weight_of
from crawl.data.molecules import smiles_columns_of
from crawl.data.number_targets import targets_from_numbers
from crawl.data.packing import Shards, Spool, new_folder
from crawl.data.part_files import PartPaths, PartTables
from crawl.data.pyg import categories_of
from crawl.data.splits import DRAWN_FRACTIONS, Fractions, Split, choose_split, group_split, split_from_column
from crawl.data.store import GraphStore
from crawl.data.table import Row, Table
from crawl.data.targets import AnyKind, reason_of, targets_from_tensor, targets_from_text, value_of
from crawl.data.task import Task
from crawl.processes import in_order

_ROWS_AT_A_TIME = 1000

Tell = Callable[[str], None]


def pack_csv(
    path: str | Path,
    output: str | Path,
    smiles_column: str | Sequence[str] | None = None,
    target_columns: str | Sequence[str] = (),
    *,
    split: str | Path | None = None,
    fractions: Fractions | None = None,
    seed: int = 0,
    bad_rows: BadRows = "skip",
    task: AnyKind = "auto",
    metric: str | None = None,
    weight_column: str | None = None,
    shards: int | None = None,
    shard_size: int | None = None,
    jobs: int = 1,
    on_progress: Tell | None = None,
) -> Dataset:
    """Packs the molecules of a CSV file of any length into a folder, which `open_packed` opens; needs rdkit.

    It holds the graphs, targets and split that `from_csv` would have with the same arguments, and trains to the same
    weights. Memory is a few numbers for each row. The folder is there when it is whole; after an error, nothing is.
    Rows that are skipped are listed in `skipped.txt` there, with their lines and reasons.

    Args:
        path: The file, or a folder with three, as in `from_csv`; molecules that are in two files are not looked for.
        output: The folder to write, which must be new or empty.
        smiles_column: As in `from_csv`; so are the arguments that follow, up to `weight_column`.
        shards: Write nodes and edges into this many files, of about as many graphs each.
        shard_size: Instead, into files of at most this many graphs.
        jobs: Processes that read molecules.
        on_progress: Called once in a while with what is being done.

    Returns:
        The data set, with its graphs in the files.

    Raises:
        ValueError: For anything wrong with the file or the choices; the message says what to do.
        ImportError: If rdkit is not installed.
    """
    from crawl.molecule_arrays import Molecules, parse_molecules

    paths = PartPaths.of(path)
    table = Table(path) if paths is None else PartTables(paths)
    check_choice("bad_rows", bad_rows, ("skip", "refuse"))
    in_files, jobs = Shards(shards, shard_size), whole_number("jobs", jobs, 1, 1024)
    if paths is not None and (split is not None or fractions is not None):
        raise ValueError("Three files give the split: leave out split and fractions.")
    way = "random" if split is None else str(as_path("split", split))
    columns = smiles_columns_of(table, smiles_column)
    names = choose_targets(table, target_columns, taken=(*columns, way, weight_column))
    if weight_column is not None:
        table.check_column(weight_column)
    is_column = paths is None and way in table.columns and way not in ("random", "stratified", "scaffold")
    if is_column:
        table.check_column(way)
    elif paths is None and way not in ("random", "stratified", "scaffold") and not Path(way).is_file():
        hint = suggestion(way, ("random", "stratified", "scaffold", *table.columns))
        raise ValueError(f"split is {shown(way)}, which is neither a way to split, a column nor a file.{hint}")
    tell = on_progress or (lambda _: None)
    with new_folder(output) as folder, ExitStack() as files:
        found = _Found(names, way if is_column else None, weight_column)
        spool, cells = Spool(files, folder), _Cells(files, folder)
        pending: deque[list[Row]] = deque()

        def smiles() -> Iterator[list[tuple[str, ...]]]:
            rows = iter(table)
            while piece := list(islice(rows, _ROWS_AT_A_TIME)):
                pending.append(piece)
                yield [tuple("" if row.problem else row.cells[column] for column in columns) for row in piece]

        parse: Callable[..., Molecules] = partial(
            parse_molecules, columns=columns, with_scaffolds=way == "scaffold" and paths is None
        )
        for molecules in in_order(parse, smiles(), jobs):
            rows = pending.popleft()
            is_read = molecules.sizes[:, 0] > 0
            of_row = [".".join(row.cells[column] for column in columns) for row in rows]
            spool.append(
                molecules.sizes[is_read],
                [name for name, is_there in zip(of_row, is_read, strict=True) if is_there],
                edges=molecules.edges,
                x=molecules.x,
                edge_attr=molecules.bonds,
            )
            for i, row in enumerate(rows):
                problem = row.problem or molecules.problems.get(i)
                if found.add(row, problem, molecules.scaffolds[i] if molecules.scaffolds else ""):
                    cells.append([row.cells[name] for name in names])
            tell(f"{found.num_rows:,} rows read")
        if not found.num_rows:
            raise ValueError(f"{table.title} has a header but no rows.")
        settled, y, usable = found.targets(cells, task, metric, table.title) if spool.has_rows else (None, None, None)
        skipped = found.skipped()
        if settled is None or y is None or usable is None:
            raise ValueError(f"{table.title}: none of the {found.num_rows} rows can be used; {skipped[0]}.")
        if skipped and bad_rows == "refuse":
            more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
            raise ValueError(f"{table.title}, {skipped[0]}{more}; correct it, or skip bad rows.")
        parts = found.split(usable, way, fractions or DRAWN_FRACTIONS, seed, settled, y, table)
        spool.write(
            folder,
            usable,
            name=table.name,
            task=settled,
            y=y,
            sample_weight=found.weights_of(usable),
            split=parts,
            shards=in_files,
            node_categories=(*ATOM_CATEGORIES, *((len(columns),) if len(columns) > 1 else ())),
            edge_categories=BOND_CATEGORIES,
            skipped=skipped,
            on_progress=tell,
        )
    return _opened(output)


class _Cells:
    """The cells of targets, as they are written, in a nameless file."""

    def __init__(self, files: ExitStack, folder: Path) -> None:
        self.file: Any = files.enter_context(tempfile.TemporaryFile("w+", dir=folder, encoding="utf-8"))  # noqa: SIM115

    def append(self, cells: Sequence[str]) -> None:
        self.file.write(json.dumps(cells) + "\n")

    def __iter__(self) -> Iterator[list[str]]:
        self.file.seek(0)
        for line in self.file:
            yield json.loads(line)


@dataclass
class _Found:
    """What the rows of a table hold besides molecules, in a few bytes for each row."""

    names: tuple[str, ...]
    split_column: str | None
    weight_column: str | None
    num_rows: int = 0
    problems: dict[int, str] = field(default_factory=dict)  # of rows, by their place
    places: array[int] = field(default_factory=lambda: array("q"))  # of the molecules in the spool, and so the others
    lines: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    weights: array[float] = field(default_factory=lambda: array("d"))
    groups: array[int] = field(default_factory=lambda: array("q"))  # the number of a scaffold, a word or a file
    words: dict[Any, int] = field(default_factory=dict)
    is_good: array[int] = field(default_factory=lambda: array("b"))
    has_words: bool = False

    def add(self, row: Row, problem: str | None, scaffold: str) -> bool:
        """Take a row; whether its molecule is in the spool."""
        place, self.num_rows = self.num_rows, self.num_rows + 1
        if problem is not None:
            self.problems[place] = f"{row.place}: {problem}"
            return False
        weight: float | None = 1.0
        if self.weight_column is not None:
            weight = weight_of(row.cells[self.weight_column])
            if weight is None:
                cell = row.cells[self.weight_column]
                text = f"{self.weight_column} is {cell!r}, not a finite number of 0 or more"
                self.problems[place] = f"{row.place}: {text}"
        self.is_good.append(weight is not None)
        if self.weight_column is not None:
            self.weights.append(weight or 0.0)
        for name in self.names:
            value = value_of(row.cells[name])
            self.has_words |= isinstance(value, str) and weight is not None
            self.values.append(value if isinstance(value, float) else np.nan)
        group: Any = row.file or (scaffold if self.split_column is None else row.cells[self.split_column])
        self.groups.append(self.words.setdefault(group, len(self.words)))
        self.places.append(place)
        self.lines.append(row.line)
        return True

    def targets(
        self, cells: _Cells, kind: AnyKind, metric: str | None, title: str
    ) -> tuple[Task, Tensor, NDArray[np.bool_]] | tuple[None, None, None]:
        """The task, the targets and which molecules of the spool have usable ones; nothing if no row is left."""
        is_good = np.frombuffer(self.is_good, np.int8).astype(bool)
        good = np.flatnonzero(is_good)
        if not len(good):
            return None, None, None
        values = np.frombuffer(self.values).reshape(-1, len(self.names))[good]
        try:
            fast = None if self.has_words else targets_from_numbers(self.names, values, kind, metric)
            if fast is not None:
                task, y, usable = fast
                bad = set(good[~usable].tolist())
                reasons = {}
                for i, row in enumerate(cells if bad else ()):
                    if i in bad:
                        reasons[i] = reason_of(dict(zip(self.names, row, strict=True)), task.kind)
            else:
                wanted = set(good.tolist())
                rows = [[sys.intern(cell) for cell in row] for i, row in enumerate(cells) if i in wanted]
                columns = dict(zip(self.names, map(list, zip(*rows, strict=True)), strict=True))
                task, y, why = targets_from_text(columns, kind, metric)
                reasons = {int(good[i]): reason for i, reason in why.items()}
        except ValueError as error:
            raise ValueError(f"{title}: {error}") from None
        self.problems |= {self.places[i]: f"{self._place(i)}: {reason}" for i, reason in reasons.items()}
        is_good[list(reasons)] = False
        return task, y, is_good

    def _place(self, i: int) -> str:
        """Where a row is; the file only where there are several."""
        group = next((word for word, number in self.words.items() if number == self.groups[i]), None)
        return Row(self.lines[i], {}, file=group if isinstance(group, Path) else None).place

    def skipped(self) -> list[str]:
        """A line for each row that cannot be used, in their order."""
        return [self.problems[place] for place in sorted(self.problems)]

    def weights_of(self, usable: NDArray[np.bool_]) -> Tensor | None:
        """The weights of these molecules."""
        return None if self.weight_column is None else torch.from_numpy(np.frombuffer(self.weights)[usable])

    def split(
        self,
        usable: NDArray[np.bool_],
        way: str,
        fractions: Fractions,
        seed: int,
        task: Task,
        y: Tensor,
        table: Table,
    ) -> Split:
        """The split of the molecules that are kept, as `from_csv` has it."""
        kept = np.flatnonzero(usable)
        groups = np.frombuffer(self.groups, np.int64)[kept]
        if isinstance(table, PartTables):
            codes = {part: self.words.get(file, -1) for part, file in vars(table.paths).items()}
            for part, code in codes.items():
                if not (groups == code).any():
                    raise ValueError(f"No row of {getattr(table.paths, part)}, the file for {part}, can be used.")
            return Split(**{part: torch.from_numpy(np.flatnonzero(groups == code)) for part, code in codes.items()})
        if self.split_column is not None:
            words = list(self.words)
            for number in np.unique(groups).tolist():
                i = int(kept[np.flatnonzero(groups == number)[0]])
                _check_word(words[number], f"line {self.lines[i]} of {table.title}")
            return split_from_column([words[number] for number in groups.tolist()])
        if way == "scaffold":
            return group_split(groups.tolist(), fractions, seed)
        labels = y if task.kind in ("binary", "multiclass") else None
        if way in ("random", "stratified"):
            return choose_split(way, len(kept), labels, fractions, seed)
        return split_for_kept_rows(way, np.frombuffer(self.places, np.int64)[kept].tolist(), self.num_rows, table.title)


def _check_word(word: str, place: str) -> None:
    """Refuse a word that is not a part of a split, by its place."""
    try:
        split_from_column([word], [place])
    except ValueError as error:
        if "it may say" in str(error):
            raise


def pack_graphs(
    graphs: Iterable[Data],
    output: str | Path,
    *,
    split: str | Path | Split = "random",
    fractions: Fractions = DRAWN_FRACTIONS,
    seed: int = 0,
    task: AnyKind = "auto",
    metric: str | None = None,
    ignore: Collection[str] = (),
    name: str | None = None,
    shards: int | None = None,
    shard_size: int | None = None,
    on_progress: Tell | None = None,
) -> Dataset:
    """Packs the graphs of a PyG data set, or any that come one after the other, into a folder; see `pack_csv`.

    Graphs are taken one by one and are never in memory together, so that a data set on disk or a generator may give
    more than fit. Each must have a target `y` of the graph.

    Args:
        graphs: `Data` one after the other; an `OnDiskDataset` or another data set of PyG is gone through.
        output: The folder to write, which must be new or empty.
        split: `random`, `stratified` (by class), a JSON file as `read_split` reads it, or the split itself.
        fractions: The shares of training, validation and test, if they are drawn, which `seed` fixes.
        task: The kind of the task; found from `y` with `auto`, as `targets_from_tensor` says.
        metric: The score; the usual one of the task when None.
        ignore: Names of attributes to leave out, as in `from_pyg`.
        name: What to call it in reports; the name of the folder when None.
        shards: As in `pack_csv`; so are `shard_size` and `on_progress`.

    Raises:
        ValueError: For anything wrong with the graphs or the choices; the message says what to do.
    """
    if isinstance(graphs, Data) or (not hasattr(graphs, "__iter__") and not hasattr(graphs, "__getitem__")):
        raise ValueError(f"graphs must be PyG Data, one after the other, not {shown(graphs)}.")
    if name is not None:
        check_type("name", name, str)
    in_files, tell = Shards(shards, shard_size), on_progress or (lambda _: None)
    targets: list[Tensor] = []
    with new_folder(output) as folder, ExitStack() as files:
        spool, count = Spool(files, folder), 0
        stream = iter(graphs)
        sizes_of: dict[str, NDArray[np.int64] | None] = {"x": None, "edge_attr": None}
        while piece := list(islice(stream, _ROWS_AT_A_TIME)):
            store = _piece(piece, count, ignore)
            assert store.y is not None
            targets.append(store.y)
            rows: dict[str, Any] = {"edges": store.edge_index.t().int().numpy()}
            for part in sizes_of:
                if (features := getattr(store, part)) is not None:
                    rows[part], sizes_of[part] = _features(part, features, sizes_of[part])
            spool.append(store.sizes.t().int().numpy(), [str(count + i) for i in range(len(store))], **rows)
            count += len(piece)
            tell(f"{count:,} graphs read")
        if not count:
            raise ValueError("There are no graphs.")
        settled, y = targets_from_tensor(_all_targets(targets), task, metric, "graph")
        labels = y if settled.kind in ("binary", "multiclass") else None
        categories = {part: () if most is None else tuple((most + 1).tolist()) for part, most in sizes_of.items()}
        parts = choose_split(split, count, labels, fractions, seed)
        spool.write(
            folder,
            np.ones(count, bool),
            name=name or Path(output).name,
            task=settled,
            y=y,
            sample_weight=None,
            split=parts,
            shards=in_files,
            node_categories=categories["x"],
            edge_categories=categories["edge_attr"],
            on_progress=tell,
        )
    return _opened(output)


def _piece(graphs: list[Data], first: int, ignore: Collection[str]) -> GraphStore:
    """Some graphs with targets. What is refused is named by its place among all graphs; these begin at `first`."""
    try:
        store = GraphStore.from_graphs(graphs, level="graph", ignore=ignore)
        if store.y is None:
            raise ValueError("The graphs have no targets: set y.")
        if store.u is not None:
            raise ValueError("A packed store does not keep features u of graphs: give ignore=['u'].")
    except ValueError as error:
        text, is_named = re.subn(r"(?<=[Gg]raph )\d+", lambda place: str(first + int(place[0])), str(error), count=1)
        where = "" if is_named else f"Of the graphs from number {first} on, counted from 0: "
        raise ValueError(f"{where}{text}") from None
    return store


def _features(
    name: str, features: Tensor, most: NDArray[np.int64] | None
) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """The rows of features, and the largest category of each column so far; None for numbers."""
    found, sizes = categories_of(name, features)
    if found is None:  # no graph of the piece has any
        return (features.unsqueeze(1) if features.dim() == 1 else features).numpy(), most
    rows: NDArray[Any] = found.numpy()
    if not sizes:
        return rows, None
    here = np.array(sizes) - 1
    return rows.astype(np.int64), here if most is None else np.maximum(most, here)


def _all_targets(targets: list[Tensor]) -> Tensor:
    if len({rows.shape[1:] for rows in targets}) > 1:
        raise ValueError("The graphs have targets y of different shapes: give all the same.")
    return torch.cat(targets)


def _opened(output: str | Path) -> Dataset:
    from crawl.data.packed import open_packed

    return open_packed(output, verify=False)
