"""Several runs of one command: one after the other in this process, or shared out over a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from crawl.checks import check_type
from crawl.data.dataset import Dataset
from crawl.plain import structure, unstructure
from crawl.runs.build import read_by
from crawl.runs.cluster.connection import Cluster
from crawl.runs.cluster.sharing import Job, Outcome, share_out
from crawl.runs.cluster.worker import Tell
from crawl.runs.experiment import Experiment
from crawl.runs.folder import RunFolder
from crawl.runs.records import read_config
from crawl.runs.run import Result, Stopped, resume_run, run_experiment
from crawl.runs.where import Where

_LONGEST_LINE = 4096  # of metrics, in bytes


def run_all(
    variants: Mapping[str, Experiment],
    folder: Path,
    where: Mapping[str, str | Path | None],
    *,
    dataset: Dataset | None = None,
    cluster: Cluster | None = None,
    quiet: bool | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[Result]:
    """The results of runs in `folder/NAME`. Finished ones are read, one that was stopped is resumed.

    Args:
        variants: The experiments, by their names.
        folder: Where the folders of the runs are.
        where: The device and the places of the data, as for `run_experiment`; those that are None are left out.
        dataset: Their data, to spare reading them again, or because they were given in Python.
        cluster: Where to share the runs out; None does one after the other in this process.
        quiet: As in `run_experiment`; on a cluster, there is one table for all.
        stop: Asked after every epoch whether to stop there.

    Raises:
        ValueError: If a folder holds something else, a run failed, or data that were given are to be on a cluster.
        Stopped: If it was asked to stop before all runs were finished.
    """
    if cluster is not None:
        check_type("cluster", cluster, Cluster, "use what crawl.runs.cluster.connection.connect gives")
    for name, experiment in variants.items():
        config = RunFolder(folder / name).config
        if config.is_file() and read_config(config) != experiment:
            raise ValueError(f"{folder / name} holds a run with other settings: choose another folder.")
    known: dict[str, Any] = {name: value for name, value in where.items() if value is not None}
    if cluster is not None:
        return _on_cluster(variants, folder, Where().moved(**known), dataset, cluster, quiet, stop)
    results = []
    for name, experiment in variants.items():
        given = dataset if dataset is None or dataset.source is None else read_by(experiment.data, dataset)
        how: dict[str, Any] = {"dataset": given, "quiet": quiet, "stop": stop, **known}
        results.append(_run_or_resume(experiment, folder / name, **how))
    return results


def refuse_given(dataset: Dataset) -> None:
    """Refuse data that workers cannot read."""
    if dataset.source is None:
        raise ValueError("Workers read the data from files: data that were given in Python cannot be sent to them.")


def _run_or_resume(experiment: Experiment, place: Path, **how: Any) -> Result:
    is_begun = RunFolder(place).config.is_file()
    return resume_run(place, **how) if is_begun else run_experiment(experiment, place, **how)


def _on_cluster(
    variants: Mapping[str, Experiment],
    folder: Path,
    where: Where,
    dataset: Dataset | None,
    cluster: Cluster,
    quiet: bool | None,
    stop: Callable[[], bool] | None,
) -> list[Result]:
    if dataset is not None:
        refuse_given(dataset)
    jobs = [
        train_job(name, experiment, folder / name, where, cluster, len(variants))
        for name, experiment in variants.items()
    ]
    outcomes = share_jobs(train, jobs, cluster, is_over=stop, quiet=quiet)
    failed = {name: outcomes[name].problem for name in variants if name in outcomes and outcomes[name].state != "done"}
    for name, problem in failed.items():
        if outcomes[name].state != "stopped":
            number = len(failed) - 1
            others = f"; {number} other{'s are' * (number > 1) or ' is'} not finished either" if number else ""
            raise ValueError(f"{name} is not finished: {problem.rstrip('.')}{others}.")
    if failed or len(outcomes) < len(variants):
        raise Stopped(f"{folder} stopped with {len(variants)} runs; it can be resumed.")
    return [Result(folder / name, json.loads(RunFolder(folder / name).result.read_text())) for name in variants]


def share_jobs(do: Any, jobs: Iterable[Job], cluster: Cluster, **how: Any) -> dict[str, Outcome]:
    """How these runs ended, by their names; the arguments are those of `share_out`."""
    left = list(jobs)
    return share_out(do, partial(next, iter(left), None), cluster, num_jobs=len(left), **how)


def train_job(name: str, experiment: Experiment, place: Path, where: Where, cluster: Cluster, among: int = 1) -> Job:
    """The job of one training, which `train` does at a worker, among this many runs."""
    task = {"experiment": experiment.to_json(), "where": unstructure(where.moved(cluster.device))}
    return Job(name, place, {**task, "runs_at_a_time": cluster.runs_at_a_time(among)})


def train(folder: Path, task: dict[str, Any], tell: Tell) -> None:
    """Train at a worker, or resume; the last line of the metrics is told after each epoch."""
    experiment, where = Experiment.from_json(task["experiment"]), structure(Where, task["where"], "where")
    how: dict[str, Any] = {"runs_at_a_time": task["runs_at_a_time"], "stop": partial(tell_last, folder, tell)}
    _run_or_resume(experiment, folder, quiet=True, **how, **vars(where))


def tell_last(folder: Path, tell: Tell) -> bool:
    """Tell the head about the last epoch of a run; whether to stop."""
    file = RunFolder(folder).metrics
    with open(file, "rb") as lines:
        lines.seek(max(0, file.stat().st_size - _LONGEST_LINE))
        last = lines.read().splitlines()[-1:]
    return tell(json.loads(last[0]) if last else {"pre-training": "is under way"})
