"""Files of arrays: a header in JSON, then the arrays as they are in memory, to be mapped.

It is the layout of safetensors: 8 bytes with the length of the header, the header, and the arrays one after the other,
without gaps. Wide numbers come first and the header is padded, so that every array is aligned and can be mapped. The
metadata has the format, a CRC-32 of every array and of the header itself, and what else a format needs.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from crawl.checks import as_path, truth
from crawl.files import parse_json
from crawl.graph_files.opened import OpenedFile

Array = NDArray[Any]

DTYPES = {
    "I32": "<i4", "I64": "<i8", "F32": "<f4", "F64": "<f8", "F16": "<f2",
    "I8": "|i1", "I16": "<i2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
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


def write_arrays(file: IO[bytes], parts: Mapping[str, Part], metadata: Mapping[str, str]) -> dict[str, int]:
    """Write the header and the arrays; the CRC-32 of each array. Their `crc` need not be known: the header is written
    again where it differs, for which the file must be able to go back."""
    parts = dict(sorted(parts.items(), key=lambda item: -np.dtype(DTYPES[item[1].dtype]).itemsize))
    begin = file.tell() if file.seekable() else 0
    file.write(header_of(parts, metadata))
    found = dict.fromkeys(parts, 0)
    for name, part in parts.items():
        for piece in part.pieces:
            content = piece.data if piece.size else b""
            found[name] = zlib.crc32(content, found[name])
            file.write(content)
    if any(found[name] != part.crc for name, part in parts.items()):
        known = {name: Part(part.dtype, part.shape, found[name], ()) for name, part in parts.items()}
        file.seek(begin)
        file.write(header_of(known, metadata))  # as long as before: a checksum has eight digits
        file.seek(0, os.SEEK_END)
    return found


def header_of(parts: Mapping[str, Part], metadata: Mapping[str, str]) -> bytes:
    """The header of a file with these arrays, in this order."""
    metadata = {**metadata, **{f"crc32.{name}": f"{part.crc:08x}" for name, part in parts.items()}}
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, part in parts.items():
        begin, end = end, end + math.prod(part.shape) * np.dtype(DTYPES[part.dtype]).itemsize
        header[name] = {"dtype": part.dtype, "shape": list(part.shape), "data_offsets": [begin, end]}
    header["__metadata__"]["crc32.header"] = header_crc(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


class ArrayFile:
    """A file whose header was checked, and whose arrays are mapped: what is written to them stays in this process.

    A subclass has a format, and says by `fits` which arrays it may hold.

    Args:
        path: The file.
        verify: Compare the checksums, which reads the file once; sizes are always compared.

    Raises:
        ValueError: If the file is not of the format, or damaged; the message says what to do.
    """

    format: ClassVar[str]
    what: ClassVar[str]  # what messages call such a file
    remedy: ClassVar[str]
    source: ClassVar[str]  # which command writes it

    def __init__(self, path: str | Path, verify: bool) -> None:
        self.path = as_path("path", path)
        with self._opened() as file:
            self.opened = OpenedFile(self.path, file)
            size = os.fstat(file.fileno()).st_size
            self.start, self.header = self._read_header(file, size)
            self.metadata: dict[str, str] = self.header.pop("__metadata__")
            self._check_sizes(size)
            if truth("verify", verify):
                self.verify(file)
            self._map, self.arrays = self._mapped(file)

    def fits(self, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, str]) -> bool:
        """Whether a file of this format may hold such arrays; all numbers of shapes are 0 or more."""
        raise NotImplementedError

    def fits_metadata(self, metadata: dict[str, Any]) -> bool:
        """Whether the metadata have what the format needs."""
        return True

    def verify(self, file: IO[bytes]) -> None:
        """Compare the checksums of all arrays."""
        for name in self.header:
            for _ in self.pieces(file, name):
                pass

    def refuse(self, problem: str) -> NoReturn:
        """Say what is wrong with the file, and what to do."""
        raise ValueError(f"{self.path} is not a {self.what}, or was damaged ({problem}): {self.remedy}.")

    def release(self) -> None:
        """Let the system have the memory of pages that were read; they are read again where they are used."""
        if sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED)

    def pieces(self, file: IO[bytes], name: str) -> Iterator[Array]:
        """The numbers of an array, flat, read in pieces; refused in the end if they do not have their checksum."""
        part, found = self.header[name], 0
        begin, end = part["data_offsets"]
        step = _AT_ONCE * dtype_of(part).itemsize
        for offset in range(begin, end, step):
            file.seek(self.start + offset)
            content = file.read(min(step, end - offset))
            found = zlib.crc32(content, found)
            yield np.frombuffer(content, dtype_of(part))
        if f"{found:08x}" != self.metadata.get(f"crc32.{name}", ""):
            self.refuse(f"the checksum of {name} differs")

    def _opened(self) -> IO[bytes]:
        try:
            if self.path.exists() and not self.path.is_file():
                raise ValueError(f"{self.path} is not a file: give one that `{self.source}` has written.")
            return open(self.path, "rb")
        except OSError as error:
            raise ValueError(f"{self.path} cannot be read: {error.strerror}.") from None

    def _read_header(self, file: IO[bytes], size: int) -> tuple[int, dict[str, Any]]:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER):
            self.refuse("it has no header")
        try:
            header = parse_json(file.read(length))
            metadata = header["__metadata__"]
            fits = metadata["format"] == self.format and metadata["crc32.header"] == header_crc(header)
            fits = fits and self.fits_metadata(metadata)
        except (ValueError, TypeError, KeyError):
            self.refuse("it has no header of ours")
        if not fits:
            self.refuse("its header was changed, or is of another version")
        return 8 + length, header

    def _check_sizes(self, size: int) -> None:
        """Compare the header, which anybody may have written, with itself and with the size of the file."""
        try:
            shapes = {name: tuple(part["shape"]) for name, part in self.header.items()}
            dtypes = {name: part["dtype"] for name, part in self.header.items()}
            fits = all(type(n) is int and n >= 0 for shape in shapes.values() for n in shape)
            fits = fits and self.fits(shapes, dtypes)
            end = 0
            for name, part in self.header.items():
                begin, end = end, end + math.prod(shapes[name]) * dtype_of(part).itemsize
                fits = fits and part["data_offsets"] == [begin, end]
                fits = fits and (self.start + begin) % dtype_of(part).itemsize == 0
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            fits = False
        if not fits:
            self.refuse(f"its header does not describe a {self.what.removesuffix(' file')}")
        if size != self.start + end:
            self.refuse(f"it has {size} bytes, not {self.start + end}")

    def _mapped(self, file: IO[bytes]) -> tuple[mmap.mmap, dict[str, Array]]:
        """The map, and the arrays in it, private to this process."""
        if sys.platform == "linux":
            flags, protection = mmap.MAP_PRIVATE | _MAP_NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            content = mmap.mmap(file.fileno(), 0, flags=flags, prot=protection)
        else:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        flat = np.frombuffer(content, np.uint8)[self.start :]
        arrays = {
            name: flat[slice(*part["data_offsets"])].view(dtype_of(part)).reshape(part["shape"])
            for name, part in self.header.items()
        }
        return content, arrays


def mapped_bytes() -> int:
    """The bytes of files that are mapped and in the memory of this process; 0 where the system does not say."""
    with suppress(OSError, AttributeError), open("/proc/self/statm") as said:
        return int(said.read().split()[2]) * os.sysconf("SC_PAGESIZE")
    return 0


def dtype_of(part: dict[str, Any]) -> np.dtype[Any]:
    """The type of the numbers of an array, by its entry in the header."""
    return np.dtype(DTYPES[part["dtype"]])


def header_crc(header: dict[str, Any]) -> str:
    """The CRC-32 of a header, without its own."""
    metadata = {name: value for name, value in header["__metadata__"].items() if name != "crc32.header"}
    text = json.dumps({**header, "__metadata__": metadata}, separators=(",", ":"), sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x}"
