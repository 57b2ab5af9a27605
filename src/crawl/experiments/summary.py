"""Tables of results: what the paper reports, what came out, and the difference. Only what was measured is in them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crawl.data.benchmarks import BENCHMARKS
from crawl.experiments.experiment import Experiment
from crawl.experiments.protocol import format_score
from crawl.experiments.records import RunRecord, scores_by_epoch
from crawl.experiments.tables import PlannedRun, Published, Row, Table

BY_VALIDATION = "epoch chosen by validation"
LAST_EPOCH = "last epoch"
BY_TEST = "epoch with the best mean test score (as in the paper)"


@dataclass(frozen=True)
class Line:
    """One line of a table of results.

    Attributes:
        label: The row.
        selection: How the reported epoch was chosen.
        metric: The score, or `seconds`.
        num_finished: Runs that are finished.
        num_planned: Runs that the row has.
        mean: The mean over finished models; None if there are none.
        cross_deviation: How far models lie apart; None for one model.
        internal_deviation: How far the evaluations of a model lie apart.
        published: What the paper reports, for comparison.
        x: Where it stands on the axis of a figure.
        notes: What a reader must know.
    """

    label: str
    selection: str
    metric: str
    num_finished: int
    num_planned: int
    mean: float | None = None
    cross_deviation: float | None = None
    internal_deviation: float | None = None
    published: Published | None = None
    x: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's; None where there are not both."""
        return None if self.mean is None or self.published is None else self.mean - self.published.mean


def summarise(table: Table, runs: Mapping[str, RunRecord], problems: Mapping[str, str] | None = None) -> list[Line]:
    """The lines of a table: one for each row, two where the paper chooses the epoch with the test data.

    Args:
        table: The plan.
        runs: The runs that were begun, by their place.
        problems: Why runs failed, by their place.
    """
    lines: list[Line] = []
    for row in table.rows:
        lines += _lines(table, row, runs, problems or {})
    return lines


def _lines(table: Table, row: Row, runs: Mapping[str, RunRecord], problems: Mapping[str, str]) -> list[Line]:
    planned = list(row.runs())
    finished = [run for run in planned if run.place in runs and runs[run.place].is_finished]
    notes = _notes(planned, finished, runs, problems)
    tracks_test = row.experiment.evaluation.track_test
    metric = _metric(table, row, [runs[run.place] for run in finished])
    empty = Line(
        row.label,
        LAST_EPOCH if not row.experiment.data.has_validation else BY_VALIDATION,
        metric,
        len(finished),
        len(planned),
        published=None if tracks_test else row.published,
        x=row.x,
        notes=notes,
    )
    own = empty if not finished else _scored(table, empty, finished, runs)
    if not tracks_test:
        return [own]
    return [_chosen_by_test(row, empty, finished, runs), own]


def _scored(table: Table, line: Line, finished: Sequence[PlannedRun], runs: Mapping[str, RunRecord]) -> Line:
    """The line with its numbers. Models are seeds, with the mean over their folds; or folds, if there is one seed."""
    values, deviations = [], []
    for run in finished:
        value, deviation = _value(table, runs[run.place])
        values.append(value)
        deviations.append(deviation)
    seeds = [run.experiment.seed for run in finished]
    models = values
    if len(set(seeds)) > 1:
        models = [
            float(np.mean([value for value, s in zip(values, seeds, strict=True) if s == seed])) for seed in set(seeds)
        ]
    known = [deviation for deviation in deviations if deviation is not None]
    return replace(
        line,
        mean=float(np.mean(models)),
        cross_deviation=float(np.std(models)) if len(models) > 1 else None,
        internal_deviation=float(np.mean(known)) if known else None,
    )


def _value(table: Table, run: RunRecord) -> tuple[float, float | None]:
    assert run.record is not None
    if table.measure == "seconds":
        return float("nan") if run.seconds_per_epoch is None else run.seconds_per_epoch, None
    score = run.record["scores"]["test"]
    return float("nan") if score["mean"] is None else score["mean"], score["internal_deviation"]


def _chosen_by_test(row: Row, line: Line, finished: Sequence[PlannedRun], runs: Mapping[str, RunRecord]) -> Line:
    """The epoch with the best mean over folds, and how far the folds lie apart there."""
    curves = np.array(scores_by_epoch(runs[run.place] for run in finished), dtype=np.float64)
    line = replace(line, selection=BY_TEST, published=row.published)
    if not curves.size:
        return line
    means = curves.mean(axis=0)
    epoch = int(means.argmax())  # scores that are tracked are accuracies
    return replace(
        line,
        mean=float(means[epoch]),
        cross_deviation=float(curves[:, epoch].std()) if len(curves) > 1 else None,
        notes=(*line.notes, f"epoch {epoch + 1}, one evaluation"),
    )


def _notes(
    planned: Sequence[PlannedRun],
    finished: Sequence[PlannedRun],
    runs: Mapping[str, RunRecord],
    problems: Mapping[str, str],
) -> tuple[str, ...]:
    notes = []
    begun = [runs[run.place] for run in planned if run.place in runs and not runs[run.place].is_finished]
    if not finished and not begun:
        notes.append("not run")
    elif len(finished) < len(planned):
        more = f", {len(begun)} begun (epoch {max(run.epochs for run in begun)})" if begun else ""
        notes.append(f"unfinished: {len(finished)} of {len(planned)} runs{more}")
    reasons = list(dict.fromkeys(problems[run.place] for run in planned if run.place in problems))
    notes += reasons[:1]
    others = [run for run in finished if not _is_as_planned(run, runs[run.place])]
    if others:
        notes.append(f"{len(others)} runs have other settings than planned")
    names = {
        str(run.record["data"]) for run in runs.values() if run.record and run.place in {r.place for r in finished}
    }
    notes += sorted(f"data: {name}" for name in names if name.endswith(("(rebuilt)", "(synthetic)")))
    return tuple(notes)


def _is_as_planned(planned: PlannedRun, run: RunRecord) -> bool:
    """Whether a run is the planned one, wherever it was computed and wherever its data lay."""
    assert run.record is not None
    found = Experiment.from_json(json.dumps(run.record["config"]))
    return _settings(found) == _settings(planned.experiment)


def _settings(experiment: Experiment) -> str:
    values = json.loads(experiment.to_json())
    values["data"] |= {"root": None, "path": None}
    values["training"]["device"] = ""
    return json.dumps(values)


def _metric(table: Table, row: Row, finished: Sequence[RunRecord]) -> str:
    """What the numbers of a row are; empty if nothing tells."""
    if table.measure == "seconds":
        return "seconds"
    for run in finished:
        assert run.record is not None
        return str(run.record["metric"])
    name = row.experiment.data.name
    return BENCHMARKS[name].task.metric if name in BENCHMARKS else ""


# ---- as text

_COLUMNS = (
    *("table", "row", "epoch", "metric", "paper", "paper_deviation", "ours", "difference", "cross_deviation"),
    *("internal_deviation", "num_finished", "num_planned", "notes"),
)
HEADER = ("row", "epoch", "paper", "ours", "difference", "± models", "± evaluations", "runs", "notes")


def cells(line: Line, several_selections: bool) -> tuple[str, ...]:
    """A line as people read it."""
    published = "–"
    if line.published is not None:
        bound = "≤ " if line.published.at_most else ""
        published = bound + with_deviation(line.metric, line.published.mean, line.published.cross_deviation)
    difference = "–" if line.difference is None else _format(line.metric, line.difference, signed=True)
    return (
        line.label,
        line.selection if several_selections else "",
        published,
        _format(line.metric, line.mean),
        difference,
        _format(line.metric, line.cross_deviation),
        _format(line.metric, line.internal_deviation),
        f"{line.num_finished} of {line.num_planned}",
        "; ".join(line.notes),
    )


def to_markdown(table: Table, lines: Sequence[Line]) -> str:
    """A section with the table."""
    several = len({line.selection for line in lines}) > 1
    kept = [i for i, name in enumerate(HEADER) if several or name != "epoch"]
    rows = [HEADER, tuple("---" for _ in HEADER), *(cells(line, several) for line in lines)]
    text = "\n".join("| " + " | ".join(row[i] for i in kept) + " |" for row in rows)
    return f"## {table.title}\n\n{text}\n" + (f"\n{table.note}\n" if table.note else "")


def to_csv(lines_by_table: Mapping[str, Sequence[Line]]) -> str:
    """All lines with all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for table, lines in lines_by_table.items():
        for line in lines:
            published = line.published
            values = [None, None] if published is None else [published.mean, published.cross_deviation]
            numbers = [*values, line.mean, line.difference, line.cross_deviation, line.internal_deviation]
            writer.writerow(
                [table, line.label, line.selection, line.metric]
                + ["" if number is None else f"{number:.6g}" for number in numbers]
                + [line.num_finished, line.num_planned, "; ".join(line.notes)]
            )
    return text.getvalue()


def with_deviation(metric: str, mean: float, deviation: float | None) -> str:
    """A mean with how far models lie apart, where that is known."""
    return _format(metric, mean) + ("" if deviation is None else f" ± {_format(metric, deviation)}")


def _format(metric: str, value: float | None, signed: bool = False) -> str:
    if value is None or value != value:
        return "–"
    text = f"{abs(value):.3g} s" if metric == "seconds" else format_score(metric, abs(value))
    if not signed:
        return text
    return ("−" if value < 0 else "+") + text
