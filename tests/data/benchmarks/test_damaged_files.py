"""Files that are not what was published are refused by name, whatever is wrong with them."""

from __future__ import annotations

import gzip
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_files import change, put, write_counts, write_peptides, write_social

from crawl.data.benchmarks import BENCHMARKS, import_benchmark, is_ready, load_benchmark
from crawl.data.benchmarks.check import check
from crawl.data.benchmarks.packed import load_packed


@pytest.mark.parametrize("content", [b"", b"text", b"\x93NUMPY" + bytes(99), b"PK\x03\x04" + bytes(99)])
def test_no_npz_file(zinc_file, tmp_path, content):
    zinc_file.write_bytes(content)
    message = r"zinc12k\.npz is truncated, damaged or another file \(it is no npz file, or its end is missing\)"
    with pytest.raises(ValueError, match=message):
        import_benchmark("zinc", zinc_file, tmp_path)


def test_a_truncated_file(zinc_file, tmp_path):
    zinc_file.write_bytes(zinc_file.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"^\S+zinc12k\.npz is truncated, damaged or another file [^\n]*$"):
        import_benchmark("zinc", zinc_file, tmp_path)
    assert not is_ready("zinc", tmp_path)


def test_a_file_with_fewer_graphs(zinc_file, tmp_path, shrink):
    shrink("zinc", (3, 1, 1), 3, 4)
    with pytest.raises(ValueError, match=r"zinc12k\.npz is not ZINC as published: it has 2 / 1 / 1 graphs, not 3"):
        import_benchmark("zinc", zinc_file, tmp_path)
    assert not is_ready("zinc", tmp_path)


def test_graphs_of_another_size(zinc_file, tmp_path, shrink):
    shrink("zinc", (2, 1, 1), 3.2, 4)
    with pytest.raises(ValueError, match=r"3\.00 nodes on average, not 3\.20\. .*crawl datasets import zinc PATH$"):
        import_benchmark("zinc", zinc_file, tmp_path)
    shrink("zinc", (2, 1, 1), 3, 5)
    with pytest.raises(ValueError, match=r"4\.00 edges on average, not 5\.00"):
        import_benchmark("zinc", zinc_file, tmp_path)


def test_a_file_in_the_root_is_checked_when_loaded(zinc_file, tmp_path, shrink):
    path = import_benchmark("zinc", zinc_file, tmp_path)
    shrink("zinc", (9, 1, 1), 3, 4)
    with pytest.raises(ValueError, match=r"zinc\.npz is not ZINC as published"):
        load_benchmark("zinc", tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"zinc\.npz is truncated"):
        load_benchmark("zinc", tmp_path)


def test_a_file_without_an_array(tmp_path):
    np.savez(tmp_path / "zinc12k.npz", train_x=np.arange(3))
    with pytest.raises(ValueError, match=r"zinc12k\.npz has no array 'train_node_ptr'"):
        import_benchmark("zinc", tmp_path, tmp_path)


def test_other_classes_and_folds(tmp_path, shrink):
    shrink("reddit_binary", (20,), 3, 4)
    with pytest.raises(ValueError, match=r"its classes are \[0\], not 0 to 1"):
        import_benchmark("reddit_binary", write_social(tmp_path, y=np.zeros(20)), tmp_path)
    with pytest.raises(ValueError, match=r"its folds are \[0\], not 0 to 9"):
        import_benchmark("reddit_binary", write_social(tmp_path, test_fold=np.zeros(20)), tmp_path)
    with pytest.raises(ValueError, match="its folds have 1 to 11 graphs"):
        import_benchmark("reddit_binary", write_social(tmp_path, test_fold=np.maximum(np.arange(20) - 10, 0)), tmp_path)
    with pytest.raises(ValueError, match="it has folds for 19 graphs, not 20"):
        import_benchmark("reddit_binary", write_social(tmp_path, test_fold=np.arange(19) % 10), tmp_path)
    with pytest.raises(ValueError, match="it has 2 targets, not 1"):
        import_benchmark("reddit_binary", write_social(tmp_path, y=np.zeros((20, 2))), tmp_path)


@pytest.mark.parametrize(
    ("array", "function", "message"),
    [
        ("train_edge_index", put((1, 6), 200), "Graph 1 has 3 nodes but an edge from 1 to 200"),
        ("train_edge_index", put((1, 6), 1), "1 of its edges lack their reverse"),
        ("train_edge_ptr", put(1, 5), "1 of its edges lack their reverse"),
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
    good = import_benchmark("zinc", zinc_file, tmp_path / "root")
    before = good.read_bytes()
    with pytest.raises(ValueError, match=rf"^\S+zinc12k\.npz [^\n]*{message}[^\n]*$"):
        import_benchmark("zinc", change(zinc_file, **{array: function}), tmp_path / "root")
    assert [(path, path.read_bytes()) for path in (tmp_path / "root").iterdir()] == [(good, before)]


@pytest.mark.parametrize(
    ("array", "function", "message"),
    [
        ("train_idx", put(0, 1), "Graph 1 occurs more than once in the split"),
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
        import_benchmark("counting_star", path, tmp_path / "root")


def test_a_file_in_the_root_with_damaged_arrays_is_refused_by_name(zinc_file, tmp_path):
    path = import_benchmark("zinc", zinc_file, tmp_path)
    for name, function, message in (
        ("x", put((0, 0), 77), "its nodes have the category 77"),
        ("x", lambda array: array[1:], "x must have 12 entries"),
        ("edge_index", put((0, 0), 9), "Graph 0 has 3 nodes but an edge from 9 to 1"),
        ("num_nodes", lambda array: array[1:], "node_ptr has 4 entries, but edge_ptr 5"),
        ("test", put(0, 0), "Graph 0 occurs more than once"),
    ):
        good = path.read_bytes()
        with pytest.raises(ValueError, match=rf"^\S+zinc\.npz [^\n]*{message}[^\n]*$"):
            load_benchmark("zinc", change(path, **{name: function}).parent)
        path.write_bytes(good)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": None}, "its nodes have no features"),
        ({"x": torch.zeros(12, 2).long()}, "its nodes have 2 features, not 1"),
        ({"x": torch.zeros(12, 1)}, "the features of its nodes are no categories"),
        ({"edge_attr": -torch.ones(16, 1).long()}, "its edges have the category -1, which is not known"),
        ({"y": None}, "it has no targets"),
        ({"y": torch.rand(4, 2)}, "it has 2 targets, not 1"),
        ({"y": torch.rand(12, 1), "y_per_node": True}, "its targets do not belong to graphs"),
    ],
)
def test_other_features_and_targets(zinc_file, tmp_path, changed, message):
    packed = load_packed(import_benchmark("zinc", zinc_file, tmp_path))
    with pytest.raises(ValueError, match=f"^file is not ZINC as published: {message}"):
        check(BENCHMARKS["zinc"], replace(packed, store=replace(packed.store, **changed)), "file")


def test_more_categories_than_the_published_model_has(zinc_file, tmp_path):
    packed = load_packed(import_benchmark("zinc", zinc_file, tmp_path))
    with pytest.raises(ValueError, match="its nodes have 3 categories, not 2 at most"):
        check(replace(BENCHMARKS["zinc"], widths=(2, 4)), packed, "file")


def test_features_that_are_no_finite_numbers(tmp_path, shrink):
    shrink("reddit_binary", (20,), 3, 4)
    packed = load_packed(import_benchmark("reddit_binary", write_social(tmp_path), tmp_path))
    features = torch.full((60, 1), torch.inf)
    with pytest.raises(ValueError, match="the features of its nodes are not all finite"):
        check(BENCHMARKS["reddit_binary"], replace(packed, store=replace(packed.store, x=features)), "file")


@pytest.mark.parametrize("origin", ["published", "rebuilt"])
def test_means_of_rebuilt_graphs_may_be_further_off(zinc_file, tmp_path, shrink, origin):
    packed = replace(load_packed(import_benchmark("zinc", zinc_file, tmp_path)), origin=origin)
    for nodes, edges, allowed in ((3.05, 4.05, {"published", "rebuilt"}), (3.5, 4.7, {"rebuilt"}), (3, 5.1, set())):
        shrink("zinc", (2, 1, 1), nodes, edges)
        with nullcontext() if origin in allowed else pytest.raises(ValueError, match="on average"):
            check(BENCHMARKS["zinc"], packed, "file")


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (("", "smiles", "other"), (), " has no column 'labels'"),
        (("", "other", "labels"), (), " has no column 'smiles'"),
        (("", "smiles", "labels"), ("4", "CC"), ", line 6: it has 2 fields, but the header 3"),
        (("", "smiles", "labels"), ("4", "C(", "[]"), r", line 6: 'C\(' is no molecule"),
        (("", "smiles", "labels"), ("4", "CC", "[1"), ", line 6: Expecting"),
        (("", "smiles", "labels"), ("4", "CC", "[1, 0]"), " is truncated, damaged or another file"),
    ],
)
def test_damaged_tables_of_peptides_are_refused_by_name(tmp_path, shrink, header, row, message):
    pytest.importorskip("rdkit")
    shrink("peptides_func", (2, 1, 1), 4, 6)
    write_peptides(tmp_path, *([row] if row else []), header=header)
    with pytest.raises(ValueError, match=rf"^\S+peptide_multi_class_dataset\.csv\.gz{message}[^\n]*$"):
        import_benchmark("peptides_func", tmp_path, tmp_path / "root")


def test_a_table_of_peptides_without_rows_or_with_another_split_is_refused_by_name(tmp_path, shrink):
    pytest.importorskip("rdkit")
    shrink("peptides_func", (2, 1, 1), 4, 6)
    write_peptides(tmp_path)
    np.savez(tmp_path / "peptides_split.npz", train=[3, 1])
    with pytest.raises(ValueError, match=r"peptides_split\.npz has no array 'val'"):
        import_benchmark("peptides_func", tmp_path, tmp_path / "root")
    np.savez(tmp_path / "peptides_split.npz", train=[3, 1], val=[0], test=[2, 4])
    with pytest.raises(ValueError, match=r"csv\.gz with peptides_split\.npz is not .*it has 2 / 1 / 2 graphs"):
        import_benchmark("peptides_func", tmp_path, tmp_path / "root")
    (tmp_path / "peptide_multi_class_dataset.csv.gz").write_bytes(gzip.compress(b"smiles,labels\n"))
    with pytest.raises(ValueError, match=r"dataset\.csv\.gz .*There are no graphs"):
        import_benchmark("peptides_func", tmp_path, tmp_path / "root")
