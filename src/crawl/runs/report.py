"""`crawl report`: Markdown, CSV and plots, from records alone."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crawl.runs.experiment import Experiment
from crawl.runs.plan import PlannedRun, Row, Table
from crawl.runs.records import RunRecord, read_collected, read_run_or_problem, read_runs, write_collected
from crawl.runs.summary import Line, metric_of, summarise, to_csv, to_markdown
from crawl.runs.tables import TABLES
from crawl.files import whole_file, write_atomically
from crawl.training.metrics import LOWER_IS_BETTER

Runs = dict[str, RunRecord]
OTHER_RUNS = "runs"  # the name of the table of runs that belong to none
_REPRODUCED = "reproduce"  # the folder in `runs` that `crawl reproduce` puts its runs into


def write_report(paths: Sequence[Path], folder: Path, *, collect: bool = False) -> list[Path]:
    """Write the tables and plots of all runs below the paths; the files written.

    `tables.md` and `tables.csv` hold a table for each of the paper that has runs, and one for other runs;
    `curves-NAME.png` its learning curves; `window.png` and `walks.png` the paper's two figures. Plots need matplotlib
    and are left out without it.

    Args:
        paths: Folders of `crawl reproduce`, of one of its tables or of runs, or small files that were written before,
            or a folder of these.
        folder: Where to write.
        collect: Also write a small file for each table, `TABLE.json`, from which the same report can be made. Not into
            a folder with runs, which would be reported from the small files from then on.

    Raises:
        ValueError: If a path holds no runs, or both runs and small files, a small file is damaged, two paths hold
            different results of a run, or small files would get into a folder with runs.
    """
    if collect and _run_folders(folder):
        raise ValueError(f"{folder} holds runs: choose another folder for --collect with -o.")
    found = find_runs(paths)
    lines = {table.name: summarise(table, runs) for table, runs in found}
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "tables.md", folder / "tables.csv"]
    write_atomically(written[0], _page(found, lines))
    write_atomically(written[1], to_csv(lines))
    for table, runs in found:
        written += _plots(table, runs, lines[table.name], folder)
    if collect:
        for table, runs in [(table, runs) for table, runs in found if not table.is_overview]:
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
    sections = [to_markdown(table, lines[table.name]) + _effort(runs) for table, runs in found]
    return "# Results\n\n" + "\n".join(sections)


def find_runs(paths: Sequence[Path]) -> list[tuple[Table, Runs]]:
    """The tables that have runs below the paths, with these; runs of no table form one of their own.

    Raises:
        ValueError: If a path holds no runs, or both runs and small files, a small file is damaged, or two paths hold
            different results of a run.
    """
    found = _Found()
    for path in paths:
        if _small_files(path) and _run_folders(path):
            raise ValueError(f"{path} holds both runs and small files, {_small_files(path)[0].name} first: move these.")
    for path in [file for given in paths for file in _small_files(given) or [given]]:
        names, runs = _collected_in(path) if path.is_file() else _runs_below(path)
        if not runs:
            raise ValueError(f"There are no runs in {path}.")
        found.names |= names
        for run in runs.values():
            found.add(run, path)
    return found.tables()


@dataclass
class _Found:
    """Runs from several paths.

    Attributes:
        names: The tables to be shown.
        runs: All runs by their place, each once.
        sources: Where they were found.
    """

    names: set[str] = field(default_factory=set)
    runs: Runs = field(default_factory=dict)
    sources: dict[str, Path] = field(default_factory=dict)

    def add(self, run: RunRecord, source: Path) -> None:
        """Add a run. Of two at one place, that counts which is finished, or knows more epochs."""
        known = self.runs.get(run.place)
        if known is not None and known.is_finished and run.is_finished and known.record != run.record:
            raise ValueError(
                f"{self.sources[run.place]} and {source} hold different results of {run.place}: report one of them."
            )
        if known is None or (run.is_finished, len(run.curve)) > (known.is_finished, len(known.curve)):
            self.runs[run.place], self.sources[run.place] = run, source

    def tables(self) -> list[tuple[Table, Runs]]:
        """The tables in their order, and that of the other runs."""
        shown = (table for make in TABLES.values() if (table := self._shown(make())).rows)
        tables = [
            (table, {place: self.runs[place] for place in _places(table) if place in self.runs}) for table in shown
        ]
        in_tables = {place for _, runs in tables for place in runs}
        others = {place: run for place, run in self.runs.items() if place not in in_tables}
        return tables + ([(_table_of(others), others)] if others else [])

    def _shown(self, table: Table) -> Table:
        """What to show of a table; of an overview, the rows that have runs, if these are of several tables."""
        if not table.is_overview:
            return table if table.name in self.names else replace(table, rows=())
        rows = tuple(row for row in table.rows if any(run.place in self.runs for run in row.runs()))
        return replace(table, rows=rows if len({row.place for row in rows}) > 1 else ())


def _small_files(folder: Path) -> list[Path]:
    """The small files of tables in a folder, if it is one of these."""
    files = [folder / f"{name}.json" for name in (*TABLES, OTHER_RUNS)]
    return [file for file in files if file.is_file()]


def _collected_in(path: Path) -> tuple[set[str], Runs]:
    name, runs = read_collected(path)
    if name not in TABLES and name != OTHER_RUNS:
        raise ValueError(f"{path} is about a table {name!r}, which this version does not know.")
    return {name}, runs


def _runs_below(path: Path) -> tuple[set[str], Runs]:
    """The tables that have folders in a folder, their runs, and all other runs below; a table's own folder will do."""
    name = Path(os.path.realpath(path)).name  # a link that leads to itself is no error here
    is_table = name in TABLES and not _is_run(path)
    root = Path(os.path.realpath(path)).parent if is_table else path
    if not is_table and not _has_tables(path) and _has_tables(path / _REPRODUCED):
        root = path / _REPRODUCED
    tables = [make() for table, make in TABLES.items() if (table == name if is_table else (root / table).is_dir())]
    by_table = {table.name: read_runs(root, table) for table in tables}
    runs = {place: run for of_table in by_table.values() for place, run in of_table.items()}
    folders = _run_folders(path)
    known = {os.path.realpath(root / place) for place in runs}
    others = (read_run_or_problem(folder, str(folder)) for folder in folders if os.path.realpath(folder) not in known)
    runs |= {run.place: run for run in others if run is not None}
    return {name for name, of_table in by_table.items() if of_table}, runs


def _run_folders(path: Path) -> list[Path]:
    """The folders of runs in a folder and below."""
    return sorted({file.parent for kind in ("config", "result") for file in path.rglob(f"{kind}.json")})


def _has_tables(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in TABLES)


def _is_run(path: Path) -> bool:
    return (path / "config.json").is_file() or (path / "result.json").is_file()


def _places(table: Table) -> Iterable[str]:
    return (run.place for row in table.rows for run in row.runs())


def _table_of(runs: Runs) -> Table:
    rows = []
    tails = _tails(list(runs))
    for place, run in runs.items():
        experiment, label = Experiment(), place
        if run.record is not None:
            experiment = Experiment.from_json(json.dumps(run.record["config"]))
            label = f"{experiment.name}, {experiment.model.name}, {tails[place]}"
        rows.append(Row(label, place, experiment, given=(PlannedRun(place, experiment),)))
    return Table(OTHER_RUNS, "Other runs: test score", tuple(rows))


def _tails(places: Sequence[str]) -> dict[str, str]:
    """The ends of places, as long as it takes to tell all of them apart."""
    for length in range(1, max((len(Path(place).parts) for place in places), default=1)):
        tails = ["/".join(Path(place).parts[-length:]) for place in places]
        if len(set(tails)) == len(tails):
            return dict(zip(places, tails, strict=True))
    return dict(zip(places, places, strict=True))


def _effort(runs: Mapping[str, RunRecord]) -> str:
    """How long the finished runs took, and what the models' sizes are."""
    records = [run.record for run in runs.values() if run.record is not None]
    if not records:
        return ""
    commits = ", ".join(sorted({str(record["commit"]) for record in records}))
    seconds = sum(record["wall_time_s"] for record in records if _has_own_time(record))
    time = f"{seconds / 60:.1f} minutes of training and evaluation, added up; " if seconds else ""
    sizes = sorted({record["num_parameters"] for record in records})
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    number = "1 finished run" if len(records) == 1 else f"{len(records)} finished runs"
    return f"\n{number}; {time}{size} parameters; commit: {commits}.\n"


def _has_own_time(record: Mapping[str, Any]) -> bool:
    """Whether the time is that of the run; old records of an evaluation have that of the training."""
    return "eval_start_share" not in record or "trained" in record


# ---- plots


def _plots(table: Table, runs: Mapping[str, RunRecord], lines: Sequence[Line], folder: Path) -> list[Path]:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return []
    written = []
    if not table.is_overview and any(run.curve for run in runs.values()):
        written.append(_draw_curves(table, runs, folder / f"curves-{table.name}.png"))
    if table.x_label and any(line.mean is not None for line in lines):
        written.append(_draw_figure(table, lines, folder / f"{table.name}.png"))
    return written


def _draw_curves(table: Table, runs: Mapping[str, RunRecord], path: Path) -> Path:
    """Loss and score over the epochs: a line for each run, a colour for each row, two panels for each kind of score."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    rows = list({row.place: row for row in table.rows}.values())  # several may be about targets of the same runs
    curves = [[runs[run.place].curve for run in row.runs() if run.place in runs] for row in rows]
    metrics = [metric_of(row, runs) for row in rows]
    drawn = list(dict.fromkeys(metric for metric, of_row in zip(metrics, curves, strict=True) if any(of_row)))
    names = ["all targets" if row.target else row.label for row in rows]
    in_legend = [name for name, of_row in zip(names, curves, strict=True) if any(of_row)]
    num_columns = max(1, min(4, _LETTERS_IN_A_LINE // (max(map(len, in_legend)) + 6)))
    height = 3.5 * len(drawn) + 0.2 * math.ceil(len(in_legend) / num_columns) + 0.3
    figure = Figure(figsize=(9, height), layout="constrained")
    colours = colormaps["tab10" if len(rows) <= 10 else "tab20"]
    for metric, (loss_axes, score_axes) in zip(drawn, figure.subplots(len(drawn), 2, squeeze=False), strict=True):
        of_metric = [i for i, name in enumerate(metrics) if name == metric]
        part = _part_to_draw(curve for i in of_metric for curve in curves[i])
        for i in of_metric:
            for number, curve in enumerate(filter(None, curves[i])):
                epochs = [point["epoch"] for point in curve]
                style = {"color": colours(i % colours.N), "linewidth": 0.9, "alpha": 0.7}
                style |= {"marker": "."} if len(curve) == 1 else {}
                loss_axes.plot(epochs, [_or_nan(point["loss"]) for point in curve], **style)
                label = names[i] if number == 0 else None  # once in the legend
                scored = [point for point in curve if point.get(part) is not None]
                score_axes.plot([p["epoch"] for p in scored], [p[part] for p in scored], label=label, **style)
        loss_axes.set(xlabel="epoch", ylabel="training loss")
        score_axes.set(xlabel="epoch", ylabel=f"{_PARTS[part]} {metric}".strip())
        if metric == "accuracy":
            score_axes.set_ylim(-0.02, 1.02)
        _refine(loss_axes, may_be_log=True)
        _refine(score_axes, may_be_log=LOWER_IS_BETTER.get(metric, False))
    most = max(len(run.curve) for run in runs.values())
    is_thinned = any(run.epochs > len(run.curve) for run in runs.values())
    figure.suptitle(f"Learning curves of {table.name}" + (f" (at most {most} epochs of each)" if is_thinned else ""))
    figure.legend(loc="outside lower center", ncols=num_columns, fontsize="small", frameon=False)
    return _save(figure, path)


_LETTERS_IN_A_LINE = 130  # of a legend
_PARTS = {"val": "validation", "test": "without validation: test"}


def _part_to_draw(curves: Iterable[list[dict[str, float | None]]]) -> str:
    """Validation; or test, where only that was scored."""
    points = [point for curve in curves for point in curve]
    has = {part: any(point.get(part) is not None for point in points) for part in _PARTS}
    return "test" if has["test"] and not has["val"] else "val"


def _refine(axes: Any, may_be_log: bool) -> None:
    """A grid, and a logarithmic axis where values span more than one power of ten."""
    values = [value for line in axes.lines for value in line.get_ydata() if value == value]
    if may_be_log and values and 0 < 10 * min(values) < max(values):
        axes.set_yscale("log")
    axes.grid(alpha=0.3)


def _draw_figure(table: Table, lines: Sequence[Line], path: Path) -> Path:
    """What the paper reports and what came out, over the axis of the figure and in its units."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    places = [_or_nan(line.x) for line in lines]
    published = [100 * line.published.mean if line.published else float("nan") for line in lines]
    ours = [100 * _or_nan(line.mean) for line in lines]
    axes.plot(places, published, color="gray", marker="s", markerfacecolor="none", linestyle="--", label="paper")
    spreads = [100 * (line.cross_deviation or 0.0) for line in lines]
    axes.errorbar(places, ours, spreads, color="tab:red", marker="o", capsize=3, label="ours, ± between models")
    axes.set(xlabel=table.x_label, ylabel=r"test MAE $\cdot\,10^{2}$", title=table.title, xticks=places)
    axes.grid(axis="y", linestyle="--", alpha=0.5)
    axes.legend(frameon=False)
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:
    with whole_file(path) as file:
        figure.savefig(file, format="png", dpi=150)
    return path


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
