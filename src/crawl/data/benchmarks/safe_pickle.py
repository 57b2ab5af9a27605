"""Pickles and torch files of others, read so that nothing in them runs.

A pickle is a program: it names functions and calls them. Here the few names that tensors and arrays of numbers need
stand for functions of this module, which look at what they are given. A file that asks for any other name is refused.
"""

from __future__ import annotations

import io
import pickle
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from crawl.data.benchmarks.packed import naming, open_binary

Array = np.ndarray[Any, np.dtype[Any]]
_LONGEST_NAME = 100  # in a message


def load_pickle(path: Path) -> Any:
    """What a pickle holds: text, numbers, lists, tuples, dicts, tensors and arrays of numbers."""
    return _read(path, lambda file: _Unpickler(file, encoding="latin1").load())  # of Python 2, too


def load_torch(path: Path) -> Any:
    """The same of a file that `torch.save` wrote."""
    return _read(path, _load_torch)


class _UnsafeError(Exception):
    """A file asks for something that data do not need; the message is its name."""


def _read(path: Path, load: Callable[[IO[bytes]], Any]) -> Any:
    try:
        with naming(path), open_binary(path) as file:
            return load(file)
    except ValueError as error:
        if isinstance(error.__cause__, _UnsafeError):
            name = ascii(str(error.__cause__))[1:-1]  # it can hold line breaks, or codes that terminals obey
            raise ValueError(
                f"{path} asks for {name[:_LONGEST_NAME]}, which data do not need and which could run code: nothing of "
                "it was run. Get the file from its publisher."
            ) from None
        raise


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[f"{module}.{name}"]
        except KeyError:
            raise _UnsafeError(f"{module}.{name}") from None


def _load_torch(file: IO[bytes]) -> Any:
    try:
        allowed = torch.serialization.safe_globals([(stand_in, name) for name, stand_in in _NUMPY.items()])
        with warnings.catch_warnings(action="ignore"), allowed:  # what torch would say is about other ways to load it
            return torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError) as error:
        if named := re.search(r"GLOBAL (\S+)", str(error)):
            raise _UnsafeError(named[1]) from None
        if "weights_only" in str(error):  # torch would have users load it unsafely
            raise ValueError("it does not hold tensors alone") from None
        raise


class _Kind:
    """Stands for a numpy dtype: that of a kind of numbers, never of objects or records, whose bytes are addresses."""

    __slots__ = ("dtype",)

    def __init__(self, name: str, *_: object) -> None:
        if not re.fullmatch(r"[biufc]\d{1,2}", name):
            raise _UnsafeError(f"numpy.dtype({name})")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, byte_order, *fields = state
        if any(field is not None for field in fields[:3]):
            raise _UnsafeError("a numpy.dtype with fields")
        self.dtype = self.dtype.newbyteorder(byte_order)


class _Numbers(np.ndarray[Any, np.dtype[Any]]):
    """An array of numbers. It is empty until its state is set."""

    __slots__ = ()

    def __new__(cls, *_: object) -> _Numbers:
        return super().__new__(cls, 0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, shape, kind, is_fortran, data = state
        data = data.encode("latin1") if isinstance(data, str) else data  # as Python 2 wrote it
        if not isinstance(kind, _Kind) or not isinstance(data, bytes):
            raise _UnsafeError("an array that is not of numbers")
        super().__setstate__((version, shape, kind.dtype, is_fortran, data))


class _Sparse:
    """Stands for a matrix of scipy, by rows. It is empty until its state is set."""

    __slots__ = ("data", "indices", "indptr", "shape")

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not all(isinstance(state.get(name), np.ndarray) for name in ("data", "indices", "indptr")):
            raise _UnsafeError("a matrix that is not of numbers")
        self.data, self.indices, self.indptr = state["data"], state["indices"], state["indptr"]
        self.shape = tuple(int(size) for size in state["_shape"])

    def dense(self) -> Array:
        """The matrix with its zeros."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
        matrix = np.zeros(self.shape, np.float32)
        matrix[rows, self.indices] = self.data
        return matrix


class _Rebuild:
    """The functions that pickles of tensors and arrays call. A file can neither change a method nor look into it."""

    def tensor(self, values: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> Tensor:
        return values.as_strided(size, stride, offset)  # refuses what goes past the end

    def storage(self, data: bytes) -> Tensor:
        storage = _load_torch(io.BytesIO(data))
        return torch.empty(0, dtype=storage.dtype).set_(storage)

    def array(self, *_: object) -> _Numbers:
        return _Numbers()

    def scalar(self, kind: _Kind, data: bytes) -> Any:
        return np.frombuffer(data, kind.dtype)[0]

    def array_of_buffer(self, data: bytes, kind: _Kind, shape: tuple[int, ...], order: Any) -> Array:
        return np.frombuffer(bytearray(data), kind.dtype).reshape(shape, order=order)

    def matrix(self, kind: Any, *_: object) -> _Sparse:
        if kind is not _Sparse:
            raise _UnsafeError("copy_reg._reconstructor")
        return _Sparse()

    def table(self, *_: object) -> dict[Any, Any]:
        return {}

    def nothing(self) -> None:
        return None

    def bytes_of_text(self, text: str, encoding: str) -> bytes:
        return text.encode("latin1" if encoding == "latin1" else "ascii")

    def no_bytes(self) -> bytes:
        return b""


_REBUILD = _Rebuild()
_NUMPY: dict[str, Any] = {
    "numpy.ndarray": _Numbers,
    "numpy.dtype": _Kind,
    "_codecs.encode": _REBUILD.bytes_of_text,
    "__builtin__.bytes": _REBUILD.no_bytes,  # how old protocols write those of an empty array
    "builtins.bytes": _REBUILD.no_bytes,
} | {
    f"numpy.{core}.{name}": function  # numpy 2 renamed its core
    for core in ("core", "_core")
    for name, function in {
        "multiarray._reconstruct": _REBUILD.array,
        "multiarray.scalar": _REBUILD.scalar,
        "numeric._frombuffer": _REBUILD.array_of_buffer,
    }.items()
}
_ALLOWED: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "collections.defaultdict": _REBUILD.table,
    **dict.fromkeys(("__builtin__.list", "builtins.list", "__builtin__.object", "builtins.object"), _REBUILD.nothing),
    **dict.fromkeys(("copy_reg._reconstructor", "copyreg._reconstructor"), _REBUILD.matrix),
    **dict.fromkeys(("scipy.sparse.csr.csr_matrix", "scipy.sparse._csr.csr_matrix"), _Sparse),
    "torch._utils._rebuild_tensor_v2": _REBUILD.tensor,
    "torch.storage._load_from_bytes": _REBUILD.storage,
    **_NUMPY,
}
