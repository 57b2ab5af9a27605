"""Several runs that belong together, and the table that sums them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from crawl.experiments.experiment import Experiment
from crawl.experiments.run import Result, resume_run, run_experiment

NUM_CSL_FOLDS = 5


@dataclass(frozen=True)
class Summary:
    """The scores of several models on their test parts (paper, appendix B.1).

    Attributes:
        mean: Over models, of their mean over evaluations.
        internal_deviation: How far the evaluations of one model lie apart: the mean over models.
        cross_deviation: How far the models lie apart.
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


def run_folds(experiment: Experiment, folder: Path, *, quiet: bool | None = None) -> list[Result]:
    """A run for each fold of CSL, in `folder/fold-K`. Folds that are finished are read, one that was stopped goes on.

    Raises:
        ValueError: If the experiment is not about CSL.
    """
    if experiment.data.name != "csl":
        raise ValueError(f"Only csl has folds, not {experiment.data.name}: leave out --protocol folds.")
    results = []
    for fold in range(NUM_CSL_FOLDS):
        variant = replace(experiment, data=replace(experiment.data, fold=fold))
        place = folder / f"fold-{fold + 1}"
        started = (place / "config.json").is_file()
        if started and Experiment.from_json((place / "config.json").read_text()) != variant:
            raise ValueError(f"{place} holds a run with other settings: choose another folder.")
        results.append(resume_run(place, quiet=quiet) if started else run_experiment(variant, place, quiet=quiet))
    return results


def as_baseline(experiment: Experiment) -> Experiment:
    """The same experiment with a message-passing GIN in place of CRaWl."""
    return replace(experiment, name=f"{experiment.name}-gin", model=replace(experiment.model, name="gin"))


def results_table(results: Sequence[Result]) -> Table:
    """A row per run, and their summary if there are several."""
    metric = results[0].record["metric"]
    table = Table(title=f"{results[0].record['data']}: test {metric}")
    for column in ("model", "validation", "test", "± evaluations", "best epoch", "parameters", "time"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for result in results:
        record, scores = result.record, result.record["scores"]
        fold = f" fold {record['config']['data']['fold'] + 1}" if record["config"]["data"]["name"] == "csl" else ""
        table.add_row(
            MODEL_NAMES[record["config"]["model"]["name"]] + fold,
            format_score(metric, scores["val"]["mean"]),
            format_score(metric, scores["test"]["mean"]),
            format_score(metric, scores["test"]["internal_deviation"]),
            f"{record['best_epoch']} of {record['num_epochs']}",
            f"{record['num_parameters']:,}",
            f"{record['wall_time_s']:.0f} s",
        )
    return table


MODEL_NAMES = {"crawl": "CRaWl", "gin": "GIN (message passing)"}


def format_score(metric: str, value: float | None) -> str:
    """A score as people write it: shares in percent; a dash where there is none."""
    if value is None:
        return "–"
    return f"{100 * value:.2f} %" if metric == "accuracy" else f"{value:.4f}"
