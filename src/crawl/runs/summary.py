"""Tables of results: what the paper reports, what came out, and the difference. Only what was measured is in them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crawl.runs.build import known_task
from crawl.runs.effect import effective
from crawl.runs.experiment import Experiment
from crawl.runs.plan import PlannedRun, Published, Row, Table
from crawl.runs.protocol import format_score
from crawl.runs.records import RunRecord, scores_by_epoch

BY_VALIDATION = "epoch chosen by validation"
LAST_EPOCH = "last epoch"
BY_TEST = "epoch with the best mean test score (as in the paper)"
OVER_FOLDS = "± over folds"
_ROUNDING = 1e-5  # small files keep five digits: scores that are nearer than this are the same


@dataclass(frozen=True)
class Line:
    """One line of a table of results.

    Attributes:
        label: The row.
        selection: How the reported epoch was chosen.
        metric: The score, or `seconds`.
        num_finished: Runs that are finished and counted.
        num_planned: Runs that the row has.
        mean: The mean over these runs; None if there are none.
        cross_deviation: How far models lie apart; None for one model.
        internal_deviation: How far the evaluations of a model lie apart.
        published: What the paper reports, for comparison.
        x: Where it stands on the axis of a figure.
        notes: What a reader must know.
        machines: On what these runs were made.
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
    machines: tuple[str, ...] = ()

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's; None where there are not both."""
        return None if self.mean is None or self.published is None else self.mean - self.published.mean


def summarise(table: Table, runs: Mapping[str, RunRecord], problems: Mapping[str, str] | None = None) -> list[Line]:
    """The lines of a table: one for each row, two where the paper chooses the epoch with the test data.

    Args:
        table: The plan.
        runs: The runs that were begun, by their place. Where some have other settings than planned, they are left out,
            unless all have.
        problems: Why runs failed, by their place.
    """
    lines: list[Line] = []
    for row in table.rows:
        lines += _lines(table, row, runs, problems or {})
    return lines


def _lines(table: Table, row: Row, runs: Mapping[str, RunRecord], problems: Mapping[str, str]) -> list[Line]:
    planned = list(row.runs())
    finished = [run for run in planned if run.place in runs and runs[run.place].is_finished]
    as_planned = [run for run in finished if not _differences(run, runs[run.place])]
    others = [run for run in finished if run not in as_planned]
    counted = as_planned or others
    scored = [run for run in counted if _value(table, row, runs[run.place]) is not None]
    tracks_test = row.experiment.evaluation.track_test
    empty = Line(
        row.label,
        LAST_EPOCH if not row.experiment.data.has_validation else BY_VALIDATION,
        "seconds" if table.measure == "seconds" else metric_of(row, runs),
        len(scored),
        len(planned),
        published=None if tracks_test else row.published,
        x=row.x,
        notes=(
            *_progress(planned, counted, runs),
            *_problems(planned, runs, problems),
            *_settings_notes(others, runs, bool(as_planned)),
            *_data_notes(counted, runs),
        ),
        machines=_machines([runs[run.place] for run in counted]),
    )
    own = replace(empty, notes=empty.notes + _score_notes(table, row, len(counted) - len(scored)))
    own = own if not scored else _scored(table, row, own, scored, runs)
    if not tracks_test:
        return [own]
    return [_chosen_by_test(row, replace(empty, num_finished=len(counted)), counted, runs), own]


def _scored(table: Table, row: Row, line: Line, counted: Sequence[PlannedRun], runs: Mapping[str, RunRecord]) -> Line:
    """The line with its numbers. The mean is over runs, which is that over seeds as soon as the row is finished."""
    found = [_value(table, row, runs[run.place]) for run in counted]
    values = [value for value, _ in filter(None, found)]
    known = [deviation for _, deviation in filter(None, found) if deviation is not None]
    cross_deviation, over = _between_models(row, counted, values)
    return replace(
        line,
        mean=float(np.mean(values)),
        cross_deviation=cross_deviation,
        internal_deviation=float(np.mean(known)) if known else None,
        notes=line.notes + over,
    )


def _between_models(
    row: Row, counted: Sequence[PlannedRun], values: Sequence[float]
) -> tuple[float | None, tuple[str, ...]]:
    """How far models lie apart, with a note where that is not between all seeds.

    A seed counts with the mean over its folds, and only if all of them are there. While there are not two such seeds,
    it is how far the folds of one seed lie apart.
    """
    if row.num_folds == 1:
        return _deviation(values), ()
    by_seed: dict[int, list[float]] = {}
    for run, value in zip(counted, values, strict=True):
        by_seed.setdefault(run.experiment.seed, []).append(value)
    whole = [float(np.mean(folds)) for folds in by_seed.values() if len(folds) == row.num_folds]
    if len(whole) > 1:
        return _deviation(whole), () if len(whole) == row.num_seeds else (f"± over {len(whole)} seeds",)
    deviation = _deviation(max(by_seed.values(), key=len))
    return deviation, () if deviation is None else (OVER_FOLDS,)


def _deviation(values: Sequence[float]) -> float | None:
    return float(np.std(values)) if len(values) > 1 else None


def _value(table: Table, row: Row, run: RunRecord) -> tuple[float, float | None] | None:
    """What a finished run contributes to the mean, and how far its evaluations lie apart; None if there is no score."""
    assert run.record is not None
    if table.measure == "seconds":
        return None if run.seconds_per_epoch is None else (run.seconds_per_epoch, None)
    score = run.record["scores"].get(row.part, {})
    if row.target:
        score = score.get("by_target", {}).get(row.target, {})
    mean = score.get("mean")
    if mean is None or not math.isfinite(mean):
        return None
    return mean, None if len(score.get("evaluations", ())) == 1 else score["internal_deviation"]


def _chosen_by_test(row: Row, line: Line, counted: Sequence[PlannedRun], runs: Mapping[str, RunRecord]) -> Line:
    """The epoch with the best mean over folds, and how far the folds lie apart there."""
    curves = np.array(scores_by_epoch(runs[run.place] for run in counted), dtype=np.float64)
    line = replace(line, selection=BY_TEST, published=row.published)
    means = curves.mean(axis=0) if curves.size else np.empty(0)  # NaN for an epoch that a fold has no score for
    if np.isnan(means).all():
        return replace(line, notes=(*line.notes, "no test scores of the epochs")) if counted else line
    best = np.flatnonzero(means > np.nanmax(means) - _ROUNDING).tolist()  # scores that are tracked are accuracies
    epoch = best[0]
    deviation = _deviation(curves[:, epoch].tolist())
    over = () if deviation is None else (OVER_FOLDS,)
    others = f", as good as {', '.join(str(k + 1) for k in best[1:])}" if best[1:] else ""
    number = int(np.isnan(means).sum())
    some = "1 epoch is" if number == 1 else f"{number} epochs are"
    left_out = (f"{some} left out, without a score in every fold",) if number else ()
    return replace(
        line,
        mean=float(means[epoch]),
        cross_deviation=deviation,
        notes=(*line.notes, *over, f"epoch {epoch + 1}{others}, one evaluation", *left_out),
    )


# ---- what a reader must know


def _progress(
    planned: Sequence[PlannedRun], counted: Sequence[PlannedRun], runs: Mapping[str, RunRecord]
) -> tuple[str, ...]:
    found = [runs[run.place] for run in planned if run.place in runs]
    if not found:
        return ("not run",)
    if len(counted) == len(planned):
        return ()
    epochs = [run.epochs for run in found if not run.is_finished and not run.problem]
    more = f", {len(epochs)} begun (epoch {max(epochs)})" if epochs else ""
    return (f"unfinished: {len(counted)} of {len(planned)} runs{more}",)


def _problems(
    planned: Sequence[PlannedRun], runs: Mapping[str, RunRecord], problems: Mapping[str, str]
) -> tuple[str, ...]:
    """The first problem, whether a run failed or its files are damaged, and how many others there are."""
    damaged = {place: run.problem for place, run in runs.items() if run.problem}
    of_places = damaged | dict(problems)  # what a run failed with is newer
    found = list(dict.fromkeys(of_places[run.place] for run in planned if run.place in of_places))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return (found[0] + more,) if found else ()


_MOST_NAMED = 3  # of settings


def _settings_notes(others: Sequence[PlannedRun], runs: Mapping[str, RunRecord], are_left_out: bool) -> tuple[str, ...]:
    if not others:
        return ()
    found = list(dict.fromkeys(name for run in others for name in _differences(run, runs[run.place])))
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    what = f"other settings than planned ({', '.join(found[:_MOST_NAMED])}{more})"
    if are_left_out:
        return (f"{_runs(len(others), 'is', 'are')} left out, with {what}",)
    return (f"{_runs(len(others), 'has', 'have')} {what}",)


def _score_notes(table: Table, row: Row, num_without: int) -> tuple[str, ...]:
    what = "times of epochs" if table.measure == "seconds" else "a score" + (" of this target" if row.target else "")
    return (f"{_runs(num_without, 'is', 'are')} left out, without {what}",) if num_without else ()


def _runs(number: int, one: str, several: str) -> str:
    return f"1 run {one}" if number == 1 else f"{number} runs {several}"


def _data_notes(counted: Sequence[PlannedRun], runs: Mapping[str, RunRecord]) -> tuple[str, ...]:
    names = {str((runs[run.place].record or {})["data"]) for run in counted}
    return tuple(sorted(f"data: {name}" for name in names if name.endswith(("(rebuilt)", "(synthetic)"))))


def _machines(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """The devices of finished runs, and how many runs shared each, where that was recorded."""
    shared: dict[str, list[int | None]] = {}
    for run in runs:
        assert run.record is not None
        shared.setdefault(run.record["device"], []).append(run.record.get("runs_at_a_time"))
    return tuple(device + _at_a_time(shared[device]) for device in sorted(shared))


def _at_a_time(numbers: Sequence[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return ""
    least, most = min(known), max(known)
    if least < most:
        return f", {least} to {most} runs at a time"
    return ", one run at a time" if most == 1 else f", {most} runs at a time"


def _differences(planned: PlannedRun, run: RunRecord) -> list[str]:
    """The settings in which a run is not the planned one, wherever it was computed and wherever its data lay."""
    assert run.record is not None
    found = _settings(Experiment.from_json(json.dumps(run.record["config"])))
    wanted = _settings(planned.experiment)
    return [f"{name}={found[name]}" for name in wanted if found[name] != wanted[name]]


_ELSEWHERE = ("data.root", "data.path", "training.device")  # settings that change no result


def _settings(experiment: Experiment) -> dict[str, Any]:
    """All settings that may change a result, by their full names."""
    values = json.loads(effective(experiment, known_task(experiment.data)).to_json())
    groups = {group: members for group, members in values.items() if isinstance(members, dict)}
    settings = {name: value for name, value in values.items() if name not in groups}
    settings |= {f"{group}.{name}": value for group, members in groups.items() for name, value in members.items()}
    return {name: value for name, value in settings.items() if name not in _ELSEWHERE}


def metric_of(row: Row, runs: Mapping[str, RunRecord]) -> str:
    """What the scores of a row are; empty if nothing tells."""
    for run in row.runs():
        record = runs[run.place].record if run.place in runs else None
        if record is not None:
            return str(record["metric"])
    task = known_task(row.experiment.data)
    return "" if task is None else task.metric


# ---- as text

_COLUMNS = (
    *("table", "row", "epoch", "metric", "paper", "paper_deviation", "paper_internal_deviation", "ours", "difference"),
    *("cross_deviation", "internal_deviation", "num_finished", "num_planned", "machines", "notes"),
)
HEADER = ("row", "epoch", "paper", "ours", "difference", "± models", "± evaluations", "runs", "notes")


_BOTH_SPREADS = "In brackets is how far the paper's evaluations of one model lie apart."


def to_markdown(table: Table, lines: Sequence[Line]) -> str:
    """A section with the table."""
    several = len({line.selection for line in lines}) > 1
    kept = [i for i, name in enumerate(HEADER) if several or name != "epoch"]
    machines = {line.machines for line in lines if line.machines}
    if len(machines) > 1:
        lines = [replace(line, notes=line.notes + tuple(f"on {name}" for name in line.machines)) for line in lines]
    rows = [HEADER, tuple("---" for _ in HEADER), *map(_cells, lines)]
    text = "\n".join("| " + " | ".join(row[i] for i in kept) + " |" for row in rows)
    has_both = any(line.published and line.published.internal_deviation is not None for line in lines)
    made_on = f"Made on {' and '.join(machines.pop())}." if len(machines) == 1 else ""
    remarks = " ".join(filter(None, (table.note, _BOTH_SPREADS if has_both else "", made_on)))
    return f"## {table.title}\n\n{text}\n" + (f"\n{remarks}\n" if remarks else "")


def _cells(line: Line) -> tuple[str, ...]:
    """A line as people read it."""
    cells = (
        line.label,
        line.selection,
        _published(line),
        _format(line.metric, line.mean),
        "–" if line.difference is None else _format(line.metric, line.difference, signed=True),
        _format(line.metric, line.cross_deviation),
        _format(line.metric, line.internal_deviation),
        f"{line.num_finished} of {line.num_planned}",
        "; ".join(line.notes),
    )
    return tuple(cell.replace("|", "\\|") for cell in cells)


def _published(line: Line) -> str:
    """What the paper reports, with its two spreads where it does."""
    published = line.published
    if published is None:
        return "–"
    text = ("≤ " if published.at_most else "") + _format(line.metric, published.mean)
    if published.cross_deviation is not None:
        text += f" ± {_format(line.metric, published.cross_deviation)}"
    if published.internal_deviation is not None:
        text += f" (± {_format(line.metric, published.internal_deviation)})"
    return text


def to_csv(lines_by_table: Mapping[str, Sequence[Line]]) -> str:
    """All lines with all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for table, lines in lines_by_table.items():
        for line in lines:
            published = line.published
            numbers: list[float | None] = [None] * 3
            if published is not None:
                numbers = [published.mean, published.cross_deviation, published.internal_deviation]
            numbers += [line.mean, line.difference, line.cross_deviation, line.internal_deviation]
            writer.writerow(
                [table, line.label, line.selection, line.metric]
                + ["" if number is None or number != number else f"{number:.6g}" for number in numbers]
                + [line.num_finished, line.num_planned, "; ".join(line.machines), "; ".join(line.notes)]
            )
    return text.getvalue()


def _format(metric: str, value: float | None, signed: bool = False) -> str:
    if value is None or value != value:
        return "–"
    text = f"{abs(value):.3g} s" if metric == "seconds" else format_score(metric, abs(value))
    if not signed:
        return text
    return ("−" if value < 0 else "+") + text
