"""Benchmarks through the classes of PyG and OGB, which download them where there is a network.

Their files are pickles in part, so they are read once, from the hands they come from, and kept without (`packed`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import InMemoryDataset

from crawl.data.benchmarks.packed import PARTS, Packed, split_in_order
from crawl.data.benchmarks.record import Loader
from crawl.data.splits import Split, stratified_folds
from crawl.data.store import GraphStore
from crawl.data.task import Level

_SCAFFOLD_PARTS = ("train", "valid", "test")


def zinc() -> Loader:
    """PyG's `ZINC`, the subset of 12,000 molecules."""

    def read(raw: Path) -> Packed:
        from torch_geometric.datasets import ZINC

        return _joined([ZINC(str(raw / "zinc"), subset=True, split=part) for part in PARTS])

    files = (*(f"{part}.pickle" for part in PARTS), *(f"{part}.index" for part in PARTS))
    return Loader(folder="zinc/raw", files=files, read=read)


def superpixels(name: str) -> Loader:
    """PyG's `GNNBenchmarkDataset`: MNIST or CIFAR10 as graphs of superpixels."""

    def read(raw: Path) -> Packed:
        from torch_geometric.datasets import GNNBenchmarkDataset

        return _joined([GNNBenchmarkDataset(str(raw), name, split=part) for part in PARTS])

    return Loader(folder=f"{name}/raw", files=(f"{name}_v2.pt",), read=read)


def long_range(name: str) -> Loader:
    """PyG's `LRGBDataset`."""

    def read(raw: Path) -> Packed:
        from torch_geometric.datasets import LRGBDataset

        level: Level = "node" if name == "pascalvoc-sp" else "graph"
        return _joined([LRGBDataset(str(raw), name, split=part) for part in PARTS], level)

    suffix = "pickle" if name.endswith("sp") else "pt"
    return Loader(folder=f"{name}/raw", files=tuple(f"{part}.{suffix}" for part in PARTS), read=read)


def tu(name: str) -> Loader:
    """PyG's `TUDataset`, divided into ten stratified folds that are always the same."""

    def read(raw: Path) -> Packed:
        from torch_geometric.datasets import TUDataset

        store = GraphStore.from_dataset(TUDataset(str(raw), name))
        assert store.y is not None
        test_fold = torch.empty(len(store), dtype=torch.long)
        for fold, split in enumerate(stratified_folds(store.y)):
            test_fold[split.test] = fold
        return Packed(GraphStore(store.node_ptr, store.edge_ptr, store.edge_index, y=store.y), test_fold=test_fold)

    files = tuple(f"{name}_{what}.txt" for what in ("A", "graph_indicator", "graph_labels"))
    return Loader(folder=f"{name}/raw", files=files, read=read)


def molpcba() -> Loader:
    """OGB's `PygGraphPropPredDataset` with its scaffold split; needs ogb."""

    def read(raw: Path) -> Packed:
        try:
            from ogb.graphproppred import PygGraphPropPredDataset
        except ImportError:
            raise ImportError("MOLPCBA needs ogb; install it with: pip install 'crawl[ogb]'") from None

        release = raw / "ogbg_molpcba" / "RELEASE_v1.txt"
        if release.parent.is_dir() and not release.exists():  # or ogb would ask whether to update it
            release.touch()
        with _trusting_pickles():
            dataset = PygGraphPropPredDataset("ogbg-molpcba", str(raw))
            parts = dataset.get_idx_split()
        split = Split(*(torch.as_tensor(parts[part]) for part in _SCAFFOLD_PARTS))
        return Packed(GraphStore.from_dataset(dataset), split)

    names = ("edge", "node-feat", "edge-feat", "num-node-list", "num-edge-list", "graph-label")
    files = (*(f"raw/{name}.csv.gz" for name in names), *(f"split/scaffold/{part}.csv.gz" for part in _SCAFFOLD_PARTS))
    return Loader(folder="ogbg_molpcba", files=files, read=read)


def _joined(parts: Sequence[InMemoryDataset], level: Level = "graph") -> Packed:
    stores = [GraphStore.from_dataset(part, level=level) for part in parts]
    places: list[Any] = [part._data.pos for part in parts]
    return Packed(
        GraphStore.concatenate(stores),
        split_in_order([len(store) for store in stores]),
        pos=None if places[0] is None else torch.cat(places),
    )


@contextmanager
def _trusting_pickles() -> Iterator[None]:
    """Let ogb 1.3 load the file it has just written, which newer versions of torch refuse unless told so."""
    name = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the variable is set
            yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
