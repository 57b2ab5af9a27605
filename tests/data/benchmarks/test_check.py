"""Graphs that are not those of a benchmark are refused, whatever is wrong with them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from tiny_files import change, put

from crawl.data.benchmarks import BENCHMARKS, import_benchmark, load_benchmark
from crawl.data.benchmarks.check import check
from crawl.data.benchmarks.packed import load_packed


def test_a_file_in_the_root_is_checked_when_loaded(zinc_folder, tmp_path, shrink):
    path = import_benchmark("zinc", zinc_folder, tmp_path / "root")
    shrink("zinc", (9, 1, 1), 3, 4)
    with pytest.raises(ValueError, match=r"zinc\.npz is not ZINC as published"):
        load_benchmark("zinc", tmp_path / "root")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"zinc\.npz is truncated"):
        load_benchmark("zinc", tmp_path / "root")


def test_a_file_in_the_root_with_damaged_arrays_is_refused_by_name(zinc_folder, tmp_path):
    path = import_benchmark("zinc", zinc_folder, tmp_path / "root")
    for name, function, message in (
        ("x", put((0, 0), 77), "its nodes have the category 77"),
        ("x", lambda array: array[1:], "x must have 12 entries"),
        ("edge_index", put((0, 0), 9), "Graph 0 has 3 nodes but an edge from 9 to 1"),
        ("num_nodes", lambda array: array[1:], "node_ptr has 4 entries, but edge_ptr 5"),
        ("test", put(0, 0), "Id 0 occurs more than once"),
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
def test_other_features_and_targets(zinc_folder, tmp_path, changed, message):
    packed = load_packed(import_benchmark("zinc", zinc_folder, tmp_path / "root"))
    with pytest.raises(ValueError, match=f"^file is not ZINC as published: {message}"):
        check(BENCHMARKS["zinc"], replace(packed, store=replace(packed.store, **changed)), "file")


def test_more_categories_than_the_published_model_has(zinc_folder, tmp_path):
    packed = load_packed(import_benchmark("zinc", zinc_folder, tmp_path / "root"))
    with pytest.raises(ValueError, match="its nodes have 3 categories, not 2 at most"):
        check(replace(BENCHMARKS["zinc"], widths=(2, 4)), packed, "file")


@pytest.mark.parametrize("origin", ["published", "rebuilt"])
def test_means_of_rebuilt_graphs_may_be_further_off(zinc_folder, tmp_path, shrink, origin):
    packed = replace(load_packed(import_benchmark("zinc", zinc_folder, tmp_path / "root")), origin=origin)
    for nodes, edges, allowed in ((3.05, 4.05, {"published", "rebuilt"}), (3.5, 4.7, {"rebuilt"}), (3, 5.1, set())):
        shrink("zinc", (2, 1, 1), nodes, edges)
        with nullcontext() if origin in allowed else pytest.raises(ValueError, match="on average"):
            check(BENCHMARKS["zinc"], packed, "file")


def test_features_that_are_not_finite(zinc_folder, tmp_path):
    packed = load_packed(import_benchmark("zinc", zinc_folder, tmp_path / "root"))
    store = replace(packed.store, x=torch.full((12, 1), torch.inf))
    with pytest.raises(ValueError, match="the features of its nodes are not all finite"):
        check(replace(BENCHMARKS["zinc"], categories=((), (4,)), widths=(1, 4)), replace(packed, store=store), "file")
