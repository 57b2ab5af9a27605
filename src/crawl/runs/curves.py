"""Learning curves of runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawl.files import whole_file
from crawl.runs.records import RunRecord
from crawl.training.metrics import LOWER_IS_BETTER

_LETTERS_IN_A_LINE = 130  # of a legend
_SPLITS = {"val": "validation", "test": "without validation: test"}


@dataclass(frozen=True)
class CurveGroup:
    """Runs that are drawn in one colour, with the metric of their scores."""

    name: str  # in the legend
    metric: str
    runs: Sequence[RunRecord]


def draw_curves(
    groups: Sequence[CurveGroup],
    title: str,
    path: Path,
    *,
    best_epoch: int | None = None,
    pretraining: Sequence[dict[str, Any]] = (),
) -> list[Path]:
    """Draw loss and score over the epochs: a line for each run, two panels for each metric; the file written.

    The score is that of validation; or of the test split, where only that was tracked. `best_epoch` is marked. The
    loss of a pre-training has a panel of its own. Nothing is drawn where no run has epochs, or matplotlib is not
    installed.
    """
    drawn = [group for group in groups if any(run.curve for run in group.runs)]
    try:
        from matplotlib import colormaps
        from matplotlib.figure import Figure
    except ImportError:
        return []
    if not drawn:
        return []
    metrics = list(dict.fromkeys(group.metric for group in drawn))
    num_columns = max(1, min(4, _LETTERS_IN_A_LINE // (max(len(group.name) for group in drawn) + 6)))
    num_rows = len(metrics) + bool(pretraining)
    height = 3.5 * num_rows + 0.2 * math.ceil(len(drawn) / num_columns) + 0.3
    figure = Figure(figsize=(9, height), layout="constrained")
    colours = colormaps["tab10" if len(groups) <= 10 else "tab20"]
    panels = figure.subplots(num_rows, 2, squeeze=False)
    for metric, (loss_axes, score_axes) in zip(metrics, panels, strict=False):
        of_metric = [(i, group) for i, group in enumerate(groups) if group.metric == metric]
        split = _split_to_draw(run.curve for _, group in of_metric for run in group.runs)
        for i, group in of_metric:
            for number, curve in enumerate(run.curve for run in group.runs if run.curve):
                style = {"color": colours(i % colours.N), "linewidth": 0.9, "alpha": 0.7}
                style |= {"marker": "."} if len(curve) == 1 else {}
                loss_axes.plot([p["epoch"] for p in curve], [p["loss"] for p in curve], **style)
                scored = [point for point in curve if point.get(split) is not None]
                label = group.name if number == 0 else None  # once in the legend
                score_axes.plot([p["epoch"] for p in scored], [p[split] for p in scored], label=label, **style)
        loss_axes.set(xlabel="epoch", ylabel="training loss")
        score_axes.set(xlabel="epoch", ylabel=f"{_SPLITS[split]} {metric}".strip())
        if metric == "accuracy":
            score_axes.set_ylim(-0.02, 1.02)
        _refine(loss_axes, may_be_log=True)
        _refine(score_axes, may_be_log=LOWER_IS_BETTER.get(metric, False))
        for axes in (loss_axes, score_axes) if best_epoch else ():
            label = f"best epoch {best_epoch}" if axes is score_axes else None
            axes.axvline(best_epoch, color="gray", linestyle=":", label=label)
    if pretraining:
        axes, unused = panels[-1]
        marker = "." if len(pretraining) == 1 else ""
        axes.plot([p["epoch"] for p in pretraining], [p["loss"] for p in pretraining], color="gray", marker=marker)
        axes.set(xlabel="epoch of pre-training", ylabel="loss of hidden bits")
        _refine(axes, may_be_log=True)
        unused.remove()
    figure.suptitle(title)
    figure.legend(loc="outside lower center", ncols=num_columns, fontsize="small", frameon=False)
    save_figure(figure, path)
    return [path]


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    with whole_file(path) as file:
        figure.savefig(file, format="png", dpi=150)


def _split_to_draw(curves: Iterable[list[dict[str, float | None]]]) -> str:
    """Validation; or test, where only that was scored."""
    points = [point for curve in curves for point in curve]
    has = {split: any(point.get(split) is not None for point in points) for split in _SPLITS}
    return "test" if has["test"] and not has["val"] else "val"


def _refine(axes: Any, may_be_log: bool) -> None:
    """A grid, and a logarithmic axis where values span more than one power of ten."""
    values = [value for line in axes.lines for value in line.get_ydata(orig=False) if value == value]
    if may_be_log and values and 0 < 10 * min(values) < max(values):
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
