"""Distances from samples, with confidence intervals, and how many walks it takes to tell two graphs apart.

The bounds hold for every pair of laws and every number of samples; nothing is asymptotic.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from crawl.theory.chain import WalkStrategy
from crawl.theory.law import sample_features
from crawl.theory.simple import AnyGraph


@dataclass(frozen=True)
class Estimate:
    """An interval that holds the total variation distance with the given confidence.

    Attributes:
        low: The lower end.
        high: The upper end.
        confidence: The probability that the interval holds the distance.
        num_walks: The number of walks sampled on each of the graphs.
    """

    low: float
    high: float
    confidence: float
    num_walks: int

    def __contains__(self, distance: float | Fraction) -> bool:
        return self.low <= distance <= self.high

    def __str__(self) -> str:
        return f"{self.low:.3f} – {self.high:.3f}"


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
) -> Estimate:
    """The total variation distance of the laws of X(G, W) and X(G', W), from samples.

    *From below*: on one half of the walks, choose the set of matrices that are more frequent in the first graph; on the
    other half, see how much more frequent it is. No set shows more than the distance, so this, less Hoeffding's margin,
    is a lower bound. *From above*: the distance of the observed frequencies is too large on average, and moves by at most
    1 / num_walks with each walk; with McDiarmid's margin added, it is an upper bound. Each fails with probability
    (1 - confidence) / 2 at most. Where matrices hardly repeat, the upper end says little.

    Args:
        graph: One graph.
        other: The other.
        num_steps: The number of steps of a walk (ℓ).
        window_size: How far back the bits look (s), up to 32; as far as the walk when None.
        strategy: `uniform` or `non_backtracking`.
        num_walks: Walks to sample on each graph; at least 2.
        confidence: Between 0 and 1.
        seed: Fixes the walks.
    """
    if num_walks < 2 or not 0 < confidence < 1:
        raise ValueError(f"An estimate needs 2 walks and a confidence in (0, 1), not {num_walks} and {confidence}.")
    mine, others = (
        sample_features(
            each, num_walks, num_steps=num_steps, window_size=window_size, strategy=strategy, seed=2 * seed + i
        )
        for i, each in enumerate((graph, other))
    )
    log_error = math.log(2 / (1 - confidence))
    half = num_walks // 2
    mine_first, others_first = Counter(mine[:half]), Counter(others[:half])
    more_frequent = {key for key, count in mine_first.items() if count > others_first[key]}
    held_out = num_walks - half
    gain = (sum(key in more_frequent for key in mine[half:]) - sum(key in more_frequent for key in others[half:])) / held_out
    mine_all, others_all = Counter(mine), Counter(others)
    plug_in = sum(abs(mine_all[key] - others_all[key]) for key in mine_all | others_all) / (2 * num_walks)
    low = max(0.0, gain - math.sqrt(log_error / held_out))
    high = min(1.0, plug_in + math.sqrt(log_error / num_walks))
    return Estimate(low, high, confidence, num_walks)


def is_indistinguishable(distance: Fraction, num_walks: int, epsilon: float | Fraction) -> bool:
    """The paper's ε-indistinguishability with m walks: whether the total variation distance is less than ε / m."""
    if num_walks < 1 or not epsilon > 0:
        raise ValueError(f"num_walks must be at least 1 and epsilon positive, not {num_walks} and {epsilon}.")
    return distance * num_walks < Fraction(epsilon)


def walks_needed(distance: float | Fraction, confidence: float = 0.95) -> tuple[int, int] | None:
    """How many independent walks it takes to say, with the given chance to be right, which of two graphs they are from.

    Returns `(low, high)`: with fewer than `low` walks no test is that good whichever the graph; with `high` walks the
    likelihood ratio test is. None where the distance is 0: no number suffices.

    With d the distance, m walks have a distance of at most 1 - (1 - d)^m, and of at least 1 - (1 - d²)^(m / 2) (by way of
    the Hellinger distance); the best test for two equally likely graphs errs with probability (1 - distance) / 2.
    """
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence must lie between 0.5, which guessing has, and 1, not {confidence}.")
    if not 0 <= distance <= 1:
        raise ValueError(f"A total variation distance lies between 0 and 1, not {distance}.")
    if distance == 0:
        return None
    if distance == 1:
        return 1, 1
    log_error = math.log(2 * (1 - confidence))
    d = float(distance)
    low, high = log_error / math.log1p(-d), 2 * log_error / math.log1p(-d * d)
    return max(1, math.ceil(low)), max(1, math.ceil(high))
