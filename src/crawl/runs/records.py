"""What a run left in its folder, checked: its configuration, its epochs, its result."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NotRequired, TypedDict

import numpy as np

from crawl.data.dataset import Dataset
from crawl.files import parse_json
from crawl.plain import read_checked, structure
from crawl.runs.experiment import Experiment
from crawl.runs.folder import RunFolder, output_names
from crawl.training.evaluation import Predictions, targets_of
from crawl.training.metrics import Array, why_no_score


@dataclass(frozen=True)
class RunRecord:
    """One run, finished or not.

    Attributes:
        place: What it is called: its folder, or the end of it.
        record: The content of `result.json`; None if it is not finished.
        epochs: How many epochs are done.
        seconds_per_epoch: The median over all epochs except the first; None where there are no others.
        curve: Records of epochs: `epoch`, `lr`, `loss`, `val`, and `test` where it was tracked.
        test_by_epoch: The test score after every epoch, where it was tracked.
        problem: What is wrong with its files; such a run is not finished. Empty if nothing is.
    """

    place: str
    record: dict[str, Any] | None
    epochs: int = 0
    seconds_per_epoch: float | None = None
    curve: list[dict[str, float | None]] = field(default_factory=list)
    test_by_epoch: list[float | None] = field(default_factory=list)
    problem: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether it has a result."""
        return self.record is not None


def is_finished(folder: Path) -> bool:
    """Whether the run in a folder is finished. One whose records are damaged is not: it must be run again."""
    run = read_run_or_problem(folder, "")
    return run is not None and run.is_finished


def read_config(path: Path) -> Experiment:
    """The experiment in a file `config.json`; refused by its name if it is damaged or of another version."""
    return read_checked(path, Experiment.from_json, "remove the folder and run it again")


def read_run(folder: Path, place: str) -> RunRecord | None:
    """The run in a folder; None if it was not begun. A file that is damaged or of another version is refused by name.

    Half a line at the end of `metrics.jsonl`, as a process that is killed leaves it, does not count.
    """
    run = RunFolder(folder)
    if run.result.is_file():
        record = read_checked(run.result, lambda text: check_record(parse_json(text)), "run it again")
    elif run.config.is_file():
        record = None
        read_config(run.config)
    else:
        return None
    history = read_history(run)
    if record is not None and run.metrics.is_file() and len(history) != record["num_epochs"]:
        raise ValueError(
            f"{run.metrics} is damaged: it has {len(history)} of {record['num_epochs']} epochs. Run it again."
        )
    seconds, curve = [epoch["seconds"] for epoch in history[1:]], curve_of(history)
    test_by_epoch = [epoch["test"] for epoch in curve if "test" in epoch]
    return RunRecord(place, record, len(history), median(seconds) if seconds else None, curve, test_by_epoch)


def curve_of(history: list[dict[str, Any]]) -> list[dict[str, float | None]]:
    """The curve of a `RunRecord` from the records of its epochs: what they call `val_mae` is `val` here."""
    return [{key.partition("_")[0]: value for key, value in epoch.items() if key != "seconds"} for epoch in history]


def read_history(run: RunFolder, file: Path | None = None) -> list[dict[str, Any]]:
    """The records of the epochs so far, in `metrics.jsonl` when no file is given; refused by the name of the file if
    they are damaged."""
    file = file or run.metrics
    return read_checked(file, _history, "run it again") if file.is_file() else []


def read_run_or_problem(folder: Path, place: str) -> RunRecord | None:
    """The same as `read_run`; a damaged run has its problem."""
    try:
        return read_run(folder, place)
    except (OSError, ValueError) as error:
        return RunRecord(place, None, problem=" ".join(str(error).split()))


def scores_of(predictions: Predictions, targets: Array) -> dict[str, Any]:
    """What a record says about the predictions for a split."""
    values = predictions.scores(targets)
    record = {
        **_mean_and_deviation(values),
        "of_mean_prediction": _or_none(predictions.score_of_mean(targets)),
        "evaluations": [_or_none(value) for value in values],
    }
    if record["mean"] is None:
        record["reason"] = why_no_score(predictions.task.metric, targets) or "predictions are not finite"
    if by_target := predictions.scores_by_target(targets):
        record["by_target"] = {name: _mean_and_deviation(values) for name, values in by_target.items()}
    return record


def warn_of_parts(dataset: Dataset) -> None:
    """Warn, before anything is trained, of classes without an example to learn from, and of parts without a score."""
    task, split = dataset.task, dataset.split
    if dataset.store.y is None:
        return  # which the trainer refuses
    targets = {part: targets_of(dataset.store, getattr(split, part)) for part in ("train", "val", "test")}
    if task.kind in ("binary", "multiclass"):
        names, seen = output_names(task), set(np.unique(targets["train"]))
        for part in ("val", "test"):
            if unseen := [names[int(i)] for i in np.unique(targets[part]) if i not in seen]:
                what = f"{'Classes' if len(unseen) > 1 else 'Class'} {', '.join(unseen)} of the {part} part"
                remedy = "Choose another split, or leave these graphs out."
                warnings.warn(f"{what}: the training part has no example. {remedy}", UserWarning, stacklevel=3)
    if task.kind == "regression" and task.num_outputs > 1:
        columns = zip(output_names(task), targets["train"].T, strict=True)
        if unknown := [name for name, column in columns if np.isnan(column).all()]:
            what = f"No training graph has a value of {', '.join(unknown)}, so nothing is learned about it"
            warnings.warn(f"{what}. Choose another split, or leave the target out.", UserWarning, stacklevel=3)
    for part in ("val", "test"):
        reason = why_no_score(task.metric, targets[part]) if len(getattr(split, part)) else ""
        if reason:
            effect = ", so the last epoch is taken for the best" if part == "val" else ""
            message = f"The {part} part has no score{effect}: {reason}. Choose another split or metric."
            warnings.warn(message, UserWarning, stacklevel=3)


def _mean_and_deviation(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": _or_none(float(np.mean(values))), "internal_deviation": _or_none(float(np.std(values)))}


def _or_none(score: float) -> float | None:
    """JSON has no NaN, which is the score of a split without graphs, or with one class only; nor has it infinity."""
    return score if math.isfinite(score) else None


# ---- what files must hold; with postponed annotations, Python would not see which keys may be left out


class Score(TypedDict):
    """What a record says about a split, or about one of its targets."""

    mean: float | None
    internal_deviation: float | None
    evaluations: NotRequired[list[float | None]]
    by_target: NotRequired["dict[str, Score]"]
    reason: NotRequired[str]


class Record(TypedDict):
    """What `result.json` must hold; there may be more."""

    config: dict[str, Any]
    data: str
    metric: str
    scores: dict[str, Score]
    num_epochs: int
    num_parameters: int
    wall_time_s: float
    device: str
    commit: str | None
    best_epoch: NotRequired[int]
    calibration: NotRequired[dict[str, Any]]
    coverage: NotRequired[dict[str, float]]
    domain: NotRequired[dict[str, Any]]
    ensemble: NotRequired[dict[str, Any]]
    init: NotRequired[dict[str, Any]]
    pretraining: NotRequired[list[dict[str, Any]]]
    runs_at_a_time: NotRequired[int]
    steps: NotRequired[str]
    trained: NotRequired[dict[str, Any]]
    versions: NotRequired[dict[str, str]]


class Epoch(TypedDict):
    """What a line of `metrics.jsonl` must hold; there are also `lr` and scores."""

    epoch: int
    loss: float | None
    seconds: float


def check_record(record: Any, place: str = "record") -> dict[str, Any]:
    """A record that tables can be made from, without the paths of the data on that machine. Refuses one that lacks
    something, or has something of a wrong kind."""
    checked = structure(Record, record, place)
    if "test" not in checked["scores"]:
        raise ValueError(f"{place} lacks scores.test.")
    config = checked["config"]
    Experiment.from_plain(config)  # what it does not say was not a setting then
    data = {key: None if key in ("path", "root") else value for key, value in config.get("data", {}).items()}
    kept = {key: value for key, value in record.items() if key != "where"}
    return {**kept, "config": {**config, "data": data}}


def _history(text: str) -> list[dict[str, Any]]:
    """The records of epochs, one in each line that is whole."""
    history: list[dict[str, Any]] = [parse_json(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    for i, epoch in enumerate(history):
        structure(Epoch, epoch, f"line {i + 1}")
        structure(dict[str, float | None], epoch, f"line {i + 1}")
        if missing := history[0].keys() - epoch.keys():
            raise ValueError(f"line {i + 1} lacks {min(missing)}.")
    return history
