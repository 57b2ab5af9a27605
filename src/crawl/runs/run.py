"""One run: train, evaluate, and leave a folder from which everything can be repeated."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from crawl.checks import as_path, check_type, truth, whole_number
from crawl.data.dataset import Dataset
from crawl.data.fingerprint import Fingerprint
from crawl.data.splits import Split
from crawl.files import write_atomically
from crawl.runs.build import build_model, load_dataset
from crawl.runs.curves import CurveGroup, draw_curves
from crawl.runs.effect import plain, settle
from crawl.runs.environment import both_commits, commit_of_code, environment_record, reset_peak_memory
from crawl.runs.experiment import Data, Experiment
from crawl.runs.features import Features
from crawl.runs.folder import InUse, RunFolder
from crawl.runs.parts import warn_of_parts
from crawl.runs.progress import Progress, lines, reading, watched
from crawl.runs.records import RunRecord, check_kinds, curve_of, is_finished, read_config, read_history
from crawl.training.checkpoint import load_checkpoint, save_checkpoint
from crawl.training.evaluation import Predictions, targets_of
from crawl.training.metrics import Array, why_no_score
from crawl.training.trainer import Trainer, choose_device

_SECONDS_BETWEEN_CHECKPOINTS = 10.0  # any of them gives the same result: training is a function of the seed


class Stopped(Exception):
    """A run was asked to stop and did, at a checkpoint; `resume_run` resumes it."""


@dataclass(frozen=True)
class Result:
    """What a run found.

    Attributes:
        folder: Where its files are.
        record: The content of `result.json`.
    """

    folder: Path
    record: dict[str, Any]

    def score(self, part: str = "test") -> float:
        """The mean score over the evaluations of a split (`train`, `val` or `test`); NaN where there is no score."""
        mean = self.record["scores"][part]["mean"]
        return math.nan if mean is None else float(mean)


def run_experiment(
    experiment: Experiment,
    folder: Path | str | None = None,
    *,
    dataset: Dataset | None = None,
    quiet: bool | None = None,
    stop: Callable[[], bool] | None = None,
    runs_at_a_time: int = 1,
) -> Result:
    """Train and evaluate a model in a new folder.

    Args:
        experiment: What to do.
        folder: Where to write; the first free `runs/NAME-K` when None. A folder in use is refused.
        dataset: A data set of one's own, which is recorded as `given`; to resume such a run, give it again. Or what
            `load_dataset` read by `experiment.data`, to spare reading it again.
        quiet: Show no progress. When None, there is a bar on a terminal, and elsewhere a line every ten seconds; when
            False, the bar. Lines also tell about reading data and the last evaluation.
        stop: Asked after every epoch whether to stop there.
        runs_at_a_time: How many runs share the device, this one included; recorded, since times depend on it. A run
            that was stopped and resumed records the most.

    Raises:
        ValueError: If the data or the experiment are wrong; the message says what to do.
        Stopped: If it was asked to stop before training was over.
    """
    check_type("experiment", experiment, Experiment)
    Experiment.from_json(experiment.to_json())  # refuses values of other types than its fields have
    if quiet is not None:
        truth("quiet", quiet)
    if dataset is not None:
        check_type("dataset", dataset, Dataset, "call crawl.data.from_pyg(graphs), for example")
    if dataset is None:
        with reading(experiment.data, quiet):
            dataset = load_dataset(experiment.data, experiment.seed)
    experiment = replace(experiment, data=_recorded_data(experiment.data, dataset))
    experiment = settle(experiment, dataset.task, device=choose_device(experiment.training.device).type)
    build_model(experiment, Features.of(dataset))  # refuse a wrong model before a folder is there
    run = RunFolder.create(None if folder is None else as_path("folder", folder), experiment.name)
    with run.locked(), lines(f"{run.path}: preparing", quiet):
        if run.config.is_file():  # another process was faster
            raise InUse(f"Another process has begun a run in {run.path}: choose another folder.")
        write_atomically(run.config, experiment.to_json())
        data = _known_data(run, dataset)
        write_atomically(run.split, dataset.split.to_json())
        warn_of_parts(dataset)
        return _train_and_evaluate(experiment, dataset, data, run, quiet, stop, runs_at_a_time)


def resume_run(
    folder: Path | str,
    *,
    device: str | None = None,
    dataset: Dataset | None = None,
    quiet: bool | None = None,
    stop: Callable[[], bool] | None = None,
    runs_at_a_time: int = 1,
) -> Result:
    """Resume a run that was stopped, to the same result as if it had not been. A finished run is only read; one whose
    result is damaged resumes from its checkpoint.

    `device` is where to compute, by the run's configuration when None; the other arguments are those of
    `run_experiment`.

    Raises:
        ValueError: If the folder is not that of a run, its checkpoint is damaged, or the data have changed.
        Stopped: If it was asked to stop before training was over.
    """
    run = RunFolder.open(as_path("folder", folder))
    if is_finished(run.path):
        return Result(run.path, json.loads(run.result.read_text()))
    experiment = read_config(run.config)
    if device is not None:
        experiment = replace(experiment, training=replace(experiment.training, device=device))
    if dataset is None:
        with reading(experiment.data, quiet):
            dataset = load_dataset(experiment.data, experiment.seed)
    with run.locked(), lines(f"{run.path}: preparing", quiet):
        if is_finished(run.path):  # by another process, since
            return Result(run.path, json.loads(run.result.read_text()))
        data = _known_data(run, dataset)
        if not run.split.is_file():  # it was stopped before anything depended on the split
            write_atomically(run.split, dataset.split.to_json())
        else:
            _check_split(run, dataset.split)
        return _train_and_evaluate(experiment, dataset, data, run, quiet, stop, runs_at_a_time)


def _recorded_data(data: Data, dataset: Dataset) -> Data:
    """What a record says about a data set: the settings that it was read by, or that it was given."""
    if dataset.source == plain(data):
        return data
    if plain(data) in (plain(Data()), plain(Data(name="given"))):
        return Data(name="given", split="given")
    raise ValueError(
        f"experiment.data names {data.name!r}, but another data set, {dataset.name!r}, was given: leave out dataset, "
        "or say Data(name='given')."
    )


def _check_split(run: RunFolder, now: Split) -> None:
    """Refuse to resume with data that are split in another way than when the run was started."""
    try:
        before = Split.from_json(run.split.read_text())
    except ValueError as error:
        raise ValueError(f"{run.split} is damaged ({error}): remove it to resume with the split of the data.") from None
    if before.to_json() != now.to_json():
        raise ValueError(
            f"The data have changed since {run.path} was started: it split {len(before.ids)} graphs in another way. "
            "Start a new run."
        )


def _known_data(run: RunFolder, dataset: Dataset) -> Fingerprint | None:
    """The fingerprint of the data, kept with the run; None for a run that was begun without one.

    Raises:
        ValueError: If the data are not those that the run was started with.
    """
    now = Fingerprint.of(dataset)
    if not run.data.is_file():
        if run.last.is_file():
            warnings.warn(
                f"{run.path} has no data.json, as runs of older versions: except for the split, its data cannot be "
                "compared with those it was started with.",
                UserWarning,
                stacklevel=3,
            )
            return None
        write_atomically(run.data, json.dumps(now.to_dict(), indent=2) + "\n")
        return now
    try:
        before = Fingerprint.from_dict(json.loads(run.data.read_text()))
    except (ValueError, RecursionError) as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"{run.data} is damaged ({reason}): remove it to resume without comparing the data.") from None
    if changes := before.changes_to(now):
        raise ValueError(f"The data have changed since {run.path} was started: {'; '.join(changes)}. Start a new run.")
    return now


def _train_and_evaluate(
    experiment: Experiment,
    dataset: Dataset,
    data: Fingerprint | None,
    run: RunFolder,
    quiet: bool | None,
    stop: Callable[[], bool] | None,
    runs_at_a_time: int,
) -> Result:
    commit = commit_of_code()  # now: another may be there in the end
    features = Features.of(dataset)
    if runs_at_a_time == 1:
        reset_peak_memory()
    trainer = Trainer(
        build_model(experiment, features), dataset, experiment.training, experiment.evaluation, seed=experiment.seed
    )
    if run.last.is_file():
        tensors, values = _checkpoint(run.last)
        try:
            trainer.restore(tensors, values)
            whole_number("runs_at_a_time", values.get("runs_at_a_time", 1))
            check_kinds(values, {}, optional={"commit": str | None})
        except ValueError as error:
            raise ValueError(f"{run.last}: {error} Without that file, the run begins anew.") from None
        runs_at_a_time = max(runs_at_a_time, values.get("runs_at_a_time", 1))
        commit = both_commits(values.get("commit", commit), commit)
    run.write_metrics(trainer.history)  # without epochs after the checkpoint, which come again
    began = time.perf_counter() - sum(record["seconds"] for record in trainer.history)
    with watched(trainer, run.path, quiet) as progress:
        _train(trainer, run, progress, stop, {"runs_at_a_time": runs_at_a_time, "commit": commit})
    trainer.use_best_weights()
    record = _evaluate(trainer, experiment, dataset, run, quiet)
    record |= environment_record(trainer.device, time.perf_counter() - began, runs_at_a_time) | {"commit": commit}
    description = {"experiment": json.loads(experiment.to_json()), "features": features.to_dict()}
    description |= {"scaling": [trainer.scaling.mean, trainer.scaling.deviation], "record": record}
    description |= {} if data is None else {"data": data.to_dict()}
    with lines(f"{run.path}: writing the results", quiet):
        save_checkpoint(run.best, trainer.model.state_dict(), description)
        drawn = RunRecord(experiment.name, None, curve=curve_of(read_history(run)))
        group = CurveGroup(experiment.name, dataset.task.metric, [drawn])
        draw_curves([group], "Learning curves", run.curves, best_epoch=trainer.best_epoch)
        write_atomically(run.result, json.dumps(record, indent=2) + "\n")
    return Result(run.path, record)


def _checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        return load_checkpoint(path)
    except ValueError as error:
        raise ValueError(f"{error} Without that file, the run begins anew.") from None


def _train(
    trainer: Trainer, run: RunFolder, progress: Progress, stop: Callable[[], bool] | None, facts: dict[str, Any]
) -> None:
    """Train to the end; checkpoints keep `facts` for the record."""

    def save() -> None:
        tensors, values = trainer.state()
        save_checkpoint(run.last, tensors, {**values, **facts})

    metric = f"val_{trainer.task.metric}"
    saved = time.monotonic()
    with _events(run.events) as write_event:
        for record in trainer.epochs(progress.step):
            run.append_metrics(record)
            for key in ("loss", "lr", metric):
                if record[key] is not None:
                    write_event(key, record[key], record["epoch"])
            progress.epoch()
            if time.monotonic() - saved > _SECONDS_BETWEEN_CHECKPOINTS or trainer.schedule.is_over:
                save()
                saved = time.monotonic()
            if stop is not None and not trainer.schedule.is_over and stop():
                save()
                raise Stopped(f"{run.path} stopped after epoch {record['epoch']}; it can be resumed.")


def _evaluate(
    trainer: Trainer, experiment: Experiment, dataset: Dataset, run: RunFolder, quiet: bool | None
) -> dict[str, Any]:
    evaluation = experiment.evaluation
    repeats = {"train": 1, "val": evaluation.num_val_repeats, "test": evaluation.num_test_repeats}
    scores = {}
    for part, num_repeats in repeats.items():
        ids = getattr(dataset.split, part)
        with lines(f"{run.path}: evaluating epoch {trainer.best_epoch} on its {part} split", quiet):
            predictions = trainer.evaluate(ids, num_repeats, part)
        targets = targets_of(trainer.store, ids)
        scores[part] = scores_of(predictions, targets)
    run.write_predictions(dataset, predictions, targets)
    return {
        "config": json.loads(experiment.to_json()),
        "seed": experiment.seed,
        "data": dataset.name,
        "num_graphs": {part: len(getattr(dataset.split, part)) for part in repeats},
        "num_skipped": len(dataset.skipped),
        "metric": dataset.task.metric,
        "scores": scores,
        "best_epoch": trainer.best_epoch,
        "num_epochs": trainer.schedule.epoch,
        "num_parameters": sum(p.numel() for p in trainer.model.parameters()),
    }


def scores_of(predictions: Predictions, targets: Array) -> dict[str, Any]:
    """What a record says about the predictions for a part."""
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


def _mean_and_deviation(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": _or_none(float(np.mean(values))), "internal_deviation": _or_none(float(np.std(values)))}


def _or_none(score: float) -> float | None:
    """JSON has no NaN, which is the score of a part without graphs, or with one class only; nor has it infinity."""
    return score if math.isfinite(score) else None


@contextmanager
def _events(path: Path) -> Iterator[Any]:
    """A function that writes a value for TensorBoard, or does nothing where TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield lambda *_: None
        return
    writer = SummaryWriter(str(path), flush_secs=10)
    yield writer.add_scalar
    writer.close()  # not after Ctrl-C: had it come while a value was handed to the writer, this would wait in vain
