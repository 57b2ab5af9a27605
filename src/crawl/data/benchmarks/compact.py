"""Compact files that benchmarks are imported from: npz without pickle, and CSV for molecules.

Layouts, with ids of nodes that count from 0 within each graph:

- `zinc12k.npz`: for each of `train`, `val`, `test` the arrays `PART_x` (atom types), `PART_edge_index` 2×E (both
  directions), `PART_edge_attr` (bond types), `PART_node_ptr`, `PART_edge_ptr` (where each graph begins, and the end of
  the last) and `PART_y`.
- `counting.npz`: `num_nodes`, `edge_index` 2×E (both directions), `edge_ptr`, `counts_tri_tailed_star_cyc4` G×4, and
  `train_idx`, `val_idx`, `test_idx`.
- `collab.npz`, `imdb-multi.npz`, `reddit-binary.npz`: `num_nodes`, `num_edges`, `edges` 2×E (each edge once), `y` and
  `test_fold`, the fold in which each graph is tested.
- `peptide_multi_class_dataset.csv.gz`: columns `smiles` and `labels`, a list of ten labels; beside it
  `peptides_split.npz` with `train`, `val` and `test`. `peptide_structure_dataset.csv.gz` has eleven columns of numbers.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crawl.data.benchmarks.packed import Packed, as_ptr, load_arrays
from crawl.data.splits import Split
from crawl.data.store import GraphStore

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]

STRUCTURE_TARGETS = (
    *("Inertia_mass_a", "Inertia_mass_b", "Inertia_mass_c", "Inertia_valence_a", "Inertia_valence_b"),
    *("Inertia_valence_c", "length_a", "length_b", "length_c", "Spherocity", "Plane_best_fit"),
)


def zinc(folder: Path) -> Packed:
    """The molecules in `zinc12k.npz`."""
    return _from_arrays(folder / "zinc12k.npz", _zinc)


def counting(folder: Path) -> Packed:
    """The random graphs in `counting.npz`, with four counts each."""
    return _from_arrays(folder / "counting.npz", _counting)


def social(name: str) -> Callable[[Path], Packed]:
    """A function that reads the graphs in `NAME.npz`."""
    return lambda folder: _from_arrays(folder / f"{name}.npz", _social)


def peptides_func(folder: Path) -> Packed:
    """The peptides in the CSV file with labels, as graphs; needs rdkit."""
    return _peptides(folder, "peptide_multi_class_dataset.csv.gz", lambda row: json.loads(row["labels"]))


def peptides_struct(folder: Path) -> Packed:
    """The peptides in the CSV file with numbers, as graphs; needs rdkit.

    The numbers get mean 0 and deviation 1 over all peptides, as published.
    """
    packed = _peptides(
        folder, "peptide_structure_dataset.csv.gz", lambda row: [float(row[name]) for name in STRUCTURE_TARGETS]
    )
    y = packed.store.y
    assert y is not None
    y.sub_(y.mean(0)).div_(y.std(0))
    return packed


def _from_arrays(path: Path, read: Callable[[Arrays], Packed]) -> Packed:
    try:
        return read(load_arrays(path))
    except KeyError as error:
        raise ValueError(f"{path} has no array {error}: it is another file than CRaWl knows; get it again.") from None
    except (IndexError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged ({error}): get it again.") from None


def _zinc(arrays: Arrays) -> Packed:
    stores = [
        GraphStore(
            node_ptr=_long(arrays[f"{part}_node_ptr"]),
            edge_ptr=_long(arrays[f"{part}_edge_ptr"]),
            edge_index=_long(arrays[f"{part}_edge_index"]),
            x=_long(arrays[f"{part}_x"]).unsqueeze(1),
            edge_attr=_long(arrays[f"{part}_edge_attr"]).unsqueeze(1),
            y=torch.from_numpy(arrays[f"{part}_y"]).float().unsqueeze(1),
        )
        for part in ("train", "val", "test")
    ]
    return Packed(GraphStore.concatenate(stores), split_in_order([len(store) for store in stores]))


def _counting(arrays: Arrays) -> Packed:
    store = GraphStore(
        node_ptr=as_ptr(_long(arrays["num_nodes"])),
        edge_ptr=_long(arrays["edge_ptr"]),
        edge_index=_long(arrays["edge_index"]),
        y=torch.from_numpy(arrays["counts_tri_tailed_star_cyc4"]).float(),
    )
    return Packed(store, Split(*(_long(arrays[f"{part}_idx"]) for part in ("train", "val", "test"))))


def _social(arrays: Arrays) -> Packed:
    num_nodes, num_edges, edges = (_long(arrays[name]) for name in ("num_nodes", "num_edges", "edges"))
    graph = torch.arange(len(num_edges)).repeat_interleave(num_edges)
    both = torch.cat([edges, edges.flip(0)], dim=1)
    graph = torch.cat([graph, graph])
    widest = int(num_nodes.max())
    order = ((graph * widest + both[0]) * widest + both[1]).argsort()  # by graph, then as a matrix is read
    store = GraphStore(
        node_ptr=as_ptr(num_nodes), edge_ptr=as_ptr(2 * num_edges), edge_index=both[:, order], y=_long(arrays["y"])
    )
    return Packed(store, test_fold=_long(arrays["test_fold"]))


def _peptides(folder: Path, name: str, targets: Callable[[dict[str, str]], list[float]]) -> Packed:
    from crawl.data.smiles import molecule_graph

    path = folder / name
    graphs, rows = [], []
    try:
        for row in _csv_rows(path):
            graphs.append(molecule_graph(row["smiles"]))
            rows.append(targets(row))
    except (KeyError, TypeError, ValueError, csv.Error, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path}, row {len(graphs) + 1}: {error}; get the file again.") from None
    arrays = load_arrays(folder / "peptides_split.npz")
    split = Split(*(_long(arrays[part]) for part in ("train", "val", "test")))
    return Packed(replace(GraphStore.from_graphs(graphs), y=torch.tensor(rows).float()), split)


def _csv_rows(path: Path) -> Iterator[dict[str, str]]:
    data = gzip.decompress(path.read_bytes()) if path.exists() else path.with_suffix("").read_bytes()
    yield from csv.DictReader(io.StringIO(data.decode(), newline=""))


def split_in_order(sizes: list[int]) -> Split:
    """Parts that lie one after the other."""
    return Split(*torch.split(torch.arange(sum(sizes)), sizes))


def _long(array: np.ndarray[Any, np.dtype[Any]]) -> Tensor:
    return torch.from_numpy(array.astype(np.int64))
