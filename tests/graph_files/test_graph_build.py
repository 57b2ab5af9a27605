"""A graph file equals `Graph.from_edge_index` of the same list, bit for bit, however it is cut into pieces."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from crawl import Graph, build_graph_file, open_features, sample_walks
from crawl.graph_files import build, lists, text


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even short lists are read, counted, sorted and written in several pieces."""
    monkeypatch.setattr(build, "_FEWEST_ARCS", 5)
    monkeypatch.setattr(build, "_NUMBERS_AT_ONCE", 7)
    monkeypatch.setattr(build, "_SHORT", 4)
    monkeypatch.setattr(text, "_BYTES_AT_ONCE", 40)
    monkeypatch.setattr(lists, "_EDGES_AT_ONCE", 3)


def assert_same(found: Graph, expected: Graph) -> None:
    for name, wanted in vars(expected).items():
        value = getattr(found, name)
        if isinstance(wanted, Tensor):
            assert value.dtype == wanted.dtype, name
            assert torch.equal(value, wanted), name
        elif name != "file":
            assert value == wanted, name


def as_text(edge_index: Tensor, weight: Tensor | None = None) -> str:
    rows = [f"{u} {v}" for u, v in edge_index.t().tolist()]
    if weight is not None:
        rows = [f"{row} {w!r}" for row, w in zip(rows, weight.tolist(), strict=True)]
    return "".join(f"{row}\n" for row in rows)


@st.composite
def edge_lists(draw: st.DrawFn) -> dict[str, Any]:
    """Any list: unsorted, with parallel edges, self-loops and isolated nodes, undirected or weighted or neither."""
    num_nodes = draw(st.integers(1, 9))
    pair = st.tuples(st.integers(0, num_nodes - 1), st.integers(0, num_nodes - 1))
    edges = draw(st.lists(pair, max_size=60))
    undirected = draw(st.booleans())
    if not undirected:
        edges += [(v, v) for v in sorted({v for _, v in edges} - {u for u, _ in edges})]
    weights = st.floats(1e-9, 1e9) | st.integers(1, 1000).map(float) | st.floats(0.25, 4, width=16)
    weight = draw(st.lists(weights, min_size=len(edges), max_size=len(edges))) if draw(st.booleans()) else None
    return {
        "edge_index": torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(),
        "num_nodes": num_nodes + draw(st.integers(0, 3)),
        "edge_weight": None if weight is None else torch.tensor(weight, dtype=torch.float64),
        "undirected": undirected,
    }


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edge_lists(), st.sampled_from([1e-12, 1.0]))
def test_equals_the_graph_in_memory(tmp_path: Path, given_list: dict[str, Any], memory_gb: float) -> None:
    expected = Graph.from_edge_index(**given_list)
    edge_index, weight = given_list.pop("edge_index"), given_list.pop("edge_weight")
    (tmp_path / "edges.txt").write_text(as_text(edge_index, weight))
    np.save(tmp_path / "edges.npy", edge_index.numpy().astype(np.uint16))
    sources: list[dict[str, Any]] = [
        {"source": tmp_path / "edges.txt", "weighted": weight is not None},
        {"source": str(tmp_path / "edges.npy"), "edge_weight": weight},
        {"source": edge_index, "edge_weight": None if weight is None else weight.numpy()},
    ]
    for arguments in sources:
        build_graph_file(path=tmp_path / "graph.crawl", memory_gb=memory_gb, **arguments, **given_list)
        assert_same(Graph.open(tmp_path / "graph.crawl"), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.npy", "edges.txt", "graph.crawl"]


def test_long_rows_and_default_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(1000, (2, 20_000), generator=generator)
    edge_index[0, :5000] = 3  # a hub, whose targets are in no order
    weight = torch.rand(20_000, generator=generator, dtype=torch.float64) + 1e-6
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(as_text(edge_index, weight).encode()))
    build_graph_file(tmp_path / "edges.csv.gz", tmp_path / "graph.crawl", undirected=True, weighted=True)
    expected = Graph.from_edge_index(edge_index, edge_weight=weight, undirected=True)
    assert_same(Graph.open(tmp_path / "graph.crawl"), expected)


def test_numbers_of_edges_and_arcs_choose_the_integers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 2^31 were 7: there are 5 edges, so ids are int32, and 10 arcs, so rows are int64; then 7 edges."""
    for module in ("crawl.compressed_rows", "crawl.graph_files.build"):
        monkeypatch.setattr(f"{module}.index_type", lambda count: torch.int32 if count < 7 else torch.int64)
    for num_edges, types in ((5, (torch.int64, torch.int32)), (7, (torch.int64, torch.int64))):
        edge_index = torch.stack([torch.arange(num_edges), torch.arange(num_edges) + 1])
        build_graph_file(edge_index, tmp_path / "graph.crawl", undirected=True)
        graph = Graph.open(tmp_path / "graph.crawl")
        assert (graph.rowptr.dtype, graph.edge_id.dtype) == types
        assert_same(graph, Graph.from_edge_index(edge_index, undirected=True))


def test_features_are_rows_of_the_file(tmp_path: Path) -> None:
    features = np.asfortranarray(np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32))
    np.save(tmp_path / "features.npy", features)
    path = tmp_path / "graph.crawl"
    build_graph_file(torch.tensor([[0, 1], [1, 0]]), path, features=tmp_path / "features.npy")
    assert Graph.open(path).num_nodes == 9  # as many as there are rows
    nodes = torch.tensor([8, 0, 3])
    assert torch.equal(open_features(path)[nodes], torch.from_numpy(features)[nodes])
    build_graph_file(torch.tensor([[0, 1], [1, 0]]), path, features=torch.arange(6).view(2, 3))
    assert torch.equal(open_features(path), torch.arange(6).view(2, 3))
    build_graph_file(torch.tensor([[0, 1], [1, 0]]), path)
    with pytest.raises(ValueError, match="has no node features: build it with features"):
        open_features(path)


def test_graphs_without_edges(tmp_path: Path) -> None:
    for num_nodes in (0, 3):
        build_graph_file(torch.empty(2, 0), tmp_path / "graph.crawl", num_nodes=num_nodes)
        graph = Graph.open(tmp_path / "graph.crawl")
        assert_same(graph, Graph.from_edge_index(torch.empty(2, 0), num_nodes))
        assert len(sample_walks(graph)) == 0


EDGES = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": torch.tensor([[0, 1], [1, 2]])}, "Node 2 can be entered but not left"),
        ({"source": torch.tensor([[0, -1], [1, 0]])}, "source holds node -1, but ids go from 0"),
        ({"source": EDGES, "num_nodes": 1}, "source holds node 1, but ids go from 0 to 0"),
        ({"source": EDGES.float()}, "source must hold integers of shape"),
        ({"source": EDGES[0]}, "source must hold integers of shape"),
        ({"source": torch.empty(2, 0)}, r"there is no edge in it; give num_nodes \(--num-nodes\)"),
        ({"source": "missing.txt"}, "missing.txt cannot be read or written: No such file"),
        ({"source": "missing.npy"}, "missing.npy cannot be read: No such file"),
        ({"source": EDGES, "weighted": True}, "weighted and header are for text"),
        ({"source": EDGES, "edge_weight": torch.tensor([1.0])}, r"edge_weight must have shape \[2\]"),
        ({"source": EDGES, "edge_weight": torch.tensor([1.0, 0.0])}, "edge_weight must be positive and finite"),
        ({"source": EDGES, "features": torch.ones(3, 1), "num_nodes": 2}, "features has 3 rows, but there are 2"),
        ({"source": EDGES, "features": torch.ones(2)}, "features must have shape"),
        ({"source": EDGES, "features": torch.tensor([[1.0], [torch.nan]])}, "has nan in row 1: give finite numbers"),
        (
            {"source": EDGES, "features": torch.tensor([[1, 2], [1, -1e60]], dtype=torch.float64)},
            r"features has -1e\+60 in row 1: give finite numbers that float32 can hold",
        ),
        ({"source": EDGES, "memory_gb": 0}, "memory_gb must be a positive number"),
    ],
)
def test_what_is_not_a_graph_leaves_no_file(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    path = tmp_path / "graph.crawl"
    path.write_text("there before")
    with pytest.raises(ValueError, match=message):
        build_graph_file(path=path, **arguments)
    assert [file.name for file in tmp_path.iterdir()] == ["graph.crawl"]
    assert path.read_text() == "there before"


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "edges.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"is not a .npy file of numbers"):
        build_graph_file(tmp_path / "edges.npy", tmp_path / "graph.crawl")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """The list comes through a pipe that stays open, so that the build waits for more."""
    command = [sys.executable, "-m", "crawl", "graph", "build", "-", "-o", str(tmp_path / "graph.crawl")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdin is not None
    process.stdin.write(b"0 1\n1 0\n" * 10)
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    left = [path.name for path in tmp_path.iterdir()]
    assert left == ([f".graph.crawl.{process.pid}.part"] if number == signal.SIGKILL else [])
