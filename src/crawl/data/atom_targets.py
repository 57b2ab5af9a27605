"""Targets of atoms, or bonds, in the cells of a table: a JSON list for each molecule, in their order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Literal

import torch
from torch import Tensor

from crawl.checks import shown
from crawl.data.targets import AnyKind, targets_from_text
from crawl.data.task import Task
from crawl.files import parse_json


def targets_of_atoms(
    columns: Mapping[str, Sequence[str]],
    num_atoms: Sequence[int],
    kind: AnyKind = "auto",
    metric: str | None = None,
    owner: Literal["atom", "bond"] = "atom",
) -> tuple[Task, Tensor, dict[int, str]]:
    """The task, the targets of all atoms of the usable rows, and for each other row the reason why it cannot be used.

    Args:
        columns: For each target its cells, such as `[0.1, null, 0.3]`: a number or a word for each atom, null where one
            is missing. Of several targets, an atom that lacks one counts for none.
        num_atoms: The number of atoms of each molecule, or of bonds, if `owner` says that values are theirs.
        kind: The kind of the task, as in `targets_from_text`, to which the values of all atoms are given.
        metric: The score; the usual one of the task when None.
        owner: What has a value.

    Missing numbers are NaN. A row is unusable if a cell is not a list of as many values as there are atoms, if no atom
    has a target, or if one lacks its class.
    """
    problems: dict[int, str] = {}
    rows: list[list[tuple[str, ...]]] = []  # the texts of each atom, for each molecule
    for i, number in enumerate(num_atoms):
        texts: list[tuple[str, ...]] = []
        try:
            texts = list(zip(*(_texts(name, cells[i], number, owner) for name, cells in columns.items()), strict=True))
            if not any(all(text) for text in texts):
                raise ValueError(f"no {owner} has a target" if number else f"the molecule has no {owner}s")
        except ValueError as error:
            problems[i] = str(error)
            texts = []
        rows.append(texts)
    first = [0, *accumulate(map(len, rows))]  # of the atoms of each molecule
    atoms = [text for texts in rows for text in texts]
    there = [k for k, text in enumerate(atoms) if all(text)]
    if not there:
        raise ValueError(f"No row has targets that can be used ({problems.get(0, 'there are none')}).")
    cells = {name: [atoms[k][j] for k in there] for j, name in enumerate(columns)}
    task, found, wrong = targets_from_text(cells, kind, metric)
    row_of = [i for i, texts in enumerate(rows) for _ in texts]
    for k, why in wrong.items():
        problems.setdefault(row_of[there[k]], f"{owner} {there[k] - first[row_of[there[k]]]}: {why}")
    has_classes = task.kind in ("binary", "multiclass")
    if has_classes:
        for k in sorted(set(range(len(atoms))) - set(there)):
            problems.setdefault(row_of[k], f"{owner} {k - first[row_of[k]]} has no class")
    known = [k for i, k in enumerate(there) if i not in wrong]
    y = (
        found.new_zeros(len(atoms), *found.shape[1:])
        if has_classes
        else found.new_full((len(atoms), found.shape[1]), math.nan)
    )
    y[known] = found
    kept = torch.tensor([i not in problems for i in row_of], dtype=torch.bool)
    return replace(task, level="node" if owner == "atom" else "pair"), y[kept], problems


def _texts(name: str, cell: str, number: int, owner: str) -> list[str]:
    """The values in a cell as a table would have them, each in a cell of its own; empty where one is missing."""
    if not cell.strip():
        raise ValueError(f"{name} is missing")
    try:
        values: Any = parse_json(cell)
    except ValueError:
        raise ValueError(f"{name} is {shown(cell)}, not a list such as [0.1, 0.3]") from None
    if not isinstance(values, list) or any(isinstance(value, list | dict) for value in values):
        raise ValueError(f"{name} is {shown(cell)}, not a list of numbers or words")
    if len(values) != number:
        raise ValueError(
            f"{name} has {len(values)} values, but the molecule {number} {owner}s (hydrogens, as [H], do not count)"
        )
    return ["" if value is None else str(int(value)) if isinstance(value, bool) else str(value) for value in values]
