"""Graphs that stand in the rows of a table beside their targets: which rows can be used, and how they are split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar, get_args

import torch
from torch import Tensor

from crawl.checks import as_list, as_path, check_choice, shown, suggestion
from crawl.data.atom_targets import targets_of_atoms
from crawl.data.splits import (
    Folds,
    Fractions,
    Split,
    choose_split,
    group_split,
    read_split,
    scaffolds_of,
    split_from_column,
)
from crawl.data.table import UNNAMED, Row, Table
from crawl.data.targets import AnyKind, targets_from_text
from crawl.data.task import Task

BadRows = Literal["skip", "refuse"]
T = TypeVar("T")


@dataclass(frozen=True)
class Labelled(Generic[T]):
    """The usable rows of a table, with their graphs and targets."""

    table: Table
    rows: tuple[Row, ...]
    graphs: tuple[T, ...]
    places: tuple[int, ...]  # of these rows among all of the table, usable or not
    num_rows: int  # usable or not
    task: Task
    y: Tensor
    skipped: tuple[str, ...]  # a line for each row that cannot be used, with the reason
    sample_weight: Tensor | None = None


def choose_targets(table: Table, names: str | Sequence[str], taken: Sequence[object]) -> tuple[str, ...]:
    """The columns to predict: those named, or else the only one that is not taken and has a name."""
    taken = [column for column in taken if isinstance(column, str)]
    names = (names,) if isinstance(names, str) else tuple(as_list("target_columns", names, "names of columns"))
    if not names:
        free = [column for column in table.columns if column not in taken]
        names = tuple(column for column in free if not column.startswith(UNNAMED))
        if len(names) != 1:
            raise ValueError(
                f"{table.title}: say which columns to predict, of: {', '.join(free) or '(there are none)'}."
            )
    for name in names:
        table.check_column(name)
        if name in taken:
            raise ValueError(f"Column {name!r} of {table.title} cannot be a target, too.")
    if len(set(names)) < len(names):
        raise ValueError(f"A target column is named twice: {', '.join(names)}.")
    return names


def label(
    table: Table,
    examples: Iterable[tuple[Row, T | str]],
    target_columns: Sequence[str],
    *,
    bad_rows: BadRows,
    task: AnyKind,
    metric: str | None,
    weight_column: str | None = None,
    values_of: tuple[Literal["atom", "bond"], Callable[[T], int]] | None = None,
) -> Labelled[T]:
    """The usable rows with their targets. An example is a row with its graph, or with the reason why there is none.

    If `values_of` names atoms or bonds, and tells how many a molecule has, the targets are theirs, in lists.
    """
    check_choice("bad_rows", bad_rows, get_args(BadRows))
    if weight_column is not None:
        table.check_column(weight_column)
    num_rows = 0
    problems: dict[int, str] = {}
    good: list[tuple[int, Row, T]] = []
    for place, (row, graph) in enumerate(examples):
        num_rows += 1
        if isinstance(graph, str):
            problems[place] = f"{row.place}: {graph}"
        elif weight_column is not None and weight_of(row.cells[weight_column]) is None:
            cell = row.cells[weight_column]
            problems[place] = f"{row.place}: {weight_column} is {cell!r}, not a finite number of 0 or more"
        else:
            good.append((place, row, graph))
    if not num_rows:
        raise ValueError(f"{table.title} has a header but no rows.")
    if good:
        columns = {name: [row.cells[name] for _, row, _ in good] for name in target_columns}
        try:
            if values_of is None:
                found, y, without_target = targets_from_text(columns, task, metric)
            else:
                owner, number_in = values_of
                sizes = [number_in(graph) for _, _, graph in good]
                found, y, without_target = targets_of_atoms(columns, sizes, task, metric, owner)
        except ValueError as error:
            raise ValueError(f"{table.title}: {error}") from None
        problems |= {good[i][0]: f"{good[i][1].place}: {why}" for i, why in without_target.items()}
        good = [example for i, example in enumerate(good) if i not in without_target]
    skipped = tuple(problems[place] for place in sorted(problems))
    if not good:
        raise ValueError(f"{table.title}: none of the {num_rows} rows can be used; {skipped[0]}.")
    if skipped and bad_rows == "refuse":
        more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
        raise ValueError(f"{table.title}, {skipped[0]}{more}; correct it, or skip bad rows.")
    places, rows, graphs = zip(*good, strict=True)
    weights = None
    if weight_column is not None:
        weights = torch.tensor([weight_of(row.cells[weight_column]) for row in rows], dtype=torch.float64)
    return Labelled(table, rows, graphs, places, num_rows, found, y, skipped, weights)


def weight_of(cell: str) -> float | None:
    """The weight in a cell; None if it is not a finite number of 0 or more."""
    try:
        weight = float(cell)
    except ValueError:
        return None
    return weight if 0 <= weight < math.inf else None


def split_labelled(
    labelled: Labelled[T],
    split: str | Path | Split | Folds,
    fractions: Fractions,
    seed: int,
    smiles: Sequence[str] | None = None,
) -> Split:
    """The split that the user asks for, as `from_csv` says; `smiles` are the molecules, if the graphs are any.

    The numbers in a file are those of the rows, from 0; if rows were left out, the file may also count the rows that
    are left.
    """
    table = labelled.table
    has_classes = labelled.task.kind in ("binary", "multiclass") and labelled.task.level == "graph"
    labels = labelled.y if has_classes else None
    if isinstance(split, Folds):
        return split.split(len(labelled.rows), labels, seed, smiles)
    if not isinstance(split, Split):
        as_path("split", split)
    if split == "scaffold":
        return group_split(scaffolds_of(smiles), fractions, seed)
    if isinstance(split, Split) or split in ("random", "stratified"):
        return choose_split(split, len(labelled.rows), labels, fractions, seed)
    if split in table.columns:
        table.check_column(str(split))
        values = [row.cells[str(split)] for row in labelled.rows]
        return split_from_column(values, [f"{row.place} of {table.title}" for row in labelled.rows])
    if Path(split).is_file():
        return split_for_kept_rows(split, labelled.places, labelled.num_rows, table.title)
    hint = suggestion(str(split), ("random", "stratified", "scaffold", *table.columns))
    raise ValueError(f"split is {shown(str(split))}, which is neither a way to split, a column nor a file.{hint}")


def split_for_kept_rows(path: str | Path, places: Sequence[int], num_rows: int, title: str) -> Split:
    """The split in a file by row numbers as one by graph ids: these differ if rows were left out.

    Args:
        path: A file for `read_split`.
        places: The rows that are left, from 0.
        num_rows: How many rows there were.
        title: What messages call the table.
    """
    split, num_graphs = read_split(path), len(places)
    ids = split.ids
    if num_graphs == num_rows or torch.equal(ids, torch.arange(num_graphs)):
        return split
    if not torch.equal(ids, torch.arange(num_rows)):
        raise ValueError(
            f"{num_rows - num_graphs} rows of {title} were left out, so the numbers in {path} "
            "are not clear; list every row there, or use a column for the split."
        )
    graph_of_row = torch.full((num_rows,), -1)
    graph_of_row[torch.as_tensor(places)] = torch.arange(num_graphs)
    train, val, test = (graph_of_row[part] for part in (split.train, split.val, split.test))
    return Split(train[train >= 0], val[val >= 0], test[test >= 0])
