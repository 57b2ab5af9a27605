"""The layout of a graph file: the arrays of a `Graph` as they are in memory, in a file of arrays.

The metadata has the number of edges. Whoever wrote the numbers, no walk leaves the arrays: `verify` looks at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from crawl.checks import MAX_COUNT
from crawl.graph_files.arrays import DTYPES, ArrayFile, Part, write_arrays
from crawl.graph_files.arrays import header_of as header_of_arrays
from crawl.graph_files.opened import OpenedFile as OpenedFile

FORMAT = "crawl graph 1"
_INTEGERS = ("I32", "I64")


def write(file: IO[bytes], parts: Mapping[str, Part], num_edges: int) -> None:
    """Write the header and the arrays."""
    write_arrays(file, parts, _metadata(num_edges))


def header_of(parts: Mapping[str, Part], num_edges: int) -> bytes:
    """The header of a file with these arrays, in this order."""
    return header_of_arrays(parts, _metadata(num_edges))


def _metadata(num_edges: int) -> dict[str, str]:
    return {"format": FORMAT, "num_edges": str(num_edges)}


def open_graph(path: str | Path, verify: bool) -> dict[str, Any]:
    """The arguments of `Graph` for the graph in a file, which is mapped, not read."""
    return _graph_of(_GraphFile(path, verify))


def open_graph_and_features(path: str | Path, *, verify: bool = True) -> tuple[dict[str, Any], Tensor | None]:
    """The arguments of `Graph`, and the features as `open_features` gives them, or None without any; read once."""
    opened = _GraphFile(path, verify)
    features = opened.arrays.get("x")
    return _graph_of(opened), None if features is None else torch.from_numpy(features)


def _graph_of(opened: _GraphFile) -> dict[str, Any]:
    num_nodes = opened.arrays["rowptr"].size - 1
    tensors = {name: torch.from_numpy(array) for name, array in opened.arrays.items() if name != "x"}
    return {
        **tensors,
        "batch": torch.zeros(1, dtype=torch.int32, device="cpu").expand(num_nodes),  # a zero for all
        "graph_ptr": torch.tensor([0, num_nodes], dtype=torch.int32, device="cpu"),
        "num_edges": opened.num_edges,
        "file": opened.opened,
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
    opened = _GraphFile(path, verify)
    if "x" not in opened.arrays:
        raise ValueError(f"{opened.path} has no node features: build it with features=….")
    return torch.from_numpy(opened.arrays["x"])


class _GraphFile(ArrayFile):
    """A graph file whose header was checked, and whose arrays are mapped."""

    format: ClassVar[str] = FORMAT
    what: ClassVar[str] = "graph file"
    remedy: ClassVar[str] = "build it again"
    source: ClassVar[str] = "crawl graph build"

    @property
    def num_edges(self) -> int:
        return int(self.metadata["num_edges"])  # a few digits

    def fits_metadata(self, metadata: dict[str, Any]) -> bool:
        return re.fullmatch("[0-9]{1,18}", metadata["num_edges"]) is not None

    def fits(self, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, str]) -> bool:
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
        allowed: dict[str, Any] = {"col": ("I32",), "cum_weight": ("I64",), "x": DTYPES}
        fits = all(dtype in allowed.get(name, _INTEGERS) for name, dtype in dtypes.items())
        return fits and shapes == expected and 0 <= num_nodes < MAX_COUNT

    def verify(self, file: IO[bytes]) -> None:
        """Compare checksums, and look at all numbers: whoever wrote them, no walk must leave the arrays."""
        num_nodes, num_arcs = self.header["rowptr"]["shape"][0] - 1, self.header["col"]["shape"][0]
        pieces = {name: self.pieces(file, name) for name in self.header}
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
