"""Compact files of tiny benchmarks."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

from tests.data.benchmarks.tiny_files import EDGES


def write_zinc(folder: Path) -> Path:
    """Four molecules, all of them paths."""
    arrays = {}
    for part, number in {"train": 2, "val": 1, "test": 1}.items():
        arrays |= {
            f"{part}_x": np.tile([0, 5, 20], number).astype(np.uint8),
            f"{part}_edge_index": np.tile(EDGES, number).astype(np.uint8),
            f"{part}_edge_attr": np.tile([1, 1, 3, 3], number).astype(np.uint8),
            f"{part}_node_ptr": 3 * np.arange(number + 1, dtype=np.int32),
            f"{part}_edge_ptr": 4 * np.arange(number + 1, dtype=np.int32),
            f"{part}_y": np.arange(number, dtype=np.float32),
        }
    np.savez(folder / "zinc12k.npz", **arrays)
    return folder / "zinc12k.npz"


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


def write_nodes(folder: Path) -> Path:
    """`minesweeper.npz`: a path of 20 nodes with ten splits."""
    places = np.stack([np.roll(np.arange(20), fold) for fold in range(10)])
    masks = {"train": places < 10, "val": (places >= 10) & (places < 15), "test": places >= 15}
    np.savez(
        folder / "minesweeper.npz",
        x=np.eye(20, 7, dtype=np.float32),
        y=np.arange(20) % 2,
        edges=np.stack([np.arange(19), np.arange(1, 20)], axis=1).astype(np.int32),
        num_nodes=20,
        **{part: np.packbits(mask, axis=1) for part, mask in masks.items()},
    )
    return folder / "minesweeper.npz"


def write_cora(folder: Path) -> Path:
    """`cora.npz`: a path of 20 papers with one or two words each."""
    np.savez(
        folder / "cora.npz",
        x_indptr=np.array([*range(0, 40, 2), 39], dtype=np.int32),
        x_indices=np.arange(39, dtype=np.int32) % 9,
        num_features=1433,
        y=np.arange(20) % 7,
        edges=np.stack([np.arange(19), np.arange(1, 20)], axis=1).astype(np.int32),
        num_nodes=20,
        **{"train": np.arange(10), "val": np.arange(10, 15), "test": np.arange(15, 20)},
    )
    return folder / "cora.npz"


def write_peptides(folder: Path, *more: tuple[str, ...], header: tuple[str, ...] = ("", "smiles", "labels")) -> None:
    with gzip.open(folder / "peptide_multi_class_dataset.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for i in range(4):
            writer.writerow([i, "CC(=O)N", [int(k == i) for k in range(10)]])
        writer.writerows(more)
    np.savez(folder / "peptides_split.npz", train=[3, 1], val=[0], test=[2])
