"""The report as a page: the tables with what misses the paper's figures, and the learning curves, in one file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from crawl import __version__
from crawl.pages.colours import INK, MUTED, SERIES
from crawl.pages.document import Figure, Fold, Gallery, Highlight, Note, Part, Section, Text, page
from crawl.pages.document import Table as PageTable
from crawl.pages.figures import NO_MATPLOTLIB, has_matplotlib, plot
from crawl.runs.records import RunRecord
from crawl.runs.reports import plots
from crawl.runs.reports.about_predictions import metric_title
from crawl.training.metrics import LOWER_IS_BETTER
from reproduction.plan import Table
from reproduction.summary import Line, as_text, metric_of

_IN_A_FIGURE = 8  # lines, of which each has a colour of its own
_ABOUT = (
    "A row misses the published figure if it is worse by more than the largest spread that is known for it, the "
    "paper's or ours, of models or of evaluations; it is better in the same way. Rows with fewer runs than planned are "
    "marked by what is there. Times depend on machines and are not marked."
)
Verdict = Literal["misses", "within", "better", ""]


def report_page(
    found: Sequence[tuple[Table, Mapping[str, RunRecord]]], lines: Mapping[str, Sequence[Line]], effort: Sequence[str]
) -> str:
    """A self-contained page with all tables.

    Args:
        found: The tables and their runs.
        lines: What the runs come to, by the name of the table.
        effort: What is said about the runs of each table.
    """
    of_scores = [verdict(line) for table, _ in found if not table.is_overview for line in lines[table.name]]
    finished = {place for _, runs in found for place, run in runs.items() if run.is_finished}
    sections = [
        Section(
            table.title, [*_table(table, lines[table.name]), *_figures(table, runs, lines[table.name]), *_text(said)]
        )
        for (table, runs), said in zip(found, effort, strict=True)
    ]
    return page(
        "Results",
        [*sections, Section("How to read this page", [Text(_ABOUT)])],
        subtitle="The paper's figures and ours, from the records of runs",
        highlights=[
            Highlight("Finished runs", f"{len(finished):,}"),
            Highlight("Rows with a published figure", str(sum(bool(each) for each in of_scores))),
            Highlight("Within its spread", str(of_scores.count("within"))),
            Highlight("Better", str(of_scores.count("better"))),
            Highlight("Misses", str(of_scores.count("misses"))),
        ],
        footer=f"Made by python -m reproduction report, crawl {__version__}.",
    )


def verdict(line: Line) -> Verdict:
    """How a row compares with what was published; empty where that cannot be said."""
    published = line.published
    if line.difference is None or published is None or published.at_most or line.metric not in LOWER_IS_BETTER:
        return ""
    known = (published.cross_deviation, published.internal_deviation, line.cross_deviation, line.internal_deviation)
    allowed = max((each for each in known if each is not None), default=0.0)
    if abs(line.difference) <= allowed:
        return "within"
    return "better" if (line.difference < 0) == LOWER_IS_BETTER[line.metric] else "misses"


def _table(table: Table, lines: Sequence[Line]) -> Iterator[Part]:
    cells, remarks = as_text(table, lines)
    verdicts = [verdict(line) for line in lines]
    if any(verdicts):
        cells.insert(cells.columns.get_loc("difference") + 1, "verdict", [each or "–" for each in verdicts])
    notes = cells.pop("notes")
    align = "".join("l" if name in ("row", "epoch", "verdict") else "r" for name in cells.columns)
    missed = [i for i, each in enumerate(verdicts) if each == "misses"]
    yield PageTable(list(cells.columns), cells.to_numpy().tolist(), remarks, align, warned=missed)
    if notes.any():
        said = [(row, note) for row, note in zip(cells["row"], notes, strict=True) if note]
        yield Fold(f"Notes on {len(said)} of {len(notes)} rows", [PageTable(("row", "notes"), said)])


def _figures(table: Table, runs: Mapping[str, RunRecord], lines: Sequence[Line]) -> Iterator[Part]:
    if not has_matplotlib():
        yield Note(NO_MATPLOTLIB)
        return
    if table.x_label and any(line.mean is not None for line in lines):
        yield _over_axis(table, lines)
    if not table.is_overview and (curves := list(_curves(table, runs))):
        few = "Where there are several runs, the mean of those that reached an epoch is drawn."
        yield Fold("Learning curves", [Gallery(curves), Text(few)])


def _curves(table: Table, runs: Mapping[str, RunRecord]) -> Iterator[Figure]:
    """Loss and score of the rows, of one metric in a figure."""
    groups: dict[str, list[tuple[str, list[RunRecord]]]] = {}
    for row in {row.place: row for row in table.rows}.values():  # several may be about targets of the same runs
        of_row = [runs[run.place] for run in row.runs() if run.place in runs]
        if any(run.curve for run in of_row):
            label = "all targets" if row.target else row.label
            groups.setdefault(metric_of(row, runs), []).append((label, of_row))
    for metric, rows in groups.items():
        points = [point for _, of_row in rows for run in of_row for point in run.curve]
        is_tested = not any(point.get("val") is not None for point in points)
        key, what = ("test", "Test") if is_tested else ("val", "Validation")
        for begin in range(0, len(rows), _IN_A_FIGURE):
            name = f"{table.name}-{metric or 'score'}-{begin}".replace("@", "-")
            for kind, title, is_low in (
                ("loss", "Training loss", True),
                (key, f"{what} {metric_title(metric)}", LOWER_IS_BETTER.get(metric, False)),
            ):
                of_rows = [plots.mean_line(label, of_row, kind) for label, of_row in rows[begin : begin + _IN_A_FIGURE]]
                drawn = plots.curve(of_rows, f"{name}-{kind}", title, may_be_log=is_low, is_wide=True)
                if drawn is not None:
                    yield drawn


def _over_axis(table: Table, lines: Sequence[Line]) -> Figure:
    """What the paper reports and what came out, over the axis of the figure."""
    x = [math.nan if line.x is None else line.x for line in lines]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        published = [line.published.mean if line.published else math.nan for line in lines]
        ours = [math.nan if line.mean is None else line.mean for line in lines]
        spreads = [line.cross_deviation or 0.0 for line in lines]
        axes.plot(x, published, color=MUTED, marker="s", markerfacecolor="none", linestyle="--", label="paper")
        axes.errorbar(x, ours, spreads, color=SERIES[1], ecolor=INK, marker="o", capsize=3, label="ours, ± models")
        axes.set(xlabel=table.x_label, ylabel="test MAE", xticks=x)
        axes.legend()

    return Figure(plot(draw, f"{table.name}-axis", f"{table.title}: the paper and ours", width=5.2, height=3.4))


def _text(said: str) -> list[Part]:
    return [Text(said.strip())] if said.strip() else []
