"""Whether graphs are those of a benchmark, as far as numbers can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crawl.data.benchmarks.packed import Packed
from crawl.data.benchmarks.record import Benchmark
from crawl.data.store import GraphStore

TOLERANCE = 0.02  # of means, which are published with few digits
REBUILT_TOLERANCE = 0.2  # superpixels depend on the version of scikit-image
_MOST_SHOWN = 12  # values in a message


def check(benchmark: Benchmark, packed: Packed, source: Path | str) -> None:
    """Refuse graphs from a file, `source`, that are not those of the benchmark.

    Means may be off by 2 %, or by 20 % if the graphs are `rebuilt`. All else must agree.
    """
    problem = (
        _problem_with_parts(benchmark, packed)
        or _problem_with_sizes(benchmark, packed)
        or _problem_with_features(benchmark, packed)
        or _problem_with_targets(benchmark, packed.store)
    )
    if problem:
        raise ValueError(
            f"{source} is not {benchmark.title} as published: {problem}. It is truncated or another file; get it "
            "again and import it again."
        )


def _problem_with_parts(benchmark: Benchmark, packed: Packed) -> str | None:
    num_graphs, expected = len(packed.store), benchmark.statistics
    if benchmark.num_folds:
        if num_graphs != expected.total:
            return f"it has {num_graphs:,} graphs, not {expected.total:,}"
        folds = torch.empty(0) if packed.test_fold is None else packed.test_fold
        if folds.shape != (num_graphs,):
            return f"it has folds for {folds.numel():,} graphs, not {num_graphs:,}"
        return _problem_with_values("folds", folds, benchmark.num_folds) or _problem_with_fold_sizes(folds)
    if packed.split is None:
        return "it is not divided into parts"
    found = tuple(len(part) for part in (packed.split.train, packed.split.val, packed.split.test))
    if found != expected.num_graphs or num_graphs != expected.total:
        wrong = found if found != expected.num_graphs else (num_graphs,)
        return f"it has {_numbers(wrong)} graphs, not {_numbers(expected.num_graphs)}"
    last = int(packed.split.ids[-1])
    return f"its split names graph {last:,}, but the last is {num_graphs - 1:,}" if last >= num_graphs else None


def _problem_with_fold_sizes(folds: Tensor) -> str | None:
    """Published folds are as equal as they can be."""
    sizes = torch.bincount(folds.long())
    if int(sizes.max() - sizes.min()) <= 1:
        return None
    return f"its folds have {int(sizes.min()):,} to {int(sizes.max()):,} graphs"


def _problem_with_sizes(benchmark: Benchmark, packed: Packed) -> str | None:
    store, expected = packed.store, benchmark.statistics
    tolerance = REBUILT_TOLERANCE if packed.origin == "rebuilt" else TOLERANCE
    sizes = {"nodes": (store.num_nodes, expected.mean_nodes), "edges": (store.num_edges, expected.mean_edges)}
    for what, (number, mean) in sizes.items():
        if abs(number / len(store) - mean) > tolerance * mean:
            return f"its graphs have {number / len(store):.2f} {what} on average, not {mean:.2f}"
    if packed.pos is not None and packed.pos.shape != (store.num_nodes, 2):
        return f"the coordinates of its {store.num_nodes:,} nodes have the shape {list(packed.pos.shape)}"
    return None


def _problem_with_features(benchmark: Benchmark, packed: Packed) -> str | None:
    store = packed.store
    for what, features, width, sizes in zip(
        ("nodes", "edges"), (store.x, store.edge_attr), benchmark.widths, benchmark.categories, strict=True
    ):
        if features is None:
            if sizes or width > 1:
                return f"its {what} have no features"
            continue
        rows, num_columns = features.reshape(len(features), -1), len(sizes) or width
        if rows.shape[1] != num_columns:
            return f"its {what} have {rows.shape[1]} features, not {num_columns}"
        if rows.is_floating_point() == bool(sizes):
            return f"the features of its {what} are {'no ' if sizes else ''}categories"
        if not bool(rows.isfinite().all()):
            return f"the features of its {what} are not all finite"
        if sizes:
            problem = _problem_with_categories(rows, sizes, width)
            if problem:
                return f"its {what} have {problem}"
    return None


def _problem_with_categories(rows: Tensor, sizes: tuple[int, ...], width: int) -> str | None:
    wrong = rows[(rows < 0) | (rows >= torch.tensor(sizes))]
    if wrong.numel():
        return f"the category {int(wrong[0])}, which is not known"
    num_values = sum(len(_distinct(column)) for column in rows.unbind(1))
    return f"{num_values} categories, not {width} at most" if num_values > width else None


def _problem_with_targets(benchmark: Benchmark, store: GraphStore) -> str | None:
    y, task = store.y, benchmark.task
    if y is None:
        return "it has no targets"
    if store.y_per_node != (task.level == "node"):
        return f"its targets do not belong to {task.level}s"
    is_class = task.kind in ("binary", "multiclass")
    rows = y.reshape(len(y), -1)
    num_targets = rows.shape[1]
    if not benchmark.columns and num_targets != (1 if is_class else task.num_outputs):
        return f"it has {num_targets} targets, not {1 if is_class else task.num_outputs}"
    if num_targets <= max(benchmark.columns, default=-1):
        return f"it has {num_targets} targets"
    num_missing = int(rows.isnan().sum())
    if num_missing and not benchmark.has_missing:
        return f"{num_missing:,} of its targets are missing (NaN)"
    if is_class:
        return _problem_with_values("classes", y, max(2, task.num_outputs))
    if task.kind == "multilabel":
        return _problem_with_values("labels", rows[~rows.isnan()], 2)
    if not bool(rows.isfinite().all()):
        return "its targets are not all finite"
    return "a target is the same everywhere" if bool((rows == rows[0]).all(dim=0).any()) else None


def _problem_with_values(what: str, values: Tensor, number: int) -> str | None:
    found = _distinct(values)
    if found == list(range(number)):
        return None
    shown = [f"{value:g}" for value in found[:_MOST_SHOWN]] + ["…"] * (len(found) > _MOST_SHOWN)
    return f"its {what} are [{', '.join(shown)}], not 0 to {number - 1}"


def _distinct(values: Tensor) -> list[Any]:
    found: list[Any] = values.unique().tolist()  # type: ignore[no-untyped-call]
    return found


def _numbers(values: tuple[int, ...]) -> str:
    return " / ".join(f"{value:,}" for value in values)
