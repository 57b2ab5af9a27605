"""How a packed store is written: graphs are appended to nameless files, and copied into shards when all are there.

Memory is a few numbers for each graph: its sizes, its targets and its place. Disk space for all graphs is needed twice.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crawl.checks import as_path, whole_number
from crawl.data.dataset import Dataset
from crawl.data.fingerprint import Fingerprint
from crawl.data.packed import FORMAT, GRAPHS, MANIFEST, SKIPPED, crc_of_text, manifest_text, open_packed, shard_name
from crawl.data.splits import Split
from crawl.data.task import Task
from crawl.files import named_if_full, whole_file, write_atomically
from crawl.graph_files.arrays import Array, Part, name_of, write_arrays
from crawl.plain import unstructure

_GRAPHS_AT_ONCE = 2**14
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # what is in the place of a new folder
_WHOLE = tuple(np.dtype(name) for name in ("u1", "i2", "i4", "i8"))  # the smallest that holds all numbers is taken


@dataclass(frozen=True)
class Shards:
    """Into how many files nodes and edges go: `count` of about the same number of graphs, or as many as are needed for
    at most `size` graphs each."""

    count: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.size is not None:
            raise ValueError("shards and shard_size both say how many files there are: give one of them.")
        for name, value in (("shards", self.count), ("shard_size", self.size)):
            if value is not None:
                field = "count" if name == "shards" else "size"
                object.__setattr__(self, field, whole_number(name, value, 1, 10**6 if field == "count" else 2**62))

    def ends(self, num_graphs: int) -> list[int]:
        """After which graph each file ends. Refuses more files than graphs."""
        count = self.count or (1 if self.size is None else -(-num_graphs // self.size))
        if count > num_graphs:
            raise ValueError(f"There are {num_graphs} graphs, too few for {count} shards: take fewer.")
        if self.size is not None:
            return [*range(self.size, num_graphs, self.size), num_graphs]
        return [num_graphs * (i + 1) // count for i in range(count)]


class _Column:
    """Rows of numbers in a nameless file."""

    def __init__(self, file: Any, like: Array) -> None:
        self.file, self.dtype, self.width = file, like.dtype, like.shape[1]
        self.low, self.high = 0, 0

    def append(self, rows: Array) -> None:
        if not rows.size:
            return
        if rows.shape[1] != self.width or rows.dtype != self.dtype:
            raise ValueError(
                f"Graphs have features of {self.width} columns ({self.dtype}) and of {rows.shape[1]} ({rows.dtype}): "
                "give all of them the same."
            )
        if rows.dtype.kind in "iu":
            self.low, self.high = min(self.low, int(rows.min())), max(self.high, int(rows.max()))
        self.file.write(np.ascontiguousarray(rows).data)

    def read(self, begin: int, end: int) -> Array:
        """These rows."""
        self.file.seek(begin * self.width * self.dtype.itemsize)
        content = self.file.read((end - begin) * self.width * self.dtype.itemsize)
        return np.frombuffer(content, self.dtype).reshape(-1, self.width)

    @property
    def kept_as(self) -> np.dtype[Any]:
        """The smallest type that holds all numbers that are whole; others as they are."""
        if self.dtype.kind not in "iu":
            return self.dtype
        return next(t for t in _WHOLE if np.iinfo(t).min <= self.low and self.high <= np.iinfo(t).max)


class Spool:
    """Graphs in nameless files, until it is known which of them are kept, and as what.

    Args:
        files: What closes the files, which are then gone.
        folder: Where they are.
    """

    def __init__(self, files: ExitStack, folder: Path) -> None:
        self._files, self._folder = files, folder
        self._columns: dict[str, _Column] = {}
        self._sizes: list[NDArray[np.int32]] = []
        self._text, self._lengths = self._new(), list[NDArray[np.int32]]()

    def _new(self) -> Any:
        return self._files.enter_context(tempfile.TemporaryFile(dir=self._folder))

    def append(self, sizes: NDArray[np.int32], names: Sequence[str], **rows: Array) -> None:
        """Add graphs: `[n, 2]` nodes and edges of each, what they are called, and the rows of `edges`, and perhaps of
        `x` and `edge_attr`."""
        if self._columns and rows.keys() != self._columns.keys():
            raise ValueError("Some graphs have features that others do not have: give them to all, or to none.")
        for name, values in rows.items():
            if name not in self._columns:
                self._columns[name] = _Column(self._new(), values)
            self._columns[name].append(values)
        self._sizes.append(sizes)
        texts = [name.encode("utf-8", "replace") for name in names]
        self._text.write(b"".join(texts))
        self._lengths.append(np.array([len(text) for text in texts], np.int32))

    @property
    def has_rows(self) -> bool:
        """Whether there is any graph."""
        return bool(self._sizes)

    def write(
        self,
        folder: Path,
        keep: NDArray[np.bool_],
        *,
        name: str,
        task: Task,
        y: Tensor,
        sample_weight: Tensor | None,
        split: Split,
        shards: Shards,
        node_categories: tuple[int, ...],
        edge_categories: tuple[int, ...],
        skipped: Sequence[str] = (),
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> Dataset:
        """Write the graphs that are kept into a folder, which is there; the data set that it is then."""
        sizes, lengths = np.concatenate(self._sizes), np.concatenate(self._lengths)
        kept = np.flatnonzero(keep)
        ends = shards.ends(len(kept))
        parts: dict[str, Part] = {
            "num_nodes": _part(sizes[kept, 0]),
            "num_edges": _part(sizes[kept, 1]),
            "y": _part(y.numpy()),
            "names_ptr": _part(_ptr(lengths[kept])),
            "names": Part("U8", (int(lengths[kept].sum(dtype=np.int64)),), 0, self._names(keep, lengths)),
        }
        parts |= {part: _part(getattr(split, part).numpy()) for part in ("train", "val", "test")}
        if sample_weight is not None:
            parts["sample_weight"] = _part(sample_weight.numpy())
        _write(folder / GRAPHS, parts)
        ptrs = {"x": _ptr(sizes[:, 0]), "edges": _ptr(sizes[:, 1])}
        begin = 0
        for i, end in enumerate(ends):
            on_progress(f"writing shard {i + 1} of {len(ends)}")
            span = (int(kept[begin]), int(kept[end - 1]) + 1)
            _write(folder / shard_name(i), dict(self._shard(keep, ptrs, *span)))
            begin = end
        files = {path.name: _crc_of(path) for path in sorted(folder.glob("*.crawl"))}
        if skipped:
            text = "".join(
                f"{' '.join(line.splitlines())}\n" for line in skipped
            )  # a name of a column may have several
            write_atomically(folder / SKIPPED, text)
            files[SKIPPED] = crc_of_text(text.encode())
        manifest: dict[str, Any] = {
            **{"format": FORMAT, "name": name, "task": unstructure(task), "num_skipped": len(skipped)},
            "shards": [end - begin for begin, end in zip([0, *ends], ends, strict=False)],
            "files": files,
            "node_categories": list(node_categories),
            "edge_categories": list(edge_categories),
            "hashes": {},
        }
        write_atomically(folder / MANIFEST, manifest_text(manifest))
        on_progress("computing the fingerprint")
        hashes = Fingerprint.of(open_packed(folder, verify=False)).hashes
        manifest["hashes"] = {part: value for part, value in hashes.items() if part != "split"}
        write_atomically(folder / MANIFEST, manifest_text(manifest))
        return open_packed(folder, verify=False)

    def _shard(
        self, keep: NDArray[np.bool_], ptrs: dict[str, NDArray[np.int64]], first: int, last: int
    ) -> Iterator[tuple[str, Part]]:
        """The arrays of the graphs from `first` to `last` that are kept."""
        for name, column in self._columns.items():
            ptr = ptrs["x" if name == "x" else "edges"]
            num_rows = int(np.diff(ptr)[first:last][keep[first:last]].sum())
            dtype = column.kept_as
            pieces = self._pieces(column, keep, ptr, first, last, dtype)
            yield name, Part(name_of(dtype) or "", (num_rows, column.width), 0, pieces)

    def _pieces(
        self, column: _Column, keep: NDArray[np.bool_], ptr: NDArray[np.int64], first: int, last: int, dtype: Any
    ) -> Iterator[Array]:
        for begin in range(first, last, _GRAPHS_AT_ONCE):
            end = min(begin + _GRAPHS_AT_ONCE, last)
            rows = column.read(int(ptr[begin]), int(ptr[end]))
            if not keep[begin:end].all():
                rows = rows[np.repeat(keep[begin:end], np.diff(ptr[begin : end + 1]))]
            yield np.ascontiguousarray(rows, dtype)

    def _names(self, keep: NDArray[np.bool_], lengths: NDArray[np.int32]) -> Iterator[Array]:
        self._text.seek(0)
        for begin in range(0, len(keep), _GRAPHS_AT_ONCE):
            own = lengths[begin : begin + _GRAPHS_AT_ONCE]
            text = np.frombuffer(self._text.read(int(own.sum())), np.uint8)
            yield np.ascontiguousarray(text[np.repeat(keep[begin : begin + _GRAPHS_AT_ONCE], own)])


@contextmanager
def new_folder(output: Path | str) -> Iterator[Path]:
    """A folder beside the place of a new one; moved there when all went well, and gone otherwise.

    Raises:
        ValueError: If there is something at that place, or nothing can be written there.
    """
    output = as_path("output", output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise _taken(output)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{output.name}.", suffix=".part", dir=output.parent))
    except OSError as error:
        raise ValueError(f"{output} cannot be written: {error.strerror or error}.") from None
    try:
        with named_if_full(str(output)):
            yield temporary
        temporary.chmod(0o777 & ~_umask())
        try:
            os.replace(temporary, output)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            raise _taken(output) from None  # another process was faster
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _taken(output: Path) -> ValueError:
    return ValueError(f"{output} exists already: choose another folder.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write(path: Path, parts: dict[str, Part]) -> None:
    with whole_file(path) as file:
        write_arrays(file, parts, {"format": FORMAT})


def _crc_of(path: Path) -> str:
    """The checksum in the header of a file that was just written."""
    from crawl.data.packed import GraphsFile, ShardFile

    kind = GraphsFile if path.name == GRAPHS else ShardFile
    return kind(path, verify=False).metadata["crc32.header"]


def _part(values: Array) -> Part:
    values = np.ascontiguousarray(values)
    return Part(name_of(values.dtype) or "", values.shape, 0, (values,))


def _ptr(sizes: Array) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
