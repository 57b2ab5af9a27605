"""A file that is mapped is refused once it was changed in place, and not when it was built anew."""

from __future__ import annotations

import copy
import os
import pickle
import re
from pathlib import Path

import pytest
import torch

from crawl import Graph, WalkPlan, build_graph_file
from crawl.data import OneGraph, WalkLoader
from crawl.data.fingerprint import Fingerprint
from crawl.data.link_graph_file import from_link_graph_file

RING = torch.stack([torch.arange(12), torch.arange(12).roll(-1)])
CHANGED = "was changed while it was read, so what was read may be wrong: put back the file as it was, and resume"
LINKS = {
    "split": "random", "fractions": (0.6, 0.2, 0.2), "seed": 0, "num_negatives": 1, "supervised_share": 0.3,
    "metric": None, "batches": "closed",
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "graph.crawl"
    build_graph_file(RING, path, undirected=True, features=torch.rand(12, 2))
    return path


def change(path: Path, content: bytes) -> None:
    """Write over a file in place, later than it was written before."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_ino == before.st_ino


def other_ring(path: Path) -> bytes:
    """A graph file of the same size."""
    other = path.with_name("other.crawl")
    build_graph_file(RING.roll(1, 1), other, undirected=True, features=torch.rand(12, 2))
    assert other.stat().st_size == path.stat().st_size
    return other.read_bytes()


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_file_that_is_changed_in_place_is_refused(path, is_cut):
    graph = Graph.open(path)
    graph.check_unchanged()
    change(path, path.read_bytes()[:600] if is_cut else other_ring(path))
    with pytest.raises(ValueError, match=re.escape(f"{path} {CHANGED}")):
        graph.check_unchanged()
    with pytest.raises(ValueError, match=CHANGED):
        graph.to("cpu").check_unchanged()


def test_a_file_that_is_built_anew_renamed_or_removed_is_fine(path):
    graph = Graph.open(path)
    build_graph_file(RING.roll(1, 1), path, undirected=True)
    graph.check_unchanged()
    second = Graph.open(path)
    path.chmod(0o400)
    path.rename(path.with_name("renamed.crawl"))
    second.check_unchanged()
    path.with_name("renamed.crawl").unlink()
    second.check_unchanged()


def test_a_copy_is_in_memory(path):
    graph = Graph.open(path)
    copies = [pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)]
    change(path, other_ring(path))
    for each in copies:
        assert each.file is None
        each.check_unchanged()


def test_descriptors_are_closed_with_the_graph(path):
    before = set(os.listdir("/proc/self/fd"))
    graph = Graph.open(path)
    assert set(os.listdir("/proc/self/fd")) > before
    del graph
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_closed_batch_of_a_changed_file_is_refused_before_it_is_read(path, is_cut):
    plan = WalkPlan(num_steps=4, window_size=2, centred=True)
    batches = iter(WalkLoader(OneGraph(Graph.open(path), torch.arange(12)), plan, batch_size=4))
    next(batches)
    change(path, path.read_bytes()[:600] if is_cut else other_ring(path))
    with pytest.raises(ValueError, match=CHANGED):
        next(batches)


def test_features_of_links_are_watched_where_links_are_in_memory(path):
    store = from_link_graph_file(path.parent, **LINKS).store
    stores = [store, store.drawn(0), store.with_owners(torch.tensor([[0, 2]])), store.subset(torch.tensor([0]))]
    assert store.graph.file is None
    change(path, other_ring(path))
    for each in stores:
        with pytest.raises(ValueError, match=CHANGED):
            each.check_unchanged()


def test_no_fingerprint_is_taken_of_a_changed_file(path):
    dataset = from_link_graph_file(path.parent, **LINKS)
    Fingerprint.of(dataset)
    change(path, other_ring(path))
    with pytest.raises(ValueError, match=CHANGED):
        Fingerprint.of(dataset)
