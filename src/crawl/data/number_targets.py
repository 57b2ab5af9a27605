"""Targets of very many rows, as numbers: what `targets_from_text` finds, in a few bytes for each row."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crawl.data.targets import MOST_CLASSES, AnyKind, as_numbers, class_name, may_miss
from crawl.data.task import Kind, Task


def targets_from_numbers(
    names: tuple[str, ...], values: NDArray[np.float64], kind: AnyKind = "auto", metric: str | None = None
) -> tuple[Task, Tensor, NDArray[np.bool_]] | None:
    """The task, the targets of the usable rows, and which rows these are; as `targets_from_text` of the same columns.

    None where that would refuse the columns, for it says why.

    Args:
        names: The columns.
        values: `[rows, columns]` what `value_of` finds in their cells: numbers, NaN where one is missing.
        kind: The kind of the task, or `auto`.
        metric: The score; the usual one of the task when None.
    """
    is_missing, metric = np.isnan(values), metric or ""
    if not len(values) or is_missing.all(axis=0).any() or (kind in ("binary", "multiclass") and len(names) > 1):
        return None
    is_yes_or_no = is_missing | (values == 0) | (values == 1)
    resolved = _kind(values, is_missing, is_yes_or_no) if kind == "auto" else kind
    lacks = is_missing.all(axis=1) if may_miss(resolved, len(names)) else is_missing.any(axis=1)
    usable = np.asarray(~lacks)
    if resolved == "multilabel":
        usable &= is_yes_or_no.all(axis=1)
    kept = values if usable.all() else values[usable]
    if not len(kept) or (resolved != "multilabel" and (np.nanmin(kept, 0) == np.nanmax(kept, 0)).any()):
        return None
    if resolved in ("regression", "multilabel"):
        task = Task(kind=resolved, num_outputs=len(names), metric=metric, target_names=names)
        return task, as_numbers(torch.from_numpy(kept)), usable
    classes, y = np.unique(kept[:, 0], return_inverse=True)
    if resolved == "binary" and len(classes) > 2:
        return None
    task = Task(
        kind=resolved,
        num_outputs=1 if resolved == "binary" else len(classes),
        metric=metric,
        target_names=names,
        class_names=tuple(class_name(value) for value in classes.tolist()),
    )
    return task, torch.from_numpy(y.astype(np.int64)), usable


def _kind(values: NDArray[np.float64], is_missing: NDArray[np.bool_], is_yes_or_no: NDArray[np.bool_]) -> Kind:
    if values.shape[1] > 1:
        return "multilabel" if is_yes_or_no.all() else "regression"
    given = values[~is_missing]
    if not (given == np.floor(given)).all():
        return "regression"
    number = len(np.unique(given))
    if number <= 2:
        return "binary"
    return "multiclass" if 2 * number <= len(given) and number <= MOST_CLASSES else "regression"
