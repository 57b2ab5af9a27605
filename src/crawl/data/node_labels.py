"""The labels of nodes in a table: what is to be predicted, of which rows, and how these are split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from crawl.checks import as_list, as_path, check_type, shown, suggestion
from crawl.data.nodes import check_classes
from crawl.data.splits import Fractions, Split, choose_split, read_split, split_from_column
from crawl.data.table import Table
from crawl.data.targets import AnyKind, targets_from_text
from crawl.data.task import Task

USUAL_FRACTIONS = (0.8, 0.1, 0.1)


@dataclass(frozen=True)
class LabelChoice:
    """Which column of a table of nodes to predict, and how its nodes are split; as in `from_nodes`."""

    label: str = "label"
    split: str | Path | Split = "auto"
    fractions: Fractions = USUAL_FRACTIONS
    seed: int = 0
    task: AnyKind = "auto"
    metric: str | None = None

    def __post_init__(self) -> None:
        check_type("label", self.label, str)
        if not isinstance(self.split, Split):
            as_path("split", self.split)
        as_list("fractions", self.fractions, "three shares")

    def of(self, table: Table) -> TableOfLabels:
        """The same choice for a table. Refuses columns that it does not have, or that are needed twice."""
        for column in ("id", self.label):
            table.check_column(column)
        split = self.split
        if isinstance(split, str) and split == "auto":
            split = "split" if "split" in table.columns else "random"
        is_column = isinstance(split, str) and split in table.columns and split not in ("random", "stratified")
        if is_column and tuple(self.fractions) != USUAL_FRACTIONS:
            raise ValueError(
                f"fractions={shown(tuple(self.fractions))} cannot change the split in the column {split!r}: leave it "
                "out."
            )
        if self.label in ("id", split):
            raise ValueError(f"Column {self.label!r} of {table.path} cannot be the label, too.")
        return TableOfLabels(table, self, split, str(split) if is_column else None)


@dataclass(frozen=True)
class LabelledNodes:
    """The rows of a table that have a label.

    Attributes:
        task: What is to be predicted.
        y: Their targets.
        places: Which rows they are, from 0.
        split: Which of them are for training, validation and test.
        skipped: A line for each row that has a part of the split, but no label, and for each whose label is a word that
            is read as missing.
    """

    task: Task
    y: Tensor
    places: list[int]
    split: Split
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class TableOfLabels:
    """A table of nodes, of which it is known what its columns are.

    Attributes:
        table: The table.
        choice: What was asked for.
        split: How to split: a way, a file, a column or the split itself.
        split_column: The column that says it; None if none does.
    """

    table: Table
    choice: LabelChoice
    split: str | Path | Split
    split_column: str | None

    @property
    def columns(self) -> set[str]:
        """The columns that are not features."""
        named = {self.split_column} if self.split_column else set()
        return {"id", self.choice.label, *named, *({"split"} & set(self.table.columns))}

    def labelled(self, cells: Callable[[str], Sequence[str]], lines: Sequence[int]) -> LabelledNodes:
        """The rows with a label; `cells` gives the text of all rows in a column, `lines` is where rows begin.

        Raises:
            ValueError: If a label or a split cannot be read, or training lacks a class.
        """
        table, label = self.table, self.choice.label
        try:
            kind, y, problems = targets_from_text({label: cells(label)}, self.choice.task, self.choice.metric)
        except ValueError as error:
            raise ValueError(f"{table.path}: {error}") from None
        for place, problem in problems.items():
            if not problem.startswith(f"{label} is missing"):
                raise ValueError(f"{table.path}, line {lines[place]}: {problem}; correct it.")
        places = [place for place in range(len(lines)) if place not in problems]
        labels = y if kind.kind in ("binary", "multiclass") else None
        if labels is not None and (below := [name for name in kind.class_names if _is_below_zero(name)]):
            texts = cells(label)
            place = next((place for place in places if _is_below_zero(texts[place])), places[0])
            raise ValueError(
                f"{table.path}, line {lines[place]}: {label} is {below[0]}, and classes are words, or numbers from 0: "
                "leave the cell empty if the label is missing, or rename the class."
            )
        parts = None if self.split_column is None else cells(self.split_column)
        skipped = self._skipped(sorted(problems), cells(label), parts, lines)
        if parts is not None:
            if empty := [place for place in places if not parts[place]]:
                place = empty[0]
                raise ValueError(
                    f"{table.path}, line {lines[place]}: its {label} is {cells(label)[place]}, but its "
                    f"{self.split_column} is empty: write train, val or test there, or empty its {label}."
                )
            where = [f"line {lines[place]} of {table.path}" for place in places]
            chosen = split_from_column([parts[place] for place in places], where)
        else:
            chosen = self._chosen(places, len(lines), labels)
        if labels is not None:
            check_classes(
                labels, chosen, kind.class_names, lambda target: f"{table.path}, line {lines[places[target]]}"
            )
        return LabelledNodes(replace(kind, level="node"), y, places, chosen, skipped)

    def _skipped(
        self, gaps: Sequence[int], cells: Sequence[str], parts: Sequence[str] | None, lines: Sequence[int]
    ) -> tuple[str, ...]:
        """A line for each row without a label that has a part of the split, or a word that is read as missing."""
        found, label = [], self.choice.label
        for place in gaps:
            word = f" ({shown(cells[place])} is read so: a class needs another name)" if cells[place] else ""
            if parts is not None and parts[place]:
                part = f"its {self.split_column} is {parts[place]}"
                found.append(f"line {lines[place]}: {part}, but its {label} is missing{word}")
            elif word:
                found.append(f"line {lines[place]}: its {label} is missing{word}")
        return tuple(found)

    def _chosen(self, places: Sequence[int], num_rows: int, labels: Tensor | None) -> Split:
        """A split that no column says."""
        split, choice = self.split, self.choice
        if isinstance(split, Split) or str(split) in ("random", "stratified"):
            return choose_split(split, len(places), labels, choice.fractions, choice.seed)
        if Path(split).is_file():
            return _by_rows(read_split(split), places, num_rows, f"{split}", self.table.path.name)
        hint = suggestion(str(split), ("random", "stratified", *self.table.columns))
        raise ValueError(f"split is {shown(str(split))}, which is neither a way to split, a column nor a file.{hint}")


def _is_below_zero(name: str) -> bool:
    try:
        return float(name) < 0
    except ValueError:
        return False


def _by_rows(split: Split, places: Sequence[int], num_rows: int, path: str, table: str) -> Split:
    """A split by row numbers as one by targets: these differ if labels are missing."""
    ids = split.ids
    if ids.numel() and int(ids[-1]) >= num_rows:
        raise ValueError(f"{path} names row {int(ids[-1])}, but the last row of {table} is {num_rows - 1}.")
    target_of = torch.full((num_rows,), -1)
    target_of[list(places)] = torch.arange(len(places))
    if bool((target_of[ids] < 0).any()):
        row = int(ids[target_of[ids] < 0][0])
        raise ValueError(f"{path} names row {row} of {table}, which has no label: leave it out.")
    return Split(*(target_of[part] for part in (split.train, split.val, split.test)))
