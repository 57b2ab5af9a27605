"""From a folder with edges.csv to probabilities of links and embeddings of nodes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from crawl.cli import main
from crawl.data.hidden_links import NUM_PARTS

TINY = [
    *("--model.hidden-channels", "8", "--model.num-layers", "1", "--walk.num-steps", "6", "--walk.num-eval-steps", "8"),
    *("--evaluation.num-test-repeats", "2", "--training.max-epochs", "8", "--device", "cpu", "--quiet"),
]


def write(folder: Path, sizes: tuple[int, ...] = (8, 8), nodes: bool = True) -> Path:
    """Cliques with a few links between them; nodes know which clique is theirs."""
    folder.mkdir(exist_ok=True)
    graph = nx.stochastic_block_model(sizes, np.full((len(sizes),) * 2, 0.05) + 0.7 * np.eye(len(sizes)), seed=1)
    rows = [["source", "target", "kind"], *([f"n{u}", f"n{v}", "ab"[(u + v) % 2]] for u, v in graph.edges)]
    with open(folder / "edges.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    if nodes:
        rows = [["id", "clique"], *([f"n{u}", f"c{graph.nodes[u]['block']}"] for u in graph)]
        with open(folder / "nodes.csv", "w", newline="") as file:
            csv.writer(file).writerows(rows)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run with batches of the full graph, and one with closed ones."""
    place = tmp_path_factory.mktemp("link_runs")
    data = str(write(place / "graph"))
    for name, flags in (
        ("full", ("--data.metric", "hits@5", "--data.num-negatives", "2")),
        ("closed", ("--data.batches", "closed", "--training.max-epochs", "1")),
    ):
        start = ["train", "links", "--data.path", data, "--data.fractions", "0.6", "0.2", "0.2", *TINY, *flags]
        assert main([*start, "--out", str(place / name)]) == 0
    (place / "pairs.csv").write_text("note,source,target\n1,n0,n1\n2,n0,n15\n3,n2,zoe\n4,n3,n3\n5,n3,\n")
    return {name: place / name for name in ("graph", "full", "closed", "pairs.csv")}


@pytest.mark.parametrize("name", ["full", "closed"])
def test_train_evaluate_info(crawl, runs, name):
    config = json.loads((runs[name] / "config.json").read_text())
    assert config["data"]["batches"] == name
    assert config["walk"].get("num_walks", 1) == (2 if name == "closed" else 1)
    done = crawl("evaluate", runs[name])
    assert done.code == 0
    assert "pairs of graph)" in done.out
    assert f"binary per pair, scored by {'hits@5' if name == 'full' else 'roc_auc'}" in crawl("info", runs[name]).out
    first, second = (runs[name] / "predictions.csv").read_text().splitlines()[1].split(",")[0].split(":")
    assert first[0] == second[0] == "n"


@pytest.mark.parametrize("name", ["full", "closed"])
@pytest.mark.parametrize("hide", [False, True])
def test_pairs_get_probabilities_or_a_reason(crawl, runs, name, hide):
    flags = ("--hide",) if hide else ()
    done = crawl("predict", runs[name], runs["graph"], "--pairs", runs["pairs.csv"], "-o", "out.csv", *flags)
    assert "5 rows, 3 without a prediction (see the column reason) → out.csv\n" in done.err
    seen = f"Pairs that are linked in {runs['graph'] / 'edges.csv'}: 1. The model has seen these links; --hide hides th"
    assert (seen in done.err) is not hide
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert list(rows[0]) == ["note", "source", "target", "probability_link", "walk_spread_link", "reason"]
    assert [row["note"] for row in rows] == list("12345")
    assert [row["reason"] for row in rows] == [
        *("", "", "there is no node 'zoe'", "a link is between two different nodes", "an id is empty"),
    ]
    if name == "closed":
        bounded = crawl("predict", runs[name], runs["graph"], "--pairs", runs["pairs.csv"], *flags, "--memory", "1")
        for row, other in zip(rows, csv.DictReader(bounded.out.splitlines()), strict=True):
            assert row["probability_link"][:5] == other["probability_link"][:5]
    for row in rows[:2]:
        assert 0 < float(row["probability_link"]) < 1
        assert float(row["walk_spread_link"]) >= 0
    assert {row["probability_link"] for row in rows[2:]} == {""}


def test_a_hidden_link_is_not_seen(crawl, runs, tmp_path):
    """With `--hide`, the answer for a pair is the same whether the graph has its link or not; others' stay hidden."""
    other = write(tmp_path / "other")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("source,target\nn0,n1\n")
    found = {}
    for way in ("hide", "see"):
        flags = ("--hide",) if way == "hide" else ()
        for graph in ("with", "without"):
            write(other)
            if graph == "without":
                text = (other / "edges.csv").read_text()
                assert "n0,n1,b\n" in text
                (other / "edges.csv").write_text(text.replace("n0,n1,b\n", ""))
            out = crawl("predict", runs["closed"], other, "--pairs", pairs, "--device", "cpu", *flags).out
            found[way, graph] = float(out.splitlines()[1].split(",")[2])
    assert found["hide", "with"] == pytest.approx(found["hide", "without"], abs=1e-6)
    assert found["see", "with"] != pytest.approx(found["see", "without"], abs=1e-6)
    assert NUM_PARTS == 10  # as help says


def test_another_graph_without_nodes_csv_is_refused_or_read(crawl, runs, tmp_path):
    bare = write(tmp_path / "bare", nodes=False)
    message = crawl.error("predict", runs["full"], bare, "--pairs", runs["pairs.csv"])
    assert "the node attributes are none and were 'clique'" in message
    start = ["train", "links", "--data.path", bare, "--data.split", "random", *TINY, "--training.max-epochs", "1"]
    assert crawl(*start, "--out", "run").code == 0
    assert crawl("embed", "run", bare, "-o", "e.npy", "--device", "cpu").code == 0
    assert np.load("e.npy").shape == (16, 8)


@pytest.mark.parametrize("name", ["full", "closed"])
def test_embed_nodes(crawl, runs, name, tmp_path):
    other = write(tmp_path / "other", (5, 6))
    assert crawl("embed", runs[name], other, "-o", "e.npy", "--device", "cpu").code == 0
    found = np.load("e.npy")
    assert (found.shape, found.dtype) == ((11, 8), np.float32)
    assert np.isfinite(found).all()


def test_wrong_pairs_are_refused(crawl, runs, molecule_runs, molecules, tmp_path):
    start = ("predict", runs["full"], runs["graph"])
    assert crawl.error(*start) == f"{runs['full']} predicts links: say of which pairs, with --pairs FILE."
    assert crawl.error(*start, "--pairs", "nowhere.csv") == "There is no file nowhere.csv."
    for flags in (("--interval", "0.9"), ("--calibrated",)):
        message = crawl.error(*start, "--pairs", runs["pairs.csv"], *flags)
        assert message == f"{runs['full']} predicts links, for which there is no {flags[0]}: leave it out."
    for text, message in (
        ("source,target\nn0,zoe\n", "No row of pairs.csv has a prediction. The first of 1 has none because: there is"),
        ("source\nn0\n", "pairs.csv has no column 'target'"),
        ("", "pairs.csv is empty; its first line must name the columns."),
        ("source,target,reason\nn0,n1,a\n", "pairs.csv has a column 'reason' already: rename it."),
    ):
        Path("pairs.csv").write_text(text)
        assert crawl.error(*start, "--pairs", "pairs.csv").startswith(message)
    Path("pairs.csv").write_text("source,target\n")
    assert crawl(*start, "--pairs", "pairs.csv").out == "source,target,probability_link,walk_spread_link,reason\n"
    message = crawl.error(*start, "--pairs", "pairs.csv", "-o", "pairs.csv")
    assert message == "The output would replace the input pairs.csv: choose another name."
    other = ("predict", molecule_runs["logS"], molecules)
    for flags in (("--pairs", "pairs.csv"), ("--hide",)):
        message = crawl.error(*other, *flags)
        assert message == f"{flags[0]} is for models of links, which {molecule_runs['logS']} is not: leave it out."


def test_settings_of_links(crawl, runs):
    start = ("train", "links", "--data.path", runs["graph"], *TINY)
    text = crawl("train", "links", "--help").out
    for flag in ("--data.num-negatives", "--data.supervised-share", "--data.batches", "--model.pair"):
        assert flag in text
    for flag in ("--model.pool", "--model.head", "--training.loss", "--data.label"):
        assert flag not in text
    assert crawl.error(*start, "--model.pool", "sum").startswith("gcn walk cannot be changed by --model.pool")
    assert "must be a number between 0 and 1" in crawl.error(*start, "--data.supervised-share", "2")
    assert "Closed batches are walks, and gcn does not walk" in crawl.error(
        *start, "--data.batches", "closed", "--model.layer", "gcn"
    )
    assert "--model.pair" not in crawl("train", "nodes", "--help").out
    assert crawl.error("train", "links").startswith("Data of the kind 'links' need --data.path")


def test_a_baseline_and_a_resumed_run(crawl, runs, tmp_path):
    start = ["train", "links", "--data.path", runs["graph"], *TINY, "--training.max-epochs", "2"]
    assert crawl(*start, "--baseline", "gcn", "--out", "run").code == 0
    assert json.loads((tmp_path / "run/gcn/config.json").read_text())["model"]["layer"] == ["gcn"]
    first = (tmp_path / "run/predictions.csv").read_text()
    (tmp_path / "run/result.json").unlink()
    assert crawl("train", "--resume", "run", "--quiet").code == 0
    assert (tmp_path / "run/predictions.csv").read_text() == first


def test_an_output_never_replaces_the_graph(crawl, runs):
    for name in ("edges.csv", "nodes.csv"):
        path = runs["graph"] / name
        before = path.read_text()
        message = crawl.error("predict", runs["full"], runs["graph"], "--pairs", runs["pairs.csv"], "-o", path)
        assert message == f"The output would replace the input {path}: choose another name."
        assert path.read_text() == before


def test_what_a_recipe_has_on_is_said_or_turned_off(crawl, runs, tmp_path):
    start = ("train", "links", "--data.path", runs["graph"], "--data.batches", "closed", *TINY)
    for flag, is_on in (("--walk.centred", True), ("--walk.no-centred", False)):
        assert crawl(*start, "--training.max-epochs", "1", flag, "--out", flag[7:]).code == 0
        assert json.loads((tmp_path / flag[7:] / "config.json").read_text())["walk"].get("centred", False) is is_on
    text = " ".join(crawl("train", "links", "--help").out.replace("│", " ").split())
    assert "--model.padding, --model.no-padding Pool all positions of walks" in text
    assert "Do not " not in text
