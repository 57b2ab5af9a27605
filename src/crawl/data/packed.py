"""Graphs in files that need not fit into memory: a store whose rows are read from a map as they are used.

A packed store is a folder: `pack.json` says what is to be predicted and which files belong to it, `graphs.crawl` has a
row for each graph (sizes, targets, names, the split), and each `shard-K.crawl` the nodes and edges of some graphs.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from crawl.checks import as_path, whole_number
from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.data.store import GraphStore, as_ptr
from crawl.data.task import Task
from crawl.files import parse_json
from crawl.graph_files.arrays import DTYPES, Array, ArrayFile, mapped_bytes
from crawl.plain import read_checked, structure

FORMAT = "crawl store 1"
MANIFEST, GRAPHS, SKIPPED = "pack.json", "graphs.crawl", "skipped.txt"
_REMEDY = "pack the data again"
_OF_GRAPHS = ("y", "sample_weight")
_ROWS_AT_ONCE = 2**20
_MOST_RESIDENT = 2**26  # bytes of pages that the maps may hold, about
_AROUND = 2**16  # bytes that the system maps around the first row of a graph, or more: Linux 6.18 maps up to 2 MB
_TAKEN_AT_ONCE, _RUNS_AT_ONCE = 2**14, 64  # rows, and runs of them, before pages may be given back


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What `pack.json` says.

    Attributes:
        format: The version of the layout.
        name: What to call the data in reports.
        task: What is to be predicted.
        shards: How many graphs each file of nodes and edges has.
        files: The checksum of the header of each file, which has those of its arrays, and that of `skipped.txt`, which
            stores of older versions do not have.
        hashes: The parts of the fingerprint of the data, except the split.
        node_categories: As in `Dataset`.
        edge_categories: As in `Dataset`.
        num_skipped: How many rows of the input were left out; `skipped.txt` lists them.
    """

    format: str
    name: str
    task: Task
    shards: tuple[int, ...]
    files: dict[str, str]
    hashes: dict[str, str]
    node_categories: tuple[int, ...] = ()
    edge_categories: tuple[int, ...] = ()
    num_skipped: int = 0


class _File(ArrayFile):
    format: ClassVar[str] = FORMAT
    what: ClassVar[str] = "file of a packed store"
    remedy: ClassVar[str] = _REMEDY
    source: ClassVar[str] = "crawl data pack"


class GraphsFile(_File):
    """A row for each graph."""

    def fits(self, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, str]) -> bool:
        """Whether all arrays go together."""
        num = shapes["num_nodes"][0]
        expected = {"num_nodes": (num,), "num_edges": (num,), "names_ptr": (num + 1,), "y": (num, *shapes["y"][1:])}
        for name in ("train", "val", "test", "names"):
            expected[name] = (shapes[name][0],)
        if "sample_weight" in shapes:
            expected["sample_weight"] = (num, *shapes["sample_weight"][1:])
        integers = ("num_nodes", "num_edges", "names_ptr", "train", "val", "test")
        return shapes == expected and all(dtypes[name] in ("I32", "I64") for name in integers) and num > 0


class ShardFile(_File):
    """The nodes and edges of some graphs, one after the other."""

    def fits(self, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, str]) -> bool:
        """Whether all arrays go together."""
        allowed = {"edges": ("I8", "U8", "I16", "I32", "I64")}
        fits = {"edges"} <= shapes.keys() <= {"edges", "x", "edge_attr"} and shapes["edges"][1:] == (2,)
        fits = fits and all(dtype in allowed.get(name, DTYPES) for name, dtype in dtypes.items())
        fits = fits and all(len(shape) == 2 for shape in shapes.values())
        return fits and shapes.get("edge_attr", shapes["edges"])[0] == shapes["edges"][0]


class Names(Sequence[str]):
    """A name for each graph, read as they are asked for."""

    def __init__(self, ptr: Array, text: Array) -> None:
        self._ptr, self._text = ptr, text

    def __len__(self) -> int:
        return len(self._ptr) - 1

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[str]: ...
    def __getitem__(self, i: int | slice) -> str | Sequence[str]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        return self._text[self._ptr[i] : self._ptr[i + 1]].tobytes().decode("utf-8", "replace")


class _Rows:
    """The rows of an array that is spread over several files."""

    def __init__(self, files: Sequence[ArrayFile], name: str) -> None:
        self.parts = [torch.from_numpy(file.arrays[name]) for file in files]
        self.begins = as_ptr([part.shape[0] for part in self.parts])
        like = self.parts[0]
        self.shape = (int(self.begins[-1]), *like.shape[1:])
        self.dtype = like.dtype if like.is_floating_point() else torch.int64

    def take(self, rows: Tensor, release: Callable[[int], None]) -> Tensor:
        """A copy of these rows, whole numbers as int64; `release` is told how many bytes of pages they were in."""
        found = torch.empty(len(rows), *self.shape[1:], dtype=self.dtype)
        part_of_row = torch.searchsorted(self.begins, rows, right=True) - 1
        for i, part in enumerate(self.parts):
            places = (part_of_row == i).nonzero().flatten()
            own = rows[places] - self.begins[i]
            for begin, end in _pieces_of(own):
                piece = own[begin:end]
                found[places[begin:end]] = part[piece].to(self.dtype)
                release(_AROUND * (1 + int((piece.diff() != 1).sum())))
        return found

    def meta(self) -> Tensor:
        """A tensor of the same shape without content."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta")


def _pieces_of(rows: Tensor) -> Iterator[tuple[int, int]]:
    """Where pieces of the rows begin and end, each of few rows, in few runs of rows that are one after the other."""
    runs = 1 + (rows.diff() != 1).nonzero().flatten()
    bounds = [0, *runs[_RUNS_AT_ONCE - 1 :: _RUNS_AT_ONCE].tolist(), len(rows)]
    for first, last in pairwise(bounds):
        for begin in range(first, last, _TAKEN_AT_ONCE):
            yield begin, min(begin + _TAKEN_AT_ONCE, last)


class PackedStore(GraphStore):
    """A `GraphStore` whose nodes and edges stay in files; `subset` and `batch` read those of the graphs that are asked
    for.

    `x`, `edge_attr` and `edge_index` have a shape and no content. What works on all graphs at once is refused.

    Args:
        sizes: `[2, G]` nodes and edges of each graph.
        files: The files with nodes and edges.
        y: The targets.
        sample_weight: As in `GraphStore`.
        hashes: The parts of the fingerprint of the data.
        functions: What is done to every store that is cut from the files, one after the other.
        of_graphs: The file that the targets are mapped from, if there is one.
    """

    is_mapped: ClassVar[bool] = True

    def __init__(
        self,
        sizes: Tensor,
        files: Sequence[ArrayFile],
        y: Tensor,
        sample_weight: Tensor | None,
        hashes: Mapping[str, str],
        functions: Sequence[Callable[[GraphStore], GraphStore]] = (),
        of_graphs: ArrayFile | None = None,
    ) -> None:
        self._set(sizes=sizes.long(), node_ptr=as_ptr(sizes[0]), edge_ptr=as_ptr(sizes[1]))
        self._set(y=y, y_per_node=False, sample_weight=sample_weight, u=None, pairs=None, pair_ptr=None)
        self._set(
            files=tuple(files), hashes=dict(hashes), functions=tuple(functions), _read=[0], _mapped=[mapped_bytes()]
        )
        self._set(of_graphs=of_graphs)
        names = {"x": "x", "edge_attr": "edge_attr", "edge_index": "edges"}
        rows = {name: _Rows(files, own) for name, own in names.items() if own in files[0].arrays}
        self._set(_rows=rows)
        shapes: dict[str, Tensor | None] = {name: rows[name].meta() if name in rows else None for name in names}
        if functions:
            first = self.subset([0])
            for name in ("x", "edge_attr"):
                like, number = getattr(first, name), self.num_nodes if name == "x" else int(self.edge_ptr[-1])
                shape = None if like is None else (number, *like.shape[1:])
                shapes[name] = None if shape is None else torch.empty(shape, dtype=like.dtype, device="meta")
        edges = shapes["edge_index"]
        assert edges is not None
        self._set(x=shapes["x"], edge_attr=shapes["edge_attr"], edge_index=edges.t())

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    files: tuple[ArrayFile, ...]
    hashes: dict[str, str]
    functions: tuple[Callable[[GraphStore], GraphStore], ...]
    of_graphs: ArrayFile | None
    _rows: dict[str, _Rows]
    _read: list[int]
    _mapped: list[int]

    @property
    def device(self) -> torch.device:
        """Stores that are cut from the files are on the CPU."""
        return torch.device("cpu")

    @property
    def joined_edge_index(self) -> Tensor:
        """Refused: not all edges need fit into memory."""
        raise ValueError("The graphs of a packed store are not in memory: call subset(ids) for some of them.")

    def then(self, function: Callable[[GraphStore], GraphStore]) -> PackedStore:
        """The same graphs; the function, which treats each graph alone, is applied to every store cut from them."""
        functions = (*self.functions, function)
        return PackedStore(
            self.sizes, self.files, self._targets, self.sample_weight, self.hashes, functions, self.of_graphs
        )

    def with_weights(self, sample_weight: Tensor) -> PackedStore:
        """The same graphs with other weights of their targets."""
        return PackedStore(
            self.sizes, self.files, self._targets, sample_weight, self.hashes, self.functions, self.of_graphs
        )

    @property
    def _targets(self) -> Tensor:
        assert self.y is not None
        return self.y

    def checked(self) -> PackedStore:
        """The same store: its graphs were checked before they were packed."""
        return self

    def check_unchanged(self) -> None:
        """Refuse files that were changed since they were opened: what was read since may be wrong."""
        for file in (*self.files, *(() if self.of_graphs is None else (self.of_graphs,))):
            file.opened.check_unchanged()

    def to(self, device: torch.device | str) -> PackedStore:
        """The same store, on the CPU, where it stays; another device is refused."""
        if torch.device(device).type != "cpu":
            raise ValueError(
                f"A packed store stays in its files: call subset(ids).to({str(device)!r}) for some graphs."
            )
        return self

    def subset(self, ids: Tensor | Sequence[int]) -> GraphStore:
        """A store in memory of the graphs `ids` only, in this order. Refuses ids that no graph has, and files that were
        changed while they were read."""
        self.check_unchanged()  # to read one that was cut would end the process
        try:
            store = super().subset(ids)
        finally:
            self.check_unchanged()
        for function in self.functions:
            store = function(store)
        return store

    def batch(self, ids: Tensor | Sequence[int]) -> Batch:
        """The graphs `ids`, in this order, as one PyG `Batch`; see `GraphStore.batch`."""
        found = self.subset(ids).batch(torch.arange(len(ids)))
        found.graph_ids = self.checked_ids(ids)
        return found

    def graph(self, i: int) -> Data:
        """Graph `i` alone."""
        return self.subset([whole_number("i", i, 0, len(self) - 1)]).graph(0)

    def pieces(self, name: str) -> Iterator[Tensor]:
        """The rows of `x`, `edge_attr` or `edge_index`, `[n, 2]`, of all graphs as they are in the files, many at a
        time."""
        for part in self._rows[name].parts:
            for piece in torch.split(part, _ROWS_AT_ONCE):
                yield piece.to(self._rows[name].dtype)
                self._release(_MOST_RESIDENT)

    def chunks(self, ids: Tensor | None = None, size: int = 2**14) -> Iterator[GraphStore]:
        """Stores of some of the graphs at a time, in their order."""
        for part in torch.split(torch.arange(len(self)) if ids is None else ids, size):
            yield self.subset(part)

    def _rows_of(
        self, nodes: Tensor | slice, edges: Tensor | slice, graphs: Tensor | slice, pairs: Tensor | slice
    ) -> dict[str, Tensor]:
        assert isinstance(nodes, Tensor)
        assert isinstance(edges, Tensor)
        found = {"edge_index": self._rows["edge_index"].take(edges, self._release).t().contiguous()}
        for name, rows in (("x", nodes), ("edge_attr", edges)):
            if name in self._rows:
                found[name] = self._rows[name].take(rows, self._release)
        found["y"] = self._targets[graphs]
        if self.sample_weight is not None:
            found["sample_weight"] = self.sample_weight[graphs]
        return found

    def _release(self, num_bytes: int) -> None:
        """Give pages back to the system once in a while, by what was read and by what it says that it has mapped."""
        mapped = mapped_bytes()
        self._read[0], self._mapped[0] = self._read[0] + num_bytes, min(self._mapped[0], mapped)
        if max(self._read[0], mapped - self._mapped[0]) >= _MOST_RESIDENT:
            for file in self.files:
                file.release()
            self._read[0], self._mapped[0] = 0, mapped_bytes()


def is_packed(path: Path | str) -> bool:
    """Whether this is the folder of a packed store."""
    return (Path(path) / MANIFEST).is_file()


def open_packed(path: Path | str, *, verify: bool = True) -> Dataset:
    """The data set in a folder that `pack_csv` or `pack_graphs` wrote; its graphs stay there and are mapped.

    Args:
        path: The folder.
        verify: Compare all checksums, which reads all files once; sizes and headers are always compared.

    Raises:
        ValueError: If it is not such a folder, or a file of it is missing, damaged, or from another one.
    """
    folder = as_path("path", path)
    if not is_packed(folder):
        raise ValueError(f"{folder} is not a packed store: it has no {MANIFEST}; make one with crawl data pack.")
    manifest = read_checked(folder / MANIFEST, _manifest, _REMEDY)
    graphs = GraphsFile(folder / GRAPHS, verify)
    shards = [ShardFile(folder / shard_name(i), verify) for i in range(len(manifest.shards))]
    for file in (graphs, *shards):
        if file.metadata["crc32.header"] != manifest.files.get(file.path.name):
            file.refuse(f"it is not the one that {MANIFEST} names")
    sizes = torch.stack([torch.from_numpy(graphs.arrays[name]) for name in ("num_nodes", "num_edges")]).long()
    y, weights = (torch.from_numpy(graphs.arrays[name]) if name in graphs.arrays else None for name in _OF_GRAPHS)
    assert y is not None
    store = PackedStore(sizes, shards, y, weights, manifest.hashes, of_graphs=graphs)
    _check(graphs, shards, manifest, store)
    return Dataset(
        name=manifest.name,
        store=store,
        task=manifest.task,
        split=Split(*(torch.from_numpy(graphs.arrays[part].copy()) for part in ("train", "val", "test"))),
        node_categories=manifest.node_categories,
        edge_categories=manifest.edge_categories,
        skipped=_skipped(folder / SKIPPED, manifest),
        graph_names=Names(graphs.arrays["names_ptr"], graphs.arrays["names"]),
    )


def shard_name(i: int) -> str:
    """The name of the file with the i-th part of the nodes and edges."""
    return f"shard-{i}.crawl"


def crc_of_text(content: bytes) -> str:
    """The checksum of the content of a file that has none itself."""
    return f"{zlib.crc32(content):08x}"


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """The manifest as JSON, with a checksum."""
    text = json.dumps(manifest, sort_keys=True)
    return json.dumps({**manifest, "crc32": crc_of_text(text.encode())}, indent=1, sort_keys=True) + "\n"


def _manifest(text: str) -> Manifest:
    values = parse_json(text)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError("it is not the list of files of a packed store")
    crc = values.pop("crc32", None)
    if crc != crc_of_text(json.dumps(values, sort_keys=True).encode()):
        raise ValueError("its checksum differs")
    return structure(Manifest, values, "A packed store")


def _skipped(path: Path, manifest: Manifest) -> tuple[str, ...]:
    """The lines about rows that were left out. Refuses a list that is missing or was changed."""
    if not manifest.num_skipped:
        return ()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}), and {MANIFEST} says that it lists {manifest.num_skipped} rows: "
            f"{_REMEDY}."
        ) from None
    try:
        if path.name in manifest.files and manifest.files[path.name] != crc_of_text(content):
            raise ValueError("its checksum differs")
        lines = content.decode().split("\n")[:-1]
        if len(lines) != manifest.num_skipped:
            raise ValueError(f"it has {len(lines)} lines, not {manifest.num_skipped}")
    except ValueError as error:  # also for what is not UTF-8
        raise ValueError(f"{path} is damaged ({error}): {_REMEDY}.") from None
    return tuple(lines)


def _check(graphs: ArrayFile, shards: Sequence[ArrayFile], manifest: Manifest, store: PackedStore) -> None:
    """Refuse files whose sizes do not go together: no row of a graph may be that of another, or of none."""
    sizes, counts = store.sizes, torch.tensor(manifest.shards)
    if not shards or bool((sizes < 0).any()) or bool((counts < 0).any()) or int(counts.sum()) != len(store):
        graphs.refuse(f"it does not have the graphs that {MANIFEST} names")
    ends = counts.cumsum(0)
    for i, (file, end) in enumerate(zip(shards, ends.tolist(), strict=True)):
        begin = end - manifest.shards[i]
        for name, array in file.arrays.items():
            ptr = store.node_ptr if name == "x" else store.edge_ptr
            if array.shape[0] != int(ptr[end] - ptr[begin]) or array.shape[1:] != shards[0].arrays[name].shape[1:]:
                file.refuse(f"{name} does not have the rows that {GRAPHS} names")
        if file.arrays.keys() != shards[0].arrays.keys():
            file.refuse("it has other arrays than the first one")
    names = graphs.arrays["names_ptr"]
    if names[0] != 0 or names[-1] != len(graphs.arrays["names"]) or bool((np.diff(names) < 0).any()):
        graphs.refuse("its names overlap")


def with_metric(dataset: Dataset, metric: str | None) -> Dataset:
    """The data set with another score."""
    return dataset if metric is None else replace(dataset, task=replace(dataset.task, metric=metric))
