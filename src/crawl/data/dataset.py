"""What a training run is about: graphs, the task, and the split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from crawl.checks import MAX_COUNT, as_list, check_type, whole_number
from crawl.choices import Batches
from crawl.data.features import Columns
from crawl.data.one_graph import OneGraph
from crawl.data.splits import Split
from crawl.data.store import GraphStore
from crawl.data.task import Task


@dataclass(frozen=True, eq=False)
class Dataset:
    """Graphs with targets, ready to be learned from.

    Attributes:
        name: What to call it in reports.
        store: The graphs and their targets. `y` is `[G, K]` float32 for `regression` (float64 where float32 would not
            tell numbers apart) and `multilabel` (NaN where a label is missing), `[G]` int64 for `binary` and
            `multiclass`; N rows instead if the task is about nodes.
        task: What is to be predicted.
        split: The graphs for training, validation and test.
        node_categories: If the columns of `x` are categories, how many values each takes; () if they are numbers.
        edge_categories: The same for `edge_attr`.
        skipped: A line for each row of the input that was left out, with the reason.
        graph_names: A name for each graph, or for the owner of each target of one graph, where they have any: what
            predictions are listed under.
        columns: What the features of nodes and edges are, where categories are numbered by the values that occur.
        undirected: Whether edges of the one graph that were listed one way were given a reverse: a trained model does
            the same to the graphs that it is asked about.
        source: The settings of an experiment that it was read by; None for a data set of one's own, and for a changed
            copy.
    """

    name: str
    store: GraphStore | OneGraph
    task: Task
    split: Split
    node_categories: tuple[int, ...] = ()
    edge_categories: tuple[int, ...] = ()
    skipped: tuple[str, ...] = ()
    graph_names: Sequence[str] | None = None
    columns: Columns | None = None
    undirected: bool = field(default=False, kw_only=True)
    source: object = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_type("store", self.store, (GraphStore, OneGraph), "build one with GraphStore.from_graphs")
        check_type("task", self.task, Task)
        check_type("split", self.split, Split)
        for name in ("node_categories", "edge_categories"):
            sizes = as_list(name, getattr(self, name), "sizes")
            object.__setattr__(self, name, tuple(whole_number(f"Each of {name}", size, 1, MAX_COUNT) for size in sizes))
        ids = self.split.ids
        if ids.numel() and int(ids[-1]) >= len(self.store):
            names = f"{self.owner} {int(ids[-1])}, but {self.name} has {len(self.store)} {self.owner}s"
            raise ValueError(f"The split names {names}.")
        given: Any = self.graph_names
        if not isinstance(given, Sequence | None) or isinstance(given, str):
            given = as_list("graph_names", given, "names")
        if given is not None and len(given) != len(self.store):
            raise ValueError(f"{self.name} has {len(self.store)} graphs but {len(given)} names.")
        level = self.store.level if isinstance(self.store, GraphStore) else "pair" if self.store.are_pairs else "node"
        if self.store.y is not None and level != self.task.level:
            raise ValueError(f"The task is about {self.task.level}s, but the targets of {self.name} are not.")

    def __len__(self) -> int:
        return len(self.store)

    @property
    def owner(self) -> str:
        """What the numbers of the split count, and `len`: each is a `graph`, or a `node` or a `pair` of one graph."""
        return self.task.level if isinstance(self.store, OneGraph) else "graph"

    @property
    def batches(self) -> Batches | None:
        """What a batch of targets of one graph is; None for sets of graphs."""
        return self.store.batches if isinstance(self.store, OneGraph) else None

    @property
    def num_node_features(self) -> int:
        """The width of `x` as numbers; 0 if there is none or it holds categories."""
        return 0 if self.node_categories else _width(self.store.x)

    @property
    def num_edge_features(self) -> int:
        """The width of `edge_attr` as numbers; 0 if there is none or it holds categories."""
        return 0 if self.edge_categories else _width(self.store.edge_attr)


def _width(features: Tensor | None) -> int:
    if features is None:
        return 0
    return 1 if features.dim() == 1 else features.shape[1]
