"""Figures of pages about runs: curves over the epochs, and predictions beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crawl.pages.colours import FIXED, INK, MUTED, SERIES
from crawl.pages.document import Figure
from crawl.pages.figures import plot, short
from crawl.runs.records import RunRecord
from crawl.training.metrics import Array

_MANY_POINTS = 1500  # beyond, points are pixels: each one as a shape would make a page of megabytes
_MOST_CLASSES = 30  # of a confusion matrix whose cells can be read
_SMALL: dict[str, Any] = {"width": 3.4, "height": 2.5}  # three beside each other
_SQUARE: dict[str, Any] = {"width": 3.4, "height": 3.1}


@dataclass(frozen=True)
class Line:
    """A curve over epochs; values may be missing."""

    name: str
    epochs: Sequence[float]
    values: Sequence[float | None]


def mean_line(name: str, runs: Sequence[RunRecord], key: str) -> Line:
    """The mean curve of several runs, at each epoch of those that have reached it; between points, lines are straight.

    Args:
        name: Of the line.
        runs: Whose curves may have other epochs, where points were left out.
        key: What is drawn, such as `loss`.
    """
    curves = []
    for run in runs:
        points = [(point["epoch"] or 0, value) for point in run.curve if (value := point.get(key)) is not None]
        curves += [np.array(sorted(points), dtype=float).T] if points else []
    epochs = np.unique(np.concatenate([x for x, _ in curves])) if curves else np.empty(0)
    values = [np.interp(epochs, x, y, left=np.nan, right=np.nan) for x, y in curves]
    means = np.nanmean(values, axis=0).tolist() if values else []  # an epoch is one of a run, which has a value there
    return Line(name, epochs.tolist(), means)


def curve(
    lines: Sequence[Line],
    name: str,
    title: str,
    *,
    best_epoch: int | None = None,
    may_be_log: bool = False,
    is_wide: bool = False,
) -> Figure | None:
    """A figure of curves over the epochs, one colour each; None if no value is known. The best epoch is marked."""
    known = []
    for line in lines:
        points = [(x, y) for x, y in zip(line.epochs, line.values, strict=True) if y is not None and np.isfinite(y)]
        if points:
            known.append((line.name, *zip(*points, strict=True)))
    if not known:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for i, (label, x, y) in enumerate(known):
            marker = {"marker": "o", "markersize": 4} if len(x) == 1 else {}
            axes.plot(x, y, color=SERIES[i % len(SERIES)], label=short(label), **marker)
        values = np.concatenate([y for _, _, y in known])
        if may_be_log and 0 < 10 * values.min() < values.max():
            _logarithmic(axes)
        elif values.min() == values.max() > 0:
            axes.set_ylim(0, 2 * values.max())
        if best_epoch is not None:
            axes.axvline(best_epoch, color=MUTED, linestyle=(0, (2, 2)), linewidth=1)
        axes.set(xlabel="epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(known) > 1:
            axes.legend(fontsize="small")

    size = {"width": 4.6, "height": 3.3} if is_wide else _SMALL
    return Figure(plot(draw, name, title, **size), title=title)


def _logarithmic(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def parity(targets: Array, mean: Array, name: str, title: str) -> Figure:
    """Predictions over targets, with the diagonal on which they would be equal."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        many = len(targets) > _MANY_POINTS
        low, high = float(min(targets.min(), mean.min())), float(max(targets.max(), mean.max()))
        margin = 0.04 * (high - low) or 1.0
        limits = (low - margin, high + margin)
        axes.plot(limits, limits, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        colour = FIXED if many else SERIES[0]
        axes.scatter(targets, mean, s=6 if many else 14, color=colour, alpha=0.55, linewidths=0, rasterized=many)
        axes.set(xlim=limits, ylim=limits, xlabel="target", ylabel="predicted")
        axes.set_aspect("equal")

    caption = f"{len(targets):,} in the test part; on the dashed line, a prediction equals its target."
    return Figure(plot(draw, name, f"{title}: predicted over target", width=4.3, height=4.1), caption, title)


def histogram_of_errors(errors: Array, name: str, title: str) -> Figure:
    """How often predictions are this much above their targets."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.hist(errors, bins=min(40, max(8, round(len(errors) ** 0.5))), color=SERIES[2], alpha=0.85)
        axes.axvline(0, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.set(xlabel="predicted minus target", ylabel="number")
        axes.yaxis.get_major_locator().set_params(integer=True)

    words = f"Mean {errors.mean():.3g}, standard deviation {errors.std():.3g}."
    return Figure(plot(draw, name, title, width=4.5, height=3.4), words, title)


def roc_and_precision(lines: Sequence[tuple[str, Array, Array]], name: str) -> list[Figure]:
    """ROC and precision-recall curves of labels, each with its name, its truth and its probability."""
    from sklearn.metrics import precision_recall_curve, roc_curve

    def draw_roc(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for i, (label, truth, probability) in enumerate(lines):
            false, true, _ = roc_curve(truth, probability)
            axes.plot(false, true, color=SERIES[i % len(SERIES)], label=short(label, 24))
        axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        _legend(axes, lines)

    def draw_precision(figure: Any) -> None:
        axes = figure.subplots()
        for i, (label, truth, probability) in enumerate(lines):
            precision, recall, _ = precision_recall_curve(truth, probability)
            axes.plot(recall, precision, color=SERIES[i % len(SERIES)], label=short(label, 24), drawstyle="steps-post")
        if len(lines) == 1:
            axes.axhline(lines[0][1].mean(), color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        _legend(axes, lines)

    return [
        Figure(plot(draw_roc, f"{name}-roc", "ROC curve", **_SQUARE), "Dashed: chance.", "ROC curve"),
        Figure(
            plot(draw_precision, f"{name}-precision", "Precision over recall", **_SQUARE),
            "Dashed: chance." if len(lines) == 1 else "",
            "Precision and recall",
        ),
    ]


def _legend(axes: Any, lines: Sequence[Any]) -> None:
    if len(lines) > 1:
        axes.legend(fontsize="x-small")


def confusion(truth: Array, classes: Array, names: Sequence[str], name: str) -> Figure | None:
    """How often a graph of each class was given each class; None for more classes than can be read."""
    if len(names) > _MOST_CLASSES:
        return None
    counts = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(counts, (truth.astype(int), classes.astype(int)), 1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)

    def draw(figure: Any) -> None:
        from matplotlib.patches import Rectangle

        axes = figure.subplots()
        for i, k in np.ndindex(counts.shape):
            if counts[i, k]:
                colour = SERIES[0 if i == k else 1]
                axes.add_patch(Rectangle((k - 0.5, i - 0.5), 1, 1, color=colour, alpha=0.1 + 0.6 * shares[i, k], lw=0))
                if len(names) <= 12:
                    axes.text(k, i, str(counts[i, k]), ha="center", va="center", color=INK)
        ticks, labels = range(len(names)), [short(each, 16) for each in names]
        axes.set_xticks(ticks, labels, rotation=0 if max(map(len, labels)) <= 5 else 35, ha="center")
        axes.set_yticks(ticks, labels)
        axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5), xlabel="predicted", ylabel="true")
        axes.grid(False)
        axes.set_aspect("equal")

    size = max(3.1, min(1.2 + 0.38 * len(names), 8.0))
    figure = plot(draw, name, "Confusion matrix", width=size + 0.3, height=size)
    return Figure(figure, "Rows are true classes. A darker cell has a larger share of its row.", "Confusion matrix")


def reliability(truth: Array, probability: Array, name: str) -> Figure:
    """How often what was predicted with a probability came true."""
    x, y, _ = reliability_bins(truth, probability)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot(x, y, color=SERIES[0], marker="o", markersize=4)
        axes.set(xlabel="predicted probability", ylabel="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))

    picture = plot(draw, name, "Observed share over predicted probability", **_SQUARE)
    caption = f"{len(x)} groups of equal size by their probability; on the dashed line, probabilities are right."
    return Figure(picture, caption, "Reliability")


def reliability_bins(truth: Array, probability: Array) -> tuple[Array, Array, Array]:
    """For groups of equal size, from the least to the most probable: mean probability, observed share, number.

    There are up to ten groups, of at least ten each where there are two.
    """
    order = np.argsort(probability, kind="stable")
    groups = np.array_split(order, min(10, max(2, len(order) // 10), len(order)))
    means = np.array([[probability[group].mean(), truth[group].mean(), len(group)] for group in groups])
    return means[:, 0], means[:, 1], means[:, 2]
