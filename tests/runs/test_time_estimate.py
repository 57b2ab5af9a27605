from __future__ import annotations

import sys
from pathlib import Path

import pytest

from crawl.data.dataset import Dataset
from crawl.runs import Experiment, run_experiment
from crawl.runs import estimate as module
from crawl.runs.estimate import Estimate
from crawl.training.settings import Cosine, Plateau, Training


def said(estimate: Estimate, *seconds: float) -> list[str]:
    """What is said after each epoch."""
    history = [{"seconds": each} for each in seconds]
    return [estimate.line(history[: i + 1]) for i in range(len(history))]


def test_the_second_epoch_is_measured_and_it_is_said_once() -> None:
    estimate = Estimate(Training(max_epochs=202, schedule=Cosine()), 1)
    assert said(estimate, 20.0, 3.5, 3.5) == ["", "about 12 minutes at most, 3.5 s an epoch", ""]


def test_a_long_first_epoch_is_enough() -> None:
    estimate = Estimate(Training(max_epochs=101, schedule=Cosine()), 1)
    assert said(estimate, 60.0, 60.0) == ["about 1.7 hours at most, 60 s an epoch", ""]


def test_epochs_without_validation_are_not_all_that_count() -> None:
    estimate = Estimate(Training(max_epochs=103, schedule=Cosine()), 2)
    assert said(estimate, 50.0, 3.0, 1.0) == ["", "", "about 3 minutes at most, 2 s an epoch"]


def test_what_may_end_it_sooner_is_said() -> None:
    early = Estimate(Training(max_epochs=102, early_stop=50), 1)
    assert said(early, 1.0, 1.0)[1].endswith("; sooner, if 50 epochs bring no better validation score")
    plateau = Estimate(Training(max_epochs=102, schedule=Plateau()), 1)
    assert "; sooner, if the learning rate falls below" in said(plateau, 1.0, 1.0)[1]


def test_a_resumed_training_counts_what_is_left_and_a_short_one_says_nothing() -> None:
    resumed = Estimate(Training(max_epochs=102, schedule=Cosine()), 1, num_before=2)
    assert said(resumed, 9.0, 9.0, 5.0, 1.0)[-1] == "about 98 s at most, 1 s an epoch".replace("98 s", "2 minutes")
    assert said(Estimate(Training(max_epochs=5), 1), 1.0, 1.0, 1.0) == ["", "", ""]


@pytest.mark.parametrize("has_terminal", [False, True])
def test_a_run_says_it_once(
    tiny: Experiment,
    paths: Dataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    has_terminal: bool,
) -> None:
    monkeypatch.setattr(module, "_WORTH_SAYING", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: has_terminal)
    run_experiment(tiny, tmp_path / "run", dataset=paths, device="cpu")
    err = capsys.readouterr().err
    assert err.count("at most, ") == 1
    assert "s an epoch" in err
    run_experiment(tiny, tmp_path / "again", dataset=paths, device="cpu", quiet=True)
    assert "at most" not in capsys.readouterr().err
