"""What is known about a benchmark: where it comes from, what is to be predicted, and what its size must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crawl.data.benchmarks.packed import Packed
from crawl.data.dataset import Dataset
from crawl.data.task import Task


@dataclass(frozen=True)
class Statistics:
    """The published size of a benchmark."""

    num_graphs: tuple[int, ...]  # for training, validation and test; or of all together, where there are folds
    mean_nodes: float
    mean_edges: float  # an undirected one counts twice

    @property
    def total(self) -> int:
        """The number of graphs (G)."""
        return sum(self.num_graphs)


@dataclass(frozen=True, kw_only=True)
class Form:
    """Files that a benchmark can be made from.

    Attributes:
        files: Their names; each may be compressed with gzip, its name then ends in .gz.
        read: From the paths of all of them, in this order, to the graphs.
        downloads: The addresses of zip archives, or of the files; () if they cannot be downloaded.
        sha256: The checksum of each download, where one is known.
    """

    files: tuple[str, ...]
    read: Callable[..., Packed]
    downloads: tuple[str, ...] = ()
    sha256: str = ""


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: What it is called in commands and configurations.
        title: What it is called in tables.
        about: Its graphs, in a few words.
        widths: The widths of node and edge features of the published models; one-hot vectors for categories.
        categories: How many values each column of node and edge features can take; () if they are numbers.
        file: The name of its file in the data root; benchmarks may share one. Its own name and `.npz` if none is given;
            empty if the graphs are made in code.
        form: The published files that it is made from; None if they cannot be downloaded.
        num_folds: The number of folds, 0 if the split is fixed.
        has_missing: Whether targets may be missing (NaN).
        columns: Those of the file's targets to take; each is divided by its standard deviation. All as they are if ().
        is_symmetric: Whether edges get their reverse, which may be missing in a graph of nearest neighbours.
        make: For graphs made in code, from the fold to the data set.
        num_targets: For one graph, how many of its nodes are for training, validation and test in each fold.
    """

    name: str
    title: str
    about: str
    task: Task
    statistics: Statistics
    widths: tuple[int, int] = (1, 1)
    categories: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    file: str = ""
    form: Form | None = None
    num_folds: int = 0
    has_missing: bool = False
    columns: tuple[int, ...] = ()
    is_symmetric: bool = False
    make: Callable[[int], Dataset] | None = None
    num_targets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.file and self.make is None:
            object.__setattr__(self, "file", f"{self.name}.npz")
