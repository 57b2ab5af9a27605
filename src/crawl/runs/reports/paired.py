"""Whether one model is better than another on the same test part: a paired difference with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawl.runs.reports.predicted import Predicted
from crawl.training.metrics import score

Rows = NDArray[np.int64]
_RESAMPLES = 1000
_LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """The score of one model minus that of another, each of its averaged prediction.

    Attributes:
        value: On the test part.
        low: The lower end of the interval.
        high: Its upper end.
    """

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.low <= 0 <= self.high


def is_same_test(one: Predicted, other: Predicted) -> bool:
    """Whether two runs predict the same targets of the same graphs, in the same order."""
    return one.ids == other.ids and np.array_equal(one.targets, other.targets, equal_nan=True)


def paired_difference(ours: Sequence[Predicted], theirs: Sequence[Predicted], *, seed: int = 0) -> Difference | None:
    """The difference of two models on the same test parts, with a 95 % bootstrap interval; None where it has no score.

    Each resample draws rows of a test part with replacement, the same for both; with several runs each, as of folds,
    scores are means over them. The interval is that of percentiles. It says how much the difference depends on which
    graphs were tested; it does not say how much it depends on the training.

    Args:
        ours: The predictions of one model, a run after the other.
        theirs: Those of the other; `is_same_test` holds for each pair.
        seed: Of the resamples.
    """
    assert len(ours) == len(theirs)
    rng = np.random.default_rng(seed)
    everything = [np.arange(len(each)) for each in ours]
    value = _difference(ours, theirs, everything)
    drawn = [
        _difference(ours, theirs, [rng.integers(0, max(len(rows), 1), len(rows)) for rows in everything])
        for _ in range(_RESAMPLES if np.isfinite(value) else 0)
    ]
    known = np.array([each for each in drawn if np.isfinite(each)])  # a resample may have one class only
    if len(known) < _RESAMPLES / 2:
        return None
    low, high = np.quantile(known, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Difference(value, float(low), float(high))


def _difference(ours: Sequence[Predicted], theirs: Sequence[Predicted], rows: Sequence[Rows]) -> float:
    pairs = zip(ours, theirs, rows, strict=True)
    return float(np.mean([_score(one, drawn) - _score(other, drawn) for one, other, drawn in pairs]))


def _score(predicted: Predicted, rows: Rows) -> float:
    return score(predicted.task.metric, predicted.for_scores[rows], predicted.targets[rows])
