from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crawl.cli import predict as predict_module
from crawl.cli.predict import added_columns
from crawl.data import Task, from_tu
from crawl.runs import TrainedModel
from crawl.training.checkpoint import load_checkpoint, save_checkpoint

# the tests train on a few graphs, of which a class or a score may be missing in a part
pytestmark = [
    pytest.mark.filterwarnings("ignore:Class"),
    pytest.mark.filterwarnings("ignore:The (val|test) part has no score"),
]


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_numbers_with_spread_in_the_order_of_the_file(crawl, molecule_runs, molecules):
    done = crawl("predict", molecule_runs["logS"], molecules, "-o", "out.csv")
    assert done.code == 0
    assert done.out == ""
    assert done.err == "12 rows, 1 without a prediction (see the column reason) → out.csv\n"
    given, rows = _rows(molecules.read_text()), _rows(Path("out.csv").read_text())
    assert list(rows[0]) == [*given[0], "predicted_logS", "walk_spread_logS", "far", "reason"]
    assert [{name: row[name] for name in given[0]} for row in rows] == given
    for row in rows:
        if row["id"] == "4":
            assert (row["predicted_logS"], row["walk_spread_logS"]) == ("", "")
            assert "nonsense" in row["reason"]
        else:
            float(row["predicted_logS"]), float(row["walk_spread_logS"])
            assert row["reason"] == ""


def test_numbers_have_as_many_digits_as_their_targets_need(crawl, tiny):
    pytest.importorskip("rdkit")
    lines = [f"{'C' * (i + 1)},{10**9 + i}" for i in range(20)]
    Path("a.csv").write_text("\n".join(["smiles,y", *lines]))
    done = crawl("train", "csv", "--data.path", "a.csv", "--out", "run", *tiny)
    assert done.code == 0, done.err
    written = _rows(Path("run/predictions.csv").read_text())
    targets = {line.split(",")[0]: float(line.split(",")[1]) for line in lines}
    assert [float(row["target"]) for row in written] == [targets[row["id"]] for row in written]
    rows = _rows(crawl("predict", "run", "a.csv").out)
    predicted = [float(row["predicted_y"]) for row in rows]
    assert len(set(predicted)) > 10
    assert all(10**9 - 100 < value < 10**9 + 100 for value in predicted)


def test_classes_with_probabilities(crawl, molecule_runs, molecules):
    for row in _rows(crawl("predict", molecule_runs["active"], molecules).out):
        if not row["reason"]:
            assert row["predicted_active"] == str(int(float(row["probability_1"]) > 0.5))
            assert float(row["probability_0"]) + float(row["probability_1"]) == pytest.approx(1, abs=1e-5)
            assert float(row["walk_spread_0"]) == pytest.approx(float(row["walk_spread_1"]), abs=1e-5)
    for row in _rows(crawl("predict", molecule_runs["kind"], molecules).out):
        if not row["reason"]:
            probability = {name: float(row[f"probability_{name}"]) for name in "abc"}
            assert sum(probability.values()) == pytest.approx(1, abs=1e-5)
            assert row["predicted_kind"] == max(probability, key=lambda name: probability[name])
            assert all(float(row[f"walk_spread_{name}"]) >= 0 for name in "abc")


def _numbers(text: str) -> list[float]:
    return [float(row["predicted_logS"]) for row in _rows(text) if not row["reason"]]


def test_a_prediction_depends_neither_on_the_pieces_nor_on_the_rest_of_the_file(
    crawl, molecule_runs, molecules, tmp_path, monkeypatch
):
    run = molecule_runs["logS"]
    whole = _numbers(crawl("predict", run, molecules).out)
    monkeypatch.setattr(predict_module, "ROWS_AT_A_TIME", 5)
    assert _numbers(crawl("predict", run, molecules, "--batch-size", "2").out) == pytest.approx(whole, abs=1e-4)
    header, *lines = molecules.read_text().splitlines()
    (tmp_path / "few.csv").write_text("\n".join([header, *lines[-2:]]))
    assert _numbers(crawl("predict", run, "few.csv").out) == pytest.approx(whole[-2:], abs=1e-4)


def test_the_file_is_read_piece_by_piece(crawl, molecule_runs, tmp_path, monkeypatch):
    """When the first piece is written, no more than the next piece of the input has been read."""
    num_rows, sizes = 40, []
    (tmp_path / "long.csv").write_text("smiles\n" + "CC\n" * num_rows)
    monkeypatch.setattr(predict_module, "ROWS_AT_A_TIME", 10)
    answers = predict_module.Predict.answers

    def watched(self, trained, rows, *others):
        sizes.append(len(rows))
        return answers(self, trained, rows, *others)

    monkeypatch.setattr(predict_module.Predict, "answers", watched)
    assert crawl("predict", molecule_runs["logS"], "long.csv", "-o", "out.csv").code == 0
    assert sizes == [10, 10, 10, 10]
    assert len(_rows(Path("out.csv").read_text())) == num_rows


def test_molecules_without_bonds(crawl, molecule_runs, tmp_path):
    (tmp_path / "atoms.csv").write_text("smiles\nC\nN\n")
    assert len(_numbers(crawl("predict", molecule_runs["logS"], "atoms.csv").out)) == 2


def test_compressed_input_and_a_named_column(crawl, molecule_runs, tmp_path):
    (tmp_path / "more.csv.gz").write_bytes(gzip.compress(b"structure,note\nCCO,\xc3\xa4\n"))
    rows = _rows(crawl("predict", molecule_runs["logS"], "more.csv.gz", "--smiles", "structure").out)
    assert rows[0]["note"] == "ä"
    assert rows[0]["predicted_logS"]


def test_a_file_without_a_good_row(crawl, molecule_runs, tmp_path):
    (tmp_path / "bad.csv").write_text("smiles\nxyz\n")
    done = crawl("predict", molecule_runs["logS"], "bad.csv")
    (row,) = _rows(done.out)
    assert row["predicted_logS"] == ""
    assert done.code == 2
    assert "No row of bad.csv has a prediction. The first of 1 has none because: 'xyz'" in done.err
    (tmp_path / "none.csv").write_text("smiles\n")
    assert (
        crawl("predict", molecule_runs["logS"], "none.csv").out == "smiles,predicted_logS,walk_spread_logS,far,reason\n"
    )


def test_a_failure_leaves_the_old_output(crawl, molecule_runs, molecules, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    Path("out.csv").write_text("old")
    monkeypatch.setattr(predict_module, "added_cells", fails)
    assert "No space left" in crawl.error("predict", molecule_runs["logS"], molecules, "-o", "out.csv")
    assert Path("out.csv").read_text() == "old"
    assert not list(Path().glob(".out*"))


def test_bad_input(crawl, molecule_runs, csl_run, molecules, tmp_path):
    run = molecule_runs["logS"]
    assert "There is no file or folder missing.csv" in crawl.error("predict", run, "missing.csv")
    assert "not the folder of a run" in crawl.error("predict", tmp_path, molecules)
    assert "would replace the input" in crawl.error("predict", run, molecules, "-o", molecules)
    assert "--num-repeats must be a whole number from 1" in crawl.error("predict", run, molecules, "--num-repeats", "0")
    assert "not trained on molecules" in crawl.error("predict", csl_run, molecules)
    assert "no column 'smile'. Did you mean 'SMILES'?" in crawl.error("predict", run, molecules, "--smiles", "smile")
    (tmp_path / "empty.csv").write_text("")
    assert "empty" in crawl.error("predict", run, "empty.csv")
    (tmp_path / "again.csv").write_text("smiles,predicted_logS\nC,1\n")
    assert "has a column 'predicted_logS' already" in crawl.error("predict", run, "again.csv")


def test_names_of_columns():
    labels = Task(kind="multilabel", num_outputs=2, target_names=("x", "y"))
    assert added_columns(labels) == ["probability_x", "probability_y", "walk_spread_x", "walk_spread_y", "reason"]
    nameless = Task(kind="multiclass", num_outputs=2)
    assert added_columns(nameless)[:3] == ["predicted_target", "probability_0", "probability_1"]
    assert added_columns(Task(kind="binary", num_outputs=1)) == [
        "predicted_target", "probability_0", "probability_1", "walk_spread_0", "walk_spread_1", "reason",
    ]  # fmt: skip


def _write_tu(folder: Path, *, node_labels: str = "", has_targets: bool = True) -> Path:
    """Two triangles and two paths of three nodes."""
    folder.mkdir()
    edges = [(3 * g + a, 3 * g + b) for g in range(4) for a, b in ((1, 2), (2, 3), (1, 3))[: 3 - g % 2]]
    (folder / "toy_A.txt").write_text("".join(f"{a}, {b}\n" for a, b in edges))
    (folder / "toy_graph_indicator.txt").write_text("".join(f"{g + 1}\n" * 3 for g in range(4)))
    if has_targets:
        (folder / "toy_graph_labels.txt").write_text("1\n2\n1\n2\n")
    if node_labels:
        (folder / "toy_node_labels.txt").write_text("\n".join(node_labels))
    return folder


def test_a_folder_of_graphs(crawl, csl_run, tmp_path):
    done = crawl("predict", csl_run, _write_tu(tmp_path / "toy"))
    rows = _rows(done.out)
    assert [row["graph"] for row in rows] == ["0", "1", "2", "3"]
    assert all(row["predicted_skip"] and row["reason"] == "" for row in rows)
    assert crawl("embed", csl_run, tmp_path / "toy", "-o", "e.npy").code == 0
    assert np.isfinite(np.load("e.npy")).all(axis=1).tolist() == [True] * 4


def test_a_folder_of_json_files_lists_them_by_name(crawl, csl_run, tmp_path):
    for name, edges in (("path", [(0, 1)]), ("triangle", [(0, 1), (1, 2), (2, 0)])):
        links = [{"source": a, "target": b} for a, b in edges]
        nodes = [{"id": i} for i in range(3)]
        graph = {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "edges": links}
        (tmp_path / f"{name}.json").write_text(json.dumps(graph))
    (tmp_path / "labels.csv").write_text("file,size\npath.json,1.5\ntriangle.json,2.5\n")
    rows = _rows(crawl("predict", csl_run, tmp_path).out)
    assert [row["graph"] for row in rows] == ["path.json", "triangle.json"]
    assert crawl("embed", csl_run, tmp_path, "-o", "e.npy").code == 0
    assert np.isfinite(np.load("e.npy")).all(axis=1).tolist() == [True] * 2


def test_a_folder_with_other_features_is_refused(crawl, csl_run, tmp_path):
    error = crawl.error("predict", csl_run, _write_tu(tmp_path / "toy", node_labels="010101010101"))
    assert "There are other features than in training: the node attributes are 'node_labels' and were none" in error


@pytest.fixture
def labelled_run(crawl, tiny, tmp_path) -> Path:
    """A run on nodes with the labels 3, 7 and 9."""
    toy = _write_tu(tmp_path / "toy", node_labels="379379379379")
    data = ["--data.path", toy, "--data.split", "random", "--data.fractions", "0.5", "0.25", "0.25"]
    assert crawl("train", "tu", *data, "--out", "run", *tiny).code == 0
    return tmp_path / "run"


def test_another_folder_is_numbered_as_in_training(crawl, labelled_run, tmp_path):
    """Not by the labels that occur there: without the 3, the 7 would become the first category."""
    whole = _rows(crawl("predict", labelled_run, tmp_path / "toy").out)
    other = _write_tu(tmp_path / "other", node_labels="777379379379", has_targets=False)
    found = _rows(crawl("predict", labelled_run, other).out)
    assert len(found) == 4
    assert found[1:] == whole[1:]
    assert found[0] != whole[0]
    fewer = _write_tu(tmp_path / "fewer", node_labels="779797979797", has_targets=False)
    trained = TrainedModel.load(labelled_run, device="cpu")
    x = torch.tensor([[" 379".index(label) - 1] for label in "779797979797"])
    expected = trained.predict(replace(from_tu(tmp_path / "toy").store, x=x)).mean[:, 0]
    numbers = [float(row["probability_2"]) for row in _rows(crawl("predict", labelled_run, fewer).out)]
    assert numbers == pytest.approx(expected, abs=1e-5)


def test_unknown_labels_are_told_once(crawl, labelled_run, tmp_path, monkeypatch):
    monkeypatch.setattr(predict_module, "ROWS_AT_A_TIME", 1)
    other = _write_tu(tmp_path / "other", node_labels="378378379379", has_targets=False)
    done = crawl("predict", labelled_run, other, "-o", "out.csv")
    message = "Categories that were not there in training are encoded as zeros: 8 in node_labels (2 nodes)."
    assert (done.code, done.err.splitlines()) == (
        0,
        [message, "4 rows, 2 far from the training data (see the column far) → out.csv"],
    )
    rows = _rows(Path("out.csv").read_text())
    assert all(row["predicted_label"] and row["reason"] == "" for row in rows)
    whole = _rows(crawl("predict", labelled_run, tmp_path / "toy").out)
    assert [row == expected for row, expected in zip(rows, whole, strict=True)] == [False, False, True, True]


def test_unknown_labels_are_an_error_on_request(crawl, labelled_run, tmp_path):
    other = _write_tu(tmp_path / "other", node_labels="378378379379")
    error = crawl.error("predict", labelled_run, other, "--unknown", "error", "-o", "out.csv")
    assert error == f"Categories in {other} were not there in training: 8 in node_labels (2 nodes)."
    assert not Path("out.csv").exists()
    assert crawl.error("predict", labelled_run, other, "--unknown", "error") == error  # and no header
    assert crawl("predict", labelled_run, tmp_path / "toy", "--unknown", "error").code == 0


def test_what_a_model_cannot_do_is_said_before_the_header(crawl, tmp_path):
    _write_tu(tmp_path / "toy")
    words = ["--model.layer", "gin", "--model.hidden-channels", "8", "--training.max-epochs", "1", "--out", "gin"]
    words += ["--data.split", "random"]
    assert crawl("train", "tu", "--data.path", tmp_path / "toy", *words).code == 0
    assert "does not walk" in crawl.error("predict", "gin", tmp_path / "toy", "--num-steps", "5")


def test_a_run_of_an_older_version_knows_its_own_folder_only(crawl, labelled_run, tmp_path):
    new = crawl("predict", labelled_run, tmp_path / "toy").out
    tensors, description = load_checkpoint(labelled_run / "best.safetensors")
    del description["features"]["columns"]
    save_checkpoint(labelled_run / "best.safetensors", tensors, description)
    assert crawl("predict", labelled_run, tmp_path / "toy").out == new
    other = _write_tu(tmp_path / "other", node_labels="379379379379")
    assert "may mean something else" in crawl.error("predict", labelled_run, other)


def _write_json(path: Path, elements: list[str], **attributes: object) -> None:
    """A path of nodes with these elements."""
    nodes = [{"id": i, "element": element, **attributes} for i, element in enumerate(elements)]
    links = [{"source": i, "target": i + 1, "length": 1.5} for i in range(len(elements) - 1)]
    graph = {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "edges": links}
    path.write_text(json.dumps(graph))


def test_a_new_folder_of_json_files(crawl, tiny, tmp_path):
    (train := tmp_path / "train").mkdir()
    rows = [f"g{i}.json,{i}.5" for i in range(10)]
    (train / "labels.csv").write_text("\n".join(["file,size", *rows]))
    for i in range(10):
        _write_json(train / f"g{i}.json", ["C", "N", "O", "C"][: 2 + i % 3])
    assert crawl("train", "folder", "--data.path", train, "--out", "run", *tiny).code == 0
    whole = {row["graph"]: row for row in _rows(crawl("predict", "run", train).out)}
    (new := tmp_path / "new").mkdir()
    _write_json(new / "a.json", ["C", "N", "O"])  # as g1
    _write_json(new / "b.json", ["Xe", "N"])
    _write_json(new / "c.json", ["C", "N"], mass=1.5)
    _write_json(new / "d.json", ["O"])
    (new / "e.json").write_text("[")
    done = crawl("predict", "run", new)
    a, b, c, d, e = _rows(done.out)
    assert a | {"graph": "g1.json"} == whole["g1.json"]
    assert b["predicted_size"] != ""
    assert d["predicted_size"] != ""
    assert (c["predicted_size"], e["predicted_size"]) == ("", "")
    assert c["reason"].startswith(
        "There are other features than in training: the node attributes are 'element', 'mass'"
    )
    assert "is not a graph" in e["reason"]
    assert "encoded as zeros: 'Xe' in element (1 node)." in done.err
    (other := tmp_path / "other").mkdir()
    for name in "ab":
        _write_json(other / f"{name}.json", ["C", "N"], mass=1.5)
    error = crawl.error("predict", "run", other, "-o", "out.csv")
    assert error.startswith(
        f"No row of {other} has a prediction. The first of 2 has none because: There are other feat"
    )
    assert not Path("out.csv").exists()
    (nothing := tmp_path / "nothing").mkdir()
    assert "holds no graphs" in crawl.error("predict", "run", nothing)


def test_atoms_that_were_not_there_in_training(crawl, molecule_runs, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("smiles\nCCO\nC[Se]C\n")
    done = crawl("predict", molecule_runs["logS"], new, "-o", tmp_path / "out.csv")
    assert done.code == 0
    assert "not there in training are encoded as zeros: 34 in atomic number (1 node)" in done.err
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3
    error = crawl.error("predict", molecule_runs["logS"], new, "-o", tmp_path / "other.csv", "--unknown", "error")
    assert "were not there in training: 34 in atomic number (1 node)" in error
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize("flag", ["--num-repeats", "--num-steps", "--seed"])
def test_a_network_without_walks_takes_no_flags_about_walks(crawl, tiny, molecules, flag):
    pytest.importorskip("rdkit")
    walks = tiny.index("--walk.num-steps")
    flags = [*tiny[:walks], *tiny[walks + 8 :]]  # without numbers of evaluations, either
    data = ["--data.path", molecules, "--data.targets", "logS"]
    done = crawl("train", "csv", *data, "--model.layer", "gin", "--out", "run", *flags)
    assert done.code == 0, done.err
    error = f"gin does not walk, so {flag} cannot change anything: leave it out."
    assert crawl.error("predict", "run", molecules, flag, "9") == error
    assert crawl.error("evaluate", "run", flag, "9") == error


def test_a_folder_has_no_smiles_column(crawl, csl_run, tmp_path):
    toy = _write_tu(tmp_path / "toy")
    assert "has no SMILES column: leave out --smiles" in crawl.error("predict", csl_run, toy, "--smiles", "foo")


def test_encodings_are_computed_for_new_molecules_as_in_training(crawl, tiny, molecules):
    pytest.importorskip("rdkit")
    flags = ["--encodings.return-steps", "6", "--encodings.walk-steps", "4", "--encodings.longest-cycle", "6"]
    words = ["--data.path", molecules, "--data.targets", "logS", "--out", "run", *tiny, *flags]
    assert crawl("train", "csv", *words).code == 0
    config = json.loads(Path("run/config.json").read_text())
    assert config["encodings"] == {"return_steps": 6, "walk_steps": 4, "longest_cycle": 6}
    Path("new.csv").write_text("smiles\nC1CCCCC1\nc1ccc2ccccc2c1\nCC\nC\n")
    assert crawl("predict", "run", "new.csv", "-o", "out.csv").code == 0
    rows = _rows(Path("out.csv").read_text())
    assert all(row["reason"] == "" for row in rows)
    Path("one.csv").write_text("smiles\nc1ccc2ccccc2c1\n")
    assert crawl("predict", "run", "one.csv", "-o", "out.csv").code == 0
    alone = float(_rows(Path("out.csv").read_text())[0]["predicted_logS"])
    assert alone == pytest.approx(float(rows[1]["predicted_logS"]), rel=1e-4)
    assert "return probabilities of 6 steps" in crawl("info", "run").out


def test_wrong_encodings_are_one_line(crawl, tiny):
    line = crawl.error("train", "csl", "--encodings.longest-cycle", "2", *tiny)
    assert "encodings.longest_cycle" in line
    line = crawl.error("train", "csl", "--model.layer", "gcn", "--encodings.walk-steps", "3", "--device", "cpu")
    assert line.endswith("--encodings.walk-steps 3: leave it out.")
