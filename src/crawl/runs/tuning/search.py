"""A search for settings: what it asks of Optuna, tells it, and writes down."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from crawl.data.dataset import Dataset
from crawl.data.encoded import with_encodings
from crawl.data.fingerprint import Fingerprint
from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked
from crawl.runs.build import build_model, count_parameters
from crawl.runs.cluster.connection import Cluster
from crawl.runs.experiment import Experiment, settled
from crawl.runs.features import Features
from crawl.runs.folder import RunFolder
from crawl.runs.formats import format_score
from crawl.runs.progress import lines, say
from crawl.runs.records import read_config
from crawl.runs.run import Result
from crawl.runs.several import run_all
from crawl.runs.tuning.command import train_command
from crawl.runs.tuning.space import Space, values_of, variant, within
from crawl.runs.tuning.trial import Trained, train_trial
from crawl.runs.where import Where

if TYPE_CHECKING:
    import optuna

BASE, BEST, BEST_RUN = "base.json", "best.json", "best"


@dataclass
class Search:
    """A search that is under way: what it is for, and what becomes of its trials."""

    folder: Path
    base: Experiment
    space: Space
    dataset: Dataset
    features: Features
    where: Where
    kind: str  # of device
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

    def enqueue_first(self, study: optuna.Study) -> None:
        """Let a new search begin with the settings of its experiment."""
        if not study.get_trials(deepcopy=False):
            first = values_of(self.base, self.space)
            study.enqueue_trial({name: value for name, value in first.items() if self.space[name].holds(value)})
            say(f"{len(self.space)} settings are searched: {', '.join(self.space)}.", self.quiet)

    def place(self, trial: optuna.Trial | optuna.trial.FrozenTrial) -> RunFolder:
        """The folder of a trial."""
        return RunFolder(self.folder / f"trial-{trial.number + 1:04}")

    def prepare(self, trial: optuna.Trial) -> Experiment:
        """The experiment of a trial, which its folder keeps."""
        values = {name: part.suggest(trial, name) for name, part in self.space.items()}
        experiment = variant(self.base, values)
        experiment = within(experiment, self.features, self.max_parameters, count_parameters)
        experiment = settled(experiment, self.dataset.task, self.kind, experiment, self.dataset.batches)
        model = build_model(experiment, self.features)
        trial.set_user_attr("values", values_of(experiment, self.space))
        trial.set_user_attr("num_parameters", sum(parameter.numel() for parameter in model.parameters()))
        place = self.place(trial)
        place.path.mkdir(exist_ok=True)
        write_atomically(place.config, experiment.to_json())
        self.where.write(place)
        return experiment

    def run_trials(self, study: optuna.Study, num_trials: int, end: float | None) -> None:
        """Try settings until there are as many trials as asked for, or the time is over."""
        problem = ""
        while (number := num_done(study)) < num_trials and (end is None or time.monotonic() < end):
            trial, began = study.ask(), time.monotonic()
            try:
                trained = self._train(trial, end, f"trial {trial.number + 1}, {number} of {num_trials} done")
            except (ValueError, MemoryError, torch.OutOfMemoryError) as error:
                problem = str(error)
                self.fail(study, trial, problem)
                continue
            self.keep(study, trial, trained, num_trials, time.monotonic() - began)
        self.check_best(study, problem)

    def _train(self, trial: optuna.Trial, end: float | None, doing: str) -> Trained:
        """Train one trial in this process."""
        text = f"{doing}, epoch 1"

        def tell(epoch: int, best: float | None) -> bool:
            nonlocal text
            text = f"{doing}, epoch {epoch + 1}" + ("" if best is None else f", best {best:.4g}")
            if best is not None:
                trial.report(best, epoch)
            return (end is not None and time.monotonic() > end) or trial.should_prune()

        experiment = self.prepare(trial)
        with lines(lambda: text, self.quiet):
            how: dict[str, Any] = {"features": self.features, "device": self.where.device, "tell": tell}
            return train_trial(experiment, self.place(trial), self.encoded, **how)

    def fail(self, study: optuna.Study, trial: optuna.Trial, problem: str) -> None:
        """A trial has failed. Refuses to go on if most do."""
        from optuna.trial import TrialState

        study.tell(trial, state=TrialState.FAIL)
        say(f"trial {trial.number + 1} failed: {' '.join(problem.split())}", self.quiet)
        if len(study.get_trials(states=(TrialState.FAIL,))) > max(10, 2 * num_done(study)):
            raise ValueError(f"Most trials fail, the last with: {problem}")

    def keep(self, study: optuna.Study, trial: optuna.Trial, trained: Trained, num_trials: int, seconds: float) -> None:
        """A trial was trained, or pruned."""
        from optuna.trial import TrialState

        if trained.best_epoch is not None:
            trial.set_user_attr("best_epoch", trained.best_epoch)
        state = TrialState.PRUNED if trained.is_pruned else TrialState.COMPLETE
        study.tell(trial, None if trained.is_pruned else trained.best, state=state)
        how = f", stopped after {trained.num_epochs} epochs" if trained.is_pruned else ""
        best = f"; best {format_score(self.metric, study.best_value)}" if _has_best(study) else ""
        words = ", ".join(f"{name.partition('.')[2]} {_short(value)}" for name, value in used_values(trial).items())
        say(
            f"trial {trial.number + 1} of {num_trials}: validation {self.metric} "
            f"{format_score(self.metric, trained.best)}{how}{best}, {seconds:.0f} s ({words})",
            self.quiet,
        )

    def check_best(self, study: optuna.Study, problem: str) -> None:
        """Refuse a search of which no trial was finished."""
        if not _has_best(study):
            reason = f": {problem}" if problem else ", since the time was over: give more --minutes"
            raise ValueError(f"No trial was finished{reason}.")

    def keep_best(self, study: optuna.Study, recipe: str, recipe_settings: Experiment) -> dict[str, Any]:
        """Write the best settings into `best.json`; its content."""
        trial = study.best_trial
        experiment = read_config(self.place(trial).config)
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

    def train_best(self, best: dict[str, Any], cluster: Cluster | None) -> Result:
        """The run with the best settings, which scores the test part; an older one with other settings makes place."""
        experiment, run = Experiment.from_plain(best["config"]), RunFolder(self.folder / BEST_RUN)
        if run.config.is_file() and read_config(run.config) != experiment:
            number = 1
            while (place := self.folder / f"{BEST_RUN}-before-{number}").exists():
                number += 1
            run.path.rename(place)
        how: dict[str, Any] = {"dataset": self.dataset, "cluster": cluster, "quiet": self.quiet}
        (result,) = run_all({BEST_RUN: experiment}, self.folder, vars(self.where), **how)
        return result


def num_done(study: optuna.Study) -> int:
    """How many trials were trained or pruned."""
    from optuna.trial import TrialState

    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)))


def used_values(trial: optuna.Trial | optuna.trial.FrozenTrial) -> dict[str, Any]:
    """The settings that a trial was trained with: layers may be narrower than Optuna had asked for."""
    values: dict[str, Any] = trial.user_attrs.get("values", trial.params)  # older searches did not keep them
    return values


def _has_best(study: optuna.Study) -> bool:
    from optuna.trial import TrialState

    return bool(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
