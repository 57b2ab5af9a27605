"""The runs of tables: in their folders, or collected in one small file for each table.

The small file is JSON: `{"format", "table", "runs": [{"place", "record", "epochs", "seconds_per_epoch", "curve",
"test_by_epoch"}]}`. `record` is the run's `result.json`, null for a run that is not finished; `curve` has some of the
epochs, a list for each key; `test_by_epoch` has the test score of every epoch, where it was tracked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked, structure
from crawl.runs.records import RunRecord, check_record, read_run_or_problem
from reproduction.plan import PlannedRun, Table
from reproduction.tables import TABLES

OTHER_RUNS = "runs"  # the name of the table of runs that belong to none
_FORMAT = "crawl-results-1"
_NUM_POINTS = 40  # of a learning curve that is kept


class _Run(TypedDict):
    place: str
    record: dict[str, Any] | None
    epochs: int
    seconds_per_epoch: float | None
    curve: dict[str, list[float | None]]
    test_by_epoch: list[float | None]


class _Collected(TypedDict):
    table: str
    runs: list[Any]


def read_runs(folder: Path, table: Table) -> dict[str, RunRecord]:
    """The runs of a table that were begun, by their place. Damaged ones are there, too, with their problem."""
    found = {run.place: read_planned(folder, run) for row in table.rows for run in row.runs()}
    return {place: run for place, run in found.items() if run is not None}


def read_planned(folder: Path, planned: PlannedRun) -> RunRecord | None:
    """A run of a table, if it was begun. An evaluation of a model that was trained again since has a problem."""
    run = read_run_or_problem(folder / planned.place, planned.place)
    trained = read_run_or_problem(folder / planned.trained, "") if planned.trained else None
    if run is None or run.record is None or trained is None or trained.record is None:
        return run
    about_training = run.record | run.record.get("trained", {})  # older records have it among the rest
    if all(about_training[key] == trained.record[key] for key in ("config", "commit", "wall_time_s")):
        return run
    return replace(
        run, record=None, problem=f"{planned.trained} was trained again after this evaluation: run it again."
    )


def write_collected(table: str, runs: Iterable[RunRecord], path: Path) -> None:
    """Write the small file of a table. Damaged runs are left out."""
    kept = (_in_columns(_thinned(run)) for run in runs if not run.problem)
    lines = ",\n".join(map(json.dumps, kept))  # a line for each run, so that changes can be read
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f'{{"format": "{_FORMAT}", "table": "{table}", "runs": [\n{lines}\n]}}\n')


def small_files(folder: Path) -> list[Path]:
    """The small files of tables in a folder."""
    return [file for name in (*TABLES, OTHER_RUNS) if (file := folder / f"{name}.json").is_file()]


def read_collected(path: Path) -> tuple[str, dict[str, RunRecord]]:
    """The name of the table and the runs in a small file.

    Raises:
        ValueError: If it is another file, or damaged.
    """
    table, runs = read_checked(path, _collected, "make it again with python -m reproduction report RUNS --collect")
    return table, {run.place: run for run in runs}


def _thinned(run: RunRecord) -> RunRecord:
    """The run with fewer points and digits; one that was thinned before is not changed."""
    scored = [i for i, point in enumerate(run.curve) if point.get("val") is not None]
    every = range(len(run.curve))
    chosen = _evenly(scored) if len(scored) >= _NUM_POINTS else sorted({*scored, *_evenly(every)})
    if len(run.curve) < run.epochs:
        chosen = list(every)
    curve = [{key: _rounded(value) for key, value in run.curve[i].items()} for i in chosen]
    return replace(
        run,
        seconds_per_epoch=_rounded(run.seconds_per_epoch),
        curve=curve,
        test_by_epoch=[_rounded(value) for value in run.test_by_epoch],
    )


def _evenly(items: Sequence[int]) -> list[int]:
    """Some of the items, the first and the last among them."""
    last = len(items) - 1
    chosen = sorted({round(k * last / (_NUM_POINTS - 1)) for k in range(_NUM_POINTS)})
    return [items[k] for k in chosen] if items else []


def _rounded(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else float(f"{value:.5g}")


def _in_columns(run: RunRecord) -> dict[str, Any]:
    """A run with its curve as a list for each key, which takes less space."""
    columns = {key: [point.get(key) for point in run.curve] for key in run.curve[0]} if run.curve else {}
    return {key: getattr(run, key) for key in _Run.__annotations__} | {"curve": columns}


def _collected(text: str) -> tuple[str, list[RunRecord]]:
    content = parse_json(text)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError("it does not hold the results of a table")
    structure(_Collected, content, "a table")
    return content["table"], [_in_rows(run) for run in content["runs"]]


def _in_rows(run: Any) -> RunRecord:
    place = run.get("place", "a run") if isinstance(run, dict) else "a run"
    try:
        structure(_Run, run, "it")
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    columns = run["curve"]
    lengths = {len(column) for column in columns.values()}
    if columns and (len(lengths) > 1 or not columns.keys() >= {"epoch", "loss"}):
        raise ValueError(f"{place}: its curve has not a number for each epoch")
    if run["test_by_epoch"] and len(run["test_by_epoch"]) != run["epochs"]:
        raise ValueError(f"{place}: test_by_epoch has {len(run['test_by_epoch'])} of {run['epochs']} epochs")
    curve = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    record = None if run["record"] is None else check_record(run["record"], place)
    return RunRecord(**{key: run[key] for key in _Run.__annotations__} | {"curve": curve, "record": record})
