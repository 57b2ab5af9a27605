"""From an edge list, by graph.crawl, to probabilities of links."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from crawl.cli import main
from crawl.cli.remarks import described_split
from crawl.data import from_link_folder
from crawl.runs.sources import Links
from tests.cli.test_link_commands import TINY


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `data` with the graph file of two groups, `run` on it, and the same graph in `tables`."""
    place = tmp_path_factory.mktemp("link_graph_files")
    (place / "data").mkdir()
    graph = nx.stochastic_block_model((12, 12), [[0.7, 0.05], [0.05, 0.7]], seed=1)
    (place / "edges.txt").write_text("".join(f"{u} {v}\n" for u, v in graph.edges))
    np.save(place / "features.npy", np.eye(2, dtype=np.float32)[[graph.nodes[u]["block"] for u in graph]])
    build = ["graph", "build", str(place / "edges.txt"), "-o", str(place / "data" / "graph.crawl"), "--undirected"]
    assert main([*build, "--features", str(place / "features.npy")]) == 0
    train = ["train", "links", "--data.path", str(place / "data"), "--data.batches", "closed", *TINY]
    train += ["--data.fractions", "0.7", "0.15", "0.15", "--training.max-epochs", "20", "--training.lr", "0.01"]
    assert main([*train, "--out", str(place / "run")]) == 0
    (place / "pairs.csv").write_text("source,target\n0,1\n0,23\n24,1\n")
    return place


def test_the_split_is_said_in_links(crawl, place):
    dataset = from_link_folder(place / "data", fractions=(0.6, 0.2, 0.2), num_negatives=2, batches="closed")
    num_val = len(dataset.split.val) // 3
    num_training = dataset.store.num_edges // 2
    hidden = f"of which an epoch hides and predicts {round(0.3 * num_training)}"
    assert described_split(dataset, Links(batches="closed")) == (
        f"Split: {num_training} links for training, {hidden}, {num_val} for validation, {num_val} for the test. "
        "Pairs without a link for each that is predicted: 2."
    )


def test_train_evaluate_resume(crawl, place):
    record = json.loads((place / "run" / "result.json").read_text())
    assert record["scores"]["test"]["mean"] > 0.6  # groups are told by features
    name, *_ = (place / "run" / "predictions.csv").read_text().splitlines()[1].split(",")
    assert all(int(end) < 24 for end in name.split(":"))
    assert "pairs of data)" in crawl("evaluate", place / "run").out
    before = (place / "run" / "predictions.csv").read_text()
    (place / "run" / "result.json").unlink()
    assert crawl("train", "--resume", place / "run", "--quiet").code == 0
    assert (place / "run" / "predictions.csv").read_text() == before


def test_pairs_and_embeddings(crawl, place):
    start = ("predict", place / "run", place / "data", "--pairs", place / "pairs.csv", "--device", "cpu")
    done = crawl(*start, "-o", "out.csv")
    assert "3 rows, 1 without a prediction (see the column reason) → out.csv" in done.err
    assert f"Pairs that are linked in {place / 'data' / 'graph.crawl'}: 1." in done.err
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    within, across, nowhere = rows
    assert float(within["probability_link"]) > float(across["probability_link"]) > 0
    assert nowhere["reason"] == "there is no node '24'"
    hidden = crawl(*start, "--hide")
    assert hidden.code == 0, hidden.err
    assert "Pairs that are linked" not in hidden.err
    assert crawl("embed", place / "run", place / "data", "-o", "nodes.npy", "--device", "cpu").code == 0
    assert np.load("nodes.npy").shape == (24, 8)


def test_loops_and_links_listed_twice_change_nothing(crawl, place):
    lines = (place / "edges.txt").read_text().splitlines()
    Path("twice.txt").write_text("\n".join([*lines, *lines[3:40:2], *lines[5:9], "3 3", "23 23"]))
    build = ("graph", "build", "twice.txt", "-o", "twice/graph.crawl", "--undirected")
    Path("twice").mkdir()
    assert crawl(*build, "--features", place / "features.npy").code == 0
    for name, data in (("once", place / "data"), ("twice", Path("twice"))):
        start = ("predict", place / "run", data, "--pairs", place / "pairs.csv", "--device", "cpu")
        assert "1 without a prediction" in crawl(*start, "-o", f"{name}.csv").err
        assert crawl("embed", place / "run", data, "-o", f"{name}.npy", "--device", "cpu").code == 0
    assert Path("twice.csv").read_text() == Path("once.csv").read_text()
    assert np.array_equal(np.load("twice.npy"), np.load("once.npy"))


def test_what_cannot_be_is_said_in_one_line(crawl, place, tmp_path):
    start = ("train", "links", "--data.path", place / "data", *TINY)
    assert crawl.error(*start).endswith("choose batches='closed' (--data.batches closed).")
    (tmp_path / "only.csv").write_text("id\n1\n")
    asked = ("predict", place / "run", place / "data", "--pairs", place / "pairs.csv")
    assert crawl.error(*asked, "--only", "only.csv").endswith(
        "predicts links, those that --pairs names: leave out --only."
    )
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "graph.crawl").write_bytes((place / "data" / "graph.crawl").read_bytes()[:-8])
    assert "graph.crawl" in crawl.error("predict", place / "run", damaged, "--pairs", place / "pairs.csv")
    Path("tables").mkdir()
    Path("tables/edges.csv").write_text("source,target\n" + "".join(f"{u},{(u + 1) % 9}\n" for u in range(9)))
    full = ("train", "links", "--data.path", "tables", *TINY, "--training.max-epochs", "1", "--out", "full")
    assert crawl(*full, "--data.fractions", "0.6", "0.2", "0.2").code == 0
    message = crawl.error("predict", "full", place / "data", "--pairs", place / "pairs.csv")
    assert "was trained with batches of the full graph" in message
