"""From an edge list and labels, by graph.crawl, to predictions and embeddings of nodes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from crawl.cli import main
from tests.cli.test_node_commands import TINY

CLOSED = ("--data.batches", "closed", "--training.batch-size", "8")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `data` with the graph file of a path and labels that features tell, and the run `run` on it."""
    place = tmp_path_factory.mktemp("graph_file_runs")
    (place / "data").mkdir()
    x = np.random.default_rng(0).standard_normal((30, 2)).astype(np.float32)
    np.save(place / "features.npy", x)
    (place / "edges.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(28)))  # node 29 is isolated
    parts = ("train", "train", "val", "test")
    rows = [f"{i},{'high' if x[i, 0] > 0 else 'low'},{parts[i % 4]}" for i in range(24)]
    (place / "data" / "labels.csv").write_text("\n".join(["id,label,split", *rows]) + "\n")
    build = ["graph", "build", str(place / "edges.txt"), "-o", str(place / "data" / "graph.crawl"), "--undirected"]
    assert main([*build, "--features", str(place / "features.npy")]) == 0
    train = ["train", "nodes", "--data.path", str(place / "data"), *CLOSED, *TINY, "--training.max-epochs", "4"]
    assert main([*train, "--out", str(place / "run")]) == 0
    return place


def test_train_and_evaluate(crawl, place):
    config = json.loads((place / "run" / "config.json").read_text())
    assert (config["data"]["batches"], config["walk"]["num_walks"]) == ("closed", 2)
    assert (place / "run" / "predictions.csv").read_text().splitlines()[1].startswith("3,")  # the number of the node
    assert "(6 nodes of data)" in crawl("evaluate", place / "run").out
    before = (place / "run" / "predictions.csv").read_text()
    (place / "run" / "result.json").unlink()
    assert crawl("train", "--resume", place / "run", "--quiet").code == 0
    assert (place / "run" / "predictions.csv").read_text() == before


def test_predict_and_embed_all_nodes_or_some(crawl, place, tmp_path):
    start = (place / "run", place / "data", "--device", "cpu")
    assert crawl("predict", *start, "-o", "all.csv").err.endswith("30 rows → all.csv\n")
    rows = list(csv.DictReader(Path("all.csv").read_text().splitlines()))
    assert list(rows[0])[:4] == ["id", "predicted_label", "probability_high", "probability_low"]
    assert [row["id"] for row in rows] == [str(i) for i in range(30)]
    assert crawl("embed", *start, "-o", "all.npy").code == 0
    (tmp_path / "some.csv").write_text("id,why\n7,a\n29,b\n")
    found = list(csv.DictReader(crawl("predict", *start, "--only", "some.csv", "--memory", "1").out.splitlines()))
    assert [(row["id"], row["why"]) for row in found] == [("7", "a"), ("29", "b")]
    assert [row["probability_high"][:5] for row in found] == [rows[i]["probability_high"][:5] for i in (7, 29)]
    assert crawl("embed", *start, "-o", "some.npy", "--only", "some.csv").code == 0
    np.testing.assert_allclose(np.load("some.npy"), np.load("all.npy")[[7, 29]], atol=1e-5)


def test_mistakes_are_said_in_one_line(crawl, place, tmp_path):
    start = ("train", "nodes", "--data.path", place / "data", *TINY)
    assert "choose batches='closed' (--data.batches closed)." in crawl.error(*start)
    assert crawl.error(*start, *CLOSED, "--data.directed").endswith("leave out directed.")
    apply = ("predict", place / "run", place / "data")
    (tmp_path / "wrong.csv").write_text("id\n30\n")
    assert crawl.error(*apply, "--only", "wrong.csv").startswith(
        "wrong.csv, line 2: its id is '30', which is not a node"
    )
    assert "would replace the input wrong.csv" in crawl.error(*apply, "--only", "wrong.csv", "-o", "wrong.csv")
    assert "leave it out" in crawl.error("predict", place / "run", tmp_path, "--only", "wrong.csv")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "graph.crawl").write_bytes((place / "data" / "graph.crawl").read_bytes()[:-8])
    assert "was damaged" in crawl.error("predict", place / "run", damaged)
    narrow = tmp_path / "narrow"
    narrow.mkdir()
    assert crawl("graph", "build", place / "edges.txt", "-o", narrow / "graph.crawl", "--undirected").code == 0
    assert "x has 0 columns here, but had 2 in training" in crawl.error("predict", place / "run", narrow)


def test_categories_that_training_did_not_have(crawl, place, tmp_path):
    for name, most in (("known", 3), ("other", 4)):
        (tmp_path / name).mkdir()
        np.save("codes.npy", np.arange(30).reshape(30, 1) % most)
        build = ("graph", "build", place / "edges.txt", "-o", f"{name}/graph.crawl", "--undirected")
        assert crawl(*build, "--features", "codes.npy").code == 0
    (tmp_path / "known" / "labels.csv").write_text((place / "data" / "labels.csv").read_text())
    few = (*CLOSED, *TINY, "--training.max-epochs", "1")
    assert crawl("train", "nodes", "--data.path", "known", *few, "--out", "run").code == 0
    assert "3 in x[:, 0] (7 nodes)" in crawl("predict", "run", "other", "--device", "cpu").err
    assert crawl.error("predict", "run", "other", "--unknown", "error").startswith("Categories in other were not there")


def test_other_models_are_refused(crawl, place, tmp_path):
    from tests.cli.test_node_commands import write

    tables = write(tmp_path / "tables")
    few = (*TINY, "--training.max-epochs", "1")
    for name, flags in (("full", ()), ("closed", CLOSED)):
        assert crawl("train", "nodes", "--data.path", tables, *flags, *few, "--out", name).code == 0
    assert "was trained with batches of the full graph" in crawl.error("predict", "full", place / "data")
    assert "was trained with features of nodes.csv" in crawl.error("predict", "closed", place / "data")


@pytest.mark.parametrize("name", ["graph.crawl", "labels.csv"])
def test_an_output_never_replaces_the_graph_or_its_labels(crawl, place, name):
    path = place / "data" / name
    before = path.read_bytes()
    assert f"would replace the input {path}" in crawl.error("predict", place / "run", place / "data", "-o", path)
    assert path.read_bytes() == before


def test_a_graph_with_weights_is_not_one_without(crawl, place, tmp_path):
    weighted = tmp_path / "weighted"
    weighted.mkdir()
    (weighted / "labels.csv").write_text((place / "data" / "labels.csv").read_text())
    (tmp_path / "edges.txt").write_text("".join(f"{i} {i + 1} {1 + i % 3}\n" for i in range(28)))
    build = ("graph", "build", tmp_path / "edges.txt", "-o", weighted / "graph.crawl", "--undirected", "--weighted")
    assert crawl(*build, "--features", place / "features.npy").code == 0
    train = ("train", "nodes", "--data.path", weighted, *CLOSED, *TINY, "--training.max-epochs", "1")
    remark = "centred non-backtracking walks need not have the law of a long walk"
    done = crawl(*train, "--out", "run")
    assert (done.code, done.err.count(remark)) == (0, 1)
    assert remark not in crawl(*train, "--walk.strategy", "uniform", "--out", "uniform").err
    assert "have no weights, and those of the training had some" in crawl.error("predict", "run", place / "data")
    wrong = crawl.error("embed", place / "run", weighted, "-o", "wrong.npy")
    assert "have weights, and those of the training had none" in wrong
    assert not Path("wrong.npy").exists()
    assert "weights of the edges have changed" in crawl.error("evaluate", "run", "--data", place / "data")
    walk = ("walk", weighted / "graph.crawl", "-o", "walks.npz", "--num-steps", "4", "--centred")
    assert crawl(*walk).err.count(remark) == 1
    assert remark not in crawl(*walk, "--strategy", "uniform").err
