"""One trial of a search: a training that is validated after every epoch, and may be stopped there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crawl.data.dataset import Dataset
from crawl.runs.build import build_model
from crawl.runs.experiment import Experiment
from crawl.runs.features import Features
from crawl.runs.folder import RunFolder
from crawl.training.trainer import Trainer


@dataclass(frozen=True)
class Trained:
    """What came of a trial.

    Attributes:
        best: Its best validation score.
        num_epochs: How many epochs it had.
        best_epoch: The epoch of that score, if it was trained to the end.
        is_pruned: Whether it was stopped before.
    """

    best: float
    num_epochs: int
    best_epoch: int | None
    is_pruned: bool


def train_trial(
    experiment: Experiment,
    place: RunFolder,
    dataset: Dataset,
    *,
    features: Features,
    device: str,
    tell: Callable[[int, float | None], bool],
) -> Trained:
    """What came of a trial.

    Args:
        experiment: What to train.
        place: Where its metrics are written.
        dataset: Its data, with encodings.
        features: Of the data without them.
        device: Where to compute.
        tell: Called after each epoch with its number and the best score so far, if there is one; whether to stop.

    Raises:
        ValueError: If there is no validation score.
    """
    place.write_metrics([])
    model = build_model(experiment, features)
    settings: dict[str, Any] = {"seed": experiment.seed, "device": device}
    trainer = Trainer(model, dataset, experiment.training, experiment.evaluation, **settings)
    schedule, epoch = trainer.schedule, 0
    for record in trainer.epochs():
        place.append_metrics(record)
        epoch = record["epoch"]
        is_stopped = tell(epoch, schedule.best)
        if is_stopped and not schedule.is_over:
            return Trained(math.nan if schedule.best is None else schedule.best, epoch, None, is_pruned=True)
    if schedule.best is None or not math.isfinite(schedule.best):
        raise ValueError("there is no validation score")
    return Trained(schedule.best, epoch, trainer.best_epoch, is_pruned=False)
