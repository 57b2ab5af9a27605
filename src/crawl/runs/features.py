"""What a model expects of its graphs, and what it answers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from crawl.checks import check_choice, check_type, positive_number, whole_number
from crawl.choices import Batches
from crawl.data.benchmarks import BENCHMARKS
from crawl.data.dataset import Dataset
from crawl.data.encoded import AnyStore
from crawl.data.features import ATOM_CATEGORIES, ATOM_COLUMNS, BOND_CATEGORIES, BOND_COLUMNS, Columns, Unknown
from crawl.data.graph_columns import least_and_most, means_and_deviations
from crawl.data.one_graph import OneGraph, Store
from crawl.data.packed import PackedStore
from crawl.data.store import GraphStore
from crawl.data.symmetry import without_reverse
from crawl.data.task import Task
from crawl.nn.encoders import UNKNOWN
from crawl.tensor_checks import refuse_graph

HandleUnknown = Literal["warn", "error"]
Gaps = tuple[tuple[int, ...], ...]
_ROWS = 2**20  # of a graph that may be mapped from a file are looked at, at a time
_COLUMNS = {ATOM_CATEGORIES: ATOM_COLUMNS, BOND_CATEGORIES: BOND_COLUMNS}


@dataclass(frozen=True)
class Features:
    """What a model expects of its graphs, and what it answers; goes into its checkpoint.

    Attributes:
        task: What is predicted.
        node_categories: The sizes of the categories in `x`; () for numbers.
        edge_categories: The same for `edge_attr`.
        num_node_features: The width of `x` as numbers; 0 for none.
        num_edge_features: The same for `edge_attr`.
        mean_log_degree: The mean of log(degree + 1) over the nodes of the training graphs; other graphs fit as well.
        node_gaps: For each column of categories in `x`, those below its size that do not occur; () if all do.
        edge_gaps: The same for `edge_attr`.
        columns: What the features are, where categories are numbered by the values that occur in files.
        graph_scaling: The means and the standard deviations, over the training graphs, of the features `u` of graphs;
            nothing without any.
        graph_range: The least and the largest values of these features over the training graphs; nothing in models of
            older versions.
        is_weighted: Whether steps took edges in proportion to their weights; None in models of older versions.
        leads_both_ways: Whether every edge of the one graph in memory that a model was trained on had a reverse; None
            for other models, and for those of older versions.
        batches: What a batch of targets was, for a model that was trained on one graph; None for sets of graphs, and in
            models of older versions.
        undirected: Whether edges that are listed one way get a reverse, as they did in training; see `Dataset`.
    """

    task: Task
    node_categories: tuple[int, ...] = ()
    edge_categories: tuple[int, ...] = ()
    num_node_features: int = 0
    num_edge_features: int = 0
    mean_log_degree: float = field(default=1.0, compare=False)
    node_gaps: Gaps = ()
    edge_gaps: Gaps = ()
    columns: Columns | None = None
    graph_scaling: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    graph_range: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    is_weighted: bool | None = field(default=None, compare=False)
    leads_both_ways: bool | None = field(default=None, compare=False)
    batches: Batches | None = field(default=None, compare=False)
    undirected: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("num_node_features", "num_edge_features"):
            whole_number(f"features.{name}", getattr(self, name), 0)
        for name in ("node_categories", "edge_categories"):
            for size in getattr(self, name):
                whole_number(f"features.{name}", size)
        positive_number("features.mean_log_degree", self.mean_log_degree)
        means, deviations = self.graph_scaling
        if len(means) != len(deviations) or not all(deviation > 0 for deviation in deviations):
            raise ValueError("features.graph_scaling must have a mean and a positive deviation for each feature.")
        if (
            any(len(ends) not in (0, len(means)) for ends in self.graph_range)
            or len(set(map(len, self.graph_range))) > 1
        ):
            raise ValueError("features.graph_range must have a least and a largest value for each feature.")

    @classmethod
    def of(cls, dataset: Dataset) -> Features:
        """The features of a data set."""
        check_type("dataset", dataset, Dataset, "call crawl.data.from_pyg(graphs), for example")
        u = dataset.store.u if isinstance(dataset.store, GraphStore) else None
        return cls(
            dataset.task,
            dataset.node_categories,
            dataset.edge_categories,
            dataset.num_node_features,
            dataset.num_edge_features,
            _mean_log_degree(dataset),
            _gaps(dataset.store, "x", dataset.node_categories),
            _gaps(dataset.store, "edge_attr", dataset.edge_categories),
            dataset.columns,
            means_and_deviations(u, () if dataset.columns is None else dataset.columns.graphs, dataset.split.train),
            least_and_most(u, dataset.split.train),
            _is_weighted(dataset.store),
            _leads_both_ways(dataset.store),
            dataset.batches,
            dataset.undirected,
        )

    @property
    def num_graph_features(self) -> int:
        """The width of the features `u` of graphs; 0 for none."""
        return len(self.graph_scaling[0])

    @property
    def num_parts(self) -> int:
        """How many molecules are side by side in a graph; 1 for other graphs."""
        sizes = self.node_categories
        return sizes[-1] if (sizes[:-1], self.edge_categories) == (ATOM_CATEGORIES, BOND_CATEGORIES) else 1

    @property
    def are_molecules(self) -> bool:
        """Whether graphs are molecules with the categories of atoms and bonds that SMILES are read into."""
        return (self.node_categories, self.edge_categories) == (ATOM_CATEGORIES, BOND_CATEGORIES)

    @classmethod
    def of_benchmark(cls, name: str) -> Features:
        """The features of a benchmark as published, without its data; categories count as numbers."""
        benchmark = BENCHMARKS[name]
        return cls(benchmark.task, num_node_features=benchmark.widths[0], num_edge_features=benchmark.widths[1])

    def prepared(
        self, store: AnyStore, handle_unknown: HandleUnknown = "warn", fate: str = "encoded as zeros"
    ) -> AnyStore:
        """The graphs with features as the model takes them: categories that it was not trained with are `UNKNOWN`.

        Warns of such categories and their fate, or refuses them. Refuses features that are missing, too many or not
        finite, numbers where the model was trained with categories, and edges with weights where it had none, or
        the other way round.
        """
        check_choice("handle_unknown", handle_unknown, get_args(HandleUnknown))
        unknown = Unknown()
        store = self.encoded(store, unknown)
        if unknown and handle_unknown == "error":
            raise ValueError(f"Categories were not there in training: {unknown}.")
        if unknown:
            warnings.warn(unknown_message(unknown, fate), UserWarning, stacklevel=3)
        return store

    def encoded(self, store: AnyStore, unknown: Unknown) -> AnyStore:
        """The same, with categories that the model was not trained with counted in `unknown`."""
        store.checked()
        self._check_weights(_is_weighted(store))
        if self.leads_both_ways and (edge := _one_way(store)) is not None:
            raise ValueError(
                f"All edges of the training led both ways, but no edge leads from node {edge[1]} back to node "
                f"{edge[0]}: list both directions, as PyG's ToUndirected does."
            )
        parts: dict[str, Any] = {}
        for owner, name, ptr, categories, width, gaps in (
            ("node", "x", store.node_ptr, self.node_categories, self.num_node_features, self.node_gaps),
            ("edge", "edge_attr", store.edge_ptr, self.edge_categories, self.num_edge_features, self.edge_gaps),
        ):
            features = _checked(name, getattr(store, name), ptr, len(categories) or width)
            if categories and features is not None:
                if features.is_floating_point():
                    is_wrong = (features != features.floor()).any(dim=1)
                    refuse_graph(is_wrong, ptr, f"{name} must hold categories, which are whole numbers, as in training")
                features = features.long()
                known = _is_known(features, categories, gaps) | (features == UNKNOWN)
                names = _COLUMNS.get(categories) or [(f"{name}[:, {k}]", 0) for k in range(len(categories))]
                if self.num_parts > 1 and name == "x":
                    names = [*ATOM_COLUMNS, ("molecule", 0)]
                for k, (column, first) in enumerate(names):
                    unknown.add(owner, column, (features[~known[:, k], k] + first).tolist())
                features = torch.where(known, features, UNKNOWN)
            parts[name] = features
        if isinstance(store, GraphStore):
            graphs = torch.arange(len(store) + 1)
            parts["u"] = _checked("u", store.u, graphs, self.num_graph_features)
        prepared: AnyStore = replace(store, **parts)
        return prepared

    def _check_weights(self, is_weighted: bool) -> None:
        """Refuse a graph whose steps are drawn in another way than in training."""
        if self.is_weighted is None and is_weighted:
            warnings.warn(
                "The edges of the graph have weights, and the model, of an older version, does not say whether those "
                "of its training had.",
                UserWarning,
                stacklevel=4,
            )
        elif self.is_weighted is not None and self.is_weighted != is_weighted:
            now, then, remedy = ("have", "had none", "out") if is_weighted else ("have no", "had some", "")
            raise ValueError(
                f"The edges of the graph {now} weights, and those of the training {then}, so walks would take other "
                f"steps: build the graph file with{remedy} --weighted."
            )


def unknown_message(unknown: Unknown, fate: str = "encoded as zeros") -> str:
    """What is done about categories that a model was not trained with."""
    return f"Categories that were not there in training are {fate}: {unknown}."


def _checked(name: str, features: Tensor | None, ptr: Tensor, width: int) -> Tensor | None:
    """`[rows, width]` finite numbers, or None for a width of 0; anything will do where there are no rows."""
    if int(ptr[-1]) == 0:
        return None
    rows = features.unsqueeze(1) if features is not None and features.dim() == 1 else features
    found = 0 if rows is None else rows.shape[1]
    if found != width:
        remedy = "give graphs the features they had there" if width else "leave it out"
        raise ValueError(f"{name} has {found} columns here, but had {width} in training: {remedy}.")
    if rows is None or width == 0:
        return None
    if rows.dim() > 2:
        raise ValueError(f"{name} must have a row of numbers for each node or edge, not shape {list(rows.shape)}.")
    return rows


def _is_known(codes: Tensor, sizes: tuple[int, ...], gaps: Gaps) -> Tensor:
    """`[rows, C]` whether a category occurred in training."""
    is_known = (codes >= 0) & (codes < codes.new_tensor(sizes))
    for k, missing in enumerate(gaps):
        is_known[:, k] &= ~torch.isin(codes[:, k], codes.new_tensor(missing))
    return is_known


def _gaps(store: Store, name: str, sizes: tuple[int, ...]) -> Gaps:
    """For each column of categories, those that do not occur; () if all do."""
    features: Tensor | None = getattr(store, name)
    if features is None or not sizes:
        return ()
    pieces = store.pieces(name) if isinstance(store, PackedStore) else torch.split(features, _ROWS)
    found = [torch.zeros(size, dtype=torch.long, device=store.device) for size in sizes]
    for piece in pieces:
        columns = piece.unsqueeze(1) if piece.dim() == 1 else piece
        for counts, column in zip(found, columns.long().unbind(1), strict=True):
            size = counts.numel()
            counts += torch.bincount(column[(column >= 0) & (column < size)], minlength=size)
    gaps = [tuple((counts == 0).nonzero().flatten().tolist()) for counts in found]
    return tuple(gaps) if any(gaps) else ()


def _leads_both_ways(store: Store) -> bool | None:
    if not isinstance(store, OneGraph) or store.graph.file is not None:
        return None
    return store.graph.one_way is None


def _one_way(store: Store) -> tuple[int, int] | None:
    """An edge without a reverse, by its ends; None if all have one, and of graphs in files, which are not searched."""
    if isinstance(store, OneGraph):
        return store.graph.one_way
    if isinstance(store, PackedStore):
        return None
    source, target = store.joined_edge_index[:, without_reverse(store)[:1]].tolist()
    return (source[0], target[0]) if source else None


def _is_weighted(store: Store) -> bool:
    return isinstance(store, OneGraph) and store.graph.is_weighted


def _mean_log_degree(dataset: Dataset) -> float:
    store = dataset.store
    if isinstance(store, OneGraph):
        rowptr, firsts = store.graph.rowptr, range(0, store.num_nodes, _ROWS)
        total = sum(_log_sum(rowptr[first : first + _ROWS + 1].diff()) for first in firsts)
        return total / max(store.num_nodes, 1) or 1.0  # without edges, nothing depends on it
    ids = dataset.split.train if len(dataset.split.train) else torch.arange(len(store))
    num_nodes, counts = 0, torch.zeros(0, dtype=torch.long)  # of nodes of each degree
    for part in store.chunks(ids) if isinstance(store, PackedStore) else [store.subset(ids)]:
        degree = torch.bincount(torch.bincount(part.joined_edge_index[1], minlength=part.num_nodes)).cpu()
        longest = max(degree.numel(), counts.numel())
        counts = nn.functional.pad(counts, (0, longest - counts.numel()))
        counts = counts + nn.functional.pad(degree, (0, longest - degree.numel()))
        num_nodes += part.num_nodes
    total = float((counts.double() * (torch.arange(counts.numel()) + 1).log().double()).sum())
    return total / max(num_nodes, 1) or 1.0


def _log_sum(degree: Tensor) -> float:
    return float((degree + 1).log().double().sum())
