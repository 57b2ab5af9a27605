from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.runs import Experiment
from crawl.runs.tuning.study import tune

pytest.importorskip("optuna")


def test_without_a_validation_score_nothing_is_chosen(tiny: Experiment, paths: Dataset, tmp_path: Path) -> None:
    split = Split(paths.split.train, torch.tensor([], dtype=torch.long), paths.split.test)
    with pytest.raises(ValueError, match="Validation chooses the settings, and the validation part has no score"):
        tune(tiny, "csl", tiny, tmp_path / "found", replace(paths, split=split))
    assert not (tmp_path / "found").exists()


def test_a_damaged_journal_is_named(tiny: Experiment, paths: Dataset, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    with pytest.raises(ValueError, match="No trial was finished"):
        tune(tiny, "csl", tiny, folder, paths, minutes=1e-9)
    (folder / "study.journal").write_text('{"op_code": 99}\n{]')
    with pytest.raises(ValueError, match=r"study\.journal is damaged"):
        tune(tiny, "csl", tiny, folder, paths, minutes=1e-9)


def test_most_trials_may_not_fail(tiny: Experiment, paths: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Most trials fail, the last with: .* have more than 5 parameters"):
        tune(tiny, "csl", tiny, tmp_path / "found", paths, max_parameters=5, quiet=True)
