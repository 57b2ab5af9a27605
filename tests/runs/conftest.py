"""What the tests of experiments share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from path_graphs import make_dataset

from crawl import WalkPlan
from crawl.data import Dataset, Task
from crawl.runs import Experiment, Model, Result, run_experiment
from crawl.training import Evaluation, Training


@pytest.fixture(scope="session")
def tiny() -> Experiment:
    """An experiment that takes a fraction of a second."""
    return Experiment(
        name="tiny",
        walk=WalkPlan(num_steps=5, num_eval_steps=5, window_size=4),
        model=Model(hidden_channels=8, num_layers=1),
        training=Training(max_epochs=3, batch_size=4),
        evaluation=Evaluation(num_val_repeats=1, num_test_repeats=2),
    )


@pytest.fixture(scope="session")
def paths() -> Dataset:
    """Two targets for each of ten graphs; one of the second graph in the test part is missing."""
    targets = torch.arange(20.0).view(10, 2)
    targets[3, 1] = torch.nan
    task = Task(kind="regression", num_outputs=2, target_names=("a", "b"))
    return make_dataset(task, targets, tuple(f"path {i}" for i in range(10)))


@pytest.fixture(scope="session")
def finished(tiny: Experiment, paths: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run that is over; only to be read."""
    folder: Path = tmp_path_factory.mktemp("finished") / "run"
    return run_experiment(tiny, folder, dataset=paths, device="cpu")
