from __future__ import annotations

import json
import shlex
import sys

import pytest

pytest.importorskip("optuna")

FIXED = ["--model.num-layers", "1", "--walk.num-steps", "8", "--walk.num-eval-steps", "8", "--walk.window-size", "4"]
FAST = ["--evaluation.num-val-repeats", "1", "--evaluation.num-test-repeats", "2", "--training.max-epochs", "2"]


@pytest.fixture
def words(molecules):
    pytest.importorskip("rdkit")
    data = ["--data.path", molecules, "--data.targets", "logS", "--data.fractions", "0.6", "0.2", "0.2"]
    return ["tune", "csv", *data, *FIXED, *FAST, "--device", "cpu"]


def test_a_search_its_page_and_its_continuation(crawl, words, tmp_path):
    done = crawl(*words, "--trials", "3", "--max-parameters", "20000", "--out", "found")
    assert done.code == 0, done.err
    found = tmp_path / "found"
    best = json.loads((found / "best.json").read_text())
    assert done.out.splitlines()[1] == best["command"]
    assert best["num_trials"] == 3
    assert "trial 3 of 3: validation mae" in done.err
    assert "num_layers" not in best["values"]  # was given
    assert set(best["values"]) >= {"training.lr", "model.hidden_channels", "model.dropout", "model.layer"}
    for number in (1, 2, 3):  # trials have curves, and no test scores
        trial = found / f"trial-000{number}"
        assert len((trial / "metrics.jsonl").read_text().splitlines()) == 2
        assert not (trial / "result.json").exists()
        assert "test" not in (trial / "metrics.jsonl").read_text()
    lines = [(found / f"trial-000{i}/metrics.jsonl").read_text().splitlines() for i in (1, 2, 3)]
    scores = [min(json.loads(line)["val_mae"] for line in each) for each in lines]
    assert best["validation"] == min(scores)
    assert best["trial"] == 1 + scores.index(min(scores))
    result = json.loads((found / "best/result.json").read_text())
    assert result["config"] == best["config"]
    assert result["num_parameters"] <= 20000
    page = (found / "report.html").read_text()
    assert f"{result['scores']['test']['mean']:.4f}" in page
    assert "<script" not in page

    again = crawl(*words, "--trials", "4", "--max-parameters", "20000", "--out", "found")
    assert again.code == 0, again.err
    assert "trial 3" not in again.err
    assert "trial 4 of 4" in again.err
    assert json.loads((found / "best.json").read_text())["num_trials"] == 4

    command = shlex.split(best["command"])[1:]
    assert crawl(*command, "--out", "by_hand", "--quiet").code == 0
    by_hand = json.loads((tmp_path / "by_hand/result.json").read_text())
    assert by_hand["scores"]["val"] == result["scores"]["val"]  # the command gives the same model

    assert "holds a search with other settings" in crawl.error(*words, "--seed", "3", "--out", "found")
    with (tmp_path / "molecules.csv").open("a") as file:
        file.write("13,CCCCCCCC,4.0,1,a\n")
    assert "The data have changed since this search began" in crawl.error(*words, "--out", "found")


def test_a_trial_that_a_process_left_is_not_counted(crawl, words, tmp_path):
    import optuna

    assert crawl(*words, "--trials", "1", "--out", "found").code == 0
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "found/study.journal"))
    study = optuna.load_study(study_name="crawl", storage=optuna.storages.JournalStorage(backend))
    study.ask()  # as if killed
    done = crawl(*words, "--trials", "2", "--out", "found")
    assert "trial 3 of 2: validation" in done.err
    assert json.loads((tmp_path / "found/best.json").read_text())["num_trials"] == 3


def test_trials_without_a_finite_loss_fail_and_the_search_goes_on(crawl, words, monkeypatch):
    from crawl.training.trainer import Trainer

    epochs = Trainer.epochs
    calls = iter(range(100))

    def broken(self, *how):
        if next(calls) == 1:
            raise ValueError("The loss became nan in epoch 1")
        return epochs(self, *how)

    monkeypatch.setattr(Trainer, "epochs", broken)
    done = crawl(*words, "--trials", "2", "--out", "found")
    assert done.code == 0, done.err
    assert "trial 2 failed: The loss became nan in epoch 1" in done.err
    assert "trial 3 of 2: validation" in done.err


def test_mistakes_are_one_line(crawl, words, tmp_path, monkeypatch):
    assert "--trials) must be a whole number from 1" in crawl.error(*words, "--trials", "0")
    assert "--minutes) must be a positive number" in crawl.error(*words, "--minutes", "-1")
    assert "leave out --pretraining" in crawl.error(*words, "--pretraining.epochs", "2")
    assert "No trial was finished, since the time was over" in crawl.error(*words, "--minutes", "0.00001")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["csv-tune-1"]  # the last one had begun
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    assert "exists already and holds no search" in crawl.error(*words, "--out", "other")
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install optuna" in crawl.error(*words, "--out", "new")
