"""Trials of settings with Optuna: each is trained, validated after every epoch, and pruned if others were better."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from crawl.checks import as_path, check_type, positive_number, whole_number
from crawl.data.dataset import Dataset
from crawl.data.encoded import with_encodings
from crawl.data.fingerprint import Fingerprint
from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked
from crawl.runs.build import build_model, count_parameters
from crawl.runs.experiment import Experiment, settled
from crawl.runs.features import Features
from crawl.runs.folder import RunFolder
from crawl.runs.formats import format_score
from crawl.runs.progress import lines, say
from crawl.runs.records import read_config
from crawl.runs.run import Result, resume_run, run_experiment
from crawl.runs.together import refuse_several
from crawl.runs.tuning.command import train_command
from crawl.runs.tuning.space import Space, search_space, values_of, variant, within
from crawl.runs.where import Where
from crawl.training.evaluation import targets_of
from crawl.training.metrics import why_no_score
from crawl.training.ranks import Ranks
from crawl.training.seeds import derive_seed
from crawl.training.trainer import Trainer, choose_device

if TYPE_CHECKING:
    import optuna

_WARM_UP = 10  # epochs before a trial may be pruned
_STARTED = 5  # trials that are never pruned
JOURNAL, BASE, BEST, BEST_RUN = "study.journal", "base.json", "best.json", "best"


@dataclass(frozen=True)
class Tuned:
    """What a search found.

    Attributes:
        folder: Where its files are.
        best: The best settings by validation, and what to type to train with them: the content of `best.json`.
        result: The run with these settings, in `best`, whose test part was scored once.
        study: All trials, as Optuna has them.
    """

    folder: Path
    best: dict[str, Any]
    result: Result
    study: optuna.Study


def tune(
    base: Experiment,
    recipe: str,
    recipe_settings: Experiment,
    folder: Path | str,
    dataset: Dataset,
    *,
    num_trials: int = 50,
    minutes: float | None = None,
    max_parameters: int | None = None,
    where: Where | None = None,
    quiet: bool | None = None,
) -> Tuned:
    """Search settings for an experiment in a folder, then train with the best of them. Resumes a search of the folder.

    The first trial has the settings of the experiment itself. The validation part alone chooses; the test part is
    scored once, at the end, for the best settings.

    Args:
        base: The experiment; what it has changed in its recipe is not searched.
        recipe: The name of the recipe.
        recipe_settings: The experiment of the recipe.
        folder: Where to write: `study.journal` (Optuna's), `trial-0001` and so on with `config.json` and
            `metrics.jsonl` of each trial, `best.json` and the run `best`.
        dataset: The data of the experiment.
        num_trials: Trials in all, those of earlier calls included.
        minutes: Let no trial begin or continue after this time of this call; the run at the end comes after it.
        max_parameters: Let no trial have more: layers are narrowed.
        where: Device and places of the data.
        quiet: As in `run_experiment`.

    Raises:
        ValueError: If the folder holds a search for something else, validation has no score, or no trial succeeds.
        ImportError: If Optuna is not installed.
    """
    check_type("base", base, Experiment)
    num_trials = whole_number("num_trials (--trials)", num_trials, 1, 100_000)
    minutes = None if minutes is None else positive_number("minutes (--minutes)", minutes)
    if max_parameters is not None:
        whole_number("max_parameters (--max-parameters)", max_parameters)
    if base.pretraining is not None:
        raise ValueError("Trials are not pre-trained: leave out --pretraining, and pre-train with the best settings.")
    refuse_several(Ranks.of_this_process(), "A search", "run it in one process")
    where = where or Where()
    _check_validation(dataset)
    space = search_space(base, recipe_settings)
    base = settled(base, dataset.task, choose_device(where.device).type, recipe_settings, dataset.batches)
    path = as_path("folder", folder)
    path.mkdir(parents=True, exist_ok=True)
    search = _Search(path, base, space, dataset, Features.of(dataset), where, quiet, max_parameters)
    with RunFolder(path).locked():
        search.keep_base()
        study = _open_study(path, dataset.task.lower_is_better, base.seed)
        search.run_trials(study, num_trials, None if minutes is None else time.monotonic() + 60 * minutes)
        best = search.keep_best(study, recipe, recipe_settings)
    result = search.train_best(best)
    return Tuned(path, best, result, study)


def _check_validation(dataset: Dataset) -> None:
    val = dataset.split.val
    reason = "it is empty" if len(val) == 0 else why_no_score(dataset.task.metric, targets_of(dataset.store, val))
    if reason:
        raise ValueError(f"Validation chooses the settings, and the validation part has no score: {reason}.")


def _open_study(folder: Path, lower_is_better: bool, seed: int) -> optuna.Study:
    """The study of a folder, new or as it was; trials that a process left unfinished have failed."""
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise ImportError("Tuning needs Optuna: pip install optuna") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        backend = JournalFileBackend(str(folder / JOURNAL))  # lines of JSON
        study = optuna.create_study(
            storage=optuna.storages.JournalStorage(backend),
            study_name="crawl",
            load_if_exists=True,
            direction="minimize" if lower_is_better else "maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=_STARTED, n_warmup_steps=_WARM_UP),
        )
        for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / JOURNAL} is damaged ({error}): choose another folder.") from None
    number = len(study.get_trials(deepcopy=False))
    study.sampler = optuna.samplers.TPESampler(seed=derive_seed(seed, "tune", number) % 2**32)
    return study


@dataclass
class _Search:
    """A search that is under way."""

    folder: Path
    base: Experiment
    space: Space
    dataset: Dataset
    features: Features
    where: Where
    quiet: bool | None
    max_parameters: int | None
    encoded: Dataset = field(init=False)

    def __post_init__(self) -> None:
        self.encoded = replace(self.dataset, store=with_encodings(self.dataset.store, self.base.encodings))

    @property
    def metric(self) -> str:
        """By which trials are compared."""
        return self.dataset.task.metric

    def keep_base(self) -> None:
        """Write down what the search is for; refuse a folder with a search for something else."""
        kept, data = self.folder / BASE, self.folder / "data.json"
        now = Fingerprint.of(self.dataset)
        if not kept.is_file():
            if any(not entry.name.startswith(".") for entry in self.folder.iterdir()):
                raise ValueError(f"{self.folder} exists already and holds no search: choose another folder.")
            write_atomically(data, json.dumps(now.to_dict(), indent=2) + "\n")
            write_atomically(kept, self.base.to_json())
            return
        if read_config(kept) != self.base:
            raise ValueError(f"{self.folder} holds a search with other settings: choose another folder with --out.")
        before = read_checked(data, lambda text: Fingerprint.from_dict(parse_json(text)), "choose another folder")
        if changes := before.changes_to(now):
            raise ValueError(f"The data have changed since this search began: {'; '.join(changes)}.")

    def run_trials(self, study: optuna.Study, num_trials: int, end: float | None) -> None:
        """Try settings until there are as many trials as asked for, or the time is over."""
        from optuna.trial import TrialState

        if not study.get_trials(deepcopy=False):
            first = values_of(self.base, self.space)
            study.enqueue_trial({name: value for name, value in first.items() if self.space[name].holds(value)})
            say(f"{len(self.space)} settings are searched: {', '.join(self.space)}.", self.quiet)
        problem: Exception | None = None
        while (number := _num_done(study)) < num_trials and (end is None or time.monotonic() < end):
            trial = study.ask()
            began, place = time.monotonic(), RunFolder(self.folder / f"trial-{trial.number + 1:04}")
            text = f"trial {trial.number + 1}"
            try:
                score, epochs, state = self._train(trial, place, end, f"{text}, {number} of {num_trials} done")
            except (ValueError, MemoryError, torch.OutOfMemoryError) as error:
                study.tell(trial, state=TrialState.FAIL)
                problem = error
                say(f"{text} failed: {' '.join(str(error).split())}", self.quiet)
                if len(study.get_trials(states=(TrialState.FAIL,))) > max(10, 2 * _num_done(study)):
                    raise ValueError(f"Most trials fail, the last with: {error}") from error
                continue
            study.tell(trial, score if state == TrialState.COMPLETE else None, state=state)
            how = "" if state == TrialState.COMPLETE else f", stopped after {epochs} epochs"
            best = f"; best {format_score(self.metric, study.best_value)}" if _has_best(study) else ""
            seconds = f"{time.monotonic() - began:.0f} s"
            words = ", ".join(f"{name.partition('.')[2]} {_short(value)}" for name, value in trial.params.items())
            say(
                f"{text} of {num_trials}: validation {self.metric} {format_score(self.metric, score)}{how}{best}, "
                f"{seconds} ({words})",
                self.quiet,
            )
        if not _has_best(study):
            reason = f": {problem}" if problem is not None else ", since the time was over: give more --minutes"
            raise ValueError(f"No trial was finished{reason}.")

    def _train(self, trial: optuna.Trial, place: RunFolder, end: float | None, doing: str) -> tuple[float, int, Any]:
        """Train one trial: its best validation score, its epochs, and whether it was completed or pruned."""
        from optuna.trial import TrialState

        values = {name: part.suggest(trial, name) for name, part in self.space.items()}
        experiment = variant(self.base, values)
        experiment = within(experiment, self.features, self.max_parameters, count_parameters)
        task, device = self.dataset.task, choose_device(self.where.device).type
        experiment = settled(experiment, task, device, experiment, self.dataset.batches)
        model = build_model(experiment, self.features)
        trial.set_user_attr("num_parameters", sum(parameter.numel() for parameter in model.parameters()))
        place.path.mkdir(exist_ok=True)
        write_atomically(place.config, experiment.to_json())
        self.where.write(place)
        place.write_metrics([])
        settings: dict[str, Any] = {"seed": experiment.seed, "device": self.where.device}
        trainer = Trainer(model, self.encoded, experiment.training, experiment.evaluation, **settings)
        best, epoch, is_over = math.nan, 0, False
        with lines(lambda: f"{doing}, epoch {epoch + 1}" + (f", best {best:.4g}" if epoch else ""), self.quiet):
            for record in trainer.epochs():
                place.append_metrics(record)
                epoch = record["epoch"]
                if trainer.schedule.best is not None:
                    best = trainer.schedule.best
                    trial.report(best, epoch)
                is_over = end is not None and time.monotonic() > end
                if not trainer.schedule.is_over and (is_over or trial.should_prune()):
                    return best, epoch, TrialState.PRUNED
        trial.set_user_attr("best_epoch", trainer.best_epoch)
        if not math.isfinite(best):
            raise ValueError("there is no validation score")
        return best, epoch, TrialState.COMPLETE

    def keep_best(self, study: optuna.Study, recipe: str, recipe_settings: Experiment) -> dict[str, Any]:
        """Write the best settings into `best.json`; its content."""
        trial = study.best_trial
        experiment = read_config(RunFolder(self.folder / f"trial-{trial.number + 1:04}").config)
        best = {
            "trial": trial.number + 1,
            "metric": self.metric,
            "validation": trial.value,
            "num_trials": len(study.get_trials(deepcopy=False)),
            "values": values_of(experiment, self.space),
            "command": train_command(recipe, recipe_settings, experiment, self.where),
            "config": json.loads(experiment.to_json()),
        }
        write_atomically(self.folder / BEST, json.dumps(best, indent=2) + "\n")
        return best

    def train_best(self, best: dict[str, Any]) -> Result:
        """The run with the best settings, which scores the test part; an older one with other settings makes place."""
        experiment, run = Experiment.from_plain(best["config"]), RunFolder(self.folder / BEST_RUN)
        how: dict[str, Any] = {**vars(self.where), "quiet": self.quiet, "dataset": self.dataset}
        if run.config.is_file():
            if read_config(run.config) == experiment:
                return resume_run(run.path, **how)
            number = 1
            while (place := self.folder / f"{BEST_RUN}-before-{number}").exists():
                number += 1
            run.path.rename(place)
        return run_experiment(experiment, run.path, **how)


def _num_done(study: optuna.Study) -> int:
    from optuna.trial import TrialState

    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)))


def _has_best(study: optuna.Study) -> bool:
    from optuna.trial import TrialState

    return bool(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
