from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crawl.data.dataset import Dataset
from crawl.runs import Result
from crawl.runs.folder import RunFolder
from crawl.runs.reports.predicted import NotThere, read_predictions
from crawl.training.evaluation import targets_of


def copied(result: Result, folder: Path) -> RunFolder:
    folder.mkdir()
    for name in ("config.json", "data.json", "result.json", "predictions.csv", "metrics.jsonl"):
        (folder / name).write_bytes((result.folder / name).read_bytes())
    return RunFolder(folder)


def test_predictions_are_those_that_were_written(finished: Result, paths: Dataset) -> None:
    predicted = read_predictions(RunFolder(finished.folder))
    assert predicted.ids == [paths.graph_names[i] for i in paths.split.test.tolist()]  # type: ignore[index]
    np.testing.assert_array_equal(predicted.targets, targets_of(paths.store, paths.split.test))
    assert predicted.mean.shape == predicted.spread.shape == predicted.targets.shape
    assert predicted.task == paths.task
    distance = abs(predicted.mean - predicted.targets)
    np.testing.assert_allclose(predicted.errors, np.nanmean(distance, axis=1))


def test_what_is_missing_is_said(finished: Result, tmp_path: Path) -> None:
    run = copied(finished, tmp_path / "run")
    run.data.unlink()
    with pytest.raises(NotThere, match=r"no data\.json"):
        read_predictions(run)
    run.predictions.unlink()
    with pytest.raises(NotThere, match=r"no predictions\.csv"):
        read_predictions(run)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("id,", "name,", "header is not of this task"),
        ("mean_a", "mean_z", "header is not of this task"),
        ("\n", ",x\n", "has 8 cells, not 7|header"),
        (",", ",x", "header|could not convert"),
    ],
)
def test_a_damaged_file_is_refused(finished: Result, tmp_path: Path, old: str, new: str, problem: str) -> None:
    run = copied(finished, tmp_path / "run")
    header, _, rest = run.predictions.read_text().partition("\n")
    changed = header.replace(old, new) if old in header and "header" in problem else header
    run.predictions.write_text(f"{changed}\n{rest.replace(old, new) if changed == header else rest}")
    with pytest.raises(ValueError, match=problem):
        read_predictions(run)
