from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_runs import write_run

from crawl.data.dataset import Dataset
from crawl.runs import Experiment, Result, run_experiment
from crawl.runs.recipes import RECIPES
from crawl.runs.reports.run_page import duration, run_page, write_run_page

EVIL = "<script>alert(1)</script>"


def test_a_finished_run_has_its_page(tiny: Experiment, paths: Dataset, tmp_path: Path, with_pages: None) -> None:
    result = run_experiment(tiny, tmp_path / "run", dataset=paths, device="cpu", quiet=True)
    page = (result.folder / "report.html").read_text()
    assert page == run_page(result.folder)  # the same, from the folder alone
    for title in ("Scores", "Learning curves", "Test predictions", "Largest errors", "Walks", "Settings", "Data"):
        assert f"<h2>{title}" in page
    assert f"{result.score():.4f}" in page
    assert "cannot be shown" not in page
    assert "<script" not in page


def test_a_page_is_not_worth_a_training(
    tiny: Experiment, paths: Dataset, tmp_path: Path, with_pages: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> str:
        raise RuntimeError("no picture today")

    monkeypatch.setattr("crawl.runs.reports.run_page.run_page", fail)
    with pytest.warns(UserWarning, match=r"report\.html was not written: no picture today"):
        result = run_experiment(tiny, tmp_path / "run", dataset=paths, device="cpu", quiet=True)
    assert (result.folder / "result.json").is_file()
    assert not (result.folder / "report.html").exists()


def test_what_cannot_be_drawn_is_said(finished: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a picture failed")

    pytest.importorskip("matplotlib")
    shutil.copytree(finished.folder, tmp_path / "run")
    monkeypatch.setattr("crawl.runs.reports.plots.parity", fail)
    (tmp_path / "run/config.json").write_text(finished.folder.joinpath("config.json").read_text())
    page = run_page(tmp_path / "run")
    assert "Predictions cannot be shown: a picture failed" in page
    assert "Validation MAE" in page
    (tmp_path / "run/predictions.csv").write_text("nonsense")
    assert "is damaged: its header is not of this task" in run_page(tmp_path / "run")


def test_without_matplotlib_there_are_tables(finished: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("run_page", "about_predictions"):
        monkeypatch.setattr(f"crawl.runs.reports.{module}.has_matplotlib", lambda: False)
    page = run_page(finished.folder)
    assert "There are no figures, since matplotlib is not installed" in page
    assert f"{finished.score():.4f}" in page
    assert "<svg" not in page


def test_an_unfinished_run_says_how_to_resume(tmp_path: Path) -> None:
    page = run_page(write_run(tmp_path / "run", RECIPES["zinc"](), num_epochs=0))
    assert "This run is not finished: 0 epochs are done" in page
    assert "crawl train --resume run" in page
    assert "There are no epochs to draw" in page


def test_a_damaged_run_says_what_is_wrong(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", RECIPES["zinc"]())
    (folder / "config.json").write_text("{")
    assert "config.json is damaged" in run_page(folder)
    with pytest.raises(ValueError, match="is not the folder of a run"):
        run_page(tmp_path)
    with pytest.warns(UserWarning, match="was not written"):
        assert write_run_page(tmp_path) is None


def test_hostile_names_and_scores_that_are_not_there(tmp_path: Path) -> None:
    experiment = replace(RECIPES["zinc"](), name=EVIL)
    none = {"mean": None, "internal_deviation": None, "evaluations": [None, None], "reason": EVIL}
    changes: dict[str, Any] = {"scores": {"val": none, "test": none}, "data": EVIL, "device": EVIL, "commit": EVIL}
    changes |= {"versions": {EVIL: EVIL}, "calibration": {EVIL: [EVIL]}, "steps": EVIL, "num_graphs": {EVIL: 3}}
    folder = write_run(tmp_path / "run", experiment, 0.5, num_epochs=2, **changes)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    text = "".join(json.dumps({**line, "loss": None, "val_mae": None}) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)
    page = run_page(folder)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "nan" not in page.lower().replace("nano", "")
    assert "no data.json" in page or "no predictions.csv" in page


def test_durations() -> None:
    assert [duration(seconds) for seconds in (3.4, 119, 130, 7300)] == ["3 s", "119 s", "2 min", "2.0 h"]
