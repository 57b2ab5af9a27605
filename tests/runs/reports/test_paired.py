from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from crawl.data.task import Task
from crawl.runs.reports.paired import is_same_test, paired_difference
from crawl.runs.reports.predicted import Predicted

RNG = np.random.default_rng(0)
NUMBERS = Task(kind="regression", num_outputs=1)


def numbers(mean: np.ndarray, targets: np.ndarray) -> Predicted:
    ids = [str(i) for i in range(len(mean))]
    return Predicted(NUMBERS, ids, targets[:, None], mean[:, None], np.zeros((len(mean), 1)))


def test_the_interval_is_that_of_scipy() -> None:
    targets = RNG.normal(size=80)
    ours, theirs = targets + RNG.normal(size=80), targets + 1.3 * RNG.normal(size=80)
    found = paired_difference([numbers(ours, targets)], [numbers(theirs, targets)])
    assert found is not None
    gaps = abs(ours - targets) - abs(theirs - targets)  # of the MAE, the difference is a mean
    assert found.value == pytest.approx(gaps.mean())
    known = bootstrap((gaps,), np.mean, method="percentile", n_resamples=5000, rng=1).confidence_interval
    assert found.low == pytest.approx(known.low, abs=0.03)
    assert found.high == pytest.approx(known.high, abs=0.03)


def test_a_clear_difference_is_told_and_none_is_not() -> None:
    targets = RNG.normal(size=60)
    exact, rough = numbers(targets, targets), numbers(targets + 1, targets)
    found = paired_difference([exact], [rough])
    assert found is not None
    assert found.is_clear
    assert (found.value, found.low, found.high) == pytest.approx((-1, -1, -1))
    same = paired_difference([rough, exact], [rough, exact])  # two folds
    assert same is not None
    assert not same.is_clear


def test_without_a_score_there_is_no_difference() -> None:
    task = Task(kind="binary", num_outputs=1)
    one = Predicted(task, ["a", "b"], np.ones(2), np.full((2, 2), 0.5), np.zeros((2, 2)))
    assert paired_difference([one], [one]) is None


def test_test_parts_are_the_same_if_ids_and_targets_are() -> None:
    targets = np.array([1.0, np.nan])
    assert is_same_test(numbers(np.zeros(2), targets), numbers(np.ones(2), targets))
    assert not is_same_test(numbers(np.zeros(2), targets), numbers(np.zeros(2), np.array([1.0, 2.0])))
    assert not is_same_test(numbers(np.zeros(2), targets), numbers(np.zeros(1), targets[:1]))
