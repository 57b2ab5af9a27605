"""The columns of `crawl predict` that say how far to trust it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from crawl.cli import main
from crawl.cli.predict import added_columns
from crawl.data import Task
from crawl.runs import TrainedModel

pytest.importorskip("rdkit")


@pytest.fixture(scope="module")
def uncertain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of alcohols and amines, and a run for numbers and one for classes."""
    from tests.cli.conftest import TINY

    folder = tmp_path_factory.mktemp("uncertain")
    lines = ["smiles,logS,kind,weight"]
    for i in range(30):
        lines += [f"{'C' * (i + 1)}O,{i}.5,alcohol,1", f"{'C' * (i + 1)}N,{-i}.5,amine,{i % 3}"]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    shared = ["--data.path", str(folder / "a.csv"), "--data.fractions", "0.4", "0.4", "0.2", "--quiet", *TINY]
    numbers = ["--data.targets", "logS", "--data.weight", "weight", "--training.loss", "beta_nll"]
    classes = ["--data.targets", "kind", "--training.class-weights", "balanced", "--data.metric", "accuracy"]
    assert main(["train", "csv", *numbers, "--out", str(folder / "logS"), *shared]) == 0
    assert main(["train", "csv", *classes, "--out", str(folder / "kind"), *shared]) == 0
    return folder


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_intervals_noise_and_distance(crawl, uncertain):
    Path("new.csv").write_text("smiles\nCCO\n[Og]\nnonsense\nCCCCN\n")
    done = crawl("predict", uncertain / "logS", "new.csv", "--interval", "0.9", "-o", "out.csv")
    assert done.code == 0, done.err
    assert "4 rows, 1 without a prediction (see the column reason), " in done.err
    assert "far from the training data (see the column far) → out.csv" in done.err
    rows = rows_of(Path("out.csv").read_text())
    assert list(rows[0]) == [
        *("smiles", "predicted_logS", "walk_spread_logS", "noise_logS", "lower_logS", "upper_logS"),
        *("domain_percentile", "far", "reason"),
    ]
    assert rows[1]["far"] == "1"  # an element that was not there in training
    assert set(rows[2].values()) - {"nonsense", rows[2]["reason"]} == {""}
    for row in (rows[0], rows[1], rows[3]):
        assert float(row["lower_logS"]) < float(row["predicted_logS"]) < float(row["upper_logS"])
        assert float(row["noise_logS"]) > 0
        assert 0 <= float(row["domain_percentile"]) <= 100


def test_sets_and_calibrated_probabilities(crawl, uncertain):
    Path("new.csv").write_text("smiles\nCCO\nCCCCN\n")
    plain = rows_of(crawl("predict", uncertain / "kind", "new.csv").out)
    assert "set_kind" not in plain[0]
    assert "noise_alcohol" not in plain[0]
    rows = rows_of(crawl("predict", uncertain / "kind", "new.csv", "--interval", "0.8", "--calibrated").out)
    assert list(rows[0])[-4:] == ["set_kind", "domain_percentile", "far", "reason"]
    temperature = json.loads((uncertain / "kind" / "calibration.json").read_text())["temperatures"][0]
    for before, after in zip(plain, rows, strict=True):
        assert set(json.loads(after["set_kind"])) <= {"alcohol", "amine"}
        assert before["predicted_kind"] == after["predicted_kind"]
        probability = float(after["probability_amine"])
        assert probability + float(after["probability_alcohol"]) == pytest.approx(1, abs=1e-5)
        if temperature != 1:
            assert after["probability_amine"] != before["probability_amine"]


def test_what_cannot_be_is_refused(crawl, uncertain, molecule_runs, molecules):
    run = uncertain / "logS"
    Path("new.csv").write_text("smiles\nCCO\n")
    assert "confidence must be between 0 and 1" in crawl.error("predict", run, "new.csv", "--interval", "90")
    assert "needs more validation rows than 24" in crawl.error("predict", run, "new.csv", "--interval", "0.99")
    assert "--calibrated is for probabilities" in crawl.error("predict", run, "new.csv", "--calibrated")
    few = ("--interval", "0.9", "--num-repeats", "1")
    assert "leave out num_repeats" in crawl.error("predict", run, "new.csv", *few)
    longer = crawl.error("predict", run, "new.csv", "--interval", "0.9", "--num-steps", "77")
    assert longer.endswith("steps, not of 77: leave out --num-steps.")
    small = crawl.error("predict", molecule_runs["logS"], molecules, "--interval", "0.9")
    assert small.startswith("The model has no calibration: the validation part has 1 values of logS")
    assert small.endswith("at least 20 are needed: train it with a larger validation part.")
    taken = Path("taken.csv")
    taken.write_text("smiles,far\nCCO,1\n")
    assert "has a column 'far' already: rename it" in crawl.error("predict", run, taken)
    assert "has no column 'mass'" in crawl.error(
        *("train", "csv", "--data.path", uncertain / "a.csv", "--data.targets", "logS", "--data.weight", "mass")
    )


def test_numbers_outside_the_range_of_training(crawl, tiny):
    lines = [f"{'C' * (i + 1)}{end},{i}.5,{280 + i}" for i in range(30) for end in "ON"]
    Path("a.csv").write_text("\n".join(["smiles,logS,temp", *lines]) + "\n")
    data = ("--data.path", "a.csv", "--data.targets", "logS", "--data.fractions", "0.4", "0.4", "0.2")
    features = ("--data.columns", "temp", "--data.descriptors")
    assert crawl("train", "csv", *data, *features, *tiny, "--out", "run").code == 0
    Path("new.csv").write_text(f"smiles,temp\nCCCCO,1000000\nCCCCO,290\nCCCN,-300\n{'C' * 300},290\nCCO,\n")
    for jobs in ((), ("--jobs", "1")):
        done = crawl("predict", "run", "new.csv", "-o", "out.csv", *jobs)
        assert done.code == 0, done.err
        assert done.err.count("temp is outside the range of training in 2 rows\n") == 1
        assert done.err.count("Descriptors are outside the range of training in 1 row\n") == 1
        rows = rows_of(Path("out.csv").read_text())
        assert [row["far"] for row in rows] == ["1", rows[1]["far"], "1", "1", ""]
        assert rows[0]["domain_percentile"] != ""
    own = crawl("predict", "run", "a.csv", "-o", "own.csv")
    assert "temp is outside" not in own.err
    saved = TrainedModel.load("run", "cpu").save_pretrained("saved")
    assert "Features of graphs far outside the range of training are clipped" in (saved / "README.md").read_text()
    assert "temp is outside the range of training in 2 rows" in crawl("predict", saved, "new.csv", "-o", "out.csv").err
    rows = rows_of(Path("out.csv").read_text())
    assert [row["far"] for row in rows] == ["1", "0", "1", "1", ""]
    assert "domain_percentile" not in rows[0]


def test_columns_of_labels():
    task = Task(kind="multilabel", num_outputs=2, target_names=("a", "b"))
    assert added_columns(task, ("walk_spread", "model_spread"), interval=True, far=True) == [
        *("probability_a", "probability_b", "walk_spread_a", "walk_spread_b", "model_spread_a", "model_spread_b"),
        *("set_a", "set_b", "domain_percentile", "far", "reason"),
    ]


def test_an_ensemble_from_the_command_line(crawl, uncertain, tiny):
    data = ("--data.path", uncertain / "a.csv", "--data.targets", "logS", "--data.fractions", "0.4", "0.4", "0.2")
    done = crawl("train", "csv", *data, "--out", "both", "--ensemble", "2", *tiny)
    assert done.code == 0, done.err
    assert "over 2 models" in done.out
    assert "The mean of the predictions of all 2 models: " in done.out
    Path("new.csv").write_text("smiles\nCCO\n[Og]\n")
    rows = rows_of(crawl("predict", "both", "new.csv", "--interval", "0.9").out)
    assert list(rows[0]) == [
        *("smiles", "predicted_logS", "walk_spread_logS", "model_spread_logS", "lower_logS", "upper_logS"),
        *("domain_percentile", "far", "reason"),
    ]
    assert all(float(row["model_spread_logS"]) > 0 for row in rows)
    assert rows[1]["walk_spread_logS"] == "0"  # one atom has one walk, but the models differ
    assert rows[1]["far"] == "1"
    assert crawl("evaluate", "both").code == 0
    again = crawl("train", "--resume", "both")
    assert again.code == 0, again.err
    assert "all 2 models" in again.out
    record, info = json.loads(Path("both/result.json").read_text()), crawl("info", "both").out
    assert f"(seed {record['config']['seed']})" in info
    score, alone = record["scores"]["test"], record["ensemble"]["test"]
    spread = f"± {score['internal_deviation']:.4f} over {len(score['evaluations'])} evaluations"
    assert f"mae {score['mean']:.4f} {spread}" in " ".join(info.split())
    assert f"{score['of_mean_prediction']:.4f} for the mean of all predictions" in " ".join(info.split())
    assert f"mae {alone['mean']:.4f} ± {alone['deviation']:.4f} between models" in info
    page = Path("both/report.html").read_text()
    assert f"{score['mean']:.4f}" in page
    assert "member-2" in page
    assert "<h2>Largest errors</h2>" in page
    assert "older versions" not in page
    Path("both/result.json").unlink()
    info = crawl("info", "both").out
    assert f"(seed {record['config']['seed']})" in info
    assert "not yet evaluated together" in info
    assert "leave out --baseline" in crawl.error("train", "--resume", "both", "--baseline", "gin")
    for words in (("--protocol", "seeds"), ("--baseline", "gin"), ("--init", "both")):
        message = crawl.error("train", "csv", *data, "--ensemble", "2", *words, *tiny)
        assert message == f"--ensemble trains models of its own: leave out {words[0]}."
    assert "--ensemble must be" in crawl.error("train", "csv", *data, "--ensemble", "1", *tiny)
    assert "both exists already: resume it" in crawl.error(
        "train", "csv", *data, "--ensemble", "2", "--out", "both", *tiny
    )
