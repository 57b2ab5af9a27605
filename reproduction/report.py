"""The tables of the paper as Markdown, CSV and plots, from records alone."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crawl.files import write_atomically
from crawl.runs.curves import CurveGroup, draw_curves, save_figure
from crawl.runs.experiment import Experiment
from crawl.runs.records import RunRecord, read_run_or_problem
from crawl.runs.report import run_folders
from reproduction.page import report_page
from reproduction.plan import PlannedRun, Row, Table
from reproduction.records import OTHER_RUNS, read_collected, read_runs, small_files, write_collected
from reproduction.summary import Line, metric_of, summarise, to_csv, to_markdown
from reproduction.tables import TABLES

Runs = dict[str, RunRecord]


def write_report(paths: Sequence[Path], folder: Path, *, collect: bool = False) -> list[Path]:
    """Write the tables and plots of all runs below the paths; the files written.

    `tables.md` and `tables.csv` hold a table for each of the paper that has runs, and one for other runs; `report.html`
    is a page of its own with the same tables, marks where the paper's figures are missed, and learning curves;
    `curves-NAME.png` its learning curves; `window.png` and `walks.png` the paper's two figures. Plots need matplotlib
    and are left out without it.

    Args:
        paths: Folders of `python -m reproduction`, of one of its tables or of runs, or small files that were written
            before, or a folder of these.
        folder: Where to write.
        collect: Also write a small file for each table, `TABLE.json`, from which the same report can be made. Not into
            a folder with runs, which would be reported from the small files from then on.

    Raises:
        ValueError: If small files would get into a folder with runs, or as `find_runs` does.
    """
    if collect and _runs_in(folder):
        raise ValueError(f"{folder} holds runs: choose another folder for --collect with -o.")
    found = find_runs(paths)
    lines = {table.name: summarise(table, runs) for table, runs in found}
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "tables.md", folder / "tables.csv", folder / "report.html"]
    write_atomically(written[0], _page(found, lines))
    write_atomically(written[1], to_csv(lines))
    write_atomically(written[2], report_page(found, lines, [_effort(runs) for _, runs in found]))
    for table, runs in found:
        written += _plots(table, runs, lines[table.name], folder)
    for table, runs in found if collect else []:
        if not table.is_overview:
            written.append(folder / f"{table.name}.json")
            write_collected(table.name, runs.values(), written[-1])
    return written


def report_text(paths: Sequence[Path]) -> str:
    """The tables of all runs below the paths: what `write_report` writes into `tables.md`.

    Raises:
        ValueError: As `find_runs` does.
    """
    found = find_runs(paths)
    return _page(found, {table.name: summarise(table, runs) for table, runs in found})


def _page(found: Sequence[tuple[Table, Runs]], lines: Mapping[str, Sequence[Line]]) -> str:
    return "# Results\n\n" + "\n".join(to_markdown(table, lines[table.name]) + _effort(runs) for table, runs in found)


def find_runs(paths: Sequence[Path]) -> list[tuple[Table, Runs]]:
    """The tables that have runs below the paths, with these; runs of no table form one of their own.

    Of two runs at one place, the finished one counts, or the one that has more epochs.

    Raises:
        ValueError: If a path holds no runs, or both runs and small files, a small file is damaged, or two paths hold
            different results of a run.
    """
    names: set[str] = set()
    known: dict[str, tuple[RunRecord, Path]] = {}
    for given in paths:
        small = small_files(given)
        if small and _runs_in(given):
            raise ValueError(f"{given} holds both runs and small files, {small[0].name} first: move these.")
        for path in small or [given]:
            tables, runs = _collected_in(path) if path.is_file() else _runs_below(path)
            if not runs:
                raise ValueError(f"There are no runs in {path}.")
            names |= tables
            for run in runs.values():
                before, source = known.get(run.place, (run, path))
                if before.is_finished and run.is_finished and before.record != run.record:
                    raise ValueError(f"{source} and {path} hold different results of {run.place}: report one of them.")
                if before is run or (run.is_finished, len(run.curve)) > (before.is_finished, len(before.curve)):
                    known[run.place] = run, path
    return _by_table(names, {place: run for place, (run, _) in known.items()})


def _by_table(names: set[str], runs: Runs) -> list[tuple[Table, Runs]]:
    """The tables in their order with their runs, and a table of the other runs."""
    tables = []
    for make in TABLES.values():
        table = make()
        if table.is_overview:  # the rows that have runs, if these are of several tables
            rows = tuple(row for row in table.rows if any(run.place in runs for run in row.runs()))
            table = replace(table, rows=rows if len({row.place for row in rows}) > 1 else ())
        if table.rows and (table.is_overview or table.name in names):
            tables.append((table, {place: runs[place] for place in table.places() if place in runs}))
    in_tables = {place for _, of_table in tables for place in of_table}
    others = {place: run for place, run in runs.items() if place not in in_tables}
    return tables + ([(_table_of(others), others)] if others else [])


def _runs_in(folder: Path) -> list[Path]:
    """The folders of runs in a folder, except those in `NAME/runs`, beside the rows of molecules and others."""
    return [path for path in run_folders(folder) if "runs" not in path.relative_to(folder).parts[1:]]


def _collected_in(path: Path) -> tuple[set[str], Runs]:
    name, runs = read_collected(path)
    if name not in TABLES and name != OTHER_RUNS:
        raise ValueError(f"{path} is about a table {name!r}, which this version does not know.")
    return {name}, runs


def _runs_below(path: Path) -> tuple[set[str], Runs]:
    """The tables that have folders in a folder, their runs, and all other runs below; a table's own folder will do."""
    real = Path(os.path.realpath(path))  # a link that leads to itself is no error here
    folders = run_folders(path)
    if real.name in TABLES and path not in folders:
        root, names = real.parent, [real.name]
    else:
        has_tables = any((path / name).is_dir() for name in TABLES)
        root = path if has_tables else path / "reproduce"  # the folder in `runs` that our runs are put into
        names = [name for name in TABLES if (root / name).is_dir()]
    by_table = {name: read_runs(root, TABLES[name]()) for name in names}
    runs = {place: run for of_table in by_table.values() for place, run in of_table.items()}
    known = {os.path.realpath(root / place) for place in runs}
    others = (read_run_or_problem(folder, str(folder)) for folder in folders if os.path.realpath(folder) not in known)
    return {name for name in names if by_table[name]}, runs | {run.place: run for run in others if run is not None}


def _table_of(runs: Runs) -> Table:
    """The table of runs that belong to none: a row for each."""
    rows = []
    for place, run in runs.items():
        experiment, label = Experiment(), place
        if run.record is not None:
            experiment = Experiment.from_plain(run.record["config"])
            label = f"{experiment.name}, {experiment.model.title}, {_tail(place, runs)}"
        rows.append(Row(label, place, experiment, given=(PlannedRun(place, experiment),)))
    return Table(OTHER_RUNS, "Other runs: test score", tuple(rows))


def _tail(place: str, places: Mapping[str, Any]) -> str:
    """The end of a place, as long as it takes to tell all places apart."""
    most = max(len(Path(each).parts) for each in places)
    for length in range(1, most):
        if len({Path(each).parts[-length:] for each in places}) == len(places):
            return "/".join(Path(place).parts[-length:])
    return place


def _effort(runs: Mapping[str, RunRecord]) -> str:
    """How long the finished runs took, and what the models' sizes are."""
    records = [run.record for run in runs.values() if run.record is not None]
    if not records:
        return ""
    commits = ", ".join(sorted({str(record["commit"]) for record in records}))
    own = (record for record in records if "eval_start_share" not in record or "trained" in record)
    seconds = sum(record["wall_time_s"] for record in own)  # old records of an evaluation have that of the training
    time = f"{seconds / 60:.1f} minutes of training and evaluation, added up; " if seconds else ""
    sizes = sorted({record["num_parameters"] for record in records})
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    number = "1 finished run" if len(records) == 1 else f"{len(records)} finished runs"
    return f"\n{number}; {time}{size} parameters; commit: {commits}.\n"


def _plots(table: Table, runs: Mapping[str, RunRecord], lines: Sequence[Line], folder: Path) -> list[Path]:
    written: list[Path] = []
    if not table.is_overview and runs:
        rows = {row.place: row for row in table.rows}.values()  # several may be about targets of the same runs
        groups = [
            CurveGroup(
                "all targets" if row.target else row.label,
                metric_of(row, runs),
                [runs[run.place] for run in row.runs() if run.place in runs],
            )
            for row in rows
        ]
        most = max(len(run.curve) for run in runs.values())
        is_thinned = any(run.epochs > len(run.curve) for run in runs.values())
        title = f"Learning curves of {table.name}" + (f" (at most {most} epochs of each)" if is_thinned else "")
        written += draw_curves(groups, title, folder / f"curves-{table.name}.png")
    if table.x_label and any(line.mean is not None for line in lines):
        written += _draw_figure(table, lines, folder / f"{table.name}.png")
    return written


def _draw_figure(table: Table, lines: Sequence[Line], path: Path) -> list[Path]:
    """What the paper reports and what came out, over the axis of the figure and in its units."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    x = [math.nan if line.x is None else line.x for line in lines]
    published = [100 * line.published.mean if line.published else math.nan for line in lines]
    ours = [math.nan if line.mean is None else 100 * line.mean for line in lines]
    axes.plot(x, published, color="gray", marker="s", markerfacecolor="none", linestyle="--", label="paper")
    spreads = [100 * (line.cross_deviation or 0.0) for line in lines]
    axes.errorbar(x, ours, spreads, color="tab:red", marker="o", capsize=3, label="ours, ± between models")
    axes.set(xlabel=table.x_label, ylabel=r"test MAE $\cdot\,10^{2}$", title=table.title, xticks=x)
    axes.grid(axis="y", linestyle="--", alpha=0.5)
    axes.legend(frameon=False)
    save_figure(figure, path)
    return [path]
