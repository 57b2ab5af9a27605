"""What runs left behind, in their folders or in one small file for each table, from which reports are made.

The small file is JSON: `{"format", "table", "runs": [{"place", "record", "epochs", "seconds_per_epoch", "curve",
"test_by_epoch"}]}`. `record` is the run's `result.json`, null for a run that is not finished; `curve` has some of the
epochs, a list for each key; `test_by_epoch` has the test score of every epoch, where it was tracked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from crawl.experiments.folder import RunFolder
from crawl.experiments.tables import TABLES, Table
from crawl.files import write_atomically

_FORMAT = "crawl-results-1"
_NUM_POINTS = 40  # of a learning curve that is kept


@dataclass(frozen=True)
class RunRecord:
    """One run, finished or not.

    Attributes:
        place: Its folder below that of all tables.
        record: The content of `result.json`; None if it is not finished.
        epochs: How many epochs are done.
        seconds_per_epoch: The median over all epochs but the first; None where there are none.
        curve: Records of epochs: `epoch`, `lr`, `loss`, `val`, and `test` where it was tracked.
        test_by_epoch: The test score after every epoch, where it was tracked.
    """

    place: str
    record: dict[str, Any] | None
    epochs: int = 0
    seconds_per_epoch: float | None = None
    curve: list[dict[str, float | None]] = field(default_factory=list)
    test_by_epoch: list[float | None] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        """Whether it has a result."""
        return self.record is not None


def read_run(folder: Path, place: str) -> RunRecord | None:
    """The run in a folder; None if it was not begun.

    Raises:
        ValueError: If its files are damaged.
    """
    run = RunFolder(folder)
    if not run.config.is_file():
        return None
    try:
        record = json.loads(run.result.read_text()) if run.result.is_file() else None
        history = [json.loads(line) for line in run.metrics.read_text().splitlines()] if run.metrics.is_file() else []
    except json.JSONDecodeError as error:
        raise ValueError(
            f"The records in {folder} are damaged ({error}): remove the folder and run it again."
        ) from None
    seconds = [epoch["seconds"] for epoch in history[1:]]
    curve = [
        {key.partition("_")[0]: value for key, value in epoch.items() if key != "seconds"} for epoch in history
    ]  # val_mae is called val
    return RunRecord(
        place,
        None if record is None else _without_paths(record),
        len(history),
        median(seconds) if seconds else None,
        curve,
        [epoch["test"] for epoch in curve] if curve and "test" in curve[0] else [],
    )


def read_runs(folder: Path, table: Table) -> dict[str, RunRecord]:
    """The runs of a table that were begun, by their place."""
    places = [run.place for row in table.rows for run in row.runs()]
    found = {place: read_run(folder / place, place) for place in places}
    return {place: run for place, run in found.items() if run is not None}


def collect(folder: Path, table: Table, path: Path) -> int:
    """Write the small file of a table; how many runs are in it."""
    runs = [_thinned(run) for run in read_runs(folder, table).values()]
    lines = ",\n".join(json.dumps(_in_columns(run)) for run in runs)  # a line for each run, so that changes can be read
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f'{{"format": "{_FORMAT}", "table": "{table.name}", "runs": [\n{lines}\n]}}\n')
    return len(runs)


def collect_all(folder: Path, target: Path) -> list[Path]:
    """Write the small files of all tables that have runs in a folder, `TABLE.json` each; the files written."""
    found = [make() for name, make in TABLES.items() if (folder / name).is_dir()]  # not those that only share rows
    return [path for table in found if collect(folder, table, path := target / f"{table.name}.json")]


def read_collected(path: Path) -> tuple[str, dict[str, RunRecord]]:
    """The name of the table and the runs in a small file.

    Raises:
        ValueError: If it is another file.
    """
    try:
        content = json.loads(path.read_text())
        if content["format"] != _FORMAT:
            raise KeyError("format")
        return content["table"], {run["place"]: _in_rows(run) for run in content["runs"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} does not hold the results of a table ({error}).") from None


def _thinned(run: RunRecord) -> RunRecord:
    """The same with fewer points and digits."""
    last = len(run.curve) - 1
    chosen = sorted({round(i * last / (_NUM_POINTS - 1)) for i in range(_NUM_POINTS)}) if run.curve else []
    curve = [{key: _rounded(value) for key, value in run.curve[i].items()} for i in chosen]
    seconds = None if run.seconds_per_epoch is None else _rounded(run.seconds_per_epoch)
    return RunRecord(run.place, run.record, run.epochs, seconds, curve, [_rounded(v) for v in run.test_by_epoch])


def _in_columns(run: RunRecord) -> dict[str, Any]:
    """A run with its curve as a list for each key, which takes less space."""
    keys = list(run.curve[0]) if run.curve else []
    return {**asdict(run), "curve": {key: [point.get(key) for point in run.curve] for key in keys}}


def _in_rows(run: dict[str, Any]) -> RunRecord:
    columns = run["curve"]
    curve = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return RunRecord(**{**run, "curve": curve})


def _rounded(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else float(f"{value:.5g}")


def _without_paths(record: dict[str, Any]) -> dict[str, Any]:
    """A record without where the data lay on that machine."""
    data = {**record["config"]["data"], "path": None, "root": None}
    return {**record, "config": {**record["config"], "data": data}}


def scores_by_epoch(runs: Iterable[RunRecord]) -> Sequence[Sequence[float]]:
    """The test scores of each run, for the epochs that all of them have."""
    curves = [[float("nan") if value is None else value for value in run.test_by_epoch] for run in runs]
    length = min((len(curve) for curve in curves), default=0)
    return [curve[:length] for curve in curves]
