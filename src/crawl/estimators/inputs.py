"""What estimators are given, checked: targets, classes, and which features are categories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from crawl.checks import shown
from crawl.data.features import ATOM_CATEGORIES, BOND_CATEGORIES, sizes_of_categories
from crawl.data.targets import as_numbers
from crawl.data.task import Level, Task

Array: TypeAlias = NDArray[np.float64]

_MIXED = "y mixes classes of different kinds: give words, or give numbers."
_MOST_CATEGORIES = 1000  # in one column of integers; more are taken for a mistake


def numbers_of(y: Any, nodes: Sequence[Any] | None = None) -> Tensor:
    """`[n]` or `[n, k]` numbers: float32, or float64 where float32 would not tell them apart.

    NaN is a missing number where each graph has several, of which one is known at least. Messages name the graphs by
    their rows, or the `nodes` that the numbers belong to.
    """
    if y is None:
        raise ValueError("A regressor requires y to be passed, but the target y is None.")
    try:
        given = np.array(y)
        targets = torch.from_numpy(given if given.dtype == np.int64 else np.array(y, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise ValueError("y must hold real numbers, one or a row of them for each graph.") from None
    if targets.dim() not in (1, 2) or targets.shape[1:] == (0,):
        raise ValueError(f"y must have one number or a row of numbers for each graph, not shape {list(targets.shape)}.")
    may_miss = targets.dim() == 2 and targets.shape[1] > 1
    wrong = (targets.float().isinf() if may_miss else ~targets.float().isfinite()).nonzero()
    if wrong.numel():
        raise ValueError(
            f"{_place(int(wrong[0, 0]), nodes)} is {'' if may_miss else 'NaN or '}infinite: leave out this "
            f"{_owner(nodes)}."
        )
    if may_miss:
        _refuse_unknown(targets.isnan().numpy())
    return as_numbers(targets)


def labels_of(y: Any) -> Tensor | None:
    """`[n, k]` 0, 1 or NaN, which is missing, if `y` has a row of several labels for each graph; else None."""
    try:
        given = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):  # words, say
        return None
    if given.ndim != 2 or given.shape[1] < 2:
        return None
    wrong = ~(np.isnan(given) | (given == 0) | (given == 1))
    if wrong.any():
        i, k = np.argwhere(wrong)[0]
        raise ValueError(f"y[{i}, {k}] is {given[i, k]:g}: several labels of a graph must be 0, 1 or NaN.")
    _refuse_unknown(np.isnan(given))
    return torch.from_numpy(given).float()


def _refuse_unknown(is_missing: NDArray[np.bool_]) -> None:
    """Refuse rows and columns of targets of which nothing is known."""
    if len(is_missing) and (of_rows := is_missing.all(axis=1)).any():
        raise ValueError(f"y[{int(of_rows.argmax())}] has no target that is known: leave out this graph.")
    if len(is_missing) and (of_columns := is_missing.all(axis=0)).any():
        raise ValueError(f"y[:, {int(of_columns.argmax())}] has no target that is known: leave out this column.")


def classes_of(y: Any, nodes: Sequence[Any] | None = None) -> tuple[NDArray[Any], Tensor]:
    """The classes in their order, and `[n]` the number of the class of each graph, or of each of the `nodes`."""
    classes, codes = np.unique(checked_classes(y, nodes), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y holds one class only ({', '.join(map(str, classes))}): there is nothing to tell apart.")
    return classes, torch.from_numpy(codes.astype(np.int64))


def checked_classes(y: Any, nodes: Sequence[Any] | None = None) -> NDArray[Any]:
    """`[n]` the class of each graph, or of each of the `nodes`, by which messages name them: all words or numbers."""
    owner = _owner(nodes)
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None.")
    may_mix = isinstance(y, Iterable) and getattr(y, "dtype", np.dtype(object)) == np.dtype(object)
    if may_mix and not isinstance(y, Tensor):
        known = [label for label in y if isinstance(label, str | bytes | int | float | np.generic) and label == label]
        if len({isinstance(label, str | bytes) for label in known}) > 1:  # numpy would make words of the numbers
            raise ValueError(_MIXED)
    try:
        labels = column_or_1d(y, warn=True)
    except (TypeError, RuntimeError):  # not what scikit-learn says of a wrong shape
        raise ValueError(f"y must hold one class for each {owner}, a word or a number, not {shown(y)}.") from None
    for i, label in enumerate(labels):
        if label is None or label != label or label in (np.inf, -np.inf):
            raise ValueError(f"{_place(i, nodes)} is {label}, which is not a class: leave out this {owner}.")
    try:
        check_classification_targets(labels)
    except TypeError:  # as of 1 and 'a', which have no order
        raise ValueError(_MIXED) from None
    return np.asarray(labels)


def _place(row: int, nodes: Sequence[Any] | None) -> str:
    return f"y[{row}]" if nodes is None else f"The target of node {shown(nodes[row])}"


def _owner(nodes: Sequence[Any] | None) -> str:
    return "graph" if nodes is None else "node"


def class_task(classes: NDArray[Any], level: Level = "graph") -> Task:
    """The task of telling classes apart."""
    is_binary = len(classes) == 2
    return Task(
        kind="binary" if is_binary else "multiclass",
        level=level,
        num_outputs=1 if is_binary else len(classes),
        metric="accuracy",
        class_names=tuple(map(str, classes)),
    )


def categories_in(name: str, features: Tensor | None, of_molecules: bool) -> tuple[int, ...]:
    """How many values each column takes if they are categories: integers from 0 on."""
    if of_molecules:
        return ATOM_CATEGORIES if name == "x" else BOND_CATEGORIES
    if features is None or features.is_floating_point() or bool((features < 0).any()):
        return ()
    return sizes_of_categories(name, features, _MOST_CATEGORIES)


def weights_of(weights: Any, number: int, owner: str = "graph") -> Tensor:
    """A weight for each graph, or node. Refuses what are not numbers, one for each; training refuses those below 0."""
    try:
        found = torch.from_numpy(np.array(weights, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise ValueError(f"sample_weight must be {number} numbers, not {shown(weights)}.") from None
    if found.shape != (number,):
        raise ValueError(f"sample_weight must be {number} numbers, one for each {owner}, not {list(found.shape)}.")
    return found
