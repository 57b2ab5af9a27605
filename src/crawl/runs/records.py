"""What runs left behind, in their folders or in one small file for each table, from which reports are made.

The small file is JSON: `{"format", "table", "runs": [{"place", "record", "epochs", "seconds_per_epoch", "curve",
"test_by_epoch"}]}`. `record` is the run's `result.json`, null for a run that is not finished; `curve` has some of the
epochs, a list for each key; `test_by_epoch` has the test score of every epoch, where it was tracked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from crawl.runs.experiment import Experiment
from crawl.runs.folder import RunFolder
from crawl.runs.plan import PlannedRun, Table
from crawl.files import parse_json, write_atomically

_FORMAT = "crawl-results-1"
_NUM_POINTS = 40  # of a learning curve that is kept
_Content = TypeVar("_Content")


@dataclass(frozen=True)
class RunRecord:
    """One run, finished or not.

    Attributes:
        place: Its folder below that of all tables.
        record: The content of `result.json`; None if it is not finished.
        epochs: How many epochs are done.
        seconds_per_epoch: The median over all epochs but the first, so that of one without validation where most have
            none; None where there are no epochs.
        curve: Records of epochs: `epoch`, `lr`, `loss`, `val`, and `test` where it was tracked.
        test_by_epoch: The test score after every epoch, where it was tracked.
        problem: What is wrong with its files; such a run is not finished. Empty if nothing is.
    """

    place: str
    record: dict[str, Any] | None
    epochs: int = 0
    seconds_per_epoch: float | None = None
    curve: list[dict[str, float | None]] = field(default_factory=list)
    test_by_epoch: list[float | None] = field(default_factory=list)
    problem: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether it has a result."""
        return self.record is not None


def is_finished(folder: Path) -> bool:
    """Whether the run in a folder is over. One whose records are damaged is not: it is to be run again."""
    run = read_run_or_problem(folder, "")
    return run is not None and run.is_finished


def read_config(path: Path) -> Experiment:
    """The experiment in a file `config.json`.

    Raises:
        ValueError: If it is damaged or of another version; the message names the file.
    """
    return _read(path, Experiment.from_json, "remove the folder and run it again")


def read_run(folder: Path, place: str) -> RunRecord | None:
    """The run in a folder; None if it was not begun.

    Half a line at the end of `metrics.jsonl`, as a process that is killed leaves it, does not count.

    Raises:
        ValueError: If one of its files is damaged or of another version; the message names the file.
    """
    run = RunFolder(folder)
    if run.result.is_file():
        record = _read(run.result, _record, "run it again")
    elif run.config.is_file():
        record = None
        read_config(run.config)
    else:
        return None
    history = read_history(run)
    if record is not None and run.metrics.is_file() and len(history) != record["num_epochs"]:
        raise ValueError(
            f"{run.metrics} is damaged: it has {len(history)} of {record['num_epochs']} epochs. Run it again."
        )
    seconds = [epoch["seconds"] for epoch in history[1:]]
    curve = [
        {key.partition("_")[0]: value for key, value in epoch.items() if key != "seconds"} for epoch in history
    ]  # val_mae is called val
    return RunRecord(
        place,
        record,
        len(history),
        median(seconds) if seconds else None,
        curve,
        [epoch["test"] for epoch in curve] if curve and "test" in curve[0] else [],
    )


def read_history(run: RunFolder) -> list[dict[str, Any]]:
    """The records of the epochs so far.

    Raises:
        ValueError: If they are damaged; the message names the file.
    """
    return _read(run.metrics, _history, "run it again") if run.metrics.is_file() else []


def read_runs(folder: Path, table: Table) -> dict[str, RunRecord]:
    """The runs of a table that were begun, by their place. Damaged ones are there, too, with their problem."""
    found = {run.place: read_planned(folder, run) for row in table.rows for run in row.runs()}
    return {place: run for place, run in found.items() if run is not None}


def read_planned(folder: Path, planned: PlannedRun) -> RunRecord | None:
    """A run of a table, if it was begun. One that evaluates a model which was trained again since has a problem."""
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


def read_run_or_problem(folder: Path, place: str) -> RunRecord | None:
    """The same as `read_run`; a damaged run has its problem."""
    try:
        return read_run(folder, place)
    except (OSError, ValueError) as error:
        return RunRecord(place, None, problem=" ".join(str(error).split()))


# ---- the small file


def write_collected(table: str, runs: Iterable[RunRecord], path: Path) -> None:
    """Write the small file of a table. Damaged runs are left out."""
    kept = (_in_columns(_thinned(run)) for run in runs if not run.problem)
    lines = ",\n".join(map(json.dumps, kept))  # a line for each run, so that changes can be read
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f'{{"format": "{_FORMAT}", "table": "{table}", "runs": [\n{lines}\n]}}\n')


def read_collected(path: Path) -> tuple[str, dict[str, RunRecord]]:
    """The name of the table and the runs in a small file.

    Raises:
        ValueError: If it is another file, or damaged.
    """
    table, runs = _read(path, _collected, "make it again with crawl report RUNS --collect")
    return table, {run.place: run for run in runs}


def _thinned(run: RunRecord) -> RunRecord:
    """The same with fewer points and digits; one that was thinned before as it is."""
    scored = [i for i, point in enumerate(run.curve) if point.get("val") is not None]
    every = range(len(run.curve))
    chosen = _evenly(scored) if len(scored) >= _NUM_POINTS else sorted({*scored, *_evenly(every)})
    if len(run.curve) < run.epochs:
        chosen = list(every)
    curve = [{key: _rounded(value) for key, value in run.curve[i].items()} for i in chosen]
    seconds = None if run.seconds_per_epoch is None else _rounded(run.seconds_per_epoch)
    return RunRecord(run.place, run.record, run.epochs, seconds, curve, [_rounded(v) for v in run.test_by_epoch])


def _evenly(items: Sequence[int]) -> list[int]:
    """Some of the items, the first and the last among them."""
    last = len(items) - 1
    places = {round(k * last / (_NUM_POINTS - 1)) for k in range(_NUM_POINTS)} if items else ()
    return [items[place] for place in sorted(places)]


def _in_columns(run: RunRecord) -> dict[str, Any]:
    """A run with its curve as a list for each key, which takes less space."""
    keys = list(run.curve[0]) if run.curve else []
    columns = {key: [point.get(key) for point in run.curve] for key in keys}
    return {key: getattr(run, key) for key in _COLLECTED} | {"curve": columns}


def _in_rows(run: Any) -> RunRecord:
    check_kinds(run, _COLLECTED, "a run: ")
    columns = run["curve"]
    check_kinds(columns, dict.fromkeys((*_POINT, *columns) if columns else (), list), f"{run['place']}: curve.")
    curve = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for i, point in enumerate(curve):
        check_kinds(
            point, dict.fromkeys(point, _NUMBER | None) | _POINT, f"{run['place']}: point {i + 1} of the curve: "
        )
    if run["test_by_epoch"] and len(run["test_by_epoch"]) != run["epochs"]:
        raise ValueError(f"{run['place']}: test_by_epoch has {len(run['test_by_epoch'])} of {run['epochs']} epochs")
    for i, value in enumerate(run["test_by_epoch"]):
        check_kinds({f"[{i}]": value}, {f"[{i}]": _NUMBER | None}, f"{run['place']}: test_by_epoch")
    record = None if run["record"] is None else check_record(run["record"], f"{run['place']}: ")
    return RunRecord(**{key: run[key] for key in _COLLECTED} | {"curve": curve, "record": record})


def _rounded(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else float(f"{value:.5g}")


# ---- what files must hold

_NUMBER = int | float
_RECORD = {
    **{"config": dict, "data": str, "metric": str, "scores": dict, "num_epochs": int, "num_parameters": int},
    **{"wall_time_s": _NUMBER, "device": str, "commit": str | None},
}
_MORE_OF_RECORD = {"runs_at_a_time": int, "trained": dict}  # not in all of them
_MORE_OF_SCORE = {"evaluations": list, "by_target": dict, "reason": str}
_SCORE = {"mean": _NUMBER | None, "internal_deviation": _NUMBER | None}
_POINT = {"epoch": int, "loss": _NUMBER | None}
_EPOCH = {**_POINT, "seconds": _NUMBER}
_COLLECTED = {
    **{"place": str, "record": dict | None, "epochs": int, "seconds_per_epoch": _NUMBER | None, "curve": dict},
    **{"test_by_epoch": list},
}


def _read(path: Path, make: Callable[[str], _Content], remedy: str) -> _Content:
    """What `make` makes of the text in a file; a refusal names the file and says what to do."""
    try:
        return make(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also for what is not JSON, or not UTF-8
        reason = str(error).rstrip(".")
        raise ValueError(f"{path} is damaged or of another version ({reason}): {remedy}.") from None


def _record(text: str) -> dict[str, Any]:
    return check_record(parse_json(text))


def check_record(record: Any, place: str = "") -> dict[str, Any]:
    """A record that tables can be made from, without where the data lay on that machine.

    Raises:
        ValueError: If something is missing or of a wrong kind.
    """
    check_kinds(record, _RECORD, place, _MORE_OF_RECORD)
    scores = record["scores"]
    check_kinds(scores, dict.fromkeys(("test", *scores), dict), f"{place}scores.")
    for part, of_part in scores.items():
        check_kinds(of_part, _SCORE, f"{place}scores.{part}.", _MORE_OF_SCORE)
        for name, score in of_part.get("by_target", {}).items():
            check_kinds({name: score}, {name: dict}, f"{place}scores.{part}.by_target.")
            check_kinds(score, _SCORE, f"{place}scores.{part}.by_target.{name}.")
    config = record["config"]
    Experiment.from_json(json.dumps(config))  # it can be read; what it does not say was not a setting then
    return {**record, "config": {**config, "data": {**config.get("data", {}), "path": None, "root": None}}}


def _history(text: str) -> list[dict[str, Any]]:
    """The records of epochs, one in each line that is whole."""
    history = [parse_json(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    for i, epoch in enumerate(history):
        check_kinds(epoch, _EPOCH, f"line {i + 1}: ")
        check_kinds(epoch, dict.fromkeys(history[0], _NUMBER | None), f"line {i + 1}: ")
    return history


def _collected(text: str) -> tuple[str, list[RunRecord]]:
    content = parse_json(text)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError("it does not hold the results of a table")
    check_kinds(content, {"table": str, "runs": list})
    return content["table"], [_in_rows(run) for run in content["runs"]]


def check_kinds(
    values: Any, kinds: Mapping[str, Any], place: str = "", optional: Mapping[str, Any] | None = None
) -> None:
    """Refuse what is not a dictionary with these keys and kinds of values; others may be there, optional ones of their
    kind. Numbers are finite.

    Raises:
        ValueError: With the key.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{place}not a record")
    known = {key: kind for key, kind in (optional or {}).items() if key in values}
    for key, kind in {**kinds, **known}.items():
        if key not in values:
            raise ValueError(f"{place}{key} is missing")
        if not isinstance(values[key], kind) or isinstance(values[key], bool):  # Python takes true for 1
            raise ValueError(f"{place}{key} is of a wrong kind")
        if isinstance(values[key], float) and not math.isfinite(values[key]):
            raise ValueError(f"{place}{key} is {values[key]}, which is not a finite number")


def scores_by_epoch(runs: Iterable[RunRecord]) -> Sequence[Sequence[float]]:
    """The test scores of each run, for the epochs that all of them have."""
    curves = [[float("nan") if value is None else value for value in run.test_by_epoch] for run in runs]
    length = min((len(curve) for curve in curves), default=0)
    return [curve[:length] for curve in curves]
