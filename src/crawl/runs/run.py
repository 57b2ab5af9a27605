"""One run: train, evaluate, and leave a folder from which everything can be repeated."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from crawl.checks import as_path, check_type, shown, truth, whole_number
from crawl.data.dataset import Dataset
from crawl.data.encoded import with_encodings
from crawl.data.fingerprint import Fingerprint
from crawl.files import write_atomically
from crawl.plain import unstructure
from crawl.runs.build import build_model, check_given, load_dataset
from crawl.runs.curves import CurveGroup, draw_curves
from crawl.runs.environment import both_commits, commit_of_code, environment_record, reset_peak_memory
from crawl.runs.experiment import Experiment, GivenModel, suited
from crawl.runs.features import Features
from crawl.runs.folder import InUse, RunFolder
from crawl.runs.former import renamed
from crawl.runs.given import plan_of, with_given
from crawl.runs.initial import InitialWeights
from crawl.runs.kept_data import keep_split, known_data
from crawl.runs.progress import lines, say, watched
from crawl.runs.recipes import RECIPES
from crawl.runs.records import RunRecord, curve_of, is_finished, read_config, read_history, scores_of, warn_of_parts
from crawl.runs.reports.run_page import write_run_page
from crawl.runs.together import (
    check_same_data,
    check_same_experiment,
    refuse_several,
    scratch,
    share_state,
    tell,
    tell_finished,
    told,
)
from crawl.runs.uncertainty import is_calibrated, keep_uncertainty
from crawl.runs.where import Where
from crawl.training.checkpoint import check_history, load_checkpoint, save_checkpoint
from crawl.training.evaluation import targets_of
from crawl.training.pretraining import Pretrainer, with_bits
from crawl.training.ranks import Ranks
from crawl.training.trainer import Trainer, check_shares, choose_device

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
    model: nn.Module | None = None,
    dataset: Dataset | None = None,
    init: Path | str | None = None,
    device: str = "auto",
    path: Path | str | None = None,
    val_path: Path | str | None = None,
    test_path: Path | str | None = None,
    root: Path | str | None = None,
    quiet: bool | None = None,
    stop: Callable[[], bool] | None = None,
    runs_at_a_time: int = 1,
) -> Result:
    """Train and evaluate a model in a new folder.

    Args:
        experiment: What to do.
        folder: Where to write; the first free `runs/NAME-K` when None. A folder in use is refused.
        model: A model of one's own, which is trained in place and recorded as `given`, with its `walk_plan` if it has
            one; to resume such a run, give it again. It is called as `Runner` says. The network of `experiment.model`
            when None.
        dataset: A data set of one's own, which is recorded as `given`; to resume such a run, give it again. Or what
            `load_dataset` read by `experiment.data`, to spare reading it again.
        init: The folder of a finished run or of a saved model, a checkpoint, or the name of a model in the package,
            whose weights to begin with, as far as they fit; a line and the record (`init`) say which do.
        device: Where to compute; `auto` takes a GPU if there is one.
        path: The file or folder of `experiment.data`, if that reads one.
        val_path: The file for validation, if molecules are in three files; `path` is then that for training.
        test_path: The file for the test.
        root: The data root of benchmarks; the variable CRAWL_DATA or ~/.cache/crawl when None.
        quiet: Show no progress. When None, there is a bar on a terminal, and elsewhere a line every ten seconds; when
            False, the bar. Lines also tell about reading data and the last evaluation.
        stop: Asked after every epoch whether to stop there.
        runs_at_a_time: How many runs share the device, this one included; recorded, since times depend on it. A run
            that was stopped and resumed records the most.

    Raises:
        ValueError: If the data, the model or the experiment are wrong; the message says what to do.
        Stopped: If it was asked to stop before training was over.
    """
    check_type("experiment", experiment, Experiment)
    Experiment.from_json(experiment.to_json())  # refuses values of other types than its fields have
    if quiet is not None:
        truth("quiet", quiet)
    ranks = Ranks.of_this_process()
    if ranks.size > 1 and experiment.pretraining is not None:
        refuse_several(ranks, "Pre-training", "pre-train in one process, and train with init=… afterwards")
    if not ranks.is_first:  # weights come from the first
        folder, init, quiet = scratch(), None, True
    kind = choose_device(device).type
    where = Where().moved(device, path, root, val_path, test_path)
    dataset = read_dataset(experiment, where, quiet, dataset)
    experiment = with_given(experiment, model, dataset)
    base = RECIPES.get(experiment.data.name, Experiment)()
    experiment = suited(experiment, dataset, kind, base)
    features = Features.of(dataset)
    model = build_model(experiment, features) if model is None else model  # refused before a folder is there
    if experiment.pretraining is not None:
        with_bits(model)
    check_shares(ranks.size, dataset, experiment.training)
    check_same_experiment(ranks, experiment)
    initial = None if init is None else InitialWeights.take(model, as_path("init", init))
    run = RunFolder.create(None if folder is None else as_path("folder", folder), experiment.name)
    with run.locked(), lines(f"{run.path}: preparing", quiet):
        if run.config.is_file():  # another process was faster
            raise InUse(f"Another process has begun a run in {run.path}: choose another folder.")
        where.write(run)
        if initial is not None:
            say(str(initial), quiet)
            initial.keep(run, model)
        write_atomically(run.config, experiment.to_json())
        data = known_data(run, dataset)
        keep_split(run, dataset.split)
        warn_of_parts(dataset)
        work = _Work(run, experiment, model, dataset, features, data, where, quiet, stop, runs_at_a_time, ranks)
        return work.train_and_evaluate()


def resume_run(
    folder: Path | str,
    *,
    model: nn.Module | None = None,
    dataset: Dataset | None = None,
    device: str | None = None,
    path: Path | str | None = None,
    val_path: Path | str | None = None,
    test_path: Path | str | None = None,
    root: Path | str | None = None,
    quiet: bool | None = None,
    stop: Callable[[], bool] | None = None,
    runs_at_a_time: int = 1,
) -> Result:
    """Resume a run that was stopped, to the same result as if it had not been. A finished run is only read; one whose
    result is damaged resumes from its checkpoint.

    The arguments are those of `run_experiment`. A model or a data set that was given is given again. `device` and
    the places of data are those that the run had when None.

    Raises:
        ValueError: If the folder is not that of a run, its checkpoint is damaged or does not fit the model, or the data
            have changed.
        Stopped: If it was asked to stop before training was over.
    """
    ranks = Ranks.of_this_process()
    if not ranks.is_first:
        record, experiment, where = told(ranks)
        if record is not None:
            return Result(Path(folder), record)
        where = where.moved(device, path, root, val_path, test_path)
        how: dict[str, Any] = {"model": model, "dataset": dataset, "stop": stop, "device": where.device, **where.places}
        return run_experiment(experiment, **how)
    run = RunFolder.open(as_path("folder", folder))
    if is_finished(run.path):
        return _read(run, ranks)
    experiment, where = read_config(run.config), Where.read(run).moved(device, path, root, val_path, test_path)
    check_given(experiment.model, model, run.config)
    if model is not None and experiment.walk not in (None, plan_of(model)):  # older versions did not keep it
        raise ValueError(
            f"{run.path} was started with {experiment.walk}, but the model has another walk_plan: give it that one."
        )
    dataset = read_dataset(experiment, where, quiet, dataset)
    features = Features.of(dataset)
    model = build_model(experiment, features) if model is None else model
    with run.locked(), lines(f"{run.path}: preparing", quiet):
        if is_finished(run.path):  # by another process, since
            return _read(run, ranks)
        data = known_data(run, dataset)
        keep_split(run, dataset.split)
        where.write(run)
        tell(ranks, experiment, where)
        check_same_experiment(ranks, experiment)
        work = _Work(run, experiment, model, dataset, features, data, where, quiet, stop, runs_at_a_time, ranks)
        return work.train_and_evaluate()


def _read(run: RunFolder, ranks: Ranks) -> Result:
    record = json.loads(run.result.read_text())
    tell_finished(ranks, record)
    return Result(run.path, record)


def read_dataset(
    experiment: Experiment, where: Where, quiet: bool | None = None, given: Dataset | None = None
) -> Dataset:
    """The data set that was given, or else that of the experiment; lines tell about reading it."""
    if given is not None:
        check_type("dataset", given, Dataset, "call crawl.data.from_pyg(graphs), for example")
        return given
    with lines(f"reading {where.path or experiment.data.name}", quiet):
        return load_dataset(experiment.data, experiment.data_seed, **where.places)


@dataclass
class _Work:
    """A run that is under way: what it needs from the beginning to its record."""

    run: RunFolder
    experiment: Experiment
    model: nn.Module
    dataset: Dataset
    features: Features
    data: Fingerprint | None
    where: Where
    quiet: bool | None
    stop: Callable[[], bool] | None
    runs_at_a_time: int
    ranks: Ranks
    seconds_before: float = 0.0  # of epochs before it was resumed

    def train_and_evaluate(self) -> Result:
        """Train to the end, evaluate, write everything."""
        began, commit = time.perf_counter(), commit_of_code()  # now: another may be there in the end
        run, experiment = self.run, self.experiment
        check_same_data(self.ranks, self.data)
        if self.runs_at_a_time == 1:
            reset_peak_memory()
        dataset = replace(self.dataset, store=with_encodings(self.dataset.store, experiment.encodings))
        settings: dict[str, Any] = {"seed": experiment.seed, "device": self.where.device}
        facts: dict[str, Any] = {"commit": commit}
        if run.initial.is_file():
            facts["init"] = InitialWeights.restore(run, self.model)
        is_begun = run.last.is_file()
        if experiment.pretraining is not None and not (is_begun and "pretraining" in self._saved()[1]):
            pretrainer = Pretrainer(self.model, dataset, experiment.pretraining, experiment.training, **settings)
            facts = self._restore(pretrainer, facts) if is_begun else facts
            self._train(pretrainer, facts)
            facts, is_begun = {**facts, "pretraining": pretrainer.records}, False
            del pretrainer  # and its captured steps
        with self._widths_named():
            trainer = Trainer(
                self.model, dataset, experiment.training, experiment.evaluation, **settings, ranks=self.ranks
            )
            facts = self._restore(trainer, facts) if is_begun else facts
            share_state(trainer)
            self._train(trainer, facts)
        trainer.use_best_weights()
        with lines(f"{run.path}: writing the results", self.quiet):
            record = self._evaluate(trainer)
            if not self.ranks.is_first:
                return Result(run.path, record)
            wall_time = time.perf_counter() - began + self.seconds_before
            record |= environment_record(trainer.device, wall_time, self.runs_at_a_time)
            record |= {"num_processes": self.ranks.size} if self.ranks.size > 1 else {}
            record |= {**facts, "steps": trainer.runner.how, "where": unstructure(self.where)}
            description = {"experiment": record["config"], "features": asdict(self.features)}
            description |= {"scaling": [trainer.scaling.mean, trainer.scaling.deviation], "record": record}
            description |= {} if self.data is None else {"data": self.data.to_dict()}
            save_checkpoint(run.best, trainer.model.state_dict(), description)
            drawn = RunRecord(experiment.name, None, curve=curve_of(read_history(run)))
            group = CurveGroup(experiment.name, self.dataset.task.metric, [drawn])
            extra: dict[str, Any] = {"best_epoch": trainer.best_epoch, "pretraining": facts.get("pretraining", ())}
            draw_curves([group], "Learning curves", run.curves, **extra)
            write_atomically(run.result, json.dumps(record, indent=2) + "\n")
            write_run_page(run.path)
        return Result(run.path, record)

    @contextmanager
    def _widths_named(self) -> Iterator[None]:
        """Where a given model may not take what encodings have added."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            encodings = self.experiment.encodings
            if isinstance(self.experiment.model, GivenModel) and encodings.node_width + encodings.edge_width:
                error.add_note(
                    f"experiment.encodings widen x by {encodings.node_width} columns and edge_attr by "
                    f"{encodings.edge_width}: a model that is given must take them."
                )
            raise

    def _saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The checkpoint."""
        with _remedy_named(""):  # errors name the file themselves
            return load_checkpoint(self.run.last)

    def _restore(self, trainer: Trainer, facts: dict[str, Any]) -> dict[str, Any]:
        """Resume from the checkpoint; the facts for the record, with those that it keeps."""
        tensors, values = self._saved()
        settings = self.experiment.pretraining
        with _remedy_named(f"{self.run.last}: "):
            trainer.restore(renamed(tensors, [name for name, _ in self.model.named_parameters()]), values)
            before = whole_number("runs_at_a_time", values.get("runs_at_a_time", 1))
            if not isinstance(values.get("commit"), str | None):
                raise ValueError(f"its commit is {shown(values['commit'])}.")
            if settings is not None and "pretraining" in values:
                check_history(values["pretraining"], settings.epochs, "loss")
                facts = {**facts, "pretraining": values["pretraining"]}
        self.runs_at_a_time = max(self.runs_at_a_time, before)
        self.seconds_before = sum(record["seconds"] for record in (*trainer.history, *facts.get("pretraining", ())))
        return {**facts, "commit": both_commits(values.get("commit", facts["commit"]), facts["commit"])}

    def _train(self, trainer: Trainer, facts: dict[str, Any]) -> None:
        """Train, or pre-train, to the end; checkpoints keep the facts for the record."""
        run = self.run

        def save() -> None:
            if not self.ranks.is_first:
                return
            tensors, values = trainer.state()
            save_checkpoint(run.last, tensors, {**values, **facts, "runs_at_a_time": self.runs_at_a_time})

        file, prefix = (run.pretraining, "pretraining/") if isinstance(trainer, Pretrainer) else (run.metrics, "")
        run.write_metrics(trainer.records, file)  # without epochs after the checkpoint, which come again
        if isinstance(self.experiment.model, GivenModel) and not run.last.is_file():
            save()  # its first weights come from no seed, so that no later process could begin with them
        saved = time.monotonic()
        with watched(trainer, run.path, self.quiet) as progress, _events(run.events) as write_event:
            for _ in trainer.epochs(progress.step):
                record = trainer.records[-1]
                run.append_metrics(record, file)
                for key in ("loss", "lr", f"val_{trainer.task.metric}"):
                    if record.get(key) is not None:
                        write_event(f"{prefix}{key}", record[key], record["epoch"])
                progress.epoch()
                if time.monotonic() - saved > _SECONDS_BETWEEN_CHECKPOINTS or trainer.schedule.is_over:
                    save()
                    saved = time.monotonic()
                if not trainer.schedule.is_over and self.ranks.any(self.stop is not None and self.stop()):
                    save()
                    where = f"{trainer.epoch_title} {record['epoch']}"
                    raise Stopped(f"{run.path} stopped after {where}; it can be resumed.")

    def _evaluate(self, trainer: Trainer) -> dict[str, Any]:
        experiment, dataset = self.experiment, self.dataset
        evaluation = experiment.evaluation
        repeats = {"train": 1, "val": evaluation.num_val_repeats, "test": evaluation.num_test_repeats}
        scores = {}
        for part, num_repeats in repeats.items():
            ids = getattr(dataset.split, part)
            with lines(f"{self.run.path}: evaluating epoch {trainer.best_epoch} on its {part} split", self.quiet):
                predictions = trainer.evaluate(ids, num_repeats, part)
            targets = targets_of(trainer.store, ids)
            scores[part] = scores_of(predictions, targets)
        self.run.write_predictions(dataset, predictions, targets)
        uncertainty: dict[str, Any] = {}
        if is_calibrated(experiment.data, dataset):
            with lines(f"{self.run.path}: calibrating on the val split", self.quiet):
                uncertainty = keep_uncertainty(self.run, trainer, dataset, (predictions, targets))
        coverage = trainer.coverage(dataset.split.val, "val")
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
            **({} if coverage is None else {"coverage": coverage}),
            **uncertainty,
        }


@contextmanager
def _remedy_named(place: str) -> Iterator[None]:
    """Say where a checkpoint is wrong, and what to do."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}{error} Without that file, the run begins anew.") from None


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
