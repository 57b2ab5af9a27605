from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import crawl as package
from crawl.cli import walk as walk_module

EDGES = "0,1\n1,2\n2,0\n2,3\n"


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text(EDGES)
    return path


def test_build_check_and_walk(crawl, edges, tmp_path):
    graph, features = tmp_path / "graph.crawl", tmp_path / "features.npy"
    np.save(features, np.arange(10.0).reshape(5, 2))
    done = crawl("graph", "build", edges, "-o", graph, "--undirected", "--features", features)
    assert (done.code, done.out) == (0, "")
    assert "5 nodes, 4 edges and 8 arcs → " in done.err
    assert torch.equal(package.open_features(graph)[3], torch.tensor([6.0, 7.0], dtype=torch.float64))
    done = crawl("graph", "check", graph)
    assert (done.code, done.out, done.err) == (0, f"{graph}: 5 nodes, 4 edges and 8 arcs\n", "")
    assert crawl("walk", graph, "--num-steps", "7").out == crawl("walk", edges, "--num-steps", "7").out
    out = crawl("walk", graph, "--start", "3", "0", "--num-walks", "2", "--num-steps", "4").out
    assert [line.partition(",")[0] for line in out.splitlines()[1:]] == ["3", "3", "0", "0"]


def test_weights_header_and_nodes(crawl, tmp_path):
    edges, nodes, graph = tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph.crawl"
    edges.write_text("source,target,weight\n0,1,0.5\n1,0,2\n")
    nodes.write_text("id,label\n2,a\n0,b\n1,c\n")
    flags = ["--weighted", "--header", "--nodes", nodes]
    assert crawl("graph", "build", edges, "-o", graph, *flags).code == 0
    opened = package.Graph.open(graph)
    assert opened.num_nodes == 3
    assert opened.is_weighted
    assert "3 nodes, 2 edges and 2 arcs, weighted" in crawl("graph", "check", graph).out


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("id\n0\n1\n2\n2\n", "nodes.csv, line 5: the id 2 is in line 4 already; list it once."),
        ("id\n0\n5\n0\n5\n", "nodes.csv, line 4: the id 0 is in line 2 already"),
        ("id\n1\n2\n", "but 0 is missing"),
        ("id\n0\nx\n", "line 3: the id 'x' is not a node number"),
        ("name\n0\n", "has no column 'id'"),
        ("id\n0\n1\n2\n", "edges.csv, line 4: the target 3 is not a node: ids go from 0 to 2"),
    ],
)
def test_bad_tables_of_nodes(crawl, edges, tmp_path, nodes, message):
    (tmp_path / "nodes.csv").write_text(nodes)
    error = crawl.error("graph", "build", edges, "-o", "graph.crawl", "--undirected", "--nodes", "nodes.csv")
    assert message in error
    assert not (tmp_path / "graph.crawl").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-o graph.txt", "the name of a graph file ends in .crawl"),
        ("-o graph.crawl --num-nodes 4 --nodes nodes.csv", "exclude each other"),
        (
            "-o graph.crawl",
            "Node 3 can be entered but not left, so a walk would end there: build with undirected=True (--undirected)",
        ),
        ("-o graph.crawl --num-nodes 3", "line 4: the target 3 is not a node"),
        ("-o missing/graph.crawl", "No such file or directory"),
        ("-o graph.crawl --features none.npy", "none.npy cannot be read"),
        ("-o graph.crawl --weighted", "line 1: expected 3 columns"),
        ("-o graph.crawl --memory-gb -1", "memory_gb must be a positive number"),
    ],
)
def test_bad_flags(crawl, edges, flags, message):
    assert message in crawl.error("graph", "build", edges, *flags.split())


def test_damaged_and_other_files(crawl, edges, tmp_path):
    graph = tmp_path / "graph.crawl"
    crawl("graph", "build", edges, "-o", graph, "--undirected")
    graph.write_bytes(graph.read_bytes()[:-1])
    for command in (("graph", "check"), ("walk",)):
        assert f"{graph} is not a graph file, or was damaged" in crawl.error(*command, graph)
    assert "leave out --directed and --header" in crawl.error("walk", graph, "--directed")
    crawl("graph", "build", edges, "-o", graph, "--undirected")
    for name in ("4", "-1", "a", "00", "9" * 30):
        assert f"--start: there is no node {name!r}" in crawl.error("walk", graph, f"--start={name}")


@pytest.mark.parametrize("strategy", ["non_backtracking", "min_degree", "restart"])
def test_pieces_of_any_size_give_the_same_files(crawl, edges, tmp_path, monkeypatch, strategy):
    """The archive is, byte by byte, what numpy writes at once."""
    flags = ["--num-steps", "6", "--num-walks", "3", "--strategy", strategy, "--window-size", "3"]
    graph = package.Graph.from_edge_index(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), undirected=True)
    start = torch.arange(4).repeat_interleave(3)
    walks = package.sample_walks(graph, num_steps=6, strategy=strategy, start=start, window_size=3)
    arrays = {"nodes": walks.nodes.numpy(), "edges": walks.edges.numpy(), "bits": walks.bits().numpy()}
    np.savez_compressed(tmp_path / "numpy.npz", **arrays, names=np.array(list("0123")), window_size=3)
    expected = (tmp_path / "numpy.npz").read_bytes()
    text = crawl("walk", edges, *flags).out
    for positions in (1, 8, 20, 10**6):
        monkeypatch.setattr(walk_module, "_POSITIONS_AT_ONCE", positions)
        assert crawl("walk", edges, *flags).out == text
        done = crawl("walk", edges, "-o", "walks.npz", *flags)
        assert "12 walks of 6 steps on 4 nodes and 4 edges, which see 100.0% of the nodes" in " ".join(done.err.split())
        assert (tmp_path / "walks.npz").read_bytes() == expected


def test_archives_of_graph_files_have_no_names(crawl, edges, tmp_path):
    crawl("graph", "build", edges, "-o", "graph.crawl", "--undirected", "--num-nodes", "6")
    assert crawl("walk", "graph.crawl", "-o", "walks.npz", "--num-steps", "3", "--window-size", "0").code == 0
    with np.load(tmp_path / "walks.npz") as file:
        assert sorted(file) == ["bits", "edges", "nodes", "window_size"]
        assert file["nodes"].shape == (4, 4)
        assert file["bits"].shape == (4, 4, 0)


def test_centred_walks_on_a_graph_file(crawl, edges):
    crawl("graph", "build", edges, "-o", "graph.crawl", "--undirected")
    flags = ("--centred", "--num-steps", "5", "--num-walks", "2", "--start", "1", "0")
    lines = crawl("walk", "graph.crawl", *flags).out.splitlines()[1:]
    assert [line.split(",")[2] for line in lines] == ["1", "1", "0", "0"]


def test_a_graph_never_replaces_what_it_is_built_of(crawl, edges, tmp_path):
    link, before = tmp_path / "link.crawl", edges.read_text()
    link.symlink_to(edges)
    message = crawl.error("graph", "build", edges, "-o", link, "--undirected")
    assert message == f"The output would replace the input {edges}: choose another name."
    (tmp_path / "nodes.crawl").write_text("id\n0\n1\n2\n3\n")
    for flag in ("--nodes", "--features"):
        message = crawl.error("graph", "build", edges, "-o", "nodes.crawl", "--undirected", flag, "nodes.crawl")
        assert message == "The output would replace the input nodes.crawl: choose another name."
    assert edges.read_text() == before


def test_what_decides_the_number_of_nodes_is_named(crawl, edges, tmp_path):
    np.save("x.npy", np.ones((2, 1)))
    message = crawl.error("graph", "build", edges, "-o", "graph.crawl", "--features", "x.npy")
    assert message == f"{edges}, line 2: the target 2 is not a node: ids go from 0 to 1, since x.npy has 2 rows."
    np.save("e.npy", np.array([[0, 2], [2, 0]]))
    message = crawl.error("graph", "build", "e.npy", "-o", "graph.crawl", "--features", "x.npy")
    assert message == "e.npy holds node 2, but ids go from 0 to 1, since x.npy has 2 rows."
    (tmp_path / "none.csv").write_text("# nothing\n")
    message = crawl.error("graph", "build", "none.csv", "-o", "graph.crawl")
    assert message == "none.csv: there is no edge in it; give num_nodes (--num-nodes) for a graph without."
