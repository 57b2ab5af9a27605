"""Benchmarks of nodes: the same graphs as in PyG, with their splits."""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch_geometric.datasets import HeterophilousGraphDataset, Planetoid
from torch_geometric.utils import sort_edge_index

from crawl.data.benchmarks import BENCHMARKS, Statistics, import_benchmark, load_benchmark, published
from tests.data.benchmarks.test_published import Payload
from tests.data.benchmarks.tiny_files import change, put


@pytest.fixture
def minesweeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The published file with a path of 20 nodes and a self-loop, which PyG keeps."""
    small = replace(BENCHMARKS["minesweeper"], statistics=Statistics((1,), 20, 38), num_targets=(10, 5, 5))
    monkeypatch.setitem(BENCHMARKS, "minesweeper", small)
    folder = tmp_path / "minesweeper" / "raw"
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    places = np.stack([generator.permutation(20) for _ in range(10)])
    np.savez(
        folder / "minesweeper.npz",
        node_features=generator.random((20, 7)).astype(np.float32),
        node_labels=np.arange(20) % 2,
        edges=np.stack([np.arange(19), np.arange(1, 20)], axis=1),
        train_masks=places < 10,
        val_masks=(places >= 10) & (places < 15),
        test_masks=places >= 15,
    )
    return folder / "minesweeper.npz"


def test_the_graph_and_its_ten_splits_are_those_of_pyg(minesweeper, tmp_path):
    theirs = HeterophilousGraphDataset(str(tmp_path), "Minesweeper")[0]
    import_benchmark("minesweeper", minesweeper.parent, tmp_path / "root")
    for fold in (0, 7):
        ours = load_benchmark("minesweeper", tmp_path / "root", fold=fold)
        store = ours.store
        assert (ours.name, ours.task, ours.batches) == ("Minesweeper", BENCHMARKS["minesweeper"].task, "full")
        assert torch.equal(store.x, theirs.x)
        assert torch.equal(store.y, theirs.y)
        assert torch.equal(store.edge_index, sort_edge_index(theirs.edge_index))
        for part in ("train", "val", "test"):
            assert torch.equal(getattr(ours.split, part), theirs[f"{part}_mask"][:, fold].nonzero().flatten())
    assert load_benchmark("minesweeper", tmp_path / "root", batches="closed").batches == "closed"
    with pytest.raises(ValueError, match="fold must be a whole number from 0 to 9, not 10"):
        load_benchmark("minesweeper", tmp_path / "root", fold=10)
    with pytest.raises(ValueError, match="CSL is a set of graphs, whose batches are graphs: leave out batches"):
        load_benchmark("csl", batches="closed")


@pytest.mark.parametrize(
    ("name", "function", "problem"),
    [
        ("val_masks", lambda masks: ~masks, "a node is in two parts of a split"),
        ("val_masks", put((3, slice(None)), False), "a split has 10 / 0 / 5 nodes, not 10 / 5 / 5"),
        ("edges", put((0, 0), 99), "an edge leads to a node that is not one of 20"),
        ("node_labels", put(0, 5), r"its classes are \[0, 1, 5\], not 0 to 1"),
    ],
)
def test_other_files_are_refused(minesweeper, tmp_path, name, function, problem):
    change(minesweeper, **{name: function})
    with pytest.raises(ValueError, match=rf"minesweeper\.npz .*{problem}"):
        import_benchmark("minesweeper", minesweeper, tmp_path / "root")


def write_planetoid(folder: Path) -> Path:
    """620 papers, of which 7 are for training; test papers come in another order than their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    features = csr_matrix((generator.random((620, 9)) < 0.3).astype(np.float32))
    labels = np.eye(7, dtype=np.int32)[generator.integers(0, 7, 620)]
    graph = defaultdict(list)
    for u, v in generator.integers(0, 620, (900, 2)).tolist():
        graph[u].append(v)
        graph[v].append(u)
    order = generator.permutation(np.arange(520, 620))
    content = {"x": features[:7], "tx": features[520:], "allx": features[:520], "y": labels[:7]}
    content |= {"ty": labels[520:], "ally": labels[:520], "graph": graph}
    for name, value in content.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / "ind.cora.test.index").write_text("".join(f"{i}\n" for i in order))
    return folder


def test_planetoid_is_read_as_pyg_does(tmp_path):
    raw = write_planetoid(tmp_path / "Cora" / "raw")
    form = published.planetoid("cora")
    ours = form.read(*(raw / file for file in form.files))
    theirs = Planetoid(str(tmp_path), "Cora")[0]
    assert torch.equal(ours.store.x, theirs.x)
    assert torch.equal(ours.store.y, theirs.y)
    assert torch.equal(ours.store.edge_index, sort_edge_index(theirs.edge_index))
    for number, part in enumerate(("train", "val", "test"), start=1):
        assert torch.equal(ours.parts[0] == number, theirs[f"{part}_mask"])


@pytest.mark.parametrize("file", ["allx", "graph"])
def test_a_payload_in_a_pickle_of_planetoid_does_not_run(tmp_path, file):
    raw, ran = write_planetoid(tmp_path / "files"), tmp_path / "ran"
    (raw / f"ind.cora.{file}").write_bytes(pickle.dumps([Payload(ran)]))
    with pytest.raises(ValueError, match=rf"ind\.cora\.{file} asks for posix\.mkdir, which data do not need"):
        import_benchmark("cora", raw, tmp_path / "root")
    assert not ran.exists()
