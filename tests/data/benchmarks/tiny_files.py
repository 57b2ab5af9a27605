"""Files of tiny benchmarks in the layouts that can be imported, and ways to damage them."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])  # a path of three nodes


def change(path: Path, **functions: Callable[[np.ndarray], np.ndarray]) -> Path:
    """The file with some of its arrays changed."""
    with np.load(path) as file:
        arrays = {name: functions[name](file[name]) if name in functions else file[name] for name in file.files}
    np.savez(path, **arrays)
    return path


def put(place, value):
    """A function from an array to one with another value in this place."""

    def function(array: np.ndarray) -> np.ndarray:
        array = array.astype(np.int64) if array.dtype.kind == "u" else array.copy()
        array[place] = value
        return array

    return function


def write_social(folder: Path, **changed: np.ndarray) -> Path:
    num_graphs = 20
    arrays = {
        "num_nodes": np.full(num_graphs, 3, np.uint16),
        "num_edges": np.full(num_graphs, 2, np.int32),
        "edges": np.tile([[0, 1], [1, 2]], num_graphs).astype(np.uint16),
        "y": (np.arange(num_graphs) % 2).astype(np.uint8),
        "test_fold": (np.arange(num_graphs) // 2).astype(np.uint8),
    }
    np.savez(folder / "reddit-binary.npz", **(arrays | changed))
    return folder


def write_counts(folder: Path) -> Path:
    path = folder / "counting.npz"
    np.savez(
        path,
        num_nodes=np.full(4, 3),
        edge_index=np.tile(EDGES, 4),
        edge_ptr=4 * np.arange(5),
        counts_tri_tailed_star_cyc4=np.arange(16.0).reshape(4, 4),
        train_idx=[0, 2],
        val_idx=[1],
        test_idx=[3],
    )
    return path


def write_peptides(folder: Path, *more: tuple[str, ...], header: tuple[str, ...] = ("", "smiles", "labels")) -> None:
    with gzip.open(folder / "peptide_multi_class_dataset.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for i in range(4):
            writer.writerow([i, "CC(=O)N", [int(k == i) for k in range(10)]])
        writer.writerows(more)
    np.savez(folder / "peptides_split.npz", train=[3, 1], val=[0], test=[2])
