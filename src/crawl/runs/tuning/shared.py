"""Trials that are shared out over a cluster. Optuna is asked and told at the head alone."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawl.data.dataset import Dataset
from crawl.data.encoded import with_encodings
from crawl.encodings.settings import Encodings
from crawl.plain import structure, unstructure
from crawl.runs.build import load_dataset
from crawl.runs.cluster.box import News
from crawl.runs.cluster.connection import Cluster
from crawl.runs.cluster.sharing import Job, Outcome, share_out
from crawl.runs.cluster.worker import Tell
from crawl.runs.experiment import Experiment
from crawl.runs.features import Features
from crawl.runs.folder import RunFolder
from crawl.runs.sources import Data
from crawl.runs.tuning.search import Search, num_done
from crawl.runs.tuning.trial import Trained, train_trial
from crawl.runs.where import Where

if TYPE_CHECKING:
    import optuna


def share_trials(search: Search, study: optuna.Study, num_trials: int, end: float | None, cluster: Cluster) -> None:
    """Try settings at the workers until there are as many trials as asked for, or the time is over.

    A trial is begun when a worker is free, with what is known by then; one whose worker dies is trained again.
    """
    _Trials(search, study, num_trials, end, cluster).run()


class _Trials:
    """Trials that are under way, by the names of their folders."""

    def __init__(
        self, search: Search, study: optuna.Study, num_trials: int, end: float | None, cluster: Cluster
    ) -> None:
        self.search, self.study, self.num_trials, self.end, self.cluster = search, study, num_trials, end, cluster
        self.under_way: dict[str, tuple[optuna.Trial, float]] = {}
        self.reported: dict[str, int] = {}  # the last epoch of each trial
        self.pruned: set[str] = set()
        self.problem = ""

    def run(self) -> None:
        """Do all of them."""
        left = max(0, self.num_trials - num_done(self.study))
        how: dict[str, Any] = {"num_jobs": left, "heard": self.heard, "ended": self.ended, "is_over": self.is_over}
        share_out(trial_at_worker, self.next, self.cluster, **how, quiet=self.search.quiet)
        self.search.check_best(self.study, self.problem)

    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.end is not None and time.monotonic() > self.end

    def next(self) -> Job | None:
        """The next trial, unless as many as asked for are done or under way."""
        while num_done(self.study) + len(self.under_way) < self.num_trials and not self.is_over():
            trial = self.study.ask()
            try:
                experiment = self.search.prepare(trial)
            except (ValueError, MemoryError) as error:
                self.problem = str(error)
                self.search.fail(self.study, trial, self.problem)
                continue
            place = self.search.place(trial).path
            self.under_way[place.name] = (trial, time.monotonic())
            where = unstructure(self.search.where.moved(self.cluster.device))
            return Job(place.name, place, {"experiment": experiment.to_json(), "where": where})
        return None

    def heard(self, name: str, news: News) -> bool:
        """Report an epoch to Optuna, once, though it may be trained twice; whether the trial shall be pruned."""
        trial, _ = self.under_way[name]
        if news["epoch"] > self.reported.get(name, 0):
            self.reported[name] = news["epoch"]
            if news["best"] is not None:
                trial.report(news["best"], news["epoch"])
        if trial.should_prune():
            self.pruned.add(name)
        return name in self.pruned

    def ended(self, name: str, outcome: Outcome) -> None:
        """Keep what came of a trial. One that Ctrl-C stopped has failed, as a later call will tell Optuna."""
        trial, began = self.under_way.pop(name)
        if outcome.state == "done":
            trained = Trained(**outcome.value)
            if not trained.is_pruned or name in self.pruned or self.is_over():
                self.search.keep(self.study, trial, trained, self.num_trials, time.monotonic() - began)
        elif outcome.state != "stopped":
            self.problem = outcome.problem
            self.search.fail(self.study, trial, self.problem)


def trial_at_worker(folder: Path, task: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Train a trial at a worker; what came of it, in plain values."""
    experiment, where = Experiment.from_json(task["experiment"]), structure(Where, task["where"], "where")
    dataset, encoded = _loaded(experiment.data, experiment.data_seed, experiment.encodings, where)
    trained = train_trial(
        experiment,
        RunFolder(folder),
        encoded,
        features=Features.of(dataset),
        device=where.device,
        tell=lambda epoch, best: tell({"epoch": epoch, "best": best}),
    )
    return asdict(trained)


@lru_cache(maxsize=1)
def _loaded(data: Data, seed: int, encodings: Encodings, where: Where) -> tuple[Dataset, Dataset]:
    """The data of all trials, and the same with encodings: a worker has many trials."""
    dataset = load_dataset(data, seed, **where.places)
    return dataset, replace(dataset, store=with_encodings(dataset.store, encodings))
