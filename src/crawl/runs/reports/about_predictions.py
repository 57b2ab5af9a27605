"""What a page says about the predictions for the test part: figures, more scores, worst errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from crawl.data.task import Task
from crawl.pages.document import Figure, Gallery, Note, Part, Table, Text
from crawl.pages.figures import NO_MATPLOTLIB, has_matplotlib, short
from crawl.pages.molecules import draw_molecule, has_rdkit
from crawl.runs.folder import output_names
from crawl.runs.formats import format_score
from crawl.runs.reports import plots
from crawl.runs.reports.predicted import Predicted
from crawl.training.metrics import Array, score

_MOST_TARGETS = 6  # with figures of their own
_MOST_LINES = 6  # in one figure
_WORST = 12
_TITLES = {
    **{"mae": "MAE", "rmse": "RMSE", "r2": "R²", "accuracy": "accuracy", "macro_f1": "macro F1"},
    **{"ap": "average precision", "roc_auc": "ROC AUC", "mrr": "MRR"},
}
_SCORES = {
    "regression": ("mae", "rmse", "r2"),
    "binary": ("roc_auc", "ap", "accuracy", "macro_f1"),
    "multiclass": ("accuracy", "macro_f1"),
    "multilabel": ("roc_auc", "ap", "macro_f1"),
}


def metric_title(metric: str) -> str:
    """What a metric is called on pages."""
    return _TITLES.get(metric, metric)


def figures_of(predicted: Predicted) -> Iterator[Part]:
    """Parity plots and errors of numbers; ROC, precision and recall, or a confusion matrix, of classes and labels."""
    if len(predicted) == 0:
        yield Note("The test part is empty.")
        return
    if not has_matplotlib():
        yield Note(NO_MATPLOTLIB)
    elif predicted.task.kind == "regression":
        yield from _of_numbers(predicted)
    else:
        yield from _of_classes(predicted)
    yield _more_scores(predicted)


def _of_numbers(predicted: Predicted) -> Iterator[Part]:
    names = output_names(predicted.task) if predicted.task.target_names else ["target"] * predicted.mean.shape[1]
    figures: list[Figure] = []
    for k, name in enumerate(names[:_MOST_TARGETS]):
        known = ~np.isnan(predicted.targets[:, k])
        targets, mean = predicted.targets[known, k], predicted.mean[known, k]
        if not len(targets):
            continue
        figures.append(plots.parity(targets, mean, f"parity-{k}", short(name, 60)))
        if len(names) == 1:
            figures.append(plots.histogram_of_errors(mean - targets, f"errors-{k}", "Errors"))
    yield Gallery(figures)
    if len(names) > _MOST_TARGETS:
        yield Text(f"The first {_MOST_TARGETS} of {len(names)} targets are drawn.")


def _labels(predicted: Predicted) -> list[tuple[str, Array, Array]]:
    """Name, truth and probability of the second of two classes, or of each label; of those with both answers in the
    test part."""
    names = output_names(predicted.task)
    if predicted.task.kind == "binary":
        labels = [(f"class {names[1]}", predicted.targets, predicted.mean[:, 1])]
    else:
        columns = zip(names, predicted.targets.T, predicted.mean.T, strict=True)
        labels = [(name, truth[~np.isnan(truth)], mean[~np.isnan(truth)]) for name, truth, mean in columns]
    return [label for label in labels if len(np.unique(label[1])) == 2]


def _of_classes(predicted: Predicted) -> Iterator[Part]:
    figures: list[Figure] = []
    labels = _labels(predicted) if predicted.task.kind in ("binary", "multilabel") else []
    if labels:
        figures += plots.roc_and_precision(labels[:_MOST_LINES], "labels")
    if predicted.targets.ndim == 1:
        classes, names = predicted.mean.argmax(axis=1), output_names(predicted.task)
        matrix = plots.confusion(predicted.targets, classes, names, "confusion")
        if matrix is None:
            yield Text(f"A confusion matrix of {len(names)} classes would be too large to read.")
        figures += [matrix] if matrix is not None else []
    yield Gallery(figures)
    if not labels and predicted.task.kind != "multiclass":
        yield Note("There is no ROC curve: the test part has one class only.")
    if len(labels) > _MOST_LINES:
        yield Text(f"Curves are drawn for the first {_MOST_LINES} of {len(labels)} labels.")


def _more_scores(predicted: Predicted) -> Table:
    """Scores of the averaged prediction by every metric of the task; for several targets, a row for each."""
    task = predicted.task
    metrics = [task.metric, *(each for each in _SCORES[task.kind] if each != task.metric)]
    rows = [("all" if _has_rows(task) else "test part", *_scores(metrics, predicted.for_scores, predicted.targets))]
    if _has_rows(task):
        for k, name in enumerate(task.target_names):
            columns = slice(k, k + 1)
            scores = _scores(metrics, predicted.for_scores[:, columns], predicted.targets[:, columns])
            rows.append((short(name, 60), *scores))
    caption = "Scores of the prediction that is averaged over evaluations."
    return Table(("", *map(metric_title, metrics)), rows, caption, "l" + "r" * len(metrics))


def _has_rows(task: Task) -> bool:
    return task.kind in ("regression", "multilabel") and len(task.target_names) > 1


def _scores(metrics: Sequence[str], mean: Array, targets: Array) -> list[str]:
    values = [score(metric, mean, targets) for metric in metrics]
    return [
        format_score(metric, value if np.isfinite(value) else None)
        for metric, value in zip(metrics, values, strict=True)
    ]


def calibration_of(predicted: Predicted) -> Iterator[Part]:
    """The reliability of probabilities: of the second of two classes, of the most probable class, or of all labels.

    Nothing for numbers, and for links, whose share of positives is a choice.
    """
    task, mean, targets = predicted.task, predicted.mean, predicted.targets
    if task.kind == "regression" or task.level == "pair" or len(predicted) < 2 or not has_matplotlib():
        return
    if task.kind == "binary":
        truth, probability, what = targets, mean[:, 1], f"the class {short(output_names(task)[1], 40)}"
    elif task.kind == "multiclass":
        best = mean.argmax(axis=1)
        truth, probability, what = (targets == best).astype(float), mean.max(axis=1), "the most probable class"
    else:
        known = ~np.isnan(targets)
        truth, probability, what = targets[known], mean[known], "all labels together"
    if len(truth) > 1:
        yield plots.reliability(truth, probability, "reliability")
        yield Text(f"The probability is that of {what}, on the test part.")


def worst_errors(predicted: Predicted, are_molecules: bool) -> Iterator[Part]:
    """The predictions that are farthest from their targets, with molecules drawn where rows are named by SMILES."""
    errors = predicted.errors
    order = [int(i) for i in np.argsort(-errors, kind="stable") if np.isfinite(errors[i])][:_WORST]
    if not order:
        return
    what = "graph" if predicted.task.level == "graph" else predicted.task.level
    if are_molecules and not has_rdkit():
        yield Note("Molecules are not drawn, since rdkit is not installed. To have them: pip install rdkit")
    if are_molecules and has_rdkit():
        figures = []
        for place, i in enumerate(order):
            if (picture := draw_molecule(predicted.ids[i], f"molecule-{place}")) is not None:
                truth, answer = _truth_and_answer(predicted, i)
                figures.append(Figure(picture, f"target {truth}\npredicted {answer}"))
        yield Gallery(figures, is_small=True)
    rows = [(short(predicted.ids[i], 80), *_truth_and_answer(predicted, i), f"{errors[i]:.3g}") for i in order]
    error = "mean distance" if predicted.targets.ndim == 2 and predicted.mean.shape[1] > 1 else "distance"
    error = error if predicted.targets.ndim == 2 else "probability missing"
    caption = f"The {len(order)} largest errors of {len(predicted):,} in the test part."
    yield Table((what, "target", "predicted", error), rows, caption, "lrrr")


def _truth_and_answer(predicted: Predicted, row: int) -> tuple[str, str]:
    """The target of a row and what was predicted, as people read them."""
    names, mean = output_names(predicted.task), predicted.mean[row]
    if predicted.targets.ndim == 1:
        best = int(mean.argmax())
        return short(names[int(predicted.targets[row])], 24), f"{short(names[best], 24)} ({mean[best]:.0%})"
    targets = predicted.targets[row]
    if len(names) == 1:
        return f"{targets[0]:.4g}", f"{mean[0]:.4g}"
    known = np.flatnonzero(~np.isnan(targets))
    k = int(known[np.argmax(abs(mean - targets)[known])])
    return f"{short(names[k], 24)} {targets[k]:.4g}", f"{mean[k]:.4g}"
