"""What is known about a benchmark: where it comes from, what is to be predicted, and what its size must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crawl.data.benchmarks.packed import Packed
from crawl.data.dataset import Dataset
from crawl.data.task import Task

_TOLERANCE = 0.02  # of means, which are published with few digits


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """The published size of a benchmark.

    Attributes:
        num_graphs: The graphs for training, validation and test; or of all together, where there are folds.
        mean_nodes: Nodes of a graph.
        mean_edges: Edges of a graph, an undirected one counted twice; None if that is not to be checked.
    """

    num_graphs: tuple[int, ...]
    mean_nodes: float
    mean_edges: float | None

    @property
    def total(self) -> int:
        """The number of graphs (G)."""
        return sum(self.num_graphs)


@dataclass(frozen=True, kw_only=True)
class Loader:
    """How PyG or OGB read a benchmark.

    Attributes:
        folder: Where the loader expects the files, below `raw` in the data root.
        files: Their names.
        read: From the folder `raw` in the data root to the graphs. Downloads what is not there.
    """

    folder: str
    files: tuple[str, ...]
    read: Callable[[Path], Packed]


@dataclass(frozen=True, kw_only=True)
class Form:
    """Other files that a benchmark can be imported from.

    Attributes:
        files: Their names; one that ends in .gz may also come without.
        read: From the folder that holds them to the graphs.
    """

    files: tuple[str, ...]
    read: Callable[[Path], Packed]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: What it is called in commands and configurations.
        title: What it is called in tables.
        about: Its graphs, in a few words.
        task: What is to be predicted, and how it is scored.
        statistics: What its size must be.
        widths: The widths of node and edge features of the published models; unit vectors for categories.
        num_columns: How many columns of categories these are made of; 0 for numbers.
        file: The name of its file in the data root, without `.npz`; benchmarks may share one. Empty if the graphs are
            made in code.
        loader: PyG's or OGB's way to get it.
        forms: Other files it can be made from.
        num_folds: The number of folds, 0 if the parts are fixed.
        column: If the file has several targets, the one to take; it is divided by its standard deviation.
        is_symmetric: Whether edges get their reverse, which may lack in a graph of nearest neighbours.
        make: For graphs made in code, from the fold to the data set.
    """

    name: str
    title: str
    about: str
    task: Task
    statistics: Statistics
    widths: tuple[int, int] = (1, 1)
    num_columns: tuple[int, int] = (0, 0)
    file: str = ""
    loader: Loader | None = None
    forms: tuple[Form, ...] = ()
    num_folds: int = 0
    column: int | None = None
    is_symmetric: bool = False
    make: Callable[[int], Dataset] | None = None


def check(benchmark: Benchmark, packed: Packed, source: Path | str) -> None:
    """Refuse graphs that are not those of the benchmark.

    Graphs that are `rebuilt` must agree in the number of graphs and classes, and roughly in their size.

    Raises:
        ValueError: One line that names the file and says what is wrong.
    """
    problem = _problem(benchmark, packed)
    if problem:
        raise ValueError(
            f"{source} is not {benchmark.title} as published: {problem}. It is truncated or another file; get it "
            f"again, then: crawl datasets import {benchmark.name} PATH"
        )


def _problem(benchmark: Benchmark, packed: Packed) -> str | None:
    """What is wrong with the graphs, if anything."""
    store, expected = packed.store, benchmark.statistics
    if packed.split is not None and len(expected.num_graphs) > 1:
        found = tuple(len(part) for part in (packed.split.train, packed.split.val, packed.split.test))
    else:
        found = (len(store),)
    if found != expected.num_graphs or len(store) != expected.total:
        return f"it has {_numbers(found)} graphs, not {_numbers(expected.num_graphs)}"
    if benchmark.num_folds:
        folds = None if packed.test_fold is None else packed.test_fold.unique().tolist()  # type: ignore[no-untyped-call]
        if folds != list(range(benchmark.num_folds)):
            return f"its folds are {folds}, not 0 to {benchmark.num_folds - 1}"
    tolerance = 0.2 if packed.origin == "rebuilt" else _TOLERANCE
    for what, value, mean in (
        ("nodes", store.num_nodes, expected.mean_nodes),
        ("edges", store.num_edges, expected.mean_edges),
    ):
        if mean is not None and abs(value / len(store) - mean) > tolerance * mean:
            return f"its graphs have {value / len(store):.2f} {what} on average, not {mean:.2f}"
    for what, features, width in zip(("nodes", "edges"), (store.x, store.edge_attr), benchmark.widths, strict=True):
        if features is not None and features.is_floating_point() and features[:1].numel() != width:
            return f"its {what} have {features[:1].numel()} features, not {width}"
    return _problem_with_targets(benchmark, packed)


def _problem_with_targets(benchmark: Benchmark, packed: Packed) -> str | None:
    y, task = packed.store.y, benchmark.task
    if y is None:
        return "it has no targets"
    if task.kind in ("binary", "multiclass"):
        num_classes = 2 if task.kind == "binary" else task.num_outputs
        found = y.unique().tolist()  # type: ignore[no-untyped-call]
        return None if found == list(range(num_classes)) else f"its classes are {found}, not 0 to {num_classes - 1}"
    num_targets = 1 if y.dim() == 1 else y.shape[1]
    if benchmark.column is not None:
        return None if num_targets > benchmark.column else f"it has {num_targets} targets"
    return None if num_targets == task.num_outputs else f"it has {num_targets} targets, not {task.num_outputs}"


def _numbers(values: tuple[int, ...]) -> str:
    return " / ".join(f"{value:,}" for value in values)
