"""Features of whole graphs from the columns of a table, and descriptors of molecules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crawl.checks import as_list
from crawl.data.features import Column, Unknown
from crawl.data.table import Row, Table
from crawl.data.targets import Value, is_mostly_numbers, value_of

_MOST_WORDS = 1000  # in one column; more are taken for names
_MOST_MISSING = 0.1  # of training molecules: a descriptor that more do not have is dropped

Cells = Mapping[str, str]
Floats = NDArray[np.float64]


def check_graph_columns(
    table: Table, names: str | Sequence[str], taken: Sequence[tuple[str, object]]
) -> tuple[str, ...]:
    """The columns that are to be features. Refuses one that is not there, is named twice, or is something else: `taken`
    says what, such as `a SMILES column`, and which column that is."""
    names = (names,) if isinstance(names, str) else tuple(as_list("feature_columns", names, "names of columns"))
    for name in names:
        table.check_column(name)
        for what, other in taken:
            if name == other:
                raise ValueError(f"Column {name!r} of {table.title} is {what}, so it cannot be a feature, too.")
    if len(set(names)) < len(names):
        raise ValueError(f"A feature column is named twice: {', '.join(names)}.")
    return names


def kinds_of_columns(rows: Sequence[Row], names: Sequence[str]) -> tuple[Column, ...]:
    """What each column is, from its values: numbers if more are numbers than words, or else words, whose list is not
    known yet. Refuses a column without values."""
    found = []
    for name in names:
        values = [value_of(row.cells[name]) for row in rows if row.problem is None]
        if all(value is None for value in values):
            raise ValueError(f"Column {name!r} has no values.")
        found.append(Column(name, None if is_mostly_numbers(values) else ("",)))
    return tuple(found)


def problem_of(cells: Cells, columns: Sequence[Column]) -> str | None:
    """Why a row cannot be used: a feature that is missing, or a word where others are numbers; None if it can."""
    for column in columns:
        value = value_of(cells[column.name])
        if value is None:
            return f"{column.name} is missing"
        if column.values is None and not isinstance(value, float):
            return f"{column.name} is {value!r}, not a number"
    return None


def fit_columns(cells: Sequence[Cells], columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns with the words that occur in these rows, those of the training part. Refuses a column that is the
    same in all of them, and very many words."""
    found = []
    for column in columns:
        values = {_word_or_number(column, row) for row in cells}
        if len(values) < 2:
            raise ValueError(
                f"Column {column.name!r} is {values.pop()} in every training row, so nothing can be learned from it: "
                "leave it out."
            )
        if column.values is not None and len(values) > _MOST_WORDS:
            raise ValueError(
                f"Column {column.name!r} has {len(values)} different words, too many for categories: leave it out."
            )
        words = None if column.values is None else tuple(sorted(str(value) for value in values))
        found.append(Column(column.name, words))
    return tuple(found)


def encode_graph_columns(cells: Sequence[Cells], columns: Sequence[Column], unknown: Unknown) -> Floats:
    """`[rows, K]` numbers as they are, words one-hot; a word that a column does not have is 0 everywhere, and counted
    in `unknown`. The rows have no problem that `problem_of` would tell."""
    parts = [np.empty((len(cells), 0))]
    for column in columns:
        values = [_word_or_number(column, row) for row in cells]
        if column.values is None:
            parts.append(np.array(values, dtype=np.float64).reshape(-1, 1))
            continue
        words = np.array([str(value) for value in values], dtype=object)
        known = [str(word) for word in column.values]
        unknown.add("graph", column.name, (word for word in words if word not in known))
        parts.append((words[:, None] == np.array(known, dtype=object)).astype(np.float64))
    return np.concatenate(parts, axis=1)


def choose_descriptors(names: Sequence[str], values: Floats) -> list[int]:
    """The positions of descriptors to keep, by their values, `[molecules, D]`, in the training part: those that are not
    missing (NaN) for more than a tenth of the molecules, and not the same for all others."""
    kept = []
    for i, _ in enumerate(names):
        there = values[~np.isnan(values[:, i]), i]
        if len(there) >= (1 - _MOST_MISSING) * len(values) and len(there) and there.min() < there.max():
            kept.append(i)
    return kept


def means_and_deviations(
    u: Tensor | None, columns: Sequence[Column], train: Tensor
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the standard deviation of each feature over the training graphs that have it; 0 and 1 for words
    one-hot, and a deviation of 1 where nothing differs."""
    if u is None:
        return (), ()
    rows = (u[train] if len(train) else u).double()
    is_there = ~rows.isnan()
    number = is_there.sum(dim=0).clamp_min(1)
    mean = rows.nan_to_num(0.0).sum(dim=0) / number
    deviation = (((rows - mean).nan_to_num(0.0) ** 2).sum(dim=0) / number).sqrt()
    is_word = [column.values is not None for column in columns for _ in column.values or (None,)]
    is_word += [False] * (rows.shape[1] - len(is_word))
    mean = torch.where(torch.tensor(is_word, device=mean.device), 0.0, mean)
    deviation = torch.where(torch.tensor(is_word, device=mean.device) | (deviation == 0), 1.0, deviation)
    return tuple(mean.tolist()), tuple(deviation.tolist())


def least_and_most(u: Tensor | None, train: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The least and the largest value of each feature over the training graphs that have it; 0 where none has."""
    if u is None:
        return (), ()
    rows = (u[train] if len(train) else u).double()
    if not len(rows):
        return (), ()
    least, most = rows.nan_to_num(torch.inf).amin(dim=0), rows.nan_to_num(-torch.inf).amax(dim=0)
    is_there = least <= most
    return tuple(torch.where(is_there, least, 0.0).tolist()), tuple(torch.where(is_there, most, 0.0).tolist())


def _word_or_number(column: Column, cells: Cells) -> Value:
    """The number, or the cell as it is written where the column has words."""
    return value_of(cells[column.name]) if column.values is None else cells[column.name]
