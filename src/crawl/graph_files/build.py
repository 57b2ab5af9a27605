"""`build_graph_file`: the compressed rows of a `Graph` on disk, from an edge list that need not fit into memory.

1. The list is read once, in blocks, checked, and kept in nameless files of plain numbers.
2. The arcs of each node are counted, which gives every row its place.
3. As many rows as fit into memory at a time are filled by going through the numbers, sorted, and written.

Memory is 25 bytes for each node and what step 3 may take; neither the edges nor the arcs are ever there as a whole.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from crawl.checks import MAX_COUNT, as_path, positive_number, shown, truth, whole_number
from crawl.compressed_rows import index_type, integer_weight_sums
from crawl.files import is_regular, named_if_full, whole_file
from crawl.graph_files.arrays import DTYPES, Part, name_of
from crawl.graph_files.layout import write
from crawl.graph_files.lists import Numbers, edge_blocks
from crawl.tensor_checks import in_memory

Array = NDArray[Any]

_BYTES_OF_ARC, _BYTES_OF_WEIGHTED_ARC = 40, 160  # while its row is sorted
_FEWEST_ARCS = 2**20  # that are sorted at once, however little memory there is
_NUMBERS_AT_ONCE = 2**20
_SHORT = 512  # longer rows are sorted by numpy, which takes n log n steps for any order they come in
_PLACE, _REVERSE = 2**31 - 1, 2**31  # bits of a key, below the node that the arc leads to


def build_graph_file(
    source: Any,
    path: str | Path,
    *,
    num_nodes: int | None = None,
    edge_weight: Any = None,
    undirected: bool = False,
    weighted: bool = False,
    header: bool = False,
    features: Any = None,
    memory_gb: float = 1.0,
    on_progress: Callable[[str], None] | None = None,
) -> None:
    """Writes a graph file, which `Graph.open` maps into memory: equal to `Graph.from_edge_index` of the same list.

    The file is there when it is whole; after an error or an interruption, nothing is left. On the way, disk space for
    the list as numbers is needed besides (8 bytes for each edge, 16 with weights, and as much for the arcs).

    Args:
        source: A text file, plain or compressed with gzip, with an edge a line: two whole numbers, separated by blanks,
            tabs, a comma or a semicolon; lines that begin with # are comments. Or `[2, E]` integers: a `.npy` file, an
            array or a tensor.
        path: The file to write; by custom it ends in `.crawl`.
        num_nodes: The number of nodes; that of the rows of `features`, or one more than the largest id, when None.
        edge_weight: `[E]` positive weights for an array of edges: a `.npy` file, an array or a tensor.
        undirected: Let every edge be walked both ways; see `Graph.from_edge_index`.
        weighted: Text has a third column with positive weights.
        header: The first line of the text names the columns.
        features: `[N, C]` finite numbers, which are copied into the file: a `.npy` file, an array or a tensor.
        memory_gb: How much memory the sorting of rows may take, in GB; less means more passes. One row must fit, and
            2^20 arcs are sorted at once in any case.
        on_progress: Called once in a while with what is being done.

    Raises:
        ValueError: For anything that is not a graph; text is named by its line.
    """
    path, undirected = as_path("path", path), truth("undirected", undirected)
    weighted, header = truth("weighted", weighted), truth("header", header)
    memory = min(positive_number("memory_gb", memory_gb), 1e6) * 1e9
    if on_progress is not None and not callable(on_progress):
        raise ValueError(f"on_progress must be a function of a text, not {shown(on_progress)}.")
    tell = on_progress or (lambda _: None)
    rows = None if features is None else _checked_features(features)
    why = ""
    if num_nodes is None and rows is not None:
        num_nodes = rows.shape[0]
        why = f", since {rows.name} has {num_nodes} rows"
    if num_nodes is not None:
        num_nodes = whole_number("num_nodes", num_nodes, 0, MAX_COUNT - 1)
    if rows is not None and rows.shape[0] != num_nodes:
        raise ValueError(f"{rows.name} has {rows.shape[0]} rows, but there are {num_nodes} nodes: give each a row.")
    with _named(path), in_memory(f"A graph of {num_nodes} nodes"), ExitStack() as files, whole_file(path) as file:
        folder = Path(os.path.realpath(path)).parent if is_regular(path) else None
        is_weighted = weighted or edge_weight is not None
        edges = _Edges(files, folder, is_weighted)
        most_id = MAX_COUNT - 2 if num_nodes is None else num_nodes - 1
        for block in edge_blocks(source, edge_weight, most_id, why, weighted=weighted, header=header):
            edges.append(*block)
            tell(f"{edges.count:,} edges read")
        if num_nodes is None:
            if edges.count == 0:
                raise ValueError(
                    f"{_name(source)}: there is no edge in it; give num_nodes (--num-nodes) for a graph without."
                )
            num_nodes = edges.most_id + 1
        parts = _rows(files, folder, edges, num_nodes, undirected, memory, tell)
        if rows is not None:
            tell("checking features")
            parts["x"] = _features_part(rows)
        tell(f"writing {path}")
        write(file, parts, edges.count)


def _name(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else "source"


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Within, what cannot be read or written is said by name."""
    try:
        with named_if_full(str(path)):
            yield
    except OSError as error:
        raise ValueError(f"{error.filename or path} cannot be read or written: {error.strerror or error}.") from error


class _Column:
    """Numbers in a nameless file: written one after the other, read in pieces. It is gone when it is closed."""

    def __init__(self, files: ExitStack, folder: Path | None, dtype: Any) -> None:
        self.file = files.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
        self.dtype, self.size, self.crc = np.dtype(dtype), 0, 0

    def append(self, values: Array) -> None:
        values = np.ascontiguousarray(values, self.dtype)
        self.crc = zlib.crc32(values.data if values.size else b"", self.crc)
        self.file.write(values.data if values.size else b"")
        self.size += values.size

    def pieces(self) -> Iterator[Array]:
        self.file.seek(0)
        while content := self.file.read(_NUMBERS_AT_ONCE * self.dtype.itemsize):
            yield np.frombuffer(content, self.dtype)

    def part(self) -> Part:
        return Part(name_of(self.dtype) or "", (self.size,), self.crc, self.pieces())


class _Edges:
    """The list as numbers in files."""

    def __init__(self, files: ExitStack, folder: Path | None, is_weighted: bool) -> None:
        self.source, self.target = _Column(files, folder, np.int32), _Column(files, folder, np.int32)
        self.weight = _Column(files, folder, np.float64) if is_weighted else None
        self.most_id = -1

    @property
    def count(self) -> int:
        return self.source.size

    def append(self, source: Array, target: Array, weight: Array | None) -> None:
        if source.size:
            self.most_id = max(self.most_id, int(source.max()), int(target.max()))
        self.source.append(source)
        self.target.append(target)
        if self.weight is not None and weight is not None:
            self.weight.append(weight)

    def pieces(self) -> Iterator[tuple[int, Array, Array, Array]]:
        """The number of the first edge of a piece, sources, targets and weights."""
        first = 0
        weights = iter(()) if self.weight is None else self.weight.pieces()
        for source, target in zip(self.source.pieces(), self.target.pieces(), strict=True):
            yield first, source, target, next(weights, np.empty(0))
            first += source.size


def _rows(
    files: ExitStack,
    folder: Path | None,
    edges: _Edges,
    num_nodes: int,
    undirected: bool,
    memory: float,
    tell: Callable[[str], None],
) -> dict[str, Part]:
    """The arrays of the graph."""
    num_arcs, is_entered = np.zeros(num_nodes, np.int64), np.zeros(num_nodes, np.bool_)
    for first, source, target, _ in edges.pieces():
        _count(source, target, undirected, num_arcs, is_entered)
        tell(f"{first:,} of {edges.count:,} edges counted")
    ends = np.flatnonzero(is_entered & (num_arcs == 0))
    if ends.size:
        raise ValueError(
            f"Node {ends[0]} can be entered but not left, so a walk would end there: build with undirected=True "
            "(--undirected), or add a self-loop there."
        )
    if num_nodes and num_arcs.max() > MAX_COUNT - 1:
        raise ValueError(f"Node {num_arcs.argmax()} has {num_arcs.max()} arcs; at most {MAX_COUNT - 1} are supported.")
    del is_entered, ends
    is_weighted = edges.weight is not None
    col = _Column(files, folder, np.int32)
    edge_id = _Column(files, folder, _index_dtype(edges.count))
    cum_weight = _Column(files, folder, np.int64) if is_weighted else None
    most = max(_FEWEST_ARCS, int(memory // (_BYTES_OF_WEIGHTED_ARC if is_weighted else _BYTES_OF_ARC)))
    for begin, end in _row_ranges(num_arcs, most):
        tell(f"{begin:,} of {num_nodes:,} rows sorted")
        of_rows = _sorted_rows(edges, begin, end, num_arcs[begin:end], undirected, edge_id.dtype)
        for column, values in zip((col, edge_id, cum_weight), of_rows, strict=True):
            if column is not None and values is not None:
                column.append(values)
    rowptr = np.zeros(num_nodes + 1, _index_dtype(col.size))
    np.cumsum(num_arcs, out=rowptr[1:])
    parts = {"rowptr": _part(rowptr), "col": col.part(), "edge_id": edge_id.part()}
    return parts if cum_weight is None else parts | {"cum_weight": cum_weight.part()}


def _index_dtype(count: int) -> np.dtype[Any]:
    return np.dtype(torch.iinfo(index_type(count)).dtype)


def _row_ranges(num_arcs: Array, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows that have at most this many arcs, or are one row."""
    ends = np.cumsum(num_arcs)
    begin, before = 0, 0
    while begin < ends.size:
        end = max(begin + 1, int(np.searchsorted(ends, before + min(most, _PLACE), side="right")))
        yield begin, end
        begin, before = end, int(ends[end - 1])


def _sorted_rows(
    edges: _Edges, begin: int, end: int, num_arcs: Array, undirected: bool, dtype: np.dtype[Any]
) -> tuple[Array, Array, Array | None]:
    """Targets, edge ids and integer weight sums of the arcs of the nodes from `begin` to `end`, row by row.

    `num_arcs` becomes smaller where a direction was listed already.
    """
    ptr = np.concatenate([[0], np.cumsum(num_arcs)])
    keys, ids = np.empty(ptr[-1], np.int64), np.empty(ptr[-1], dtype)
    weights = np.empty(0 if edges.weight is None else ptr[-1])
    place = ptr[:-1].copy()
    for first, source, target, weight in edges.pieces():
        _collect(source, target, weight, first, begin, end, undirected, place, keys, ids, weights)
    _sort_short_rows(keys, ptr, _SHORT)
    for row in np.flatnonzero(num_arcs > _SHORT):
        keys[ptr[row] : ptr[row + 1]].sort()
    kept = keys[: _keep(keys, ptr, num_arcs)]
    order = kept & _PLACE
    col, edge_id = (kept >> 32).astype(np.int32), ids[order]
    if edges.weight is None:
        return col, edge_id, None
    rowptr = torch.from_numpy(np.concatenate([[0], np.cumsum(num_arcs)]))
    rows = torch.repeat_interleave(rowptr.diff(), output_size=col.size)
    return col, edge_id, integer_weight_sums(torch.from_numpy(weights[order]), rows, rowptr).numpy()


@njit(nogil=True, cache=True, boundscheck=False)
def _count(source, target, undirected, num_arcs, is_entered):
    """Add to the arcs of each node, both directions of an edge if it is undirected."""
    for e in range(source.size):
        num_arcs[source[e]] += 1
        if undirected and source[e] != target[e]:
            num_arcs[target[e]] += 1
        is_entered[target[e]] = True


@njit(nogil=True, cache=True, boundscheck=False)
def _collect(source, target, weight, first, begin, end, undirected, place, keys, ids, weights):
    """Put the arcs of these edges that leave nodes from `begin` to `end` at the next free place of their row.

    A key orders the arcs of a row: by the node they lead to, directions that were given first, then by edge.
    """
    for e in range(source.size):
        for is_reverse in range(1 + (undirected and source[e] != target[e])):
            node, to = (target[e], source[e]) if is_reverse else (source[e], target[e])
            if begin <= node < end:
                k = place[node - begin]
                place[node - begin] += 1
                keys[k] = (np.int64(to) << 32) | (is_reverse * _REVERSE) | k
                ids[k] = first + e
                if weights.size:
                    weights[k] = weight[e]


@njit(nogil=True, cache=True, boundscheck=False)
def _sort_short_rows(keys, ptr, most):  # not the global number, which compiled code would keep for ever
    for row in range(ptr.size - 1):
        if 1 < ptr[row + 1] - ptr[row] <= most:
            keys[ptr[row] : ptr[row + 1]].sort()


@njit(nogil=True, cache=True, boundscheck=False)
def _keep(keys, ptr, num_arcs):
    """Move the keys of arcs together, without reverse ones where the direction was given; their number."""
    num_kept = 0
    for row in range(ptr.size - 1):
        given, before = np.int64(-1), num_kept
        for k in range(ptr[row], ptr[row + 1]):
            to = keys[k] >> 32
            if keys[k] & _REVERSE:
                if to == given:
                    continue
            else:
                given = to
            keys[num_kept] = keys[k]
            num_kept += 1
        num_arcs[row] = num_kept - before
    return num_kept


def _checked_features(features: Any) -> Numbers:
    rows = Numbers("features", features)
    if len(rows.shape) != 2:
        raise ValueError(f"{rows.name} must have shape [num_nodes, num_channels], not {list(rows.shape)}.")
    if name_of(rows.dtype) is None:
        raise ValueError(f"{rows.name} holds {rows.dtype}; give numbers of {', '.join(sorted(DTYPES))}.")
    return rows


def _feature_pieces(rows: Numbers) -> Iterator[Array]:
    num_nodes, num_channels = rows.shape
    step = max(1, _NUMBERS_AT_ONCE // max(num_channels, 1))
    for begin in range(0, num_nodes, step):
        yield np.ascontiguousarray(rows[begin : begin + step], rows.dtype.newbyteorder("<"))


def _features_part(rows: Numbers) -> Part:
    """The features, gone through once for their checksum; refuses what is not finite."""
    crc = begin = 0
    for piece in _feature_pieces(rows):
        with np.errstate(over="ignore"):
            is_finite = np.isfinite(piece.astype(np.float32, copy=False))  # as the network takes them
        if not is_finite.all():
            row, column = np.argwhere(~is_finite)[0]
            raise ValueError(
                f"{rows.name} has {piece[row, column]} in row {begin + row}: give finite numbers that float32 can hold."
            )
        crc, begin = zlib.crc32(piece.data if piece.size else b"", crc), begin + len(piece)
    return Part(name_of(rows.dtype) or "", rows.shape, crc, _feature_pieces(rows))


def _part(values: Array) -> Part:
    return Part(name_of(values.dtype) or "", values.shape, zlib.crc32(values.data if values.size else b""), (values,))
