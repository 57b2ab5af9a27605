from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from crawl.training.checkpoint import load_checkpoint, save_checkpoint


def test_prints_the_score_with_its_spread(crawl, csl_run):
    done = crawl("evaluate", csl_run, "--num-repeats", "3")
    assert done.code == 0
    assert re.fullmatch(
        r"test accuracy 0\.\d{4} ± 0\.\d{4} over 3 evaluations; 0\.\d{4} with their mean \(30 graphs of .*\)\n",
        done.out,
    )


def test_any_part_of_the_data(crawl, csl_run):
    assert "train accuracy" in crawl("evaluate", csl_run, "--split", "train", "--num-repeats", "1").out
    assert "(90 graphs" in crawl("evaluate", csl_run, "--split", "train", "--num-repeats", "1").out


def test_each_of_several_targets(crawl, tiny, molecules):
    data = ["--data.path", molecules, "--data.targets", "logS", "active", "--data.task", "regression"]
    assert crawl("train", "csv", *data, "--out", "run", *tiny).code == 0
    lines = crawl("evaluate", "run", "--num-repeats", "2").out.splitlines()
    assert [re.sub(r"\d\.\d{4}", "#", line) for line in lines[1:]] == ["  logS # ± #", "  active # ± #"]
    mean, log_s, active = (float(re.findall(r"\d\.\d{4}", line)[0]) for line in lines)
    assert (log_s + active) / 2 == pytest.approx(mean, abs=2e-4)
    assert re.search(r"test, by target +logS \d\.\d{4}, active \d\.\d{4}", crawl("info", "run").out)


def test_repeats_as_in_training_by_default_and_the_same_for_a_seed(crawl, molecule_runs):
    first = crawl("evaluate", molecule_runs["logS"])
    assert "over 2 evaluations" in first.out
    assert crawl("evaluate", molecule_runs["logS"], "--batch-size", "3") == first


def test_a_checkpoint_without_its_folder(crawl, csl_run, tmp_path):
    shutil.copy(csl_run / "best.safetensors", tmp_path / "model.safetensors")
    assert crawl("evaluate", "model.safetensors").out == crawl("evaluate", csl_run).out


def test_data_that_moved(crawl, molecule_runs, molecules):
    run = molecule_runs["logS"]
    assert crawl("evaluate", run, "--data", molecules).out == crawl("evaluate", run).out
    molecules.write_text("\n".join(molecules.read_text().splitlines()[:-3]))
    assert "data have changed" in crawl.error("evaluate", run, "--data", molecules)
    assert "There is no file" in crawl.error("evaluate", run, "--data", "missing.csv")


def test_classes_are_compared_by_name(crawl, tiny, molecules):
    def write(name: str, no: str, yes: str) -> str:
        lines = [line.split(",") for line in molecules.read_text().replace('"', "").splitlines()]
        rows = [f"{line[1]},{yes if line[3] == '1' else no}" for line in lines[1:]]
        Path(name).write_text("\n".join(["smiles,active", *rows]) + "\n")
        return name

    data = ["--data.path", write("data.csv", "no", "yes"), "--data.targets", "active", "--data.metric", "accuracy"]
    assert crawl("train", "csv", *data, "--out", "run", *tiny).code == 0
    renamed = write("renamed.csv", "zz", "yes")  # which makes yes the first class
    shutil.copy("run/best.safetensors", "model.safetensors")
    for run in ("run", "model.safetensors"):
        assert "the classes were 'no', 'yes' and are 'yes', 'zz'" in crawl.error("evaluate", run, "--data", renamed)
    with pytest.warns(UserWarning, match="cannot be compared"):
        error = crawl.error("evaluate", _of_an_older_version(Path("model.safetensors")), "--data", renamed)
    assert "the classes were 'no', 'yes' and are 'yes', 'zz'" in error


def _of_an_older_version(checkpoint: Path) -> Path:
    """The checkpoint without what older versions did not keep."""
    tensors, description = load_checkpoint(checkpoint)
    del description["data"]
    for name in ("node_gaps", "edge_gaps", "columns"):
        del description["features"][name]
    save_checkpoint(Path("older.safetensors"), tensors, description)
    return Path("older.safetensors")


def test_changed_targets_and_features(crawl, molecule_runs, molecules):
    text, run = molecules.read_text(), molecule_runs["logS"]
    molecules.write_text(text.replace(",1.4,", ",1.5,"))
    assert "trained: the targets have changed. Give" in crawl.error("evaluate", run, "--data", molecules)
    molecules.write_text(text.replace("CCCCN", "CCCCO"))
    assert "trained: the node features have changed" in crawl.error("evaluate", run, "--data", molecules)
    molecules.write_text(text.replace("logS", "logD"))
    assert "has no column 'logS'" in crawl.error("evaluate", run, "--data", molecules)


def test_a_run_of_an_older_version(crawl, molecule_runs):
    best = molecule_runs["logS"] / "best.safetensors"
    with pytest.warns(UserWarning, match="cannot be compared"):
        older = crawl("evaluate", _of_an_older_version(best))
    assert older.out == crawl("evaluate", best).out


@pytest.mark.filterwarnings("ignore:The (val|test) part has no score")
def test_why_there_is_no_score(crawl, tiny, tmp_path):
    rows = [f"{'C' * (i + 1)},{'no' if i in (0, 1) else 'yes'}" for i in range(12)]
    (tmp_path / "m.csv").write_text("\n".join(["smiles,y", *rows]))
    split = {"train": list(range(8)), "val": [8, 9], "test": [10, 11]}
    (tmp_path / "split.json").write_text(json.dumps(split))
    words = ["--data.path", "m.csv", "--data.split", tmp_path / "split.json", "--out", "run", *tiny]
    done = crawl("train", "csv", *words)
    assert done.code == 0
    assert "last of 2" in done.out
    why = "it has one class only, and roc_auc needs two"
    assert f"No test score: {why}." in " ".join(done.out.split())
    info = crawl("info", "run").out
    assert info.count(f"no score: {why}") == 2
    assert crawl.error("evaluate", "run") == f"The test split of m has no score: {why}."
    assert crawl("evaluate", "run", "--split", "train").code == 0


def test_longer_walks(crawl, csl_run):
    assert crawl("evaluate", csl_run, "--num-steps", "30").code == 0


@pytest.mark.parametrize("flag", ["--num-repeats", "--num-steps", "--batch-size"])
def test_numbers_are_positive(crawl, csl_run, flag):
    assert f"{flag} must be a whole number from 1 to 2147483647, not 0" in crawl.error("evaluate", csl_run, flag, "0")


def test_what_is_no_model_is_refused(crawl, csl_run, tmp_path):
    assert "not the folder of a run" in crawl.error("evaluate", tmp_path)
    assert "There is no file or folder missing" in crawl.error("evaluate", "missing")
    (tmp_path / "text.safetensors").write_text("text")
    assert "truncated or damaged" in crawl.error("evaluate", "text.safetensors")
    assert "load best.safetensors" in crawl.error("evaluate", csl_run / "last.safetensors")


def test_an_unfinished_run_is_refused(crawl, csl_run):
    run = Path("unfinished")
    run.mkdir()
    (run / "config.json").write_text(json.dumps({}))
    assert "crawl train --resume unfinished" in crawl.error("evaluate", run)
