"""`crawl report`: a table of runs and their learning curves, from their records alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from crawl.files import write_atomically
from crawl.runs.curves import CurveGroup, draw_curves
from crawl.runs.protocol import result_cells
from crawl.runs.records import RunRecord, read_run_or_problem

_COLUMNS = ("run", "data", "model", "metric", "validation", "test", "± evaluations", "best epoch", "time", "notes")


def write_report(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Write `tables.md`, `tables.csv` and, where matplotlib is installed, `curves.png` of all runs below the paths; the
    files written."""
    runs = find_runs(paths)
    rows = [_COLUMNS, *map(_cells, runs)]
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomically(folder / "tables.md", _markdown(rows))
    write_atomically(folder / "tables.csv", text.getvalue())
    groups = [CurveGroup(run.place, str((run.record or {}).get("metric", "score")), [run]) for run in runs]
    return [folder / "tables.md", folder / "tables.csv", *draw_curves(groups, "Learning curves", folder / "curves.png")]


def report_text(paths: Sequence[Path]) -> str:
    """The table that `write_report` writes into `tables.md`."""
    return _markdown([_COLUMNS, *map(_cells, find_runs(paths))])


def find_runs(paths: Iterable[Path]) -> list[RunRecord]:
    """The runs in these folders and below, each once, with its folder as its place; damaged ones have their problem.
    Refuses a path without any."""
    folders: dict[Path, None] = {}
    for path in paths:
        if not (found := run_folders(path)):
            raise ValueError(f"There are no runs in {path}: name the folder of a run, or one with such folders in it.")
        folders |= dict.fromkeys(found)
    found_runs = (read_run_or_problem(folder, str(folder)) for folder in folders)
    return [run for run in found_runs if run is not None]


def run_folders(path: Path) -> list[Path]:
    """The folders of runs in a folder and below."""
    return sorted({file.parent for kind in ("config", "result") for file in path.rglob(f"{kind}.json")})


def _cells(run: RunRecord) -> list[str]:
    """The row of a run, as people read it."""
    notes = run.problem or ("" if run.is_finished else f"unfinished: {run.epochs} epochs done")
    cells = {"run": run.place, "notes": notes}
    if run.record is not None:
        record = run.record
        cells |= result_cells(record) | {"data": record["data"], "metric": record["metric"]}
        cells["notes"] = record["scores"]["test"].get("reason", "")
    return [cells.get(column, "–") for column in _COLUMNS]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"
