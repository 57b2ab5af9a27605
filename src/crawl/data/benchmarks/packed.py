"""The graphs of a benchmark in one file: compressed arrays and a description in JSON, without pickle.

The arrays are `num_nodes` and `num_edges` (a number for each graph), `edge_index` (ids count from 0 within each graph),
`x`, `edge_attr` and `y` where there are any; `train`, `val` and `test` (ids of graphs), or `test_fold` (a number for
each graph), or `parts` (for each split of the nodes of one graph, the part of each node); `pos` for nodes with
coordinates in an image; and `description`. Rebuilt superpixels are kept without their
edges, which follow from `x` and `pos`.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from crawl.data.benchmarks.neighbours import nearest_neighbours
from crawl.data.splits import Split
from crawl.data.store import GraphStore, as_ptr
from crawl.files import whole_file

_FORMAT = "crawl-graphs-1"
PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Packed:
    """Graphs with targets, and how they are divided."""

    store: GraphStore  # features that are integers are categories
    split: Split | None = None
    test_fold: Tensor | None = None  # [G] the fold in which each graph is tested, where there are folds instead
    pos: Tensor | None = None  # [N, 2] where each node is in its image, from 0 to 1
    parts: Tensor | None = None  # [F, N] the part of each node in F splits: 0 for none, 1 to 3 for those in `PARTS`
    origin: str = "published"  # "rebuilt" if the graphs are not quite the published ones
    node_categories: tuple[int, ...] = ()  # how many values each column of x takes; () if they are numbers
    edge_categories: tuple[int, ...] = ()


def with_categories(packed: Packed, widths: tuple[int, int]) -> Packed:
    """The same with integers replaced by their ranks among the values that occur, and the numbers of these.

    Where all columns together have fewer values than the published width, the first column gets as many more, which
    never occur: one-hot vectors then have the published width.
    """
    x, node_categories = _ranked(packed.store.x, widths[0])
    edge_attr, edge_categories = _ranked(packed.store.edge_attr, widths[1])
    store = replace(packed.store, x=x, edge_attr=edge_attr)
    return replace(packed, store=store, node_categories=node_categories, edge_categories=edge_categories)


def save_packed(path: Path, packed: Packed) -> None:
    """Write the file, whole or not at all."""
    store = packed.store
    description = {
        "format": _FORMAT,
        "origin": packed.origin,
        "node_categories": packed.node_categories,
        "edge_categories": packed.edge_categories,
        "y_per_node": store.y_per_node,
    }
    tensors: dict[str, Any] = {
        "num_nodes": store.node_ptr.diff(),
        "num_edges": store.edge_ptr.diff(),
        "edge_index": store.edge_index,
        "x": store.x,
        "edge_attr": store.edge_attr,
        "y": store.y,
        "pos": packed.pos,
        "test_fold": packed.test_fold,
        "parts": packed.parts,
    }
    if packed.split is not None:
        tensors |= {part: getattr(packed.split, part) for part in PARTS}
    if packed.origin == "rebuilt" and packed.pos is not None:
        tensors |= {"num_edges": None, "edge_index": None, "edge_attr": None}
        tensors |= {name: tensors[name].half() for name in ("x", "pos")}
    arrays: dict[str, Any] = {name: _narrow(tensor.numpy()) for name, tensor in tensors.items() if tensor is not None}
    arrays["description"] = np.frombuffer(json.dumps(description).encode(), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        np.savez_compressed(file, **arrays)


def load_packed(path: Path) -> Packed:
    """The content of a file that `save_packed` wrote."""
    arrays = load_arrays(path)
    with naming(path, "import it again"):
        description = json.loads(arrays.pop("description").tobytes())
        if description["format"] != _FORMAT:
            raise ValueError(f"its format is {description['format']}, not {_FORMAT}")
        tensors = {name: _wide(array) for name, array in arrays.items()}
        if "edge_index" not in tensors:
            node_ptr = as_ptr(tensors["num_nodes"])
            edges = nearest_neighbours(node_ptr, tensors["x"], tensors["pos"])
            tensors |= dict(zip(("num_edges", "edge_index", "edge_attr"), edges, strict=True))
        store = GraphStore(
            node_ptr=as_ptr(tensors["num_nodes"]),
            edge_ptr=as_ptr(tensors["num_edges"]),
            edge_index=tensors["edge_index"],
            x=tensors.get("x"),
            edge_attr=tensors.get("edge_attr"),
            y=tensors.get("y"),
            y_per_node=description["y_per_node"],
        ).checked()
        return Packed(
            store,
            Split(**{part: tensors[part] for part in PARTS}) if "train" in tensors else None,
            tensors.get("test_fold"),
            tensors.get("pos"),
            tensors.get("parts"),
            description["origin"],
            tuple(description["node_categories"]),
            tuple(description["edge_categories"]),
        )


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """All arrays of an npz file, none of them pickled."""
    with naming(path), open_binary(path) as opened:
        if not zipfile.is_zipfile(opened):
            raise ValueError("it is not an npz file, or its end is missing")
        opened.seek(0)
        with np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}


def open_binary(path: Path) -> IO[bytes]:
    """A file to read, without the compression if its name ends in .gz."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")  # type: ignore[return-value]


@contextmanager
def naming(path: Path, remedy: str = "get it again") -> Iterator[None]:
    """Whatever is wrong with what a file holds becomes one line that names the file."""
    try:
        yield
    except ImportError:
        raise
    except KeyError as error:
        raise ValueError(f"{path} has no array {error}: it is another file than CRaWl knows; {remedy}.") from error
    except Exception as error:  # zip, pickle, numpy and torch have many for a damaged file
        raise ValueError(f"{path} is truncated, damaged or another file ({reason(error)}): {remedy}.") from error


def reason(error: Exception) -> str:
    """What an error says, in one line without a full stop."""
    return " ".join(str(error).split()).removesuffix(".") or type(error).__name__


def split_in_order(sizes: list[int]) -> Split:
    """Splits that follow one another."""
    return Split(*torch.split(torch.arange(sum(sizes)), sizes))


def _ranked(features: Tensor | None, width: int) -> tuple[Tensor | None, tuple[int, ...]]:
    if features is None or features.is_floating_point():
        return features, ()
    features = features.unsqueeze(1) if features.dim() == 1 else features
    ranked = [column.unique(return_inverse=True) for column in features.unbind(1)]  # type: ignore[no-untyped-call]
    sizes = [len(values) for values, _ in ranked]
    categories = (sizes[0] + max(0, width - sum(sizes)), *sizes[1:])
    return torch.stack([ranks for _, ranks in ranked], dim=1), categories


def _narrow(array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """The same integers in as few bytes as they need; other numbers as they are."""
    if array.dtype.kind not in "iu" or array.size == 0:
        return array
    low, high = int(array.min()), int(array.max())
    kinds = (np.uint8, np.int16, np.int32, np.int64)
    return array.astype(next(k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max))


def _wide(array: np.ndarray[Any, np.dtype[Any]]) -> Tensor:
    kind = np.int64 if array.dtype.kind in "iu" else np.float32
    return torch.from_numpy(array.astype(kind, copy=False))
