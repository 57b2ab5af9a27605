"""Links of a graph file: the same as those of tables, as far as a file has them."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from crawl import Graph, build_graph_file
from crawl.data import Fingerprint, from_link_folder
from crawl.data.link_folder import read_link_graph, read_pairs
from crawl.data.link_graph import without_edges
from crawl.data.link_graph_file import links_of_graph, num_linked
from crawl.data.link_list import LinkList
from crawl.data.pairs import pairs_of_numbers

EDGES = torch.tensor(sorted(nx.random_geometric_graph(30, 0.3, seed=1).edges)).t()


def write(folder: Path, edges: torch.Tensor = EDGES, **settings: object) -> Path:
    folder.mkdir(exist_ok=True)
    build_graph_file(edges, folder / "graph.crawl", **{"num_nodes": 31, "undirected": True, **settings})
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    features = np.random.default_rng(0).standard_normal((31, 3)).astype(np.float32)
    return write(tmp_path / "graph", features=features)


@pytest.mark.parametrize("num_arcs", [1, 7, 2**22])
def test_links_are_those_of_the_edge_list(monkeypatch: pytest.MonkeyPatch, num_arcs: int) -> None:
    monkeypatch.setattr("crawl.data.link_graph_file._ARCS", num_arcs)
    edges = torch.cat([EDGES, EDGES[:, :3], EDGES[:, 5:7].flip(0), torch.tensor([[4, 4, 9], [4, 4, 9]])], dim=1)
    graph = Graph.from_edge_index(edges, 31, undirected=True)
    found = links_of_graph(graph, Path("graph.crawl"))
    assert pairs_of_numbers(found.numbers).tolist() == sorted(EDGES.t().tolist(), key=lambda pair: pair[::-1])
    assert (found.num_nodes, found.edge_attr) == (31, None)
    assert found.skipped == ("self-loops, which are not links: 3", "parallel edges, of which the first counts: 3")


def test_a_data_set_as_of_tables(folder: Path, tmp_path: Path) -> None:
    dataset = from_link_folder(folder, fractions=(0.6, 0.2, 0.2), batches="closed", metric="ap")
    store = dataset.store
    assert (dataset.task.level, dataset.task.metric, store.batches) == ("pair", "ap", "closed")
    assert store.x.shape == (31, 3)
    num_links = EDGES.shape[1]
    assert len(dataset.split.val) == len(dataset.split.test) == 2 * (num_links // 5)
    training = LinkList(store.known, 31, None, ())
    assert len(training.numbers) == num_links  # all links are known not to be drawn as others
    seen = {frozenset(pair) for pair in store.edge_index.t().tolist()}
    for part in (dataset.split.val, dataset.split.test):
        pairs = [frozenset(pair) for pair in store.owners[part].tolist()]
        linked = {frozenset(pair) for pair in EDGES.t().tolist()}
        assert [pair in linked for pair in pairs] == store.y[part].bool().tolist()
        assert not seen & set(pairs)
    again = from_link_folder(folder, fractions=(0.6, 0.2, 0.2), batches="closed", metric="ap")
    assert Fingerprint.of(again) == Fingerprint.of(dataset)
    assert not torch.equal(store.drawn(1).owners, store.drawn(2).owners)


def test_pairs_of_a_mapped_graph(folder: Path, tmp_path: Path) -> None:
    known, store = read_link_graph(folder)
    (tmp_path / "pairs.csv").write_text("source,target\n0,1\n30,2\n31,2\n-1,2\n3,3\n03,3\n")
    asked = read_pairs(tmp_path / "pairs.csv", known)
    assert asked.owners.tolist() == [[0, 1], [30, 2]]
    assert asked.reasons == {
        2: "there is no node '31'",
        3: "there is no node '-1'",
        **dict.fromkeys((4, 5), "a link is between two different nodes"),
    }
    pairs = torch.combinations(torch.arange(31))
    assert known.num_linked(pairs) == known.num_linked(pairs.flip(1)) == EDGES.shape[1]
    assert num_linked(store.graph, pairs[:0]) == 0


def test_what_cannot_be_is_refused(folder: Path, tmp_path: Path) -> None:
    closed = {"batches": "closed"}
    cycle = torch.stack([torch.arange(31), torch.arange(31).roll(1)])
    for settings, message in (
        ({}, r"choose batches='closed' \(--data\.batches closed\)\.$"),
        (
            {**closed, "split": "part"},
            r"split is 'part', and the links in .*graph\.crawl have no columns: leave it out",
        ),
        ({**closed, "metric": "mae"}, "mae"),
    ):
        with pytest.raises(ValueError, match=message):
            from_link_folder(folder, **settings)
    for name, edges, changes, message in (
        ("one-way", cycle, {"undirected": False}, r"The edge between \d+ and \d+ in .* leads one way.*--undirected\.$"),
        ("few", EDGES[:, :3], {}, r"graph\.crawl has 3 links, too few to be split: 4 are needed"),
        ("weighted", EDGES, {"edge_weight": np.ones(EDGES.shape[1])}, "has weights, and links are learned without"),
    ):
        with pytest.raises(ValueError, match=message):
            from_link_folder(write(tmp_path / name, edges, **changes), **closed)
    (folder / "edges.csv").write_text("source,target\n")
    with pytest.raises(ValueError, match=r"has graph\.crawl and edges\.csv: leave one of them elsewhere"):
        from_link_folder(folder, **closed)


def test_a_graph_whose_arcs_are_too_many_hides_nothing() -> None:
    graph = Graph.from_edge_index(EDGES, 31, undirected=True)
    object.__setattr__(graph, "rowptr", graph.rowptr.long())
    with pytest.raises(ValueError, match="Links cannot be hidden in a graph of"):
        without_edges(graph, torch.ones(graph.num_edges, dtype=torch.bool))


@pytest.mark.parametrize("num_arcs", [1, 7, 2**22])
def test_a_graph_of_plain_links_stays_mapped(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path, num_arcs: int
) -> None:
    monkeypatch.setattr("crawl.data.link_graph_file._ARCS", num_arcs)
    _, plain = read_link_graph(folder)
    assert plain.graph.file is not None
    for more in (EDGES[:, -1:], torch.tensor([[4], [4]])):
        _, store = read_link_graph(write(tmp_path / "more", torch.cat([EDGES, more], dim=1)))
        assert (store.graph.file, store.file is not None) == (None, True)
        assert torch.equal(store.graph.rowptr.long(), plain.graph.rowptr.long())
        assert torch.equal(store.graph.col.long(), plain.graph.col.long())
