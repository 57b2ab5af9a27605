"""Distances from samples, with confidence intervals, and how many walks it takes to tell two graphs apart.

The bounds hold for every pair of laws and every number of samples; nothing is asymptotic.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from crawl.checks import MAX_COUNT, between, real_number, share, shown, whole_number
from crawl.theory.chain import MAX_STATES, Chain, TooLarge, WalkStrategy, window_chain
from crawl.theory.law import Matrix, sample_features
from crawl.theory.simple import AnyGraph

MAX_WORK = 500_000_000  # walks × steps × classes of states to follow at most
MIN_LIKELIHOODS = 200  # with fewer walks, frequencies of all of them say more

_Gain = Callable[[list[Matrix], list[Matrix]], float]


@dataclass(frozen=True)
class Estimate:
    """An interval that holds a probability, or a total variation distance, with the given confidence."""

    low: float
    high: float
    confidence: float
    num_walks: int  # sampled on each of the graphs

    def __contains__(self, distance: float | Fraction) -> bool:
        return self.low <= distance <= self.high

    def __str__(self) -> str:
        return f"{self.low:.3f} – {self.high:.3f}"


def estimate_law(
    graph: AnyGraph,
    *,
    num_steps: int,
    window_size: int | None = None,
    strategy: WalkStrategy = "non_backtracking",
    num_walks: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[Matrix, Estimate]:
    """The probabilities of the feature matrices that occur in a sample, each with an interval (Hoeffding).

    The matrices are written as `sample_features` says. Each interval holds its probability with the given confidence by
    itself; one that did not occur has a probability below the common margin, with this confidence.
    """
    num_walks, confidence = whole_number("num_walks", num_walks, 1, MAX_COUNT), between("confidence", confidence, 0, 1)
    samples = sample_features(
        graph, num_walks, num_steps=num_steps, window_size=window_size, strategy=strategy, seed=seed
    )
    counts = Counter(samples).most_common()
    return {rows: _hoeffding(count / num_walks, num_walks, confidence, num_walks) for rows, count in counts}


def estimate_total_variation(
    graph: AnyGraph,
    other: AnyGraph,
    *,
    num_steps: int,
    window_size: int | None = None,
    strategy: WalkStrategy = "non_backtracking",
    num_walks: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    max_states: int = MAX_STATES,
) -> Estimate:
    """The total variation distance of the laws of X(G, W) and X(G', W), from samples.

    Where the states of the window fit, by `estimate_by_likelihood`, which is sharp, with as many of the walks as
    `MAX_WORK` allows; where these are too few, or states do not fit, by `estimate_by_frequency`, whose interval says
    little where matrices hardly repeat.

    The arguments are those of `total_variation`, but a window is at most 32 or as long as the walk; `num_walks`, at
    least 2, are sampled on each graph.
    """
    num_walks, confidence = whole_number("num_walks", num_walks, 2, MAX_COUNT), between("confidence", confidence, 0, 1)
    seed = whole_number("seed", seed, 0, 2**62)
    max_states = whole_number("max_states", max_states, 0, MAX_COUNT)
    samples = [
        sample_features(
            each, num_walks, num_steps=num_steps, window_size=window_size, strategy=strategy, seed=2 * seed + i
        )
        for i, each in enumerate((graph, other))
    ]
    if window_size is not None and window_size < num_steps:
        try:
            chain = window_chain([graph, other], window_size, strategy, None, max_states)
        except TooLarge:
            return estimate_by_frequency(samples[0], samples[1], confidence)
        affordable = MAX_WORK // (2 * num_steps * (max(chain.classes()[-1]) + 1))
        if affordable >= min(num_walks, MIN_LIKELIHOODS):
            return estimate_by_likelihood(chain, samples[0][:affordable], samples[1][:affordable], confidence)
    return estimate_by_frequency(samples[0], samples[1], confidence)


def estimate_by_likelihood(chain: Chain, mine: list[Matrix], others: list[Matrix], confidence: float) -> Estimate:
    """From samples whose probabilities on both graphs, P and Q, can be computed.

    The distance is the mean of max(0, 1 - Q/P) over samples of P, and that of max(0, 1 - P/Q) over samples of Q: means
    of numbers between 0 and 1, for which Hoeffding's inequality gives the margin.
    """
    classes = chain.classes()[-1]
    num_classes = max(classes) + 1
    listed: dict[Hashable, list[tuple[int, int, float]]] = {}
    for class_, out in chain.class_moves(classes, classes).items():
        for observation, next_class, shares in out:
            listed.setdefault(observation, []).append((class_, next_class, shares / chain.unit))
    moves = {
        observation: (np.array(before), np.array(after), np.array(chance))
        for observation, (before, after, chance) in ((key, zip(*each, strict=True)) for key, each in listed.items())
    }
    start = np.zeros((2, num_classes))
    for i, each in enumerate(chain.start_classes(classes)):
        start[i, list(each)] = [shares / chain.start_unit for shares in each.values()]
    # For the rows seen so far, the measures on classes. What rows have in common is computed once.
    beliefs: dict[Matrix, NDArray[np.float64]] = {(): start}

    def belief(rows: Matrix) -> NDArray[np.float64]:
        known = len(rows)
        while rows[:known] not in beliefs:
            known -= 1
        for i in range(known, len(rows)):
            before, after, chance = moves[rows[i]]
            weights = beliefs[rows[:i]][:, before] * chance
            following = np.stack([np.bincount(after, each, num_classes) for each in weights])
            # Both are divided by the same number, or they would vanish.
            beliefs[rows[: i + 1]] = following / following.sum(axis=1).max()
        return beliefs[rows]

    total = 0.0
    for samples, (own, foreign) in ((mine, (0, 1)), (others, (1, 0))):
        for rows in sorted(samples):
            weights = belief(rows[1:]).sum(axis=1).tolist()  # the first row is the same for all
            total += max(0.0, 1 - weights[foreign] / weights[own])
            beliefs = {rows[1 : 1 + i]: beliefs[rows[1 : 1 + i]] for i in range(len(rows))}  # the next begins alike
    num_samples = len(mine) + len(others)
    return _hoeffding(total / num_samples, num_samples, confidence, len(mine))


def _hoeffding(mean: float, num_samples: int, confidence: float, num_walks: int) -> Estimate:
    """An interval around the mean of this many numbers between 0 and 1."""
    margin = math.sqrt(math.log(2 / (1 - confidence)) / (2 * num_samples))
    return Estimate(max(0.0, mean - margin), min(1.0, mean + margin), confidence, num_walks)


def estimate_by_frequency(mine: list[Matrix], others: list[Matrix], confidence: float) -> Estimate:
    """From how often the feature matrices occur.

    *From below*: on one half of the walks, choose a set of matrices that are more frequent in the first graph; on the
    other half, see how much more frequent it is. No set shows more than the distance, so this, less Hoeffding's margin,
    is a lower bound. The set is chosen by whole matrices or, if that shows more, by their rows, as though these were
    independent. *From above*: the distance of the observed frequencies is too large on average, and
    moves by at most 1 / num_walks with each walk; with McDiarmid's margin added, it is an upper bound. Each of the two
    fails with probability (1 - confidence) / 2 at most.
    """
    num_walks = len(mine)
    half = num_walks // 2
    log_error = math.log(2 / (1 - confidence))
    first, second = slice(0, half, 2), slice(1, half, 2)  # one part to learn what is frequent, one to choose a set
    gains = [_gain_by_sample(mine[first], others[first]), _gain_by_row(mine[first], others[first])]
    chosen = max(gains, key=lambda gain: gain(mine[second], others[second]))
    gain = chosen(mine[half:], others[half:])
    mine_all, others_all = Counter(mine), Counter(others)
    plug_in = sum(abs(mine_all[key] - others_all[key]) for key in mine_all | others_all) / (2 * num_walks)
    low = max(0.0, gain - math.sqrt(log_error / (num_walks - half)))
    high = min(1.0, plug_in + math.sqrt(log_error / num_walks))
    return Estimate(low, high, confidence, num_walks)


def _gain_by_sample(mine: list[Matrix], others: list[Matrix]) -> _Gain:
    """How much more often a matrix of one list than of the other is one that was more frequent in `mine`."""
    count = Counter(mine)
    count.subtract(Counter(others))
    return lambda one, two: _share(one, lambda rows: count[rows] > 0) - _share(two, lambda rows: count[rows] > 0)


def _gain_by_row(mine: list[Matrix], others: list[Matrix]) -> _Gain:
    """The same for matrices whose rows are, all in all, more likely in `mine`."""
    mine_rows, others_rows = (Counter(row for rows in each for row in rows) for each in (mine, others))
    weight = {row: math.log((mine_rows[row] + 0.5) / (others_rows[row] + 0.5)) for row in mine_rows | others_rows}

    def is_mine(rows: Matrix) -> bool:
        return sum(weight.get(row, 0.0) for row in rows) > 0

    return lambda one, two: _share(one, is_mine) - _share(two, is_mine)


def _share(samples: list[Matrix], belongs: Callable[[Matrix], bool]) -> float:
    return sum(map(belongs, samples)) / max(len(samples), 1)


def is_indistinguishable(distance: Fraction | Estimate, num_walks: int, epsilon: float | Fraction) -> bool | None:
    """The paper's ε-indistinguishability with m walks: whether the total variation distance is less than ε / m.

    None where an estimate leaves it open. A float ε means the decimal it is written as.
    """
    if isinstance(num_walks, bool) or not isinstance(num_walks, int) or num_walks < 1:
        raise ValueError(f"num_walks must be a whole number from 1 on, not {shown(num_walks)}.")
    if not isinstance(epsilon, Fraction):
        epsilon = Fraction(str(share("epsilon", epsilon)))
    if not isinstance(distance, Estimate | Fraction):
        distance = Fraction(real_number("distance", distance))
    if not 0 < epsilon <= 1:
        raise ValueError(f"epsilon must be positive and at most 1, not {shown(epsilon)}.")
    low, high = (distance.low, distance.high) if isinstance(distance, Estimate) else (distance, distance)
    if not 0 <= low <= high <= 1:
        raise ValueError(f"A total variation distance is between 0 and 1, not {distance}.")
    most = epsilon / num_walks
    if high < most:
        return True
    return False if low >= most else None


def walks_needed(distance: float | Fraction, confidence: float = 0.95) -> tuple[int, int] | None:
    """How many independent walks it takes to say, with the given chance to be right, which of two graphs they are from.

    The chance is the average over both graphs, as though they were equally likely. Returns `(low, high)`: with fewer
    than `low` walks no test is that good; with `high` walks the likelihood ratio test is. None where the distance is 0:
    no number suffices.

    With d the distance, m walks have a distance of at most 1 - (1 - d)^m, and of at least 1 - (1 - d²)^(m / 2) (by way
    of the Hellinger distance); the best test for two equally likely graphs errs with probability (1 - distance) / 2.
    """
    confidence = between("confidence", confidence, 0.5, 1)  # guessing has 0.5
    if not isinstance(distance, Fraction):
        distance = real_number("distance", distance)
    if not 0 <= distance <= 1:
        raise ValueError(f"A total variation distance is between 0 and 1, not {distance}.")
    if distance == 0:
        return None
    if distance == 1:
        return 1, 1
    log_error = Fraction(math.log(2 * (1 - confidence)))
    d = Fraction(distance)
    low, high = log_error / _log_of_rest(d), 2 * log_error / _log_of_rest(d * d)
    return max(1, math.ceil(low)), max(1, math.ceil(high))


def _log_of_rest(share: Fraction) -> Fraction:
    """log(1 - share), also where a float would be 0 or 1."""
    if share < Fraction(1, 10**20):
        return -share
    if share < Fraction(1, 2):
        return Fraction(math.log1p(-float(share)))
    rest = 1 - share
    return Fraction(math.log(rest.numerator) - math.log(rest.denominator))
