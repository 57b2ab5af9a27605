from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest


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


def test_longer_walks(crawl, csl_run):
    assert crawl("evaluate", csl_run, "--num-steps", "30").code == 0


@pytest.mark.parametrize("flag", ["--num-repeats", "--num-steps", "--batch-size"])
def test_numbers_are_positive(crawl, csl_run, flag):
    assert f"{flag} must be at least 1, not 0" in crawl.error("evaluate", csl_run, flag, "0")


def test_what_is_no_model_is_refused(crawl, csl_run, tmp_path):
    assert "not the folder of a run" in crawl.error("evaluate", tmp_path)
    assert "There is no checkpoint" in crawl.error("evaluate", "missing")
    (tmp_path / "text.safetensors").write_text("text")
    assert "truncated or damaged" in crawl.error("evaluate", "text.safetensors")
    assert "unfinished training" in crawl.error("evaluate", csl_run / "last.safetensors")


def test_an_unfinished_run_is_refused(crawl, csl_run):
    run = Path("unfinished")
    run.mkdir()
    (run / "config.json").write_text(json.dumps({}))
    assert "crawl train --resume unfinished" in crawl.error("evaluate", run)
