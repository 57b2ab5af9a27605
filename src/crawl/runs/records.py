"""What a run left in its folder, checked: its configuration, its epochs, its result."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from crawl.files import parse_json
from crawl.runs.experiment import Experiment
from crawl.runs.folder import RunFolder

_Content = TypeVar("_Content")


@dataclass(frozen=True)
class RunRecord:
    """One run, finished or not.

    Attributes:
        place: What it is called: its folder, or the end of it.
        record: The content of `result.json`; None if it is not finished.
        epochs: How many epochs are done.
        seconds_per_epoch: The median over all epochs except the first; None where there are no others.
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
    """Whether the run in a folder is finished. One whose records are damaged is not: it must be run again."""
    run = read_run_or_problem(folder, "")
    return run is not None and run.is_finished


def read_config(path: Path) -> Experiment:
    """The experiment in a file `config.json`.

    Raises:
        ValueError: If it is damaged or of another version; the message names the file.
    """
    return read_checked(path, Experiment.from_json, "remove the folder and run it again")


def read_run(folder: Path, place: str) -> RunRecord | None:
    """The run in a folder; None if it was not begun.

    Half a line at the end of `metrics.jsonl`, as a process that is killed leaves it, does not count.

    Raises:
        ValueError: If one of its files is damaged or of another version; the message names the file.
    """
    run = RunFolder(folder)
    if run.result.is_file():
        record = read_checked(run.result, _record, "run it again")
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
    curve = curve_of(history)
    return RunRecord(
        place,
        record,
        len(history),
        median(seconds) if seconds else None,
        curve,
        [epoch["test"] for epoch in curve] if curve and "test" in curve[0] else [],
    )


def curve_of(history: list[dict[str, Any]]) -> list[dict[str, float | None]]:
    """The curve of a `RunRecord` from the records of its epochs: what they call `val_mae` is `val` here."""
    return [{key.partition("_")[0]: value for key, value in epoch.items() if key != "seconds"} for epoch in history]


def read_history(run: RunFolder) -> list[dict[str, Any]]:
    """The records of the epochs so far.

    Raises:
        ValueError: If they are damaged; the message names the file.
    """
    return read_checked(run.metrics, _history, "run it again") if run.metrics.is_file() else []


def read_run_or_problem(folder: Path, place: str) -> RunRecord | None:
    """The same as `read_run`; a damaged run has its problem."""
    try:
        return read_run(folder, place)
    except (OSError, ValueError) as error:
        return RunRecord(place, None, problem=" ".join(str(error).split()))


# ---- what files must hold

_NUMBER = int | float
_RECORD = {
    **{"config": dict, "data": str, "metric": str, "scores": dict, "num_epochs": int, "num_parameters": int},
    **{"wall_time_s": _NUMBER, "device": str, "commit": str | None},
}
_MORE_OF_RECORD = {"best_epoch": int, "runs_at_a_time": int, "trained": dict}  # not in all of them
_MORE_OF_SCORE = {"evaluations": list, "by_target": dict, "reason": str}
_SCORE = {"mean": _NUMBER | None, "internal_deviation": _NUMBER | None}
_EPOCH = {"epoch": int, "loss": _NUMBER | None, "seconds": _NUMBER}


def read_checked(path: Path, make: Callable[[str], _Content], remedy: str) -> _Content:
    """What `make` makes of the text in a file.

    Raises:
        ValueError: If `make` refuses it, or it is not UTF-8; the message names the file and the remedy.
    """
    try:
        return make(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also for what is not JSON, or not UTF-8
        reason = str(error).rstrip(".")
        raise ValueError(f"{path} is damaged or of another version ({reason}): {remedy}.") from None


def _record(text: str) -> dict[str, Any]:
    return check_record(parse_json(text))


def check_record(record: Any, place: str = "") -> dict[str, Any]:
    """A record that tables can be made from, without the paths of the data on that machine.

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
    Experiment.from_json(json.dumps(config))  # what it does not say was not a setting then
    return {**record, "config": {**config, "data": {**config.get("data", {}), "path": None, "root": None}}}


def _history(text: str) -> list[dict[str, Any]]:
    """The records of epochs, one in each line that is whole."""
    history = [parse_json(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    for i, epoch in enumerate(history):
        check_kinds(epoch, _EPOCH, f"line {i + 1}: ")
        check_kinds(epoch, dict.fromkeys(history[0], _NUMBER | None), f"line {i + 1}: ")
    return history


def check_kinds(
    values: Any, kinds: Mapping[str, Any], place: str = "", optional: Mapping[str, Any] | None = None
) -> None:
    """Refuse what is not a dictionary with these keys and kinds of values, or has a number that is not finite.

    Optional keys are checked where they occur; other keys may be there.

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
