from __future__ import annotations

import csv
import gzip
import io
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch

import crawl as package
from crawl.cli.walk import WalkEdges, read_edge_list
from crawl.walks import sampling
from crawl.walks.sampling import Strategy
from tests.graph_files.test_opened import change

TRIANGLE_WITH_TAIL = "a b\nb c\nc a\nc d\n"


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.txt"
    path.write_text(TRIANGLE_WITH_TAIL)
    return path


def _walks(text: str) -> list[list[str]]:
    header, *rows = csv.reader(io.StringIO(text))
    assert header == [f"node_{i}" for i in range(len(header))]
    return rows


def test_prints_a_walk_from_every_node(crawl, edges):
    done = crawl("walk", edges, "--num-steps", "6")
    walks = _walks(done.out)
    assert [walk[0] for walk in walks] == ["a", "b", "c", "d"]
    steps = {pair for walk in walks for pair in pairwise(walk)}
    undirected = {("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")}
    assert {tuple(sorted(step)) for step in steps} <= undirected
    assert done.err == ""


def test_npz_holds_what_the_library_samples(crawl, edges, tmp_path):
    out = tmp_path / "walks.npz"
    done = crawl("walk", edges, "-o", out, "--num-steps", "20", "--window-size", "4", "--seed", "7")
    assert done.code == 0
    assert "4 walks of 20 steps on 4 nodes and 4 edges" in done.err
    assert "which see 100.0% of the nodes and 100.0% of the edges" in " ".join(done.err.split())
    graph = package.Graph.from_edge_index(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), undirected=True)
    expected = package.sample_walks(graph, num_steps=20, window_size=4, seed=7)
    with np.load(out) as file:
        assert file["names"].tolist() == ["a", "b", "c", "d"]
        assert np.array_equal(file["nodes"], expected.nodes.numpy())
        assert np.array_equal(file["edges"], expected.edges.numpy())
        assert np.array_equal(file["bits"], expected.bits().numpy())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.txt", "walks.npz"]


def test_starts(crawl, edges):
    walks = _walks(crawl("walk", edges, "--start", "d", "a", "--num-walks", "3", "--num-steps", "30").out)
    assert [walk[0] for walk in walks] == ["d", "d", "d", "a", "a", "a"]
    assert len({tuple(walk) for walk in walks}) == 6
    assert len(_walks(crawl("walk", edges, "--share", "0.01").out)) == 1


def test_centred(crawl, edges):
    walks = _walks(crawl("walk", edges, "--centred", "--num-steps", "5", "--num-walks", "2").out)
    assert [walk[2] for walk in walks] == list("aabbccdd")
    remark = "so centred non-backtracking walks need not have the law of a long walk seen from its middle"
    of_degrees = crawl("walk", edges, "--centred", "--strategy", "min_degree_non_backtracking").err
    assert f"Steps are drawn by degrees, {remark} (docs/walks.md): --strategy uniform is exact." in of_degrees
    edges.write_text("a b\nb c\nc d\nc a\na b\n")
    assert f"Some edges are listed several times, {remark}" in crawl("walk", edges, "--centred").err
    assert remark not in crawl("walk", edges, "--centred", "--strategy", "min_degree").err


def test_weights_and_direction(crawl, tmp_path):
    path = tmp_path / "weighted.csv"
    path.write_text("from,to,weight\n1,2,1e9\n1,3,1e-9\n2,1,1\n3,1,1\n")
    walks = _walks(crawl("walk", path, "--header", "--directed", "--start", "1", "--strategy", "uniform").out)
    assert set(walks[0]) == {"1", "2"}


def test_standard_input(crawl, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TRIANGLE_WITH_TAIL.encode())))
    assert len(_walks(crawl("walk", "-", "--num-steps", "2").out)) == 4


@pytest.mark.parametrize("separator", [" ", "\t", ",", ";", ", "])
def test_separators_comments_and_empty_lines(tmp_path, separator):
    path = tmp_path / "edges.txt"
    path.write_text(separator.join("ab") + "\n\n# comment\n" + separator.join("bc") + "  # more\n")
    edge_list = read_edge_list(path)
    assert (edge_list.source.tolist(), edge_list.target.tolist(), edge_list.names) == ([0, 1], [1, 2], ["a", "b", "c"])
    assert edge_list.weight is None


def test_compressed_files_and_integer_names_in_their_order(tmp_path):
    path = tmp_path / "edges.txt.gz"
    path.write_bytes(gzip.compress(b"10 9 0.5\n9 -1 2\n"))
    edge_list = read_edge_list(path)
    assert edge_list.names == ["-1", "9", "10"]
    assert edge_list.weight is not None
    ends = (edge_list.source.tolist(), edge_list.target.tolist())
    assert (*ends, edge_list.weight.tolist()) == ([2, 1], [1, 0], [0.5, 2.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no edge in it"),
        ("# only a comment\n", "there is no edge in it"),
        ("a\n", "line 1: expected 2 or 3 columns"),
        ("a b\nb c 1\n", "line 2: expected 2 columns, as before"),
        ("a,b\nb,\n", "line 2: a column is empty"),
        ("a b 1\nb c x\n", "line 2: the weight 'x' is not a number"),
        ("from to weight\na b 1\n", "If this line names the columns, add --header"),
        ("from to\n1 2\n", "looks like a header; add --header"),
        ("a b 0\n", "line 1: the weight 0 is not positive"),
        ("a b nan\n", "line 1: the weight nan is not positive"),
    ],
)
def test_bad_edge_lists(crawl, tmp_path, text, message):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    error = crawl.error("walk", path)
    assert message in error
    assert str(path) in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-o walks.txt", "walks are written as .npz or .csv"),
        ("-o missing/walks.csv", "No such file or directory"),
        ("--num-walks 0", "--num-walks must be a whole number from 1"),
        ("--start e", "there is no node 'e'"),
        ("--start a --share 0.5", "exclude each other"),
        ("--share 2", "a share in (0, 1]"),
        ("--directed", "no edge leaves node 'd'"),
        ("--centred --directed", "--centred walks take edges in both directions: leave out --directed"),
        ("--centred --strategy node2vec", "node2vec walks cannot be centred"),
        ("--window-size 99", "window_size must be a whole number from 0 to 32"),
    ],
)
def test_bad_flags(crawl, edges, flags, message):
    assert message in crawl.error("walk", edges, *flags.split())


def test_binary_files_are_refused(crawl, tmp_path):
    path = tmp_path / "walks.npz"
    path.write_bytes(b"\xff\xfe\x00binary")
    assert "this is not a text file" in crawl.error("walk", path)


def test_the_strategies_are_those_of_the_library():
    assert get_args(get_type_hints(WalkEdges)["strategy"]) == get_args(Strategy)


def test_walks_never_replace_their_edges(crawl, edges, tmp_path):
    before, link = edges.read_text(), tmp_path / "link.csv"
    link.symlink_to(edges)
    assert crawl.error("walk", edges, "-o", link) == f"The output would replace the input {edges}: choose another name."
    assert edges.read_text() == before


@pytest.mark.parametrize("name", ["walks.npz", "walks.csv"])
def test_walks_on_a_graph_file_that_changes_meanwhile_are_not_written(crawl, tmp_path, monkeypatch, name):
    file, ring = tmp_path / "graph.crawl", torch.arange(20)
    package.build_graph_file(torch.stack([ring, ring.roll(-1)]), file, undirected=True)
    content, calls = file.read_bytes(), []

    def walks_from(*args):
        draw = sampling.walks_from(*args)

        def changing(start, keys):
            calls.append(None)
            if len(calls) == 3:
                change(file, content)
            return draw(start, keys)

        return changing

    fake = SimpleNamespace(walks_from=walks_from)
    monkeypatch.setitem(sys.modules, "crawl.walks.sampling", fake)
    monkeypatch.setattr("crawl.cli.walk._POSITIONS_AT_ONCE", 30)
    assert f"{file} was changed while it was read" in crawl.error("walk", file, "-o", name, "--num-steps", "5")
    assert not Path(name).exists()
