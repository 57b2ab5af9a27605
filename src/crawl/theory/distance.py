"""How far apart the walk features of two graphs are (paper, section 3): exactly, in rational numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from fractions import Fraction

from crawl.checks import MAX_COUNT, whole_number
from crawl.theory.chain import (
    MAX_STATES,
    MAX_STEPS,
    Chain,
    ClassMoves,
    TooLarge,
    WalkStrategy,
    count_walks,
    pattern_chain,
    window_chain,
    written,
)
from crawl.theory.simple import AnyGraph

MAX_TERMS = 3_000_000

# A difference of two measures on classes of states, in lowest terms: (class, shares), ascending; the first is > 0.
_Difference = tuple[tuple[int, int], ...]


def total_variation(
    graph: AnyGraph,
    other: AnyGraph,
    *,
    num_steps: int,
    window_size: int | None = None,
    strategy: WalkStrategy = "non_backtracking",
    max_states: int = MAX_STATES,
    max_terms: int = MAX_TERMS,
) -> Fraction:
    """The total variation distance of the laws of X(G, W) and X(G', W), W a random walk from a random node.

    Walks are not listed one by one. Follow the difference of the two measures on states along every sequence of
    observations: states with the same future count as one, sequences with proportional differences have proportional
    futures and count as one, and where a difference is 0, it stays 0.

    The bits look as far back as the walk where `window_size` is None. `max_states` and `max_terms` are the most to hold
    and to follow.

    Raises:
        TooLarge: If it would not fit; the message has the number of walks.
    """
    num_steps = whole_number("num_steps", num_steps, 0, MAX_STEPS)
    max_terms = whole_number("max_terms", max_terms, 0, MAX_COUNT)
    if window_size is not None:
        window_size = whole_number("window_size", window_size, 0, MAX_STEPS)
    try:
        if window_size is None or window_size >= num_steps:
            chain = pattern_chain([graph, other], strategy, num_steps, max_states)
        else:
            chain = window_chain([graph, other], window_size, strategy, num_steps, max_states)
        return chain_distance(chain, num_steps, max_terms)
    except TooLarge as error:
        number = sum(count_walks(each, num_steps, strategy) for each in (graph, other))
        raise TooLarge(f"{error} There are {written(number)} walks of {num_steps} steps on the two graphs.") from None


def chain_distance(chain: Chain, num_steps: int, max_terms: int = MAX_TERMS) -> Fraction:
    """The total variation distance of the observations of the two graphs of a chain.

    Raises:
        TooLarge: If there are more terms to follow than fit.
    """
    starts, steps = chain.unrolled(num_steps)
    level: dict[_Difference, int] = {}
    _add(level, _difference(*starts), 1)
    for step, moves in enumerate(steps, start=1):
        following: dict[_Difference, int] = {}
        num_terms = 0
        for difference, times in level.items():
            for part in _after_each_observation(difference, moves):
                num_terms += _add(following, part, times)
            if num_terms > max_terms:
                raise TooLarge(f"After {step} of {num_steps} steps there are more than {max_terms:,} terms.")
        level = following
    return Fraction(sum(level.values()), 2 * chain.start_unit * chain.unit**num_steps)


def _difference(mine: Counter[int], others: Counter[int]) -> dict[int, int]:
    """How many shares more a walk of the first graph has to start in each class than one of the second."""
    return {class_: mine[class_] - others[class_] for class_ in mine | others}


def _after_each_observation(difference: Iterable[tuple[int, int]], moves: ClassMoves) -> Iterable[dict[int, int]]:
    """The differences one step later, one for each observation."""
    parts: dict[Hashable, dict[int, int]] = {}
    for class_, weight in difference:
        for observation, next_class, shares in moves[class_]:
            part = parts.setdefault(observation, {})
            part[next_class] = part.get(next_class, 0) + weight * shares
    return parts.values()


def _add(level: dict[_Difference, int], difference: dict[int, int], times: int) -> int:
    """Add a difference in lowest terms, this many times; returns the number of new terms."""
    terms = sorted((class_, weight) for class_, weight in difference.items() if weight)
    if not terms:
        return 0
    factor = math.gcd(*(weight for _, weight in terms))
    if terms[0][1] < 0:
        factor = -factor
    key = tuple((class_, weight // factor) for class_, weight in terms)
    is_new = key not in level
    level[key] = level.get(key, 0) + times * abs(factor)
    return len(key) if is_new else 0


def first_difference(
    graph: AnyGraph,
    other: AnyGraph,
    *,
    window_size: int,
    strategy: WalkStrategy = "non_backtracking",
    max_states: int = MAX_STATES,
) -> int | None:
    """The least number of steps with which the laws of X(G, W) and X(G', W) differ; None if they agree at all lengths.

    Decided exactly, by linear algebra: the differences that sequences of observations lead to span a space of finite
    dimension, and the laws agree if its basis has total mass 0 (Tzeng, A polynomial-time algorithm for the equivalence
    of probabilistic automata, SIAM Journal on Computing, 1992).

    Raises:
        TooLarge: If the window has more states than fit; the message says how many.
    """
    window_size = whole_number("window_size", window_size, 0, MAX_STEPS)
    return chain_first_difference(window_chain([graph, other], window_size, strategy, None, max_states))


def chain_first_difference(chain: Chain) -> int | None:
    """The least number of observations whose laws differ for the two graphs of a closed chain; None for no number."""
    classes = chain.classes()[-1]
    moves = chain.class_moves(classes, classes)
    basis: dict[int, dict[int, int]] = {}
    level = [_reduced(_difference(*chain.start_classes(classes)), basis)]
    num_steps = 0
    while level := [difference for difference in level if difference]:
        num_steps += 1
        parts = [part for difference in level for part in _after_each_observation(difference.items(), moves)]
        if any(sum(part.values()) for part in parts):
            return num_steps
        level = [_reduced(part, basis) for part in parts]
    return None


def _reduced(vector: dict[int, int], basis: dict[int, dict[int, int]]) -> dict[int, int]:
    """The vector less its part in the span of the basis, up to a factor; it joins the basis if something is left."""
    vector = {class_: weight for class_, weight in vector.items() if weight}
    for pivot in sorted(basis):
        if weight := vector.get(pivot, 0):
            row = basis[pivot]
            scale = row[pivot]
            vector = {c: scale * vector.get(c, 0) - weight * row.get(c, 0) for c in vector.keys() | row.keys()}
            factor = math.gcd(*vector.values()) or 1
            vector = {c: w // factor for c, w in vector.items() if w}
    if vector:
        basis[min(vector)] = vector
    return vector
