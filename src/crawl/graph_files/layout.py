"""The layout of a graph file: a header in JSON, then the arrays of a `Graph` as they are in memory.

It is the layout of safetensors: 8 bytes with the length of the header, the header, and the arrays one after the other,
without gaps. Wide numbers come first and the header is padded, so that every array is aligned and can be mapped. The
metadata has the number of edges and a CRC-32 of every array and of the header itself.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crawl.checks import MAX_COUNT, as_path, truth
from crawl.files import parse_json

Array = NDArray[Any]

FORMAT = "crawl graph 1"
DTYPES = {
    "I32": "<i4", "I64": "<i8", "F32": "<f4", "F64": "<f8", "F16": "<f2",
    "I8": "|i1", "I16": "<i2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_INTEGERS = ("I32", "I64")
_ALIGNMENT = 64
_MOST_HEADER = 2**16  # bytes; ours have about a thousand
_AT_ONCE = 2**22  # numbers that are read at once to be checked
_MAP_NORESERVE = 0x4000  # of Linux: the map may be larger than the memory; Python names it from 3.13 on


@dataclass(frozen=True)
class Part:
    """An array that is written piece by piece."""

    dtype: str
    shape: tuple[int, ...]
    crc: int
    pieces: Iterable[Array]


def name_of(dtype: np.dtype[Any]) -> str | None:
    """What a type of numbers is called in the header; None if the file cannot hold it."""
    return next((name for name, known in DTYPES.items() if np.dtype(known) == dtype.newbyteorder("<")), None)


def write(file: IO[bytes], parts: Mapping[str, Part], num_edges: int) -> None:
    """Write the header and the arrays."""
    parts = dict(sorted(parts.items(), key=lambda item: -np.dtype(DTYPES[item[1].dtype]).itemsize))
    file.write(header_of(parts, num_edges))
    for part in parts.values():
        for piece in part.pieces:
            file.write(piece.data if piece.size else b"")


def header_of(parts: Mapping[str, Part], num_edges: int) -> bytes:
    """The header of a file with these arrays, in this order."""
    metadata = {"format": FORMAT, "num_edges": str(num_edges)}
    metadata |= {f"crc32.{name}": f"{part.crc:08x}" for name, part in parts.items()}
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, part in parts.items():
        begin, end = end, end + math.prod(part.shape) * np.dtype(DTYPES[part.dtype]).itemsize
        header[name] = {"dtype": part.dtype, "shape": list(part.shape), "data_offsets": [begin, end]}
    metadata["crc32.header"] = _header_crc(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def open_graph(path: str | Path, verify: bool) -> dict[str, Any]:
    """The arguments of `Graph` for the graph in a file, which is mapped, not read."""
    return _graph_of(_Opened(path, verify))


def open_graph_and_features(path: str | Path, *, verify: bool = True) -> tuple[dict[str, Any], Tensor | None]:
    """The arguments of `Graph`, and the features as `open_features` gives them, or None without any; read once."""
    opened = _Opened(path, verify)
    features = opened.arrays.get("x")
    return _graph_of(opened), None if features is None else torch.from_numpy(features)


def _graph_of(opened: _Opened) -> dict[str, Any]:
    num_nodes = opened.arrays["rowptr"].size - 1
    tensors = {name: torch.from_numpy(array) for name, array in opened.arrays.items() if name != "x"}
    return {
        **tensors,
        "batch": torch.zeros(1, dtype=torch.int32, device="cpu").expand(num_nodes),  # a zero for all
        "graph_ptr": torch.tensor([0, num_nodes], dtype=torch.int32, device="cpu"),
        "num_edges": opened.num_edges,
    }


def open_features(path: str | Path, *, verify: bool = True) -> Tensor:
    """`[N, C]` the node features in a graph file, mapped into memory: `features[nodes]` reads the rows of these nodes.

    What is written to the tensor stays in this process; the file does not change.

    Args:
        path: A file of `build_graph_file`.
        verify: Compare the checksums, which reads the file once; sizes are always compared.

    Raises:
        ValueError: If the file is not a graph file, is damaged, or has no features; the message says what to do.
    """
    opened = _Opened(path, verify)
    if "x" not in opened.arrays:
        raise ValueError(f"{opened.path} has no node features: build it with features=….")
    return torch.from_numpy(opened.arrays["x"])


class _Opened:
    """A graph file whose header was checked, and whose arrays are mapped."""

    def __init__(self, path: str | Path, verify: bool) -> None:
        self.path = as_path("path", path)
        with _opened(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            self.start, self.header = self._read_header(file, size)
            metadata = self.header.pop("__metadata__")
            self.num_edges = int(metadata["num_edges"])  # a few digits
            self._check_sizes(size)
            if truth("verify", verify):
                self._verify(file, metadata)
            self.arrays = self._mapped(file)

    def refuse(self, problem: str) -> NoReturn:
        """Say what is wrong with the file, and what to do."""
        raise ValueError(f"{self.path} is not a graph file, or was damaged ({problem}): build it again.")

    def _read_header(self, file: IO[bytes], size: int) -> tuple[int, dict[str, Any]]:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER):
            self.refuse("it has no header")
        try:
            header = parse_json(file.read(length))
            metadata = header["__metadata__"]
            fits = metadata["format"] == FORMAT and metadata["crc32.header"] == _header_crc(header)
            fits = fits and re.fullmatch("[0-9]{1,18}", metadata["num_edges"]) is not None
        except (ValueError, TypeError, KeyError):
            self.refuse("it has no header of ours")
        if not fits:
            self.refuse("its header was changed, or is of another version")
        return 8 + length, header

    def _check_sizes(self, size: int) -> None:
        """Compare the header, which anybody may have written, with itself and with the size of the file."""
        try:
            shapes = {name: tuple(part["shape"]) for name, part in self.header.items()}
            num_nodes, num_arcs = shapes["rowptr"][0] - 1, shapes["col"][0]
            expected: dict[str, tuple[int, ...]] = {
                "rowptr": (num_nodes + 1,),
                "col": (num_arcs,),
                "edge_id": (num_arcs,),
            }
            if "cum_weight" in shapes:
                expected["cum_weight"] = (num_arcs,)
            if "x" in shapes:
                expected["x"] = (num_nodes, shapes["x"][1])
            fits = shapes == expected and all(type(n) is int and n >= 0 for shape in shapes.values() for n in shape)
            fits = fits and 0 <= num_nodes < MAX_COUNT
            end = 0
            for name, part in self.header.items():
                allowed = {"col": ("I32",), "cum_weight": ("I64",), "x": DTYPES}.get(name, _INTEGERS)
                begin, end = end, end + math.prod(shapes[name]) * _dtype(part).itemsize
                fits = fits and part["dtype"] in allowed and part["data_offsets"] == [begin, end]
                fits = fits and (self.start + begin) % _dtype(part).itemsize == 0
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            fits = False
        if not fits:
            self.refuse("its header does not describe a graph")
        if size != self.start + end:
            self.refuse(f"it has {size} bytes, not {self.start + end}")

    def _pieces(self, file: IO[bytes], name: str, crc: str) -> Iterator[Array]:
        """The numbers of an array, flat, read in pieces; refused in the end if they do not have this checksum."""
        part, found = self.header[name], 0
        begin, end = part["data_offsets"]
        step = _AT_ONCE * _dtype(part).itemsize
        for offset in range(begin, end, step):
            file.seek(self.start + offset)
            content = file.read(min(step, end - offset))
            found = zlib.crc32(content, found)
            yield np.frombuffer(content, _dtype(part))
        if f"{found:08x}" != crc:
            self.refuse(f"the checksum of {name} differs")

    def _verify(self, file: IO[bytes], metadata: dict[str, str]) -> None:
        """Compare checksums, and look at all numbers: whoever wrote them, no walk must leave the arrays."""
        num_nodes, num_arcs = self.header["rowptr"]["shape"][0] - 1, self.header["col"]["shape"][0]
        pieces = {name: self._pieces(file, name, metadata.get(f"crc32.{name}", "")) for name in self.header}
        rowptr = np.concatenate([*pieces.pop("rowptr")])
        if rowptr[0] != 0 or rowptr[-1] != num_arcs or (rowptr[1:] < rowptr[:-1]).any():
            self.refuse("its rows overlap")
        can_be_left = rowptr[1:] > rowptr[:-1]
        for name, values_in_pieces in pieces.items():
            begin, last = 0, 0
            for values in values_in_pieces:
                end = begin + values.size
                if name == "edge_id":
                    fits = values.min() >= 0 and values.max() < self.num_edges
                elif name == "col":
                    fits = values.min() >= 0 and values.max() < num_nodes and can_be_left[values].all()
                elif name == "cum_weight":
                    fits = values.min() > 0 and values.max() <= MAX_COUNT
                else:
                    fits = True
                if fits and name in ("col", "cum_weight"):
                    before = np.concatenate([[last], values[:-1]])
                    ascends = values > before if name == "cum_weight" else values >= before
                    rows = slice(*np.searchsorted(rowptr, [begin, end]))
                    ascends[rowptr[rows] - begin] = True  # a row may begin with any number
                    fits = ascends.all()
                if not fits:
                    self.refuse(f"{name} holds what no graph has")
                begin, last = end, values[-1]

    def _mapped(self, file: IO[bytes]) -> dict[str, Array]:
        """The arrays, mapped privately: what is written to them stays in this process."""
        if sys.platform == "linux":
            flags, protection = mmap.MAP_PRIVATE | _MAP_NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            content = mmap.mmap(file.fileno(), 0, flags=flags, prot=protection)
        else:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        flat = np.frombuffer(content, np.uint8)[self.start :]
        return {
            name: flat[slice(*part["data_offsets"])].view(_dtype(part)).reshape(part["shape"])
            for name, part in self.header.items()
        }


def _opened(path: Path) -> IO[bytes]:
    try:
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} is not a file: give one that `crawl graph build` has written.")
        return open(path, "rb")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None


def _dtype(part: dict[str, Any]) -> np.dtype[Any]:
    return np.dtype(DTYPES[part["dtype"]])


def _header_crc(header: dict[str, Any]) -> str:
    """The CRC-32 of a header, without its own."""
    metadata = {name: value for name, value in header["__metadata__"].items() if name != "crc32.header"}
    text = json.dumps({**header, "__metadata__": metadata}, separators=(",", ":"), sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x}"
