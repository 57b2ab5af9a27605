"""Compact files: what becomes of good ones, and that others are refused by name, whatever is wrong with them."""

from __future__ import annotations

import csv
import gzip
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crawl.data.benchmarks import BENCHMARKS, Statistics, is_ready, load_benchmark
from reproduction.imports import FORMS, import_files
from reproduction.tests.compact_files import (
    write_cora,
    write_counts,
    write_nodes,
    write_peptides,
    write_social,
    write_zinc,
)
from tests.data.benchmarks.test_published import Payload
from tests.data.benchmarks.tiny_files import change, put


@pytest.fixture
def zinc_file(tmp_path: Path, shrink: Callable[..., None]) -> Path:
    shrink("zinc", (2, 1, 1), 3, 4)
    (tmp_path / "files").mkdir()
    return write_zinc(tmp_path / "files")


def test_compact_molecules(zinc_file, tmp_path):
    assert not is_ready("zinc", tmp_path)
    path = import_files("ZINC", zinc_file.parent, tmp_path)
    assert path == tmp_path / "zinc.npz"
    assert is_ready("zinc", tmp_path)
    dataset = load_benchmark("zinc", tmp_path)
    assert (dataset.name, dataset.task.metric) == ("ZINC", "mae")
    assert (dataset.node_categories, dataset.edge_categories) == ((21,), (4,))
    assert dataset.split.to_json() == json.dumps({"train": [0, 1], "val": [2], "test": [3]})
    assert dataset.store.graph(1).x.flatten().tolist() == [0, 1, 2]
    assert dataset.store.y.flatten().tolist() == [0, 1, 0, 0]
    assert import_files("zinc", zinc_file, tmp_path) == path  # the file itself


def test_compact_social_graphs_with_their_folds(tmp_path, shrink):
    shrink("reddit_binary", (20,), 3, 4)
    import_files("reddit_binary", write_social(tmp_path), tmp_path)
    dataset = load_benchmark("reddit_binary", tmp_path, fold=3)
    assert dataset.split.test.tolist() == [6, 7]
    assert dataset.split.val.tolist() == [8, 9]
    assert len(dataset.split.train) == 16
    assert (dataset.task.kind, dataset.task.metric) == ("binary", "accuracy")
    assert dataset.store.graph(5).edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    nine = load_benchmark("reddit_binary", tmp_path, fold=3, has_validation=False)
    assert (len(nine.split.train), len(nine.split.val)) == (18, 0)


def test_compact_counts(tmp_path, shrink):
    for target in ("triangle", "cycle4", "all"):
        shrink(f"counting_{target}", (2, 1, 1), 3, 4)
    write_counts(tmp_path)
    counts = np.arange(16.0).reshape(4, 4)
    import_files("counting_triangle", tmp_path, tmp_path / "root")
    for column, target in ((0, "triangle"), (3, "cycle4")):  # one file for all
        dataset = load_benchmark(f"counting_{target}", tmp_path / "root")
        assert torch.allclose(dataset.store.y[:, 0], torch.tensor(counts[:, column] / counts[:, column].std()).float())
    assert dataset.split.train.tolist() == [0, 2]
    together = load_benchmark("counting_all", tmp_path / "root")
    assert together.task.target_names == ("triangle", "tailed_triangle", "star", "cycle4")
    assert torch.allclose(together.store.y, torch.tensor(counts / counts.std(axis=0)).float())


def test_compact_graphs_with_splits_of_their_nodes(tmp_path, monkeypatch):
    for name in ("minesweeper", "cora"):
        small = replace(BENCHMARKS[name], statistics=Statistics((1,), 20, 38), num_targets=(10, 5, 5))
        monkeypatch.setitem(BENCHMARKS, name, small)
    root = tmp_path / "root"
    import_files("minesweeper", write_nodes(tmp_path).parent, root)
    dataset = load_benchmark("minesweeper", root, fold=3)
    assert dataset.split.train.tolist() == list(range(3, 13))
    assert (dataset.task.metric, dataset.store.num_edges, len(dataset)) == ("roc_auc", 38, 20)
    import_files("cora", write_cora(tmp_path), root)
    papers = load_benchmark("cora", root)
    assert papers.store.x.sum(dim=1).tolist() == [2.0] * 19 + [1.0]
    assert papers.store.x[4].nonzero().flatten().tolist() == [0, 8]
    assert (papers.split.val.tolist(), papers.task.metric) == (list(range(10, 15)), "accuracy")
    with pytest.raises(ValueError, match="Cora has no folds: leave out fold"):
        load_benchmark("cora", root, fold=1)


def test_shapes_of_peptides_from_their_table(tmp_path, shrink):
    pytest.importorskip("rdkit")
    shrink("peptides_struct", (2, 1, 1), 4, 6)
    names = BENCHMARKS["peptides_struct"].task.target_names
    rows = [["CC(=O)N", *(k + i**2 for k in range(11))] for i in range(4)]
    with open(tmp_path / "peptide_structure_dataset.csv", "w", newline="") as file:  # not compressed
        csv.writer(file).writerows([["smiles", *names], *rows])
    np.savez(tmp_path / "peptides_split.npz", train=[0, 1], val=[2], test=[3])
    import_files("peptides_struct", tmp_path, tmp_path / "root")
    y = load_benchmark("peptides_struct", tmp_path / "root").store.y
    assert torch.allclose(y.mean(0), torch.zeros(11), atol=1e-6)
    assert torch.allclose(y.std(0), torch.ones(11))


def test_peptides_from_their_table(tmp_path, shrink):
    pytest.importorskip("rdkit")
    shrink("peptides_func", (2, 1, 1), 4, 6)
    write_peptides(tmp_path)
    import_files("peptides_func", tmp_path, tmp_path / "root")
    dataset = load_benchmark("peptides_func", tmp_path / "root")
    assert (sum(dataset.node_categories), sum(dataset.edge_categories)) == (78, 9)
    assert torch.equal(dataset.store.y, torch.eye(10)[:4])
    assert dataset.split.train.tolist() == [3, 1]
    for label, message in ((np.nan, "1 of its targets are missing"), (0.5, r"its labels are \[0, 0\.5, 1\]")):
        change(tmp_path / "root" / "peptides_func.npz", y=put((0, 0), label))
        with pytest.raises(ValueError, match=rf"peptides_func\.npz is not PEPTIDES-FUNC as published: {message}"):
            load_benchmark("peptides_func", tmp_path / "root")
    path = tmp_path / "peptide_multi_class_dataset.csv.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"peptide_multi_class_dataset\.csv\.gz cannot be read: "):
        import_files("peptides_func", tmp_path, tmp_path / "root")


class TestNamedFiles:
    def test_one_that_is_not_looked_for(self, zinc_file, tmp_path):
        other = zinc_file.with_name("zinc12k.csv.gz")
        other.touch()
        with pytest.raises(ValueError, match=r"zinc12k\.csv\.gz does not hold ZINC: looked for zinc12k\.npz; or for"):
            import_files("zinc", other, tmp_path / "root")
        assert not is_ready("zinc", tmp_path / "root")

    def test_one_as_published_is_taken_before_another_form(self, zinc_file, tmp_path):
        for part in ("train", "val", "test"):
            zinc_file.with_name(f"{part}.pickle").write_bytes(b"abc")
            zinc_file.with_name(f"{part}.index").touch()
        with pytest.raises(ValueError, match=r"files/train\.index is truncated"):
            import_files("zinc", zinc_file.with_name("train.pickle"), tmp_path / "root")

    def test_one_spelling_is_taken_before_another(self, zinc_file, tmp_path):
        packed = zinc_file.with_name("zinc12k.npz.gz")
        packed.write_bytes(gzip.compress(zinc_file.read_bytes()))
        zinc_file.write_bytes(b"abc")
        import_files("zinc", packed, tmp_path / "root")
        with pytest.raises(ValueError, match=r"zinc12k\.npz is truncated"):
            import_files("zinc", zinc_file, tmp_path / "root")

    def test_files_as_published_may_be_compressed(self, tmp_path):
        (tmp_path / "MNIST_v2.pt.gz").write_bytes(gzip.compress(b"abc"))
        with pytest.raises(ValueError, match=r"MNIST_v2\.pt\.gz is truncated, damaged or another file"):
            import_files("mnist", tmp_path, tmp_path / "root")


@pytest.mark.parametrize("content", [b"", b"text", b"\x93NUMPY" + bytes(99), b"PK\x03\x04" + bytes(99)])
def test_no_npz_file(zinc_file, tmp_path, content):
    zinc_file.write_bytes(content)
    message = r"zinc12k\.npz is truncated, damaged or another file \(it is not an npz file, or its end is missing\)"
    with pytest.raises(ValueError, match=message):
        import_files("zinc", zinc_file, tmp_path)


def test_a_truncated_file(zinc_file, tmp_path):
    zinc_file.write_bytes(zinc_file.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"^\S+zinc12k\.npz is truncated, damaged or another file [^\n]*$"):
        import_files("zinc", zinc_file, tmp_path)
    assert not is_ready("zinc", tmp_path)


def test_a_file_with_fewer_graphs(zinc_file, tmp_path, shrink):
    shrink("zinc", (3, 1, 1), 3, 4)
    with pytest.raises(ValueError, match=r"zinc12k\.npz is not ZINC as published: it has 2 / 1 / 1 graphs, not 3"):
        import_files("zinc", zinc_file, tmp_path)
    assert not is_ready("zinc", tmp_path)


def test_graphs_of_another_size(zinc_file, tmp_path, shrink):
    shrink("zinc", (2, 1, 1), 3.2, 4)
    with pytest.raises(ValueError, match=r"3\.00 nodes on average, not 3\.20\. .*import it again"):
        import_files("zinc", zinc_file, tmp_path)
    shrink("zinc", (2, 1, 1), 3, 5)
    with pytest.raises(ValueError, match=r"4\.00 edges on average, not 5\.00"):
        import_files("zinc", zinc_file, tmp_path)


def test_a_file_without_an_array(tmp_path):
    np.savez(tmp_path / "zinc12k.npz", train_x=np.arange(3))
    with pytest.raises(ValueError, match=r"zinc12k\.npz has no array 'train_node_ptr'"):
        import_files("zinc", tmp_path, tmp_path)


def test_other_classes_and_folds(tmp_path, shrink):
    shrink("reddit_binary", (20,), 3, 4)
    with pytest.raises(ValueError, match=r"its classes are \[0\], not 0 to 1"):
        import_files("reddit_binary", write_social(tmp_path, y=np.zeros(20)), tmp_path)
    with pytest.raises(ValueError, match=r"its folds are \[0\], not 0 to 9"):
        import_files("reddit_binary", write_social(tmp_path, test_fold=np.zeros(20)), tmp_path)
    with pytest.raises(ValueError, match="its folds have 1 to 11 graphs"):
        import_files("reddit_binary", write_social(tmp_path, test_fold=np.maximum(np.arange(20) - 10, 0)), tmp_path)
    with pytest.raises(ValueError, match="it has folds for 19 graphs, not 20"):
        import_files("reddit_binary", write_social(tmp_path, test_fold=np.arange(19) % 10), tmp_path)
    with pytest.raises(ValueError, match="it has 2 targets, not 1"):
        import_files("reddit_binary", write_social(tmp_path, y=np.zeros((20, 2))), tmp_path)


@pytest.mark.parametrize(
    ("array", "function", "message"),
    [
        ("train_edge_index", put((1, 6), 200), "Graph 1 has 3 nodes but an edge from 1 to 200"),
        ("train_edge_index", put((1, 6), 1), "1 of its edges have no reverse"),
        ("train_edge_ptr", put(1, 5), "1 of its edges have no reverse"),
        ("train_edge_ptr", put(2, 9), "edge_index must have 9 entries"),
        ("train_node_ptr", put(1, 7), "must begin with 0 and never fall"),
        ("train_node_ptr", lambda array: array[[0, 2]], "node_ptr has 2 entries, but edge_ptr 3"),
        ("train_y", lambda array: array[:-1], "y must have 2 entries"),
        ("train_x", lambda array: array[:-3], "x must have 6 entries"),
        ("train_x", lambda array: array + 0.5, "a number that is not whole"),
        ("test_y", lambda array: array * np.nan, "1 of its targets are missing"),
        ("test_y", lambda array: array + np.inf, "Graph 0 has inf in y"),
        ("train_y", lambda array: 0 * array, "a target is the same everywhere"),
        ("val_x", put(1, 77), "its nodes have the category 77, which is not known"),
        ("val_edge_attr", put(1, 4), "its edges have the category 4, which is not known"),
    ],
)
def test_damaged_molecules_are_refused_by_name(zinc_file, tmp_path, array, function, message):
    good = import_files("zinc", zinc_file, tmp_path / "root")
    before = good.read_bytes()
    with pytest.raises(ValueError, match=rf"^\S+zinc12k\.npz [^\n]*{message}[^\n]*$"):
        import_files("zinc", change(zinc_file, **{array: function}), tmp_path / "root")
    assert [(path, path.read_bytes()) for path in (tmp_path / "root").iterdir()] == [(good, before)]


@pytest.mark.parametrize(
    ("array", "function", "message"),
    [
        ("train_idx", put(0, 1), "Id 1 occurs more than once in the split"),
        ("train_idx", put(0, 9), "its split names graph 9, but the last is 3"),
        ("train_idx", lambda array: array[:1], "it has 1 / 1 / 1 graphs, not 2 / 1 / 1"),
        ("edge_index", put((0, 0), 3), "Graph 0 has 3 nodes but an edge from 3 to 1"),
        (
            "counts_tri_tailed_star_cyc4",
            lambda array: array[:, :1],
            r"its counts have the shape \[4, 1\], not \[G, 4\]",
        ),
        ("counts_tri_tailed_star_cyc4", put((0, 1), np.nan), "1 of its targets are missing"),
    ],
)
def test_damaged_counts_are_refused_by_name(tmp_path, shrink, array, function, message):
    shrink("counting_star", (2, 1, 1), 3, 4)
    path = change(write_counts(tmp_path), **{array: function})
    with pytest.raises(ValueError, match=rf"^\S+counting\.npz [^\n]*{message}[^\n]*$"):
        import_files("counting_star", path, tmp_path / "root")


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (("", "smiles", "other"), (), " has no column 'labels'"),
        (("", "other", "labels"), (), " has no column 'smiles'"),
        (("", "smiles", "labels"), ("4", "CC"), ", line 6: it has 2 fields, but the header 3"),
        (("", "smiles", "labels"), ("4", "C(", "[]"), r", line 6: 'C\(' is not a molecule"),
        (("", "smiles", "labels"), ("4", "CC", "[1"), ", line 6: Expecting"),
        (("", "smiles", "labels"), ("4", "CC", "[1, 0]"), " is truncated, damaged or another file"),
    ],
)
def test_damaged_tables_of_peptides_are_refused_by_name(tmp_path, shrink, header, row, message):
    pytest.importorskip("rdkit")
    shrink("peptides_func", (2, 1, 1), 4, 6)
    write_peptides(tmp_path, *([row] if row else []), header=header)
    with pytest.raises(ValueError, match=rf"^\S+peptide_multi_class_dataset\.csv\.gz{message}[^\n]*$"):
        import_files("peptides_func", tmp_path, tmp_path / "root")


def test_a_table_of_peptides_without_rows_or_with_another_split_is_refused_by_name(tmp_path, shrink):
    pytest.importorskip("rdkit")
    shrink("peptides_func", (2, 1, 1), 4, 6)
    write_peptides(tmp_path)
    np.savez(tmp_path / "peptides_split.npz", train=[3, 1])
    with pytest.raises(ValueError, match=r"peptides_split\.npz has no array 'val'"):
        import_files("peptides_func", tmp_path, tmp_path / "root")
    np.savez(tmp_path / "peptides_split.npz", train=[3, 1], val=[0], test=[2, 4])
    with pytest.raises(ValueError, match=r"csv\.gz with peptides_split\.npz is not .*it has 2 / 1 / 2 graphs"):
        import_files("peptides_func", tmp_path, tmp_path / "root")
    (tmp_path / "peptide_multi_class_dataset.csv.gz").write_bytes(gzip.compress(b"smiles,labels\n"))
    with pytest.raises(ValueError, match=r"dataset\.csv\.gz .*There are no graphs"):
        import_files("peptides_func", tmp_path, tmp_path / "root")


@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_no_benchmark_is_read_by_an_ordinary_unpickler(tmp_path, name):
    """Whatever the files are called that it is made from: all of them hold a payload."""
    ran, published = tmp_path / "ran", BENCHMARKS[name].form
    for form in (*FORMS.get(name, ()), *([published] if published else [])):
        folder = tmp_path / form.files[0].replace("/", "-")
        for i, file in enumerate(form.files):
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            (torch.save if i % 2 else lambda o, p: p.write_bytes(pickle.dumps(o)))([Payload(ran)], path)
        with pytest.raises(ValueError, match=r"^\S+"):
            import_files(name, folder, tmp_path / "root")
        assert not ran.exists()
