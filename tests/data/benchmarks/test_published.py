"""The files that PyG and OGB read: the same graphs, and nothing of them is run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.datasets import ZINC, GNNBenchmarkDataset, LRGBDataset, TUDataset

from crawl.cli import main
from crawl.data.benchmarks import BENCHMARKS, import_benchmark
from crawl.data.benchmarks.packed import PARTS, Packed
from crawl.data.store import GraphStore


class TestTheGraphsAreThoseOfPyG:
    """PyG runs pickles that it reads; these are our own."""

    def test_zinc(self, tmp_path):
        generator = np.random.default_rng(0)
        raw = tmp_path / "raw"
        raw.mkdir()
        for part in PARTS:
            molecules = []
            for n in range(2, 9):
                bonds = torch.from_numpy(np.triu(generator.integers(0, 4, (n, n)), 1))
                molecule = {"num_atom": n, "atom_type": torch.arange(n).int(), "bond_type": bonds + bonds.t()}
                molecules.append(molecule | {"logP_SA_cycle_normalized": torch.rand(1)})
            (raw / f"{part}.pickle").write_bytes(pickle.dumps(molecules))
            (raw / f"{part}.index").write_text("1,5,3\n")
        theirs = [ZINC(str(tmp_path), subset=True, split=part) for part in PARTS]
        assert_same(read("zinc", raw).store, [GraphStore.from_dataset(part) for part in theirs])

    def test_superpixels(self, tmp_path):
        raw = tmp_path / "CIFAR10" / "raw"
        raw.mkdir(parents=True)
        graphs = [
            {
                "x": torch.rand(n, 3),
                "pos": torch.rand(n, 2),
                "edge_index": torch.randint(n, (2, 20)),
                "edge_attr": torch.rand(20),
                "y": torch.tensor([n]),
            }
            for n in range(3, 9)
        ]
        torch.save([graphs[:3], graphs[3:5], graphs[5:]], raw / "CIFAR10_v2.pt")
        theirs = [GNNBenchmarkDataset(str(tmp_path), "CIFAR10", split=part) for part in PARTS]
        ours = read("cifar10", raw)
        assert_same(ours.store, [GraphStore.from_dataset(part) for part in theirs])
        assert torch.equal(ours.pos, torch.cat([part._data.pos for part in theirs]))

    @pytest.mark.parametrize("name", ["peptides-func", "pascalvoc-sp"])
    def test_long_range_graphs(self, tmp_path, name):
        raw = tmp_path / name / "raw"
        raw.mkdir(parents=True)
        for part in PARTS:
            edges = [torch.randint(n, (2, 12)) for n in range(3, 8)]
            if name == "pascalvoc-sp":
                graphs: list[Any] = [
                    (torch.rand(n, 14).double(), torch.rand(12, 2), e, [n] * n if n % 2 else np.arange(n))
                    for n, e in enumerate(edges, start=3)
                ]
                (raw / f"{part}.pickle").write_bytes(pickle.dumps(graphs))
            else:
                graphs = [
                    (torch.randint(9, (n, 9)), torch.randint(3, (12, 3)), e, torch.rand(1, 10).round())
                    for n, e in enumerate(edges, start=3)
                ]
                torch.save(graphs, raw / f"{part}.pt")
        theirs = [LRGBDataset(str(tmp_path), name, split=part) for part in PARTS]
        ours = read(name.replace("-", "_"), raw)
        assert_same(ours.store, [GraphStore.from_dataset(part) for part in theirs])

    def test_social_graphs(self, tmp_path):
        generator = np.random.default_rng(0)
        raw = tmp_path / "COLLAB" / "raw"
        raw.mkdir(parents=True)
        sizes = 3 + np.arange(40) % 4
        firsts = 1 + np.concatenate([[0], sizes.cumsum()[:-1]])
        edges = [  # with loops, parallel edges and, in one direction only, others
            (first + u, first + v)
            for first, size in zip(firsts, sizes, strict=True)
            for u, v in generator.integers(0, size, (20, 2))
        ]
        (raw / "COLLAB_A.txt").write_text("".join(f"{u}, {v}\n" for u, v in edges))
        (raw / "COLLAB_graph_indicator.txt").write_text("".join(f"{g + 1}\n" * n for g, n in enumerate(sizes)))
        (raw / "COLLAB_graph_labels.txt").write_text("".join(f"{2 * (g % 3) - 1}\n" for g in range(40)))
        theirs = GraphStore.from_dataset(TUDataset(str(tmp_path), "COLLAB"))
        theirs = GraphStore(theirs.node_ptr, theirs.edge_ptr, theirs.edge_index, y=theirs.y)  # PyG counts nodes only
        assert_same(read("collab", raw).store, [theirs])


def test_an_empty_table_is_refused_by_name(tmp_path):
    for what in ("A", "graph_indicator", "graph_labels"):
        (tmp_path / f"COLLAB_{what}.txt").touch()
    with pytest.raises(ValueError, match=r"^\S+COLLAB_A\.txt is truncated, .*contained no data"):
        import_benchmark("collab", tmp_path, tmp_path / "root")


def read(name: str, folder: Path) -> Packed:
    form = BENCHMARKS[name].form
    assert form is not None
    return form.read(*(folder / file for file in form.files))


def assert_same(ours: GraphStore, parts: list[GraphStore]) -> None:
    theirs = GraphStore.concatenate(parts)
    assert ours.y_per_node == theirs.y_per_node
    for name in ("node_ptr", "edge_ptr", "edge_index", "x", "edge_attr", "y"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert (one is None) == (other is None)
        assert one is None or (one.dtype == other.dtype and torch.equal(one, other)), name


class Payload:
    """Makes a folder when an ordinary unpickler reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


PICKLED = [
    (name, file)
    for name, benchmark in BENCHMARKS.items()
    if benchmark.form
    for file in benchmark.form.files
    if file.endswith((".pickle", ".pt"))
]


def test_these_are_the_benchmarks_whose_files_are_pickles():
    assert {name for name, _ in PICKLED} == {
        *("zinc", "cifar10", "mnist", "pascalvoc_sp", "peptides_func", "peptides_struct")
    }


def one_graph(name: str) -> list[Any]:
    """What a good file of a benchmark may hold."""
    edges = torch.tensor([[0, 1], [1, 0]])
    if name == "zinc":
        return [{"atom_type": torch.ones(2), "bond_type": torch.ones(2, 2), "logP_SA_cycle_normalized": torch.ones(1)}]
    return [(torch.ones(2, 9), torch.ones(2, 3), edges, [0, 1] if name == "pascalvoc_sp" else torch.ones(1, 10))]


@pytest.mark.parametrize(("name", "file"), PICKLED)
def test_a_payload_in_a_file_does_not_run(tmp_path, capsys, name, file):
    folder, ran = tmp_path / "files", tmp_path / "ran"
    folder.mkdir()
    form = BENCHMARKS[name].form
    assert form is not None
    for other in form.files:
        write(folder / other, [Payload(ran)] if other == file else one_graph(name))
    assert main(["datasets", "import", name, str(folder), "--data-root", str(tmp_path / "root")]) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert f"{file} asks for posix.mkdir, which data do not need and which could run code" in message
    assert not ran.exists()
    assert list((tmp_path / "root").iterdir()) == []


def write(path: Path, content: Any) -> None:
    if path.suffix == ".index":
        path.write_text("0\n")
    elif path.suffix == ".pt":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content))
