"""Several processes that share one training, from the command line."""

from __future__ import annotations

import json

from crawl.training.ranks import Ranks
from tests.training.test_ranks import start


def test_from_the_command_line(tmp_path):
    small = ["--model.hidden-channels", "4", "--training.max-epochs", "1", "--walk.num-steps", "10"]
    small += ["--walk.num-eval-steps", "10", "--evaluation.num-test-repeats", "1", "--evaluation.num-val-repeats", "1"]
    arguments = ["-m", "crawl", "train", "csl", "--out", tmp_path / "run", "--device", "cpu", *small]
    first, second = start(2, *arguments, worker=None)
    shown, said = first.communicate(timeout=300)
    hidden, nothing = second.communicate(timeout=300)
    assert (first.returncode, second.returncode) == (0, 0), said + nothing
    assert "Everything about it is in" in shown
    assert (hidden, nothing) == ("", "")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["num_processes"] == 2


def test_refuses_several_trainings_from_the_command_line(monkeypatch, crawl):
    monkeypatch.setattr(Ranks, "of_this_process", classmethod(lambda cls: cls(0, 2)))
    done = crawl("train", "csl", "--protocol", "folds")
    assert done.code == 2
    assert "2 processes share one training" in done.err
