"""Compact files that benchmarks are imported from: npz without pickle, and CSV for molecules.

Layouts, with ids of nodes that count from 0 within each graph:

- `zinc12k.npz`: for each of `train`, `val`, `test` the arrays `PART_x` (atom types), `PART_edge_index` 2×E (both
  directions), `PART_edge_attr` (bond types), `PART_node_ptr`, `PART_edge_ptr` (where each graph begins, and the end of
  the last) and `PART_y`.
- `counting.npz`: `num_nodes`, `edge_index` 2×E (both directions), `edge_ptr`, `counts_tri_tailed_star_cyc4` G×4, and
  `train_idx`, `val_idx`, `test_idx`.
- `collab.npz`, `imdb-multi.npz`, `reddit-binary.npz`: `num_nodes`, `num_edges`, `edges` 2×E (each edge once), `y` and
  `test_fold`, the fold in which each graph is tested.
- `minesweeper.npz`, `tolokers.npz`: one graph with `x`, `y`, `edges` E×2 (each once) and ten masks in each of `train`,
  `val` and `test`, as bits (`numpy.packbits` of 10×N). The published files of these names are read, too.
- `cora.npz`: the same with one list of nodes in each of `train`, `val` and `test`, and its binary features as rows of a
  sparse matrix, `x_indptr` and `x_indices`, of `num_features` columns.
- `peptide_multi_class_dataset.csv.gz`: columns `smiles` and `labels`, a list of ten labels; beside it
  `peptides_split.npz` with `train`, `val` and `test`. `peptide_structure_dataset.csv.gz` has eleven columns of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crawl.data.benchmarks import BENCHMARKS, published
from crawl.data.benchmarks.packed import PARTS, Packed, load_arrays, naming, reason, split_in_order
from crawl.data.splits import Split
from crawl.data.store import GraphStore, as_ptr
from crawl.data.symmetry import without_reverse
from crawl.data.table import Table
from crawl.files import parse_json

_SHAPES = BENCHMARKS["peptides_struct"].task.target_names


def zinc(path: Path) -> Packed:
    """The molecules in `zinc12k.npz`."""
    arrays = load_arrays(path)
    with naming(path):
        stores = [
            _both_ways(
                GraphStore(
                    node_ptr=_long(arrays[f"{part}_node_ptr"]),
                    edge_ptr=_long(arrays[f"{part}_edge_ptr"]),
                    edge_index=_long(arrays[f"{part}_edge_index"]),
                    x=_long(arrays[f"{part}_x"]).unsqueeze(1),
                    edge_attr=_long(arrays[f"{part}_edge_attr"]).unsqueeze(1),
                    y=torch.from_numpy(arrays[f"{part}_y"]).float().unsqueeze(1),
                )
            )
            for part in PARTS
        ]
        return Packed(GraphStore.concatenate(stores), split_in_order([len(store) for store in stores]))


def counting(path: Path) -> Packed:
    """The random graphs in `counting.npz`, with four counts each."""
    arrays = load_arrays(path)
    with naming(path):
        counts = torch.from_numpy(arrays["counts_tri_tailed_star_cyc4"]).float()
        if counts.dim() != 2 or counts.shape[1] != 4:
            raise ValueError(f"its counts have the shape {list(counts.shape)}, not [G, 4]")
        store = GraphStore(
            node_ptr=as_ptr(_long(arrays["num_nodes"])),
            edge_ptr=_long(arrays["edge_ptr"]),
            edge_index=_long(arrays["edge_index"]),
            y=counts,
        )
        return Packed(_both_ways(store), Split(*(_long(arrays[f"{part}_idx"]) for part in PARTS)))


def social(path: Path) -> Packed:
    """The graphs in `collab.npz`, `imdb-multi.npz` or `reddit-binary.npz`."""
    arrays = load_arrays(path)
    with naming(path):
        num_nodes, num_edges, edges = (_long(arrays[name]) for name in ("num_nodes", "num_edges", "edges"))
        graph = torch.arange(len(num_edges)).repeat_interleave(num_edges)
        both = torch.cat([edges, edges.flip(0)], dim=1)
        graph = torch.cat([graph, graph])
        widest = int(num_nodes.max())
        order = ((graph * widest + both[0]) * widest + both[1]).argsort()  # by graph, then as a matrix is read
        store = GraphStore(
            node_ptr=as_ptr(num_nodes), edge_ptr=as_ptr(2 * num_edges), edge_index=both[:, order], y=_long(arrays["y"])
        )
        return Packed(store.checked(), test_fold=_long(arrays["test_fold"]))


def nodes(path: Path) -> Packed:
    """The graph in `minesweeper.npz` or `tolokers.npz`, compact or as published."""
    arrays = load_arrays(path)
    if "node_features" in arrays:
        return published.heterophilous(path.stem).read(path)
    with naming(path):
        num_nodes = len(arrays["x"])
        masks = [torch.from_numpy(np.unpackbits(arrays[part], axis=1)[:, :num_nodes]) for part in PARTS]
        x, y, edges = (torch.from_numpy(arrays[name]) for name in ("x", "y", "edges"))
        return published.one_graph(edges, x, y, published.parts_of(masks))


def cora(path: Path) -> Packed:
    """The graph in `cora.npz`."""
    arrays = load_arrays(path)
    with naming(path):
        indptr = _long(arrays["x_indptr"])
        x = torch.zeros(len(indptr) - 1, int(arrays["num_features"]))
        x[torch.repeat_interleave(indptr.diff()), _long(arrays["x_indices"])] = 1.0
        masks = torch.zeros(len(PARTS), 1, len(x), dtype=torch.bool)
        for mask, part in zip(masks, PARTS, strict=True):
            mask[0, _long(arrays[part])] = True
        y, edges = _long(arrays["y"]), _long(arrays["edges"])
        return published.one_graph(edges, x, y, published.parts_of(list(masks)))


def peptides_func(table: Path, split: Path) -> Packed:
    """The peptides in the CSV file with labels, as graphs; needs rdkit."""
    return _peptides(table, split, ("labels",), lambda cells: parse_json(cells["labels"]))


def peptides_struct(table: Path, split: Path) -> Packed:
    """The peptides in the CSV file with numbers, as graphs; needs rdkit.

    The numbers get mean 0 and deviation 1 over all peptides, as published.
    """
    packed = _peptides(table, split, _SHAPES, lambda cells: [float(cells[name]) for name in _SHAPES])
    y = packed.store.y
    assert y is not None
    y.sub_(y.mean(0)).div_(y.std(0))
    return packed


def _peptides(
    path: Path, split: Path, columns: Sequence[str], targets: Callable[[dict[str, str]], list[float]]
) -> Packed:
    from crawl.data.smiles import molecule_graph

    arrays = load_arrays(split)
    with naming(split):
        parts = Split(*(_long(arrays[part]) for part in PARTS))
    table = Table(path)
    for column in ("smiles", *columns):
        table.check_column(column)
    graphs, y = [], []
    for row in list(table):  # all are read before the long work begins
        try:
            if row.problem:
                raise ValueError(row.problem)
            graphs.append(molecule_graph(row.cells["smiles"]))
            y.append(targets(row.cells))
        except ValueError as error:
            raise ValueError(f"{path}, line {row.line}: {reason(error)}; get the file again.") from None
    with naming(path):
        store = replace(GraphStore.from_graphs(graphs), y=torch.tensor(y).float())
    return Packed(store, parts)


def _both_ways(store: GraphStore) -> GraphStore:
    """The store, of which every edge must have its reverse."""
    missing = without_reverse(store.checked())
    if len(missing):
        raise ValueError(f"{len(missing)} of its edges have no reverse")
    return store


def _long(array: np.ndarray[Any, np.dtype[Any]]) -> Tensor:
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        raise ValueError("there is a number that is not whole")
    return torch.from_numpy(whole)
