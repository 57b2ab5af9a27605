from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_runs import write_run

from crawl.runs import Experiment, Result
from crawl.runs.recipes import RECIPES
from crawl.runs.reports.compare import compare_page

EVIL = "<script>alert(1)</script>"


def changed(result: Result, folder: Path, **changes: Any) -> Path:
    """A copy of a run, whose record and predictions have these changes."""
    shutil.copytree(result.folder, folder)
    record = json.loads((folder / "result.json").read_text())
    record["config"]["training"] |= {"lr": 0.5}
    (folder / "result.json").write_text(json.dumps({**record, **changes}))
    return folder


def test_two_runs_with_the_same_test_part(finished: Result, tmp_path: Path) -> None:
    other = changed(finished, tmp_path / EVIL.replace("/", "|"))
    header, *rows = (other / "predictions.csv").read_text().splitlines()
    cells = [row.split(",") for row in rows]
    place = header.split(",").index("mean_a")
    for row in cells:
        row[place] = str(float(row[place]) + 1000)
    (other / "predictions.csv").write_text("\n".join([header, *map(",".join, cells)]) + "\n")
    page = compare_page([finished.folder, other])
    assert "<script" not in page
    assert "Settings that differ" in page
    assert ">training.lr<" in page
    assert ">worse<" in page  # with an error of 1000 more
    assert page.count(f"{finished.score():.4f}") >= 4  # tiles and rows


def test_another_test_part_is_said(finished: Result, tmp_path: Path) -> None:
    other = changed(finished, tmp_path / "other")
    text = (other / "predictions.csv").read_text()
    (other / "predictions.csv").write_text("".join(text.splitlines(keepends=True)[:-1]))
    page = compare_page([finished.folder, other])
    assert "was not tested on the graphs of" in page
    assert ">worse<" not in page


def test_folders_of_folds_are_one_model_each(tmp_path: Path) -> None:
    base = RECIPES["csl"]()
    for name, scores in {"a": (0.5, 0.7, 0.6, 0.6, 0.6), "b": (0.9, 0.9, 0.9, 0.9)}.items():
        for fold, score in enumerate(scores):
            data = replace(base.data, fold=fold)  # type: ignore[type-var]
            write_run(tmp_path / name / f"fold-{fold}", replace(base, data=data), score, metric="accuracy")
    page = compare_page([tmp_path / "a", tmp_path / "b"])
    assert "60.00 %" in page
    assert "6.32 % over 5 runs" in page
    assert "4 of 5" in page
    assert "b is not finished" in page
    assert "no predictions.csv" in page


def test_what_cannot_be_compared_is_refused(finished: Result, tmp_path: Path, tiny: Experiment) -> None:
    one = finished.folder
    with pytest.raises(ValueError, match="two to 8 runs to compare, not 1"):
        compare_page([one])
    with pytest.raises(ValueError, match="is named twice"):
        compare_page([one, one / "." / ""])
    with pytest.raises(ValueError, match="is not the folder of a run"):
        compare_page([one, tmp_path])
    begun = [write_run(tmp_path / name, tiny) for name in ("begun", "too")]
    with pytest.raises(ValueError, match="None of these runs is finished"):
        compare_page(begun)
    other = changed(finished, tmp_path / "other")
    data = json.loads((other / "data.json").read_text())
    data["task"]["target_names"] = ["x", "y"]
    (other / "data.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"have different tasks.*\['a', 'b'\] scored by mae, and .*\['x', 'y'\]"):
        compare_page([one, other])
    (other / "result.json").write_text("{")
    with pytest.raises(ValueError, match=r"result\.json is damaged"):
        compare_page([one, other])
