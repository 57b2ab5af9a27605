"""Where the edges and features of a graph file come from: text, `.npy` files, arrays and tensors, read in pieces."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crawl.checks import as_path, shown
from crawl.graph_files.text import Block, edges_of_text
from crawl.tensor_checks import as_array

Array = NDArray[Any]

_STDIN = Path("-")
_EDGES_AT_ONCE = 2**20


class Numbers:
    """An array, or that of a `.npy` file, which is mapped anew for every piece so that it never fills the memory."""

    def __init__(self, name: str, given: Any) -> None:
        is_file = isinstance(given, str | Path)
        self.name = str(given) if is_file else name
        self.path = as_path(name, given) if is_file else None
        self.array = None if is_file else as_array(name, given)
        whole = self._whole()
        if not isinstance(whole, np.ndarray) or whole.dtype.kind not in "biuf":
            raise ValueError(f"{self.name} must be an array of numbers, not {shown(whole)}.")
        self.shape: tuple[int, ...] = whole.shape
        self.dtype = whole.dtype

    def __getitem__(self, part: Any) -> Array:
        values: Array = self._whole()[part]
        return values

    def _whole(self) -> Any:
        if self.path is None:
            return self.array
        try:
            return np.load(self.path, mmap_mode="r", allow_pickle=False)
        except OSError as error:
            raise ValueError(f"{self.path} cannot be read: {error.strerror or error}.") from None
        except (ValueError, EOFError, SyntaxError, OverflowError) as error:
            raise ValueError(f"{self.path} is not a .npy file of numbers, or it is damaged ({error}).") from None


def edge_blocks(
    source: Any, edge_weight: Any, most_id: int, why: str = "", *, weighted: bool, header: bool
) -> Iterator[Block]:
    """Sources and targets, int32, and weights, float64 or None, of all edges, in blocks; see `build_graph_file`.

    `why` says in messages what decided the largest id.
    """
    if isinstance(source, str | Path) and Path(source).suffix != ".npy":
        if edge_weight is not None:
            raise ValueError("edge_weight belongs to an array of edges: give text a third column, and weighted=True.")
        with _opened(as_path("source", source)) as file:
            yield from edges_of_text(file, str(source), most_id, why, weighted=weighted, header=header)
        return
    if weighted or header:
        raise ValueError("weighted and header are for text: leave them out, and give the weights as edge_weight.")
    edges = Numbers("source", source)
    if len(edges.shape) != 2 or edges.shape[0] != 2 or (edges.dtype.kind not in "iu" and edges.shape[1]):
        raise ValueError(
            f"{edges.name} must hold integers of shape [2, num_edges], not {edges.dtype} of shape {list(edges.shape)}."
        )
    weights = None if edge_weight is None else Numbers("edge_weight", edge_weight)
    if weights is not None and weights.shape != edges.shape[1:]:
        raise ValueError(f"{weights.name} must have shape {list(edges.shape[1:])}, not {list(weights.shape)}.")
    for begin in range(0, edges.shape[1], _EDGES_AT_ONCE):
        part = slice(begin, begin + _EDGES_AT_ONCE)
        block = edges[:, part]
        if block.min() < 0 or block.max() > most_id:
            wrong = block.min() if block.min() < 0 else block.max()
            raise ValueError(f"{edges.name} holds node {wrong}, but ids go from 0 to {most_id}{why}.")
        weight = None
        if weights is not None:
            weight = weights[part].astype(np.float64)
            if not ((weight > 0) & (weight < np.inf)).all():
                raise ValueError(f"{weights.name} must be positive and finite: leave out edges not to be walked.")
        yield block[0].astype(np.int32), block[1].astype(np.int32), weight


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A file to read bytes from, uncompressed if it was compressed with gzip; the standard input for `-`."""
    if path == _STDIN:
        if sys.stdin is None:
            raise ValueError("The standard input is closed: name a file to read.")
        yield getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode())
        return
    with open(path, "rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not is_compressed:
            yield file
            return
        try:
            with gzip.open(file) as content:
                yield content
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is damaged ({error}).") from None
