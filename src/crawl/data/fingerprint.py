"""What data are, in a few lines that a run keeps, so that it notices when they have changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crawl.checks import check_type, shown
from crawl.data.dataset import Dataset
from crawl.data.features import Column, Columns, listed
from crawl.data.one_graph import OneGraph
from crawl.data.packed import PackedStore
from crawl.data.store import GraphStore
from crawl.data.task import Task
from crawl.plain import structure

_NUMBERS_AT_A_TIME = 2**20

_PARTS = {  # what has a hash, and what a change of it is called
    "graphs": "the nodes and edges have changed",
    "node_features": "the node features have changed",
    "edge_features": "the edge features have changed",
    "targets": "the targets have changed",
    "split": "the split has changed",
}
_WHERE_ANY = {  # what has a hash where there is any
    "weights": "the weights of the targets have changed",
    "graph_features": "the features of graphs have changed",
    "edge_weights": "the weights of the edges have changed",
}


@dataclass(frozen=True)
class Fingerprint:
    """Hashes of the parts of a data set, and its names by value.

    Equal for equal data, wherever they are stored and on whichever machine; names of graphs do not count, nor does the
    metric.

    Attributes:
        num_graphs: The number of graphs.
        task: What is to be predicted, with the names of targets and classes.
        columns: What the features are, where categories are numbered by the values that occur.
        hashes: A hash for each of `graphs`, `node_features`, `edge_features`, `targets` and `split`, and one of
            the `weights` of targets, of `graph_features` and of `edge_weights` where there are any.
    """

    num_graphs: int
    task: Task
    columns: Columns | None
    hashes: dict[str, str]

    @classmethod
    def of(cls, dataset: Dataset) -> Fingerprint:
        """The fingerprint of a data set. Refuses files that were changed since they were opened."""
        check_type("dataset", dataset, Dataset, "call crawl.data.from_pyg(graphs), for example")
        store, split = dataset.store, dataset.split
        if isinstance(store, PackedStore):
            hashes = store.hashes or _packed_hashes(store, dataset)
            hashes = {**hashes, "split": _hash(split.train, split.val, split.test)}
            store.check_unchanged()
            return cls(len(dataset), dataset.task, dataset.columns, hashes)
        if isinstance(store, OneGraph):
            graphs = _hash(store.graph.rowptr, store.graph.col, store.graph.edge_id, store.owners)
        else:
            pairs = () if store.pairs is None else (store.pair_ptr, store.pairs)
            graphs = _hash(store.node_ptr, store.edge_ptr, store.edge_index.t(), *pairs)
        hashes = {
            "graphs": graphs,
            "node_features": _hash(store.x, of=dataset.node_categories),
            "edge_features": _hash(store.edge_attr, of=dataset.edge_categories),
            "targets": _hash(store.y),
            "split": _hash(split.train, split.val, split.test),
        }
        if store.sample_weight is not None:
            hashes["weights"] = _hash(store.sample_weight)
        if isinstance(store, OneGraph) and store.graph.is_weighted:
            hashes["edge_weights"] = _hash(store.graph.cum_weight)
        if isinstance(store, GraphStore) and store.u is not None:
            hashes["graph_features"] = _hash(store.u)
        store.check_unchanged()
        return cls(len(dataset), dataset.task, dataset.columns, hashes)

    def to_dict(self) -> dict[str, Any]:
        """The fingerprint as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Any) -> Fingerprint:
        """The fingerprint that `to_dict` wrote, perhaps through JSON. Refuses other content."""
        fingerprint = structure(cls, content, "The fingerprint of data")
        if fingerprint.hashes.keys() - _WHERE_ANY.keys() != _PARTS.keys() or fingerprint.num_graphs < 0:
            raise ValueError(f"This is not the fingerprint of data: {shown(content)}.")
        return fingerprint

    def changes_to(self, now: Fingerprint) -> list[str]:
        """What is different now, a phrase for each; nothing if the data are the same."""
        changes = task_changes(self.task, now.task)
        if self.num_graphs != now.num_graphs:
            return [*changes, f"there were {self.num_graphs} graphs and are {now.num_graphs}"]
        before, after = self.columns or Columns(), now.columns or Columns()
        for owner in ("nodes", "edges", "graphs"):
            changes += _column_changes(owner, getattr(before, owner), getattr(after, owner))
        if before.descriptors != after.descriptors:
            changes.append(
                f"{len(before.descriptors)} descriptors were used and now {len(after.descriptors)}, or others"
            )
        parts = {**_PARTS, **_WHERE_ANY}
        return changes + [phrase for part, phrase in parts.items() if self.hashes.get(part) != now.hashes.get(part)]


def task_changes(before: Task, now: Task) -> list[str]:
    """What is to be predicted now instead, a phrase for each difference; the metric does not count."""
    changes = []
    for field in ("kind", "level"):
        old, new = getattr(before, field), getattr(now, field)
        if old != new:
            changes.append(f"the {field} of the task was {old} and is {new}")
    for what, field in (("classes", "class_names"), ("targets", "target_names")):
        old, new = getattr(before, field), getattr(now, field)
        if old != new and before.kind == now.kind:
            changes.append(f"the {what} were {_names(old)} and are {_names(new)}")
    if not changes and before.num_outputs != now.num_outputs:
        changes.append(f"the task had {before.num_outputs} outputs and has {now.num_outputs}")
    return changes


def _column_changes(owner: str, before: Sequence[Column], now: Sequence[Column]) -> list[str]:
    names, new_names = (tuple(column.name for column in columns) for columns in (before, now))
    if names != new_names:
        return [f"the attributes of {owner} were {_names(names)} and are {_names(new_names)}"]
    return [
        f"the values of {old.name} were {_names(old.values)} and are {_names(new.values)}"
        for old, new in zip(before, now, strict=True)
        if old.values != new.values
    ]


def _names(names: Sequence[str | int] | None) -> str:
    """Names for a message: all of them, unless they are very many."""
    return "numbers" if names is None else listed(names, at_most=20) or "without names"


def _packed_hashes(store: PackedStore, dataset: Dataset) -> dict[str, str]:
    """The hashes of graphs in files, which are read piece by piece."""
    ptr = _InPieces((len(store) + 1, 1), (store.node_ptr.unsqueeze(1),))
    edge_ptr = _InPieces((len(store) + 1, 1), (store.edge_ptr.unsqueeze(1),))
    found = {
        "graphs": _hash(ptr, edge_ptr, _InPieces((store.num_edges, 2), store.pieces("edge_index"))),
        "node_features": _hash(_rows(store, "x"), of=dataset.node_categories),
        "edge_features": _hash(_rows(store, "edge_attr"), of=dataset.edge_categories),
        "targets": _hash(store.y),
    }
    return found if store.sample_weight is None else {**found, "weights": _hash(store.sample_weight)}


def _rows(store: PackedStore, name: str) -> _InPieces | None:
    rows: Tensor | None = getattr(store, name)
    return None if rows is None else _InPieces(tuple(rows.shape), store.pieces(name))


@dataclass(frozen=True)
class _InPieces:
    """Rows that are never in memory together."""

    shape: tuple[int, ...]
    pieces: Iterable[Tensor]


def _hash(*tensors: Tensor | _InPieces | None, of: tuple[int, ...] = ()) -> str:
    """A hash of numbers, whichever type and device they are of; those in one dimension are taken for a column."""
    digest = hashlib.blake2b(repr(of).encode(), digest_size=16)
    for tensor in tensors:
        if tensor is None:
            digest.update(b"none")
            continue
        if isinstance(tensor, _InPieces):
            digest.update(repr(tensor.shape).encode())
            for piece in tensor.pieces:
                _add(digest, piece)
            continue
        rows = tensor.detach().unsqueeze(1) if tensor.dim() == 1 else tensor.detach()
        digest.update(repr(tuple(rows.shape)).encode())
        _add(digest, rows)
    return digest.hexdigest()


def _add(digest: Any, rows: Tensor) -> None:
    for piece in torch.split(rows, max(1, _NUMBERS_AT_A_TIME // max(rows[:1].numel(), 1))):
        numbers = piece.double().cpu().numpy().astype("<f8") + 0.0  # without -0
        digest.update(np.where(np.isnan(numbers), np.nan, numbers).tobytes())  # NaN has one form
