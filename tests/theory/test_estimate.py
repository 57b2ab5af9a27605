from __future__ import annotations

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from crawl.theory import (
    Estimate,
    estimate_law,
    estimate_total_variation,
    feature_law,
    is_indistinguishable,
    named_graph,
    rook,
    shrikhande,
    total_variation,
    walks_needed,
)
from crawl.theory import estimate as module
from crawl.theory.chain import window_chain

PAIRS = [("rook", "shrikhande"), ("paths:3", "paths:3:uneven"), ("csl:11,2", "csl:11,3"), ("cycle:8", "cycles:4,4")]


@pytest.mark.parametrize("max_states", [100_000, 0], ids=["by likelihood", "by frequency"])
@pytest.mark.parametrize("strategy", ["uniform", "non_backtracking"])
@pytest.mark.parametrize("names", PAIRS)
def test_intervals_hold_the_exact_distance(names, strategy, max_states):
    graph, other = map(named_graph, names)
    exact = total_variation(graph, other, num_steps=5, window_size=3, strategy=strategy)
    for seed in range(5):
        estimate = estimate_total_variation(
            graph,
            other,
            num_steps=5,
            window_size=3,
            strategy=strategy,
            num_walks=1000,
            confidence=0.99,
            seed=seed,
            max_states=max_states,
        )
        assert exact in estimate
        assert estimate.high - estimate.low < (0.08 if max_states else 0.45)


@pytest.mark.parametrize("strategy", ["uniform", "non_backtracking"])
def test_intervals_hold_the_exact_probabilities(strategy):
    graph = named_graph("paths:3:uneven")
    law = feature_law(graph, num_steps=5, window_size=3, strategy=strategy)
    estimates = estimate_law(graph, num_steps=5, window_size=3, strategy=strategy, num_walks=2000, confidence=0.99)
    assert estimates.keys() <= law.keys()
    assert all(law[rows] in estimate for rows, estimate in estimates.items())
    assert max(estimate.high - estimate.low for estimate in estimates.values()) < 0.073  # twice the margin, or clipped
    with pytest.raises(ValueError, match="confidence must be a number between 0 and 1"):
        estimate_law(graph, num_steps=5, confidence=1.0)


def test_more_walks_make_a_narrower_interval():
    few, many = (
        estimate_total_variation(rook(), shrikhande(), num_steps=10, window_size=3, num_walks=num_walks)
        for num_walks in (100, 10_000)
    )
    assert many.high - many.low == pytest.approx((few.high - few.low) / 10, rel=0.2)
    assert many.num_walks == 10_000
    assert str(many) == f"{many.low:.3f} – {many.high:.3f}"


def test_windows_as_long_as_the_walk():
    exact = total_variation(rook(), shrikhande(), num_steps=4)
    assert exact in estimate_total_variation(rook(), shrikhande(), num_steps=4, num_walks=4000)


@pytest.mark.parametrize(("num_followed", "num_walks"), [(500, 500), (100, 1000)])
def test_work_is_bounded(monkeypatch, num_followed, num_walks):
    graph, other = named_graph("paths:4"), named_graph("paths:4:uneven")
    classes = window_chain([graph, other], 3, "uniform").classes()[-1]
    monkeypatch.setattr(module, "MAX_WORK", num_followed * 2 * 6 * (max(classes) + 1))
    estimate = estimate_total_variation(
        graph, other, num_steps=6, window_size=3, strategy="uniform", num_walks=1000, confidence=0.999
    )
    assert estimate.num_walks == num_walks  # followed, or counted where too few could be followed
    assert total_variation(graph, other, num_steps=6, window_size=3, strategy="uniform") in estimate


def test_equal_graphs():
    estimate = estimate_total_variation(rook(), rook(), num_steps=30, window_size=4, num_walks=500)
    assert estimate.low == 0
    assert estimate.high < 0.1


@pytest.mark.parametrize(("num_walks", "confidence"), [(1, 0.9), (10, 1.0), (10, 0.0)])
def test_bad_arguments(num_walks, confidence):
    with pytest.raises(ValueError, match=r"(num_walks|confidence) must be a"):
        estimate_total_variation(
            nx.path_graph(3), nx.path_graph(4), num_steps=3, num_walks=num_walks, confidence=confidence
        )


def test_indistinguishable_is_strict_and_exact():
    assert not is_indistinguishable(Fraction(1, 1000), 10, Fraction(1, 100))
    assert is_indistinguishable(Fraction(1, 1000) - Fraction(1, 10**30), 10, Fraction(1, 100))
    assert is_indistinguishable(Fraction(0), 10**100, Fraction(1, 10**100))
    assert not is_indistinguishable(Fraction(1, 100), 1, 0.01)  # the float is a little more than its decimal
    for epsilon in (0, -0.1, 1.5):
        with pytest.raises(ValueError, match="epsilon must be"):
            is_indistinguishable(Fraction(0), 1, epsilon)
    with pytest.raises(ValueError, match="between 0 and 1"):
        is_indistinguishable(Fraction(-1, 2), 1, 0.5)


def test_indistinguishable_by_an_estimate():
    estimate = Estimate(0.01, 0.04, 0.95, 100)
    assert [is_indistinguishable(estimate, num_walks, 0.1) for num_walks in (2, 5, 10)] == [True, None, False]


def error_of_the_best_test(mine: float, others: float, num_walks: int) -> float:
    """For two laws on {0, 1} with these chances of 1, equally likely: what it errs with on so many samples."""
    chances = [stats.binom.pmf(np.arange(num_walks + 1), num_walks, p) for p in (mine, others)]
    return float(np.minimum(*chances).sum() / 2)


@pytest.mark.parametrize(("mine", "others"), [(0.5, 0.6), (0.0, 0.2), (0.1, 0.9), (0.01, 0.03)])
@pytest.mark.parametrize("confidence", [0.75, 0.95])
def test_the_number_of_walks_needed(mine, others, confidence):
    low, high = walks_needed(others - mine, confidence)
    assert low <= high
    assert error_of_the_best_test(mine, others, high) <= 1 - confidence
    assert low == 1 or error_of_the_best_test(mine, others, low - 1) > 1 - confidence


def test_the_number_of_walks_needed_at_the_ends():
    assert walks_needed(Fraction(0)) is None
    assert walks_needed(Fraction(1)) == (1, 1)
    assert walks_needed(Fraction(1, 10**12))[0] > 10**12
    assert walks_needed(1 - Fraction(1, 10**20)) == (1, 1)
    low, high = walks_needed(Fraction(1, 10**200))
    assert math.log10(low) == pytest.approx(200, abs=1)
    assert math.log10(high) == pytest.approx(400, abs=1)
    assert walks_needed(1e-200)[0] == pytest.approx(low)
    for distance, confidence in ((1.5, 0.9), (0.5, 0.5)):
        with pytest.raises(ValueError, match="between 0"):
            walks_needed(distance, confidence)
