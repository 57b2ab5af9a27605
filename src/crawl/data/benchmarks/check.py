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
    try:
        _check_parts(benchmark, packed)
        _check_sizes(benchmark, packed)
        _check_features(benchmark, packed.store)
        _check_targets(benchmark, packed.store)
    except _Other as problem:
        raise ValueError(
            f"{source} is not {benchmark.title} as published: {problem}. It is truncated or another file; get it "
            "again and import it again."
        ) from None


class _Other(Exception):
    """The graphs are others; the message says why."""


def _refuse(is_wrong: bool | Tensor, problem: str) -> None:
    if is_wrong:
        raise _Other(problem)


def _check_parts(benchmark: Benchmark, packed: Packed) -> None:
    num_graphs, expected = len(packed.store), benchmark.statistics
    if benchmark.num_targets:
        _check_nodes(benchmark, packed)
        return
    if benchmark.num_folds:
        _refuse(num_graphs != expected.total, f"it has {num_graphs:,} graphs, not {expected.total:,}")
        folds = torch.empty(0) if packed.test_fold is None else packed.test_fold
        _refuse(folds.shape != (num_graphs,), f"it has folds for {folds.numel():,} graphs, not {num_graphs:,}")
        _check_values("folds", folds, benchmark.num_folds)
        low, high = torch.bincount(folds.long()).aminmax()  # published folds are as equal as they can be
        _refuse(high - low > 1, f"its folds have {int(low):,} to {int(high):,} graphs")
        return
    if packed.split is None:
        raise _Other("it is not divided into parts")
    found = tuple(len(part) for part in (packed.split.train, packed.split.val, packed.split.test))
    wrong = (num_graphs,) if found == expected.num_graphs else found
    problem = f"it has {_numbers(wrong)} graphs, not {_numbers(expected.num_graphs)}"
    _refuse(found != expected.num_graphs or num_graphs != expected.total, problem)
    last = int(packed.split.ids[-1])
    _refuse(last >= num_graphs, f"its split names graph {last:,}, but the last is {num_graphs - 1:,}")


def _check_nodes(benchmark: Benchmark, packed: Packed) -> None:
    num_splits, num_nodes = max(benchmark.num_folds, 1), packed.store.num_nodes
    parts = torch.empty(0) if packed.parts is None else packed.parts
    _refuse(len(packed.store) != 1, f"it has {len(packed.store):,} graphs, not one")
    problem = f"it has {list(parts.shape)} parts of nodes, not {[num_splits, num_nodes]}"
    _refuse(parts.shape != (num_splits, num_nodes), problem)
    for split in parts:
        found = tuple(int((split == part).sum()) for part in range(1, 4))
        problem = f"a split has {_numbers(found)} nodes, not {_numbers(benchmark.num_targets)}"
        _refuse(found != benchmark.num_targets, problem)


def _check_sizes(benchmark: Benchmark, packed: Packed) -> None:
    store, expected = packed.store, benchmark.statistics
    tolerance = REBUILT_TOLERANCE if packed.origin == "rebuilt" else TOLERANCE
    sizes = {"nodes": (store.num_nodes, expected.mean_nodes), "edges": (store.num_edges, expected.mean_edges)}
    for what, (number, mean) in sizes.items():
        found = number / len(store)
        problem = f"its graphs have {found:.2f} {what} on average, not {mean:.2f}"
        _refuse(abs(found - mean) > tolerance * mean, problem)
    if packed.pos is not None:
        problem = f"the coordinates of its {store.num_nodes:,} nodes have the shape {list(packed.pos.shape)}"
        _refuse(packed.pos.shape != (store.num_nodes, 2), problem)


def _check_features(benchmark: Benchmark, store: GraphStore) -> None:
    for what, features, width, sizes in zip(
        ("nodes", "edges"), (store.x, store.edge_attr), benchmark.widths, benchmark.categories, strict=True
    ):
        if features is None:
            _refuse(bool(sizes) or width > 1, f"its {what} have no features")
            continue
        rows, num_columns = features.reshape(len(features), -1), len(sizes) or width
        _refuse(rows.shape[1] != num_columns, f"its {what} have {rows.shape[1]} features, not {num_columns}")
        is_other = rows.is_floating_point() == bool(sizes)
        _refuse(is_other, f"the features of its {what} are {'no ' if sizes else ''}categories")
        _refuse(~rows.isfinite().all(), f"the features of its {what} are not all finite")
        if sizes:
            unknown = rows[(rows < 0) | (rows >= torch.tensor(sizes))]
            if unknown.numel():
                raise _Other(f"its {what} have the category {int(unknown[0])}, which is not known")
            num_values = sum(len(_distinct(column)) for column in rows.unbind(1))
            _refuse(num_values > width, f"its {what} have {num_values} categories, not {width} at most")


def _check_targets(benchmark: Benchmark, store: GraphStore) -> None:
    y, task = store.y, benchmark.task
    if y is None:
        raise _Other("it has no targets")
    _refuse(store.y_per_node != (task.level == "node"), f"its targets do not belong to {task.level}s")
    is_class = task.kind in ("binary", "multiclass")
    rows = y.reshape(len(y), -1)
    num_targets, expected = rows.shape[1], 1 if is_class else task.num_outputs
    _refuse(not benchmark.columns and num_targets != expected, f"it has {num_targets} targets, not {expected}")
    _refuse(num_targets <= max(benchmark.columns, default=-1), f"it has {num_targets} targets")
    num_missing = int(rows.isnan().sum())
    _refuse(num_missing > 0 and not benchmark.has_missing, f"{num_missing:,} of its targets are missing (NaN)")
    if is_class:
        _check_values("classes", y, max(2, task.num_outputs))
    elif task.kind == "multilabel":
        _check_values("labels", rows[~rows.isnan()], 2)
    else:
        _refuse(~rows.isfinite().all(), "its targets are not all finite")
        _refuse((rows == rows[0]).all(dim=0).any(), "a target is the same everywhere")


def _check_values(what: str, values: Tensor, number: int) -> None:
    found = _distinct(values)
    shown = [f"{value:g}" for value in found[:_MOST_SHOWN]] + ["…"] * (len(found) > _MOST_SHOWN)
    _refuse(found != list(range(number)), f"its {what} are [{', '.join(shown)}], not 0 to {number - 1}")


def _distinct(values: Tensor) -> list[Any]:
    found: list[Any] = values.unique().tolist()  # type: ignore[no-untyped-call]
    return found


def _numbers(values: tuple[int, ...]) -> str:
    return " / ".join(f"{value:,}" for value in values)
