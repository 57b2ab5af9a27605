from __future__ import annotations

import re
from pathlib import Path

from crawl.cli.describe import datasets, facts
from crawl.runs import TrainedModel
from crawl.runs import run as run_module
from crawl.runs.recipes import RECIPES


def test_datasets_lists_every_recipe(crawl):
    done = crawl("datasets")
    assert done.code == 0
    for recipe in RECIPES:
        assert f"crawl train {recipe}" in done.out
    assert {row[0] for row in datasets()} == {name for name in RECIPES if not name.endswith("_hybrid")}


def test_info_about_a_run(crawl, csl_run):
    lines = [line.split(maxsplit=1) for line in crawl("info", csl_run).out.splitlines()]
    facts = {line[0]: line[1].strip() for line in lines if len(line) == 2}
    assert facts["name"] == "csl (seed 0)"
    assert facts["model"].startswith("crawl, ")
    assert facts["task"] == "multiclass per graph, scored by accuracy"
    assert facts["test"].startswith("accuracy 0.")
    assert facts["epochs"].startswith("best ")
    assert "torch " in facts["versions"]
    assert facts["steps"].startswith(("captured", "eager: "))
    assert facts["walks"].startswith("non_backtracking, see 100.0% of nodes and ")


def test_info_about_a_run_that_is_not_finished(crawl, tiny, monkeypatch):
    monkeypatch.setattr(run_module, "_SECONDS_BETWEEN_CHECKPOINTS", 0)
    monkeypatch.setattr(run_module._Work, "_evaluate", _interrupted)
    assert crawl("train", "csl", "--out", "run", *tiny).code == 130
    found = _found(crawl("info", "run"))
    assert found["name"] == "csl (seed 0)"
    assert found["state"] == "unfinished: 2 epochs of at most 2"
    assert re.fullmatch(r"at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, loss \d\.\d+", found["last epoch"])
    assert re.fullmatch(r"accuracy 0\.\d+ in epoch [12]", found["best validation"])
    assert found["checkpoint"].startswith("after epoch 2, at ")
    assert found["resume with"] == "crawl train --resume run"
    Path("run/last.safetensors").unlink()
    Path("run/metrics.jsonl").unlink()
    assert "none yet: it begins anew" in crawl("info", "run").out


def test_info_about_runs_on_folds(crawl, tiny, monkeypatch):
    monkeypatch.setattr("crawl.runs.protocol.num_folds", lambda _: 3)
    evaluate = run_module._Work._evaluate

    def stopped_in_the_second_fold(work, trainer):
        return evaluate(work, trainer) if work.experiment.data.fold == 0 else _interrupted()

    with monkeypatch.context() as patch:
        patch.setattr(run_module._Work, "_evaluate", stopped_in_the_second_fold)
        assert crawl("train", "csl", "--protocol", "folds", "--out", "run", *tiny).code == 130
    found = _found(crawl("info", "run"))
    assert (found["name"], found["model"]) == ("csl (seed 0)", "crawl")
    assert re.fullmatch(r"test accuracy 0\.\d{4}", found["fold 0"])
    assert found["fold 1"] == "unfinished: 2 epochs of at most 2"
    assert found["fold 2"] == "not begun"
    assert found["state"] == "unfinished: 1 of 3 folds are done"
    assert found["resume with"] == "crawl train --resume run"
    assert _found(crawl("info", "run/fold-1"))["resume with"] == "crawl train --resume run"
    assert crawl("train", "--resume", "run").code == 0
    found = _found(crawl("info", "run"))
    assert re.fullmatch(r"accuracy 0\.\d{4} ± 0\.\d{4} over 3 models", found["test"])
    assert "resume with" not in found


def _found(info):
    assert info.code == 0, info.err
    return dict(re.split("  +", line.strip(), maxsplit=1) for line in info.out.splitlines())


def _interrupted(*_):
    raise KeyboardInterrupt


def test_info_about_a_run_without_validation(csl_run):
    trained = TrainedModel.load(csl_run, "cpu")
    trained.record["scores"]["val"] |= {"mean": None, "internal_deviation": None, "evaluations": [None, None]}
    found = dict(facts(trained))
    names = list(found)
    assert found["val"] == "no score: it has no graphs, or they are of one class"  # older records give no reason
    assert found["epochs"].startswith("without a validation score, the last of 2, ")
    assert {"train", "test", "epochs"} <= set(names)


def test_info_about_a_checkpoint_of_molecules(crawl, molecule_runs):
    done = crawl("info", molecule_runs["kind"] / "best.safetensors")
    assert "categories of sizes 119," in done.out
    assert "a, b, c" in done.out
    assert "molecules" in done.out


def test_info_about_something_else(crawl, tmp_path):
    assert "not the folder of a run" in crawl.error("info", tmp_path)
