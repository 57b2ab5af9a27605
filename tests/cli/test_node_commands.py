"""From a folder with nodes.csv and edges.csv to predictions and embeddings of nodes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from crawl.cli import main

TINY = [
    *("--model.hidden-channels", "8", "--model.num-layers", "1"),
    *("--walk.num-steps", "10", "--walk.num-eval-steps", "10"),
    *("--evaluation.num-test-repeats", "2", "--training.max-epochs", "10", "--device", "cpu", "--quiet"),
]


def write(folder: Path, num_nodes: int = 30, **changes: str) -> Path:
    """A path whose nodes have the class that their colour says; the last node is isolated."""
    folder.mkdir(exist_ok=True)
    parts = ("train", "train", "val", "test")
    colours = ("red", "blue", "blue")
    rows = [["id", "colour", "label", "split"]]
    rows += [[f"n{i}", colours[i % 3], colours[i % 3], parts[i % 4]] for i in range(num_nodes)]
    rows[6][2] = rows[6][3] = ""  # n5 has no label
    with open(folder / "nodes.csv", "w", newline="") as file:
        csv.writer(file).writerows([[changes.get(cell, cell) for cell in row] for row in rows])
    edges = [["source", "target"], *([f"n{i}", f"n{i + 1}"] for i in range(num_nodes - 2))]
    with open(folder / "edges.csv", "w", newline="") as file:
        csv.writer(file).writerows(edges)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run with batches of the full graph, and one with closed ones."""
    place = tmp_path_factory.mktemp("node_runs")
    data = str(write(place / "graph"))
    closed = ("--data.batches", "closed", "--training.batch-size", "8")
    for name, flags in (("full", ()), ("closed", closed)):
        out = str(place / name)
        assert (
            main(["train", "nodes", "--data.path", data, "--data.metric", "accuracy", *flags, *TINY, "--out", out]) == 0
        )
    return {name: place / name for name in ("graph", "full", "closed")}


@pytest.mark.parametrize("name", ["full", "closed"])
def test_train_evaluate_info(crawl, runs, name):
    config = json.loads((runs[name] / "config.json").read_text())
    assert config["data"]["batches"] == name
    assert config["walk"].get("num_walks", 1) == (2 if name == "closed" else 1)
    done = crawl("evaluate", runs[name])
    assert done.code == 0
    assert "(7 nodes of graph)" in done.out
    facts = crawl("info", runs[name]).out
    assert "binary per node, scored by accuracy" in facts
    assert (runs[name] / "predictions.csv").read_text().splitlines()[1].startswith("n3,red,")


@pytest.mark.parametrize("name", ["full", "closed"])
def test_predict_nodes_of_another_graph(crawl, runs, name, tmp_path):
    other = write(tmp_path / "other", 9)
    done = crawl("predict", runs[name], other, "-o", "out.csv", "--device", "cpu")
    assert done.err.endswith("9 rows → out.csv\n")
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    expected = ["id", "colour", "label", "split", "predicted_label", "probability_blue", "probability_red"]
    assert list(rows[0])[:7] == expected
    assert [row["id"] for row in rows] == [f"n{i}" for i in range(9)]
    assert float(rows[8]["probability_red"]) == pytest.approx(1 - float(rows[8]["probability_blue"]), abs=1e-5)
    assert float(rows[8]["walk_spread_red"]) == 0  # no walk starts at an isolated node
    bounded = crawl("predict", runs[name], other, "--memory", "1", "--device", "cpu").out
    assert [row["predicted_label"] for row in csv.DictReader(bounded.splitlines())] == [
        row["predicted_label"] for row in rows
    ]
    write(other, 9, red="green")
    assert "'green' in colour (3 nodes)" in crawl("predict", runs[name], other, "--device", "cpu").err
    assert crawl.error("predict", runs[name], other, "--unknown", "error").startswith(f"Categories in {other} were not")


@pytest.mark.parametrize("name", ["full", "closed"])
def test_embed_nodes(crawl, runs, name, tmp_path):
    other = write(tmp_path / "other", 9)
    assert crawl("embed", runs[name], other, "-o", "e.npy", "--device", "cpu").code == 0
    found = np.load("e.npy")
    assert (found.shape, found.dtype) == ((9, 8), np.float32)
    assert np.isfinite(found).all()
    assert crawl.error("embed", runs[name], other, "-o", "e.csv").startswith(
        "Embeddings are written as an array of num"
    )


def test_embed_graphs(crawl, molecule_runs, molecules):
    assert crawl("embed", molecule_runs["logS"], molecules, "-o", "e.npy", "--device", "cpu").code == 0
    found = np.load("e.npy")
    assert found.shape == (12, 8)
    assert np.isnan(found).all(axis=1).nonzero()[0].tolist() == [3]  # which is not a molecule
    message = crawl.error("embed", molecule_runs["logS"], molecules, "-o", "e.npy", "--memory", "1")
    assert message == "memory_gb=1.0 chooses the targets in a batch: leave it out; for a set of graphs, use batch_size."


def test_a_setting_without_effect_is_refused(crawl, runs):
    start = ("train", "nodes", "--data.path", runs["graph"], *TINY)
    remedy = "leave it out, or choose --data.batches closed."
    for flag in ("--training.batch-size", "--evaluation.batch-size", "--training.accumulate"):
        message = crawl.error(*start, flag, "7")
        assert message == f"A batch of the full graph, which has all targets, cannot be changed by {flag}: {remedy}"
    for flag in ("--walk.start-share", "--walk.eval-start-share"):
        message = crawl.error(*start, "--data.batches", "closed", flag, "0.5")
        what, remedy = "A closed batch, whose walks start at its targets,", "choose --data.batches full."
        assert message == f"{what} cannot be changed by {flag}: leave it out, or {remedy}"
    message = crawl.error(*start, "--data.batches", "closed", "--model.layer", "gcn")
    assert message == "Closed batches are walks, and gcn does not walk: use data.batches='full'."
    message = crawl.error(*start, "--data.batches", "closed", "--baseline", "gcn")
    assert message == "Closed batches are walks, and gcn does not walk: leave out --baseline."
    message = crawl.error("predict", runs["full"], runs["graph"], "--batch-size", "3")
    assert message == "A batch of the full graph has all targets, so batch_size=3 cannot change anything: leave it out."


def test_too_little_memory_is_refused_with_the_remedy(crawl, runs):
    message = crawl.error("predict", runs["full"], runs["graph"], "--memory", "1e-6")
    assert "train with batches='closed' (--data.batches closed)" in message
    assert crawl.error("predict", runs["closed"], runs["graph"], "--memory", "1e-6").startswith(
        "One target takes about"
    )
    assert (
        crawl.error("predict", runs["closed"], runs["graph"], "--memory", "0") == "--memory must be more than 0, not 0."
    )


def test_a_stopped_run_resumes(crawl, runs, tmp_path):
    start = ["train", "nodes", "--data.path", str(runs["graph"]), *TINY, "--training.max-epochs", "4", "--out", "run"]
    assert crawl(*start).code == 0
    first = (tmp_path / "run" / "predictions.csv").read_text()
    (tmp_path / "run" / "result.json").unlink()
    assert crawl("train", "--resume", "run", "--quiet").code == 0
    assert (tmp_path / "run" / "predictions.csv").read_text() == first
    write(runs["graph"].parent / "changed", 31)
    message = crawl.error("evaluate", "run", "--data", runs["graph"].parent / "changed")
    assert message.startswith("The data have changed since the model was trained")


def test_other_input_is_refused(crawl, runs, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "nodes.csv: a graph is a folder with nodes.csv and edges.csv" in crawl.error(
        "predict", runs["full"], tmp_path / "empty"
    )
    assert "is not a folder" in crawl.error("predict", runs["full"], runs["graph"] / "nodes.csv")


def test_a_baseline_beside_it(crawl, runs):
    done = crawl("train", "nodes", "--data.path", runs["graph"], *TINY, "--baseline", "gcn", "--out", "both")
    assert done.code == 0
    assert "GCN (message passing)" in done.out


def test_explain_nodes(crawl, runs):
    words = ("explain", runs["full"], runs["graph"], "-o", "page.html", "--num-repeats", "1", "--num-points", "2")
    done = crawl(*words, "--ids", "n3", "n7", "--json", "a.json")
    assert done.code == 0, done.err
    rows = json.loads(Path("a.json").read_text())["rows"]
    assert [(row["name"], row["node"]) for row in rows] == [("node n3", 3), ("node n7", 7)]
    predicted = crawl("predict", runs["full"], runs["graph"], "--num-repeats", "1").out
    shares = {row["id"]: float(row["probability_red"]) for row in csv.DictReader(predicted.splitlines())}
    assert rows[0]["target"] == "logit of red"
    assert [row["probability"] for row in rows] == pytest.approx([shares["n3"], shares["n7"]], abs=1e-5)
    assert "by --ids" in crawl.error(*words)
    assert "has no node with the id 'n99'" in crawl.error(*words, "--ids", "n99")
    assert "leave out --rows" in crawl.error(*words, "--ids", "n3", "--rows", "1")
    closed = crawl.error("explain", runs["closed"], runs["graph"], "-o", "page.html", "--ids", "n3")
    assert "closed batches" in closed


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
def test_an_output_never_replaces_a_file_that_is_read(crawl, runs, name, tmp_path):
    """Not by its name, nor by a link to it; other files in the folder may be replaced."""
    other = write(tmp_path / "other", 9)
    link = tmp_path / "link.npy"
    link.symlink_to(other / name)
    before = (other / name).read_text()
    for command, output in (("predict", other / name), ("predict", link), ("embed", link)):
        message = crawl.error(command, runs["full"], other, "-o", output)
        assert message == f"The output would replace the input {other / name}: choose another name."
    message = crawl.error("explain", runs["full"], other, "--ids", "n1", "-o", "a.html", "--json", other / name)
    assert "would replace the input" in message
    assert (other / name).read_text() == before
    for _ in range(2):
        assert crawl("predict", runs["full"], other, "-o", other / "out.csv", "--device", "cpu").code == 0


@pytest.mark.parametrize("name", ["config.json", "best.safetensors"])
def test_an_output_never_replaces_the_model(crawl, runs, name):
    path = runs["full"] / name
    before = path.read_bytes()
    message = crawl.error("predict", runs["full"], runs["graph"], "-o", path)
    assert message == f"The output would replace the input {path}: choose another name."
    assert path.read_bytes() == before


@pytest.mark.parametrize("flags", [("--interval", "0.9"), ("--calibrated",)])
def test_there_is_no_calibration_for_nodes(crawl, runs, flags):
    message = crawl.error("predict", runs["full"], runs["graph"], *flags)
    assert message == f"{runs['full']} predicts nodes, for which there is no {flags[0]}: leave it out."


def test_help_says_what_a_setting_is_of_one_graph(crawl):
    text = " ".join(crawl("train", "nodes", "--help").out.replace("│", " ").split())
    assert "The column split of the table if there is one (auto), another column" in text
    assert "scaffold or files (molecules)" not in text
