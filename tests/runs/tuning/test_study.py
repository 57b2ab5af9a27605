from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.runs import Experiment
from crawl.runs.records import read_config
from crawl.runs.tuning.page import tuning_page
from crawl.runs.tuning.search import used_values
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


def test_the_widths_that_were_trained_are_shown(
    tiny: Experiment, paths: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = replace(tiny, model=replace(tiny.model, hidden_channels=64))
    model, walk = replace(base.model, layer=("walk", "gine"), num_layers=2), replace(tiny.walk, window_size=8)
    recipe = replace(base, model=model, walk=walk)  # what differs from it is not searched
    found = tune(base, "csl", recipe, tmp_path / "found", paths, num_trials=5, max_parameters=20_000, quiet=False)
    said = capsys.readouterr().err
    trials = found.study.get_trials(deepcopy=False)
    assert max(trial.params["model.hidden_channels"] for trial in trials) >= 64  # what Optuna had asked for
    used = [read_config(found.folder / f"trial-{i:04}/config.json").model.hidden_channels for i in range(1, 6)]
    assert [used_values(trial)["model.hidden_channels"] for trial in trials] == used
    assert max(used) < 64
    assert "hidden_channels 64" not in said
    assert f"hidden_channels {used[0]}" in said
    for trial in trials:
        assert trial.user_attrs["num_parameters"] <= 20_000
    page = tuning_page(found)
    assert "<td>64</td>" not in page
    assert "Importance of settings" in page or "too few complete" in page
