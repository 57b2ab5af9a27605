"""What the description of a trained model must hold: a valid checksum says nothing about who wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawl.data.fingerprint import Fingerprint, task_changes
from crawl.plain import structure
from crawl.runs.experiment import Experiment
from crawl.runs.features import Features
from crawl.runs.former import former_where
from crawl.runs.records import check_record
from crawl.runs.where import Where
from crawl.training.evaluation import Scaling


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Within, what is refused is refused by the name of the file."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path} is damaged or of another version: {error}") from None


@dataclass(frozen=True)
class _Description:
    experiment: dict[str, Any]
    features: Features
    scaling: tuple[tuple[float, ...], tuple[float, ...]]
    record: dict[str, Any]
    data: Fingerprint | None = None  # models of older versions do not say what their data were
    calibration: dict[str, Any] | None = None  # which `Calibration.from_plain` checks


def described(
    values: Mapping[str, Any],
) -> tuple[Experiment, Features, Scaling, dict[str, Any], Fingerprint | None, Where]:
    """What `TrainedModel` takes besides the model, all checked."""
    found = structure(_Description, {key: value for key, value in values.items() if key != "format"}, "The description")
    experiment, features, task = Experiment.from_plain(found.experiment), found.features, found.features.task
    if found.record:
        check_record(found.record)
        if not all("evaluations" in score for score in found.record["scores"].values()):
            raise ValueError("record.scores lack evaluations.")
    if found.data is not None and (changes := task_changes(found.data.task, task)):
        raise ValueError(f"its features and its data name different tasks: {'; '.join(changes)}")
    mean, deviation = found.scaling
    if task.kind != "regression" and (mean or deviation):
        raise ValueError(f"scaling is for numbers, and the task is {task.kind}")
    if len(mean) != len(deviation) or len(mean) not in (0, task.num_outputs) or not all(d > 0 for d in deviation):
        raise ValueError(f"scaling must have a mean and a positive deviation for each target, not {found.scaling}")
    where = structure(Where, found.record.get("where", former_where(found.experiment)), "record.where")
    return experiment, features, Scaling(mean, deviation), found.record, found.data, where
