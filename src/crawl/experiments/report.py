"""`crawl report`: Markdown, CSV and plots, from records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crawl.experiments.experiment import Experiment
from crawl.experiments.records import RunRecord, read_collected, read_run, read_runs
from crawl.experiments.summary import BY_TEST, Line, summarise, to_csv, to_markdown
from crawl.experiments.tables import TABLES, PlannedRun, Row, Table
from crawl.files import write_atomically

Runs = dict[str, RunRecord]


def write_report(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Write the tables and plots of all runs below the paths; the files written.

    `tables.md` and `tables.csv` hold a table for each of the paper that has runs, and one for other runs;
    `curves-NAME.png` its learning curves; `window.png` and `walks.png` the paper's two figures. Plots need matplotlib
    and are left out without it.

    Args:
        paths: Folders of `crawl reproduce`, folders of runs, or files that `collect` wrote.
        folder: Where to write.

    Raises:
        ValueError: If a path holds no runs, or they are damaged.
    """
    found = find_runs(paths)
    lines = {table.name: summarise(table, runs) for table, runs in found}
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "tables.md", folder / "tables.csv"]
    sections = [to_markdown(table, lines[table.name]) + _machines(runs) for table, runs in found]
    write_atomically(written[0], "# Results\n\n" + "\n".join(sections))
    write_atomically(written[1], to_csv(lines))
    for table, runs in found:
        written += _plots(table, runs, lines[table.name], folder)
    return written


def find_runs(paths: Sequence[Path]) -> list[tuple[Table, Runs]]:
    """The tables that have runs below the paths, with these; runs of no table form one of their own.

    Raises:
        ValueError: If a path holds no runs, or they are damaged.
    """
    tables: dict[str, Runs] = {}
    others: Runs = {}
    for path in paths:
        if path.is_file():
            name, runs = read_collected(path)
            if name not in TABLES:
                raise ValueError(f"{path} is about a table {name!r}, which this version does not know.")
            tables.setdefault(name, {}).update(runs)
            continue
        in_tables = {name: read_runs(path, table()) for name, table in TABLES.items() if (path / name).is_dir()}
        in_tables = {name: runs for name, runs in in_tables.items() if runs}
        alone = {} if in_tables else _runs_alone(path)
        if not in_tables and not alone:
            raise ValueError(f"There are no runs in {path}.")
        for name, runs in in_tables.items():
            tables.setdefault(name, {}).update(runs)
        others |= alone
    found = [(table(), tables[name]) for name, table in TABLES.items() if name in tables]
    return found + ([(_table_of(others), others)] if others else [])


def _runs_alone(path: Path) -> Runs:
    """Runs in a folder, or in any folder below it."""
    configs = [path / "config.json"] if (path / "config.json").is_file() else sorted(path.rglob("config.json"))
    runs = {str(config.parent): read_run(config.parent, str(config.parent)) for config in configs}
    return {place: run for place, run in runs.items() if run is not None}


def _table_of(runs: Runs) -> Table:
    rows = []
    for place in runs:
        experiment = Experiment.from_json((Path(place) / "config.json").read_text())
        label = f"{experiment.name}, {experiment.model.name}, {Path(place).name}"
        rows.append(Row(label, place, experiment, given=(PlannedRun(place, experiment),)))
    return Table("runs", "Other runs: test score", tuple(rows))


def _machines(runs: Mapping[str, RunRecord]) -> str:
    """Where the finished runs were computed, how long they took, and what the models' sizes are."""
    records = [run.record for run in runs.values() if run.record is not None]
    if not records:
        return ""
    devices = ", ".join(sorted({str(record["device"]) for record in records}))
    commits = ", ".join(sorted({str(record["commit"]) for record in records}))
    minutes = sum(record["wall_time_s"] for record in records) / 60
    sizes = sorted({record["num_parameters"] for record in records})
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    runs_word = "run" if len(records) == 1 else "runs"
    return (
        f"\n{len(records)} finished {runs_word}, {minutes:.1f} minutes of training and evaluation in all, {size} "
        f"parameters; device: {devices}; commit: {commits}.\n"
    )


# ---- plots


def _plots(table: Table, runs: Mapping[str, RunRecord], lines: Sequence[Line], folder: Path) -> list[Path]:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return []
    written = []
    if any(run.curve for run in runs.values()):
        written.append(_draw_curves(table, runs, folder / f"curves-{table.name}.png"))
    if table.x_label and any(line.mean is not None for line in lines):
        written.append(_draw_figure(table, lines, folder / f"{table.name}.png"))
    return written


def _draw_curves(table: Table, runs: Mapping[str, RunRecord], path: Path) -> Path:
    """The validation score over the epochs, a line for each run, a colour for each row."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    loss_axes, score_axes = figure.subplots(1, 2)
    colours = colormaps["tab10" if len(table.rows) <= 10 else "tab20"]
    for number, row in enumerate(table.rows):
        label: str | None = row.label
        for planned in row.runs():
            curve = runs[planned.place].curve if planned.place in runs else []
            if not curve:
                continue
            epochs = [point["epoch"] for point in curve]
            style = {"color": colours(number % colours.N), "linewidth": 0.9, "alpha": 0.8}
            loss_axes.plot(epochs, [point["loss"] for point in curve], **style)
            score_axes.plot(epochs, [_or_nan(point.get("val")) for point in curve], label=label, **style)
            label = None  # once in the legend
    loss_axes.set(xlabel="epoch", ylabel="training loss", yscale="log")
    score_axes.set(xlabel="epoch", ylabel="validation score")
    score_axes.legend(fontsize="x-small", frameon=False)
    figure.suptitle(table.title)
    return _save(figure, path)


def _draw_figure(table: Table, lines: Sequence[Line], path: Path) -> Path:
    """What the paper reports and what came out, over the axis of the figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    known = [line for line in lines if line.x is not None and line.selection != BY_TEST]
    published = [(line.x, line.published.mean) for line in known if line.published is not None]
    ours = [
        (line.x, line.mean, line.cross_deviation or 0.0)
        for line in known
        if line.x is not None and line.mean is not None
    ]
    axes.plot(*zip(*published, strict=True), marker="s", color="gray", linestyle="--", label="paper")
    axes.errorbar(
        [x for x, _, _ in ours],
        [mean for _, mean, _ in ours],
        [deviation for _, _, deviation in ours],
        marker="o",
        capsize=3,
        label="ours, ± between models",
    )
    axes.set(xlabel=table.x_label, ylabel="test MAE", title=table.title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:
    part = path.with_name(f".{path.stem}.part.png")
    figure.savefig(part, dpi=150)
    part.replace(path)
    return path


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
