"""Runs of several processes: one folder, resumed by another number of them, also after one was killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from crawl.runs import TrainedModel, resume_ensemble, resume_run, run_ensemble
from crawl.runs.experiment import Experiment
from crawl.runs.protocol import run_seeds
from crawl.runs.run import run_experiment
from crawl.training.ranks import Ranks
from tests.runs.together_runs import EXPERIMENT, float32_dataset, run_tasks, run_unlike
from tests.training.test_ranks import start

TOLERANCE = 1e-4  # of weights after twelve steps in single precision, whose sums are in another order


def run_together(size: int, *arguments: object) -> list[str]:
    """What the processes say before they end."""
    return [process.communicate(timeout=300)[1] for process in start(size, run_tasks, *arguments)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A whole run of two processes, one that was stopped, and one in which a process was killed, all resumed."""
    folder = tmp_path_factory.mktemp("runs")
    said = run_together(2, folder, "whole", "stopped", "killed")
    assert "rank 1 is gone" in said[0]
    assert not (folder / "killed" / "result.json").exists()
    for name in ("alone", "three"):
        shutil.copytree(folder / "stopped", folder / name)
    run_together(2, folder, "resume:killed", "resume:stopped")
    run_together(3, folder, "resume:three")
    resume_run(folder / "alone", dataset=float32_dataset(), device="cpu")
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return TrainedModel.load(folder, "cpu").model.state_dict()


def assert_same(first: Path, second: Path, tolerance: float) -> None:
    expected = weights(second)
    for name, tensor in weights(first).items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["killed", "stopped"])
def test_resumed_by_as_many_processes_the_run_is_the_same(runs, name):
    assert_same(runs / name, runs / "whole", 0)


@pytest.mark.parametrize("name", ["alone", "three"])
def test_resumed_by_another_number_of_processes_it_is_the_same_up_to_rounding(runs, name):
    assert_same(runs / name, runs / "whole", TOLERANCE)


def test_one_process_comes_to_the_same(runs, tmp_path):
    run_experiment(EXPERIMENT, tmp_path / "one", dataset=float32_dataset(), device="cpu", quiet=True)
    assert_same(tmp_path / "one", runs / "whole", TOLERANCE)


def test_only_the_first_process_writes_and_the_record_says_how_many_there_were(runs):
    assert sorted(path.name for path in runs.iterdir()) == ["alone", "killed", "stopped", "three", "whole"]
    record = json.loads((runs / "whole" / "result.json").read_text())
    assert record["num_processes"] == 2
    assert Experiment.from_plain(record["config"]).training.sync_norms
    assert "num_processes" not in json.loads((runs / "alone" / "result.json").read_text())
    epochs = [json.loads(line)["epoch"] for line in (runs / "three" / "metrics.jsonl").read_text().splitlines()]
    assert epochs == [1, 2, 3, 4]


def test_settings_and_data_that_differ_between_processes_are_refused_in_the_same_words(tmp_path):
    for process in start(2, run_unlike, tmp_path):
        _, said = process.communicate(timeout=300)
        assert "The processes differ in walk.num_steps, 8 for rank 0 and 9 for rank 1" in said
        assert "The data of rank 1 are not those of rank 0: the node features have changed. Copy them" in said
    assert not (tmp_path / "walks").exists()


def test_batches_that_cannot_be_shared_are_refused_before_there_is_a_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(Ranks, "of_this_process", classmethod(lambda cls: cls(0, 7)))
    with pytest.raises(ValueError, match=r"7 processes cannot share batches of 6.*--training.batch-size"):
        run_experiment(EXPERIMENT, tmp_path / "new", dataset=float32_dataset(), device="cpu", quiet=True)
    assert list(tmp_path.iterdir()) == []


def test_several_trainings_are_refused_before_there_is_a_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(Ranks, "of_this_process", classmethod(lambda cls: cls(0, 2)))
    remedy = r"2 processes.*in one process"
    with pytest.raises(ValueError, match=remedy):
        run_ensemble(EXPERIMENT, tmp_path / "new", dataset=float32_dataset(), num_members=2)
    with pytest.raises(ValueError, match=remedy):
        resume_ensemble(tmp_path / "new")
    with pytest.raises(ValueError, match=remedy):
        run_seeds(EXPERIMENT, tmp_path / "new", [0, 1])
    assert not (tmp_path / "new").exists()
