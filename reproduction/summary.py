"""Tables of results: what the paper reports, what came out, and the difference. Only what was measured is in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from crawl.plain import unstructure
from crawl.runs.experiment import Experiment
from crawl.runs.formats import format_score
from crawl.runs.records import RunRecord
from reproduction.plan import PlannedRun, Published, Row, Table
from reproduction.variants import known_task

BY_VALIDATION = "epoch chosen by validation"
LAST_EPOCH = "last epoch"
BY_TEST = "epoch with the best mean test score (as in the paper)"
_OVER_FOLDS = "± over folds"
_ROUNDING = 1e-5  # small files keep five digits: scores that are nearer than this are the same
_MOST_NAMED = 3  # of settings that are not the planned ones
_CSV = {  # from fields of a line to columns
    **{"table": "table", "label": "row", "selection": "epoch", "metric": "metric", "published.mean": "paper"},
    "published.cross_deviation": "paper_deviation",
    "published.internal_deviation": "paper_internal_deviation",
    **{"mean": "ours", "difference": "difference", "cross_deviation": "cross_deviation"},
    **{"internal_deviation": "internal_deviation", "num_finished": "num_finished", "num_planned": "num_planned"},
    **{"machines": "machines", "notes": "notes"},
}


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
        cross_deviation: The standard deviation over models; None for one model.
        internal_deviation: The standard deviation over the evaluations of a model, averaged over models.
        published: What the paper reports, for comparison.
        x: Where it stands on the axis of a figure.
        notes: What a reader must know.
        machines: On what these runs were made.
        num_parameters: The most parameters that one of these models has.
        seconds: The mean time of a run, training and evaluation.
        memory_mb: The most memory that a process had that made one; None where several ran in a process.
        of_mean_prediction: The score of the mean prediction of all evaluations of a model, averaged over models.
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
    num_parameters: int | None = None
    seconds: float | None = None
    memory_mb: float | None = None
    of_mean_prediction: float | None = None

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
    return [line for row in table.rows for line in _lines(table, row, runs, problems or {})]


def _lines(table: Table, row: Row, runs: Mapping[str, RunRecord], problems: Mapping[str, str]) -> Iterator[Line]:
    planned = list(row.runs())
    finished = _finished(table, row, planned, runs)
    as_planned = finished[finished["other"].str.len() == 0]
    others = finished.drop(as_planned.index)
    counted = finished if as_planned.empty else as_planned
    scored = counted.dropna(subset="mean")
    line = Line(
        row.label,
        BY_VALIDATION if getattr(row.experiment.data, "has_validation", True) else LAST_EPOCH,
        "seconds" if table.measure == "seconds" else metric_of(row, runs),
        len(counted),
        len(planned),
        published=row.published,
        x=row.x,
        notes=(
            *_progress(planned, len(counted), runs),
            *_problems(planned, runs, problems),
            *_other_settings(others, are_left_out=not as_planned.empty),
            *sorted(f"data: {name}" for name in set(counted["data"]) if name.endswith(("(rebuilt)", "(synthetic)"))),
        ),
        machines=_machines(counted),
        num_parameters=None if counted.empty else int(counted["num_parameters"].max()),
        seconds=_or_none(counted["seconds"].mean()),
        memory_mb=_or_none(counted["memory_mb"].max()),
    )
    if row.experiment.evaluation.track_test:
        yield _chosen_by_test(line, counted)
        line = replace(line, published=None)
    without = len(counted) - len(scored)
    what = "times of epochs" if table.measure == "seconds" else "a score" + (" of this target" if row.target else "")
    left_out = (f"{_runs(without, 'is', 'are')} left out, without {what}",) if without else ()
    spread, over = _between_models(row, scored)
    yield replace(
        line,
        num_finished=len(scored),
        mean=_or_none(scored["mean"].mean()),
        cross_deviation=spread,
        internal_deviation=_or_none(scored["deviation"].mean()),
        of_mean_prediction=_or_none(scored["of_mean"].mean()),
        notes=(*line.notes, *left_out, *over),
    )


def _finished(table: Table, row: Row, planned: Sequence[PlannedRun], runs: Mapping[str, RunRecord]) -> pd.DataFrame:
    """The finished runs of a row: what each contributes to its numbers and notes; NaN where there is no score."""
    found = []
    for run in planned:
        known = runs.get(run.place)
        if known is None or known.record is None:
            continue
        record, mean, deviation, of_mean = known.record, known.seconds_per_epoch, None, None
        if table.measure == "score":
            score = record["scores"].get(row.part, {})
            score = score.get("by_target", {}).get(row.target, {}) if row.target else score
            mean, of_mean = score.get("mean"), score.get("of_mean_prediction")
            deviation = None if len(score.get("evaluations", ())) == 1 else score.get("internal_deviation")
        found.append(
            {
                "seed": run.experiment.seed,
                "mean": math.nan if mean is None or not math.isfinite(mean) else mean,
                "deviation": math.nan if deviation is None else deviation,
                "of_mean": math.nan if of_mean is None else of_mean,
                "other": differences(run.experiment, record["config"]),
                "data": str(record["data"]),
                "device": record["device"],
                "at_a_time": record.get("runs_at_a_time"),
                "curve": known.test_by_epoch,
                "num_parameters": record["num_parameters"],
                "seconds": record["wall_time_s"],
                "memory_mb": record.get("peak_memory_mb"),
            }
        )
    columns = ["seed", "mean", "deviation", "of_mean", "other", "data", "device", "at_a_time", "curve"]
    columns += ["num_parameters", "seconds", "memory_mb"]
    types = {"other": object} | dict.fromkeys(("mean", "deviation", "of_mean", "seconds", "memory_mb"), float)
    return pd.DataFrame(found, columns=columns).astype(types)


def _between_models(row: Row, scored: pd.DataFrame) -> tuple[float | None, tuple[str, ...]]:
    """The standard deviation over models, with a note where that is not over all seeds.

    A seed counts with the mean over its folds, and only if all of them are there. With fewer than two such seeds, it is
    the standard deviation over the folds of one seed.
    """
    if row.num_folds == 1:
        return _deviation(scored["mean"]), ()
    by_seed = scored.groupby("seed")["mean"].agg(["mean", "size"])
    whole = by_seed[by_seed["size"] == row.num_folds]
    if len(whole) > 1:
        return _deviation(whole["mean"]), () if len(whole) == row.num_seeds else (f"± over {len(whole)} seeds",)
    if scored.empty:
        return None, ()
    deviation = _deviation(scored.loc[scored["seed"] == by_seed["size"].idxmax(), "mean"])
    return deviation, () if deviation is None else (_OVER_FOLDS,)


def _deviation(values: pd.Series) -> float | None:
    return float(values.std(ddof=0)) if len(values) > 1 else None


def _chosen_by_test(line: Line, counted: pd.DataFrame) -> Line:
    """The epoch with the best mean over folds, and the standard deviation over folds there."""
    line = replace(line, selection=BY_TEST)
    curves = pd.DataFrame(counted["curve"].tolist(), dtype=float)
    curves = curves.iloc[:, : int(counted["curve"].str.len().min())] if len(counted) else curves
    means = curves.mean(skipna=False).to_numpy()  # NaN for an epoch that a fold has no score for
    if np.isnan(means).all():
        return replace(line, notes=(*line.notes, "no test scores of the epochs")) if len(counted) else line
    best = np.flatnonzero(means > np.nanmax(means) - _ROUNDING).tolist()  # scores that are tracked are accuracies
    epoch, number = best[0], int(np.isnan(means).sum())
    deviation = _deviation(curves[epoch])
    others = f", as good as {', '.join(str(k + 1) for k in best[1:])}" if best[1:] else ""
    some = "1 epoch is" if number == 1 else f"{number} epochs are"
    return replace(
        line,
        mean=float(means[epoch]),
        cross_deviation=deviation,
        notes=(
            *line.notes,
            *(() if deviation is None else (_OVER_FOLDS,)),
            f"epoch {epoch + 1}{others}, one evaluation",
            *((f"{some} left out, without a score in every fold",) if number else ()),
        ),
    )


# ---- what a reader must know


def _progress(planned: Sequence[PlannedRun], num_counted: int, runs: Mapping[str, RunRecord]) -> tuple[str, ...]:
    found = [runs[run.place] for run in planned if run.place in runs]
    if not found:
        return ("not run",)
    epochs = [run.epochs for run in found if not run.is_finished and not run.problem]
    more = f", {len(epochs)} begun (epoch {max(epochs)})" if epochs else ""
    return () if num_counted == len(planned) else (f"unfinished: {num_counted} of {len(planned)} runs{more}",)


def _problems(
    planned: Sequence[PlannedRun], runs: Mapping[str, RunRecord], problems: Mapping[str, str]
) -> tuple[str, ...]:
    """The first problem, whether a run failed or its files are damaged, and how many others there are."""
    known = {place: run.problem for place, run in runs.items() if run.problem} | dict(problems)
    found = list(dict.fromkeys(known[run.place] for run in planned if run.place in known))
    return (found[0] + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""),) if found else ()


def _other_settings(others: pd.DataFrame, are_left_out: bool) -> tuple[str, ...]:
    if others.empty:
        return ()
    found = list(dict.fromkeys(others["other"].explode()))
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    what = f"other settings than planned ({', '.join(found[:_MOST_NAMED])}{more})"
    verbs = ("is left out, with", "are left out, with") if are_left_out else ("has", "have")
    return (f"{_runs(len(others), *verbs)} {what}",)


def _runs(number: int, one: str, several: str) -> str:
    return f"1 run {one}" if number == 1 else f"{number} runs {several}"


def _machines(counted: pd.DataFrame) -> tuple[str, ...]:
    """The devices of finished runs, and how many runs shared each, where that was recorded."""
    machines = []
    for device, numbers in counted.groupby("device")["at_a_time"]:
        least, most = numbers.min(skipna=False), numbers.max(skipna=False)
        shared = ", one run at a time" if most == 1 else f", {most:.0f} runs at a time"
        shared = f", {least:.0f} to {most:.0f} runs at a time" if least != most else shared
        machines.append(f"{device}{'' if numbers.isna().any() else shared}")
    return tuple(machines)


def differences(planned: Experiment, config: dict[str, Any]) -> list[str]:
    """The settings in which a run is not the planned one."""
    found, wanted = _settings(Experiment.from_plain(config)), _settings(planned)
    return [f"{name}={found.get(name)}" for name in {**wanted, **found} if found.get(name) != wanted.get(name)]


def _settings(experiment: Experiment) -> dict[str, Any]:
    """All settings by their full names; those of the experiment itself come first."""
    values = unstructure(experiment)
    own = {name: values.pop(name) for name in ("name", "seed")}
    return own | dict(_flat(values))


def _flat(values: dict[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", value


def metric_of(row: Row, runs: Mapping[str, RunRecord]) -> str:
    """What the scores of a row are; empty if nothing tells."""
    found = (runs[run.place].record for run in row.runs() if run.place in runs)
    task = known_task(row.experiment.data)
    return next((str(record["metric"]) for record in found if record), "" if task is None else task.metric)


# ---- as text


def to_markdown(table: Table, lines: Sequence[Line]) -> str:
    """A section with the table."""
    cells, remarks = as_text(table, lines)
    cells = cells.replace({r"\|": r"\\|"}, regex=True)
    rows = [list(cells.columns), ["---"] * len(cells.columns), *cells.to_numpy().tolist()]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)  # pandas would fill all columns up with spaces
    return f"## {table.title}\n\n{text}\n" + (f"\n{remarks}\n" if remarks else "")


def as_text(table: Table, lines: Sequence[Line]) -> tuple[pd.DataFrame, str]:
    """The table as people read it, a row for each line, and what to know about it."""
    machines = {line.machines for line in lines if line.machines}
    if len(machines) > 1:
        lines = [replace(line, notes=line.notes + tuple(f"on {name}" for name in line.machines)) for line in lines]
    cells = pd.DataFrame([_cells(line, table) for line in lines])
    if cells["epoch"].nunique() == 1:
        del cells["epoch"]
    has_both = any(line.published and line.published.internal_deviation is not None for line in lines)
    spreads = "In brackets is how far the paper's evaluations of one model lie apart." if has_both else ""
    made_on = f"Made on {' and '.join(machines.pop())}." if len(machines) == 1 else ""
    return cells, " ".join(filter(None, (table.note, spreads, made_on)))


def _cells(line: Line, table: Table) -> dict[str, str]:
    """A line as people read it."""
    paper, published = "–", line.published
    if published is not None:
        paper = ("≤ " if published.at_most else "") + _format(line.metric, published.mean)
        if published.cross_deviation is not None:
            paper += f" ± {_format(line.metric, published.cross_deviation)}"
        if published.internal_deviation is not None:
            paper += f" (± {_format(line.metric, published.internal_deviation)})"
        paper += f" {published.mark}".rstrip()
    effort = {}
    if table.has_effort:
        effort["parameters"] = "–" if line.num_parameters is None else f"{line.num_parameters:,}"
        effort["time of a run"] = "–" if line.seconds is None else f"{line.seconds / 60:.1f} min"
        effort["memory"] = "–" if line.memory_mb is None else f"{line.memory_mb / 1024:.2f} GB"
    return {
        "row": line.label,
        "epoch": line.selection,
        "published" if table.has_effort else "paper": paper,
        "ours": _format(line.metric, line.mean),
        "difference": _format(line.metric, line.difference, signed=True),
        "± models": _format(line.metric, line.cross_deviation),
        "± evaluations": _format(line.metric, line.internal_deviation),
        **(
            {"of the mean prediction": _format(line.metric, line.of_mean_prediction)}
            if table.has_mean_prediction
            else {}
        ),
        "runs": f"{line.num_finished} of {line.num_planned}",
        **effort,
        "notes": "; ".join(line.notes),
    }


def _format(metric: str, value: float | None, signed: bool = False) -> str:
    if value is None or math.isnan(value):
        return "–"
    text = f"{abs(value):.3g} s" if metric == "seconds" else format_score(metric, abs(value))
    return ("−" if value < 0 else "+") + text if signed else text


def to_csv(lines_by_table: Mapping[str, Sequence[Line]]) -> str:
    """All lines with all digits."""
    frame = pd.json_normalize(
        [
            {"table": table, "difference": line.difference, **asdict(line)}
            for table, lines in lines_by_table.items()
            for line in lines
        ]
    )
    frame = frame.reindex(columns=list(_CSV)).rename(columns=_CSV)
    for column in ("machines", "notes"):
        frame[column] = frame[column].str.join("; ")
    return str(frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
