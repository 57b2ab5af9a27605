"""Scores; all but the simplest by scikit-learn. Missing labels (NaN) are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawl.checks import shown
from crawl.data.task import num_hits

Array = NDArray[np.float64]

LOWER_IS_BETTER = {"mae": True, "rmse": True, "r2": False, "accuracy": False, "macro_f1": False, "ap": False}
LOWER_IS_BETTER["roc_auc"] = False


def score(metric: str, predictions: Array, targets: Array) -> float:
    """The score of predictions.

    Args:
        metric: `mae`, `rmse`, `r2`, `accuracy`, `macro_f1`, `ap` (average precision), `roc_auc`, or for links `hits@k`
            and `mrr`; see `hits_at` and `mean_reciprocal_rank`.
        predictions: `[n, k]`: values, or probabilities (one column for binary, one for each class or label otherwise).
        targets: `[n, k]` values or labels with NaN where missing, or `[n]` classes.

    Returns:
        The score; for several targets or labels the mean over those that have one. NaN if none has, as when a label has
        only one class in the part scored.
    """
    if not isinstance(targets, np.ndarray) or targets.dtype.kind not in "biuf" or targets.ndim not in (1, 2):
        raise ValueError(f"targets must be a numpy array of numbers, [n] or [n, k], not {shown(targets)}.")
    if targets.size == 0:
        return float("nan")
    fits = len(targets) == len(predictions) and (targets.ndim == 1 or targets.shape == predictions.shape)
    if not fits:
        raise ValueError(f"targets of shape {list(targets.shape)} do not fit predictions of {list(predictions.shape)}.")
    if targets.ndim == 1 and metric in ("accuracy", "macro_f1"):
        classes = (predictions[:, 0] > 0.5) if predictions.shape[1] == 1 else predictions.argmax(axis=1)
        if metric == "accuracy":
            return float(np.mean(targets == classes))
        return _by_sklearn("f1_score", targets, classes, average="macro")
    if targets.ndim == 1 and predictions.shape[1] > 1:  # classes, one against the rest
        targets = (targets[:, None] == np.arange(predictions.shape[1])).astype(np.float64)
    targets = targets[:, None] if targets.ndim == 1 else targets
    values = [_column_score(metric, predictions[:, k], targets[:, k]) for k in range(targets.shape[1])]
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def why_no_score(metric: str, targets: Array) -> str:
    """Why targets have no score, whatever is predicted; "" if they have one."""
    known = targets[~np.isnan(targets)]
    columns = targets[:, None] if targets.ndim == 1 else targets
    if known.size == 0:
        return "it has no graphs" if targets.size == 0 else "it has no targets"
    if metric == "r2" and all(np.sum(~np.isnan(column)) < 2 for column in columns.T):
        return "r2 needs two targets"
    if metric not in (*_VALUE_SCORES, "accuracy", "macro_f1") and all(
        np.unique(column[~np.isnan(column)]).size < 2 for column in columns.T
    ):
        return f"it has one class only, and {metric} needs two"
    return ""


def _column_score(metric: str, predictions: Array, targets: Array) -> float:
    known = ~np.isnan(targets)
    predictions, targets = predictions[known], targets[known]
    if targets.size == 0 or np.isnan(predictions).any():
        return float("nan")
    if metric in _VALUE_SCORES:
        if metric == "r2" and targets.size < 2:
            return float("nan")
        return _by_sklearn(_VALUE_SCORES[metric], targets, predictions)
    if metric == "accuracy":
        return float(np.mean(targets == (predictions > 0.5)))
    if metric == "macro_f1":
        return _by_sklearn("f1_score", targets, predictions > 0.5, average="macro")
    if np.unique(targets).size < 2:  # neither curve exists
        return float("nan")
    if (k := num_hits(metric)) is not None:
        return hits_at(k, targets, predictions)
    if metric == "mrr":
        return mean_reciprocal_rank(targets, predictions)
    return _by_sklearn(_RANK_SCORES[metric], targets, predictions)


def _by_sklearn(name: str, targets: Array, predictions: NDArray[Any], **options: Any) -> float:
    from sklearn import metrics  # which takes long to import

    return float(getattr(metrics, name)(targets, predictions, **options))


def hits_at(k: int, targets: Array, predictions: Array) -> float:
    """The share of positives that score higher than the k-th best negative, as OGB counts; 1 with fewer negatives."""
    negatives = predictions[targets == 0]
    if len(negatives) < k:
        return 1.0
    return float(np.mean(predictions[targets == 1] > np.partition(negatives, -k)[-k]))


def mean_reciprocal_rank(targets: Array, predictions: Array) -> float:
    """The mean of 1/rank over positives, each ranked among itself and all negatives.

    As OGB does, which has other negatives for each positive, the rank is the mean of the best and the worst one that
    equal scores allow.
    """
    negatives, positives = np.sort(predictions[targets == 0]), predictions[targets == 1]
    num_higher = len(negatives) - np.searchsorted(negatives, positives, "right")
    num_not_lower = len(negatives) - np.searchsorted(negatives, positives, "left")
    return float(np.mean(1 / (1 + (num_higher + num_not_lower) / 2)))


_VALUE_SCORES = {"mae": "mean_absolute_error", "rmse": "root_mean_squared_error", "r2": "r2_score"}
_RANK_SCORES = {"ap": "average_precision_score", "roc_auc": "roc_auc_score"}
