"""Several runs that belong together, and the table that sums them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from crawl.checks import shown
from crawl.data.benchmarks import BENCHMARKS
from crawl.files import write_atomically
from crawl.runs.cluster.connection import Cluster
from crawl.runs.ensemble import read_ensemble
from crawl.runs.experiment import OF_ALL_NETWORKS, Experiment, Model
from crawl.runs.folder import RunFolder
from crawl.runs.formats import format_score, has_best, model_title
from crawl.runs.records import read_config
from crawl.runs.run import Result
from crawl.runs.several import run_all
from crawl.runs.sources import OwnGraphs, WithFolds
from crawl.runs.together import refuse_several
from crawl.training.ranks import Ranks

SEEDS = ".seeds"  # a hidden file, since a new run wants a folder without content


@dataclass(frozen=True)
class Summary:
    """The scores of several models on their test splits (paper, appendix B.1).

    Attributes:
        mean: Over models, of their mean over evaluations.
        internal_deviation: The standard deviation over the evaluations of one model, averaged over models.
        cross_deviation: The standard deviation over models.
    """

    mean: float
    internal_deviation: float
    cross_deviation: float

    @classmethod
    def of(cls, results: Sequence[Result]) -> Summary:
        """The summary of the given runs."""
        means = np.array([result.score() for result in results])
        deviations = [result.record["scores"]["test"]["internal_deviation"] for result in results]
        return cls(
            mean=float(means.mean()),
            internal_deviation=float(np.mean([np.nan if value is None else value for value in deviations])),
            cross_deviation=float(means.std()),
        )


def run_folds(
    experiment: Experiment,
    folder: Path,
    *,
    quiet: bool | None = None,
    cluster: Cluster | None = None,
    **where: str | Path | None,
) -> list[Result]:
    """A run for each fold of the data, in `folder/fold-K`, K from 0. Finished folds are read, one that was stopped is
    resumed.

    `where` are the device and the places of the data, as for `run_experiment`; `cluster` is where to share the runs
    out, if not one after the other in this process. Refuses data without folds; graphs of one's own have those of
    `data.num_folds`.
    """
    data = experiment.data
    if not isinstance(data, WithFolds | OwnGraphs) or not num_folds(experiment):
        remedy = "set data.num_folds (--folds)" if isinstance(data, OwnGraphs) else "leave out --protocol folds"
        raise ValueError(f"{data.name} has no folds: {remedy}.")
    folds = range(num_folds(experiment))
    _refuse_folds_from_one(folder)
    variants = {f"fold-{fold}": replace(experiment, data=replace(data, fold=fold)) for fold in folds}
    return _run_each(variants, folder, quiet, cluster, where)


def run_seeds(
    experiment: Experiment,
    folder: Path,
    seeds: Sequence[int],
    *,
    quiet: bool | None = None,
    cluster: Cluster | None = None,
    **where: str | Path | None,
) -> list[Result]:
    """A run for each seed, in `folder/seed-K`. Finished runs are read, one that was stopped is resumed.

    The seed is that of everything random, and so of a split that is drawn. `where` are the device and the places of the
    data, as for `run_experiment`, and `cluster` as for `run_folds`.
    """
    variants = {f"seed-{seed}": replace(experiment, seed=seed) for seed in seeds}
    if len(variants) < len(seeds):
        raise ValueError(f"A seed is named twice: {shown(seeds)}.")
    return _run_each(variants, folder, quiet, cluster, where)


def _run_each(
    variants: Mapping[str, Experiment],
    folder: Path,
    quiet: bool | None,
    cluster: Cluster | None,
    where: Mapping[str, str | Path | None],
) -> list[Result]:
    refuse_several(Ranks.of_this_process(), "Runs on folds or with several seeds", "train them in one process")
    return run_all(variants, folder, where, cluster=cluster, quiet=quiet)


def num_folds(experiment: Experiment) -> int:
    """The number of folds of an experiment's data; 0 if they have none."""
    data = experiment.data
    if isinstance(data, OwnGraphs):
        return data.num_folds
    return BENCHMARKS[data.name].num_folds if isinstance(data, WithFolds) else 0


def note_seeds(folder: Path, seeds: Sequence[int]) -> None:
    """Keep the seeds that `run_seeds` is to have in a folder, for `runs_in`."""
    write_atomically(folder / SEEDS, " ".join(map(str, seeds)) + "\n")


def noted_seeds(folder: Path) -> list[int]:
    """The seeds that `note_seeds` has kept in a folder; none if it has not. Refuses a file that is damaged."""
    note = folder / SEEDS
    words = note.read_text(encoding="utf-8", errors="replace").split() if note.is_file() else []
    if not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError(f"{note} is damaged: it should list the seeds of the runs in {folder}.")
    return [int(word) for word in words]


def runs_in(folder: Path) -> list[str]:
    """The names of the folders of the runs that `run_folds` or `run_seeds` make in a folder, begun or not; none if it
    is the folder of a run, or of something else."""
    if (folder / "config.json").is_file():
        return []
    if RunFolder(folder).ensemble.is_file():
        return list(read_ensemble(folder).members)
    if seeds := noted_seeds(folder):
        return [f"seed-{seed}" for seed in seeds]
    configs = sorted(folder.glob("fold-*/config.json"))  # the first fold need not be begun first
    if not configs and not (folder / "fold-0").is_dir():
        return []
    _refuse_folds_from_one(folder)
    experiment = read_config(configs[0] if configs else RunFolder.open(folder / "fold-0").config)
    return [f"fold-{fold}" for fold in range(num_folds(experiment))]


def _refuse_folds_from_one(folder: Path) -> None:
    """Refuse folders of folds of earlier versions, which named the first of them `fold-1`."""
    for config in sorted(folder.glob("fold-*/config.json")):
        experiment = read_config(config)
        is_folded = num_folds(experiment) > 0  # others may have been named so by hand
        if is_folded and config.parent.name == f"fold-{getattr(experiment.data, 'fold', 0) + 1}":
            raise ValueError(
                f"The folders in {folder} are named from fold-1 on, as earlier versions did: rename each to one less, "
                "fold-1 to fold-0 first."
            )


def as_baseline(experiment: Experiment, name: str = "gin") -> Experiment:
    """The same experiment with a message-passing network in place of CRaWl, of the same width as far as it can be, and
    without settings of walks."""
    like = experiment.model
    assert isinstance(like, Model)
    heads = Model.num_heads if name == "gat" else 1
    width = -(-like.hidden_channels // heads) * heads
    kept: dict[str, Any] = {setting: getattr(like, setting) for setting in OF_ALL_NETWORKS}
    model = Model((name,), width, like.num_layers, **kept)
    return replace(experiment.without_walks(model), name=f"{experiment.name}-{name}")


def results_table(results: Sequence[Result]) -> Table:
    """A row per run, and their summary if there are several."""
    table = Table(title=f"{results[0].record['data']}: test {results[0].record['metric']}")
    rows = [result_cells(result.record) for result in results]
    seeds = [Experiment.from_plain(result.record["config"]).seed for result in results]
    if len(set(seeds)) > 1:
        for row, seed in zip(rows, seeds, strict=True):
            row["model"] += f" seed {seed}"
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        table.add_row(*row.values())
    reasons = {
        f"No {part} score: {score['reason']}."
        for result in results
        for part, score in result.record["scores"].items()
        if part != "train" and "reason" in score
    }
    reasons |= {_left_out(part, score) for result in results for part, score in result.record["scores"].items()} - {""}
    table.caption = " ".join(sorted(reasons)) or None
    return table


def _left_out(part: str, score: dict[str, Any]) -> str:
    """Which targets a mean score leaves out, since they have none, such as labels of one class; "" if it has all."""
    missing = [name for name, of_target in score.get("by_target", {}).items() if of_target["mean"] is None]
    if part == "train" or score["mean"] is None or not missing:
        return ""
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return f"The {part} score leaves out {shown}, for which there is none."


def result_cells(record: dict[str, Any]) -> dict[str, str]:
    """What a record says, as people read it, by the name of its column."""
    metric, test, validation = record["metric"], record["scores"]["test"], record["scores"].get("val", {})
    config = Experiment.from_plain(record["config"])
    is_folded = isinstance(config.data, WithFolds | OwnGraphs) and num_folds(config)
    fold = f" fold {getattr(config.data, 'fold', 0)}" if is_folded else ""
    members = record.get("ensemble", {}).get("num_members")
    of_members = "" if members is None else f", {members} models together"
    return {
        "model": model_title(config.model) + fold + of_members,
        "validation": format_score(metric, validation.get("mean")),
        "test": format_score(metric, test["mean"]),
        "± evaluations": format_score(metric, test["internal_deviation"]),
        "best epoch": f"{record.get('best_epoch', '?') if has_best(record) else 'last'} of {record['num_epochs']}",
        "parameters": f"{record['num_parameters']:,}",
        "time": f"{record['wall_time_s']:.0f} s",
    }
