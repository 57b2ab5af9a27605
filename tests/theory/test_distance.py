"""Exact distances, and the paper's theorems 2 (cycles) and 5 (three paths) by them."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl.theory import (
    TooLarge,
    color_refinement,
    cycles,
    feature_law,
    first_difference,
    is_indistinguishable,
    named_graph,
    rook,
    separating_round,
    shrikhande,
    three_paths,
    total_variation,
    visit_probability,
)
from crawl.theory.chain import Chain, Steps, pattern_chain, window_chain, written
from crawl.theory.distance import chain_distance

STRATEGIES = ["uniform", "non_backtracking"]
both_strategies = pytest.mark.parametrize("strategy", STRATEGIES)


def distance_of_laws(graph, other, num_steps, window_size, strategy) -> Fraction:
    mine, others = (
        feature_law(each, num_steps=num_steps, window_size=window_size, strategy=strategy) for each in (graph, other)
    )
    return sum((abs(mine.get(x, 0) - others.get(x, 0)) for x in mine | others), Fraction(0)) / 2


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 6), st.integers(1, 4), st.integers(0, 5), st.sampled_from(STRATEGIES))
def test_equals_half_the_sum_over_both_laws(seed, n, window_size, num_steps, strategy):
    graph, other = (nx.gnm_random_graph(n, n, seed=seed + i) for i in range(2))
    distance = total_variation(graph, other, num_steps=num_steps, window_size=window_size, strategy=strategy)
    assert distance == distance_of_laws(graph, other, num_steps, window_size, strategy)


@both_strategies
@pytest.mark.parametrize("names", [("paths:3", "paths:3:uneven"), ("rook", "shrikhande"), ("cycle:6", "cycles:3,3")])
def test_first_visits_are_as_good_as_a_window_as_long_as_the_walk(names, strategy):
    graph, other = map(named_graph, names)
    for num_steps in range(1, 5):
        by_bits = chain_distance(window_chain([graph, other], num_steps, strategy, num_steps), num_steps)
        by_visits = chain_distance(pattern_chain([graph, other], strategy, num_steps), num_steps)
        assert by_bits == by_visits == total_variation(graph, other, num_steps=num_steps, strategy=strategy)


@both_strategies
def test_known_distances(strategy):
    graph, other = rook(), shrikhande()
    known = {"uniform": Fraction(299, 648), "non_backtracking": Fraction(374, 625)}
    assert total_variation(graph, other, num_steps=5, window_size=3, strategy=strategy) == known[strategy]
    assert distance_of_laws(graph, other, 5, 3, strategy) == known[strategy]


@both_strategies
@pytest.mark.parametrize("names", [("paths:3", "paths:3:uneven"), ("rook", "shrikhande"), ("csl:11,2", "csl:11,3")])
def test_grows_with_window_and_length_from_the_first_difference_on(names, strategy):
    graph, other = map(named_graph, names)
    for window_size in (1, 2, 3):
        first = first_difference(graph, other, window_size=window_size, strategy=strategy)
        distances = [
            total_variation(graph, other, num_steps=num_steps, window_size=window_size, strategy=strategy)
            for num_steps in range(6)
        ]
        assert distances == sorted(distances)
        assert [d > 0 for d in distances] == [first is not None and i >= first for i in range(6)]
    by_window = [total_variation(graph, other, num_steps=5, window_size=s, strategy=strategy) for s in (1, 2, 3, 5)]
    assert by_window == sorted(by_window)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(STRATEGIES))
def test_a_relabelled_graph_is_at_distance_0(seed, strategy):
    graph = nx.gnp_random_graph(7, 0.5, seed=seed)
    graph.add_edge(0, 1)
    order = np.random.default_rng(seed).permutation(7).tolist()
    other = nx.relabel_nodes(graph, dict(enumerate(order)))
    assert first_difference(graph, other, window_size=3, strategy=strategy) is None
    assert total_variation(graph, other, num_steps=5, strategy=strategy) == 0


def test_refuses_politely():
    with pytest.raises(TooLarge, match=rf"{2 * 16 * 6**30:,} walks of 30 steps"):
        total_variation(rook(), shrikhande(), num_steps=30, window_size=4, strategy="uniform", max_terms=10_000)
    with pytest.raises(TooLarge, match=r"A window of 20 has .* states on these graphs; at most"):
        first_difference(rook(), shrikhande(), window_size=20)


def test_refuses_politely_whatever_the_length():
    """There are 2 · 40 · 3^9600 walks; Python writes numbers of up to 4,300 digits."""
    graph, twin = named_graph("cfi:K4"), named_graph("cfi:K4:twisted")
    with pytest.raises(TooLarge, match=r"There are about 10\^4582 walks of 9600 steps"):
        total_variation(graph, twin, num_steps=9600, strategy="uniform", max_states=1000)
    with pytest.raises(TooLarge, match=r"A window of 1000 has about 10\^\d+ states"):
        first_difference(graph, twin, window_size=1000)


def test_numbers_in_messages():
    assert written(1234567) == "1,234,567"
    assert written(10**30 - 1) == "999," + ",".join(["999"] * 9)
    for exponent in range(30, 400):
        assert written(10**exponent) == f"about 10^{exponent}"
        assert written(2 * 10**exponent) == f"about 10^{exponent}"


def test_refuses_before_it_builds_more_states_than_fit():
    reached = set()

    def move(state, unit):
        for v in range(1000):
            reached.add((*state, v))
            yield v, 1, (*state, v)

    with pytest.raises(TooLarge, match="More than 50 states within 1 steps"):
        Chain([Steps.of(rook(), "uniform")], lambda graph, v: (v,), move, 3, 50)
    assert len(reached) == 50 - 16 + 1
    with pytest.raises(TooLarge, match="16 states to start in; at most 10 fit"):
        Chain([Steps.of(rook(), "uniform")], lambda graph, v: (v,), move, 3, 10)


def test_large_graphs_are_refused_soon():
    graph, other = (nx.gnp_random_graph(300, 0.5, seed=seed) for seed in (1, 2))
    with pytest.raises(TooLarge, match="More than 5,000 states within 1 steps"):
        total_variation(graph, other, num_steps=6, max_states=5000)


@pytest.mark.parametrize("bad", [-1, 1.5, True])
def test_bad_numbers(bad):
    with pytest.raises(ValueError, match="num_steps must be a whole number from 0"):
        total_variation(rook(), shrikhande(), num_steps=bad)
    with pytest.raises(ValueError, match="window_size must be a whole number from 0"):
        total_variation(rook(), shrikhande(), num_steps=3, window_size=bad)
    with pytest.raises(ValueError, match="window_size must be a whole number from 0"):
        first_difference(rook(), shrikhande(), window_size=bad)


# Theorem 2: a cycle of n nodes and two cycles of n/2.


@both_strategies
@pytest.mark.parametrize("n", [6, 8, 12, 16])
def test_cycles_differ_as_soon_as_a_window_can_close_the_short_one(n, strategy):
    """The short cycle has n/2 nodes, and a window of s holds s + 1: it closes from s = n/2 - 1 on, not from n/2 on.

    Adjacency bit j = n/2 - 1 sees the closing edge. "s < n/2" would be right for the identity bits alone. Theorem 5
    says 2n - 3 for a shortest cycle of 2n - 1 nodes: two less than the cycle, as is true here, too.
    """
    graph, other = cycles(n), cycles(n // 2, n // 2)
    for window_size in range(1, n // 2 - 1):
        assert first_difference(graph, other, window_size=window_size, strategy=strategy) is None
        assert total_variation(graph, other, num_steps=n, window_size=window_size, strategy=strategy) == 0
    first = n // 2 - 1  # which is less than n/2
    assert first_difference(graph, other, window_size=first, strategy=strategy) == first
    expected = 1 if strategy == "non_backtracking" else Fraction(2, 2**first)
    assert total_variation(graph, other, num_steps=first, window_size=first, strategy=strategy) == expected


@pytest.mark.parametrize("n", [6, 8, 12])
def test_identity_bits_alone_leave_cycles_alike_below_n_half(n):
    """So the paper's bound holds word for word for a CRaWl without adjacency bits."""
    for window_size in range(1, n // 2 + 2):
        mine, others = (
            {
                tuple(code & ((1 << window_size) - 1) for code in rows)
                for rows in feature_law(graph, num_steps=n, window_size=window_size)
            }
            for graph in (cycles(n), cycles(n // 2, n // 2))
        )
        assert (mine == others) == (window_size < n / 2)


@pytest.mark.parametrize("n", [6, 8, 12, 20])
def test_cycles_are_separated_by_2_wl_but_not_by_1_wl(n):
    graph, other = cycles(n), cycles(n // 2, n // 2)
    assert separating_round(graph, other, 1) is None
    assert separating_round(graph, other, 2) is not None


# Theorem 5: three paths of n edges, and of n - 1, n and n + 1.


@pytest.mark.parametrize("n", [2, 3, 5, 10, 50])
def test_three_paths_are_separated_by_1_wl(n):
    assert color_refinement(three_paths(n), three_paths(n, uneven=True)).separated_in is not None


@pytest.mark.parametrize("n", range(2, 9))
def test_three_paths_look_alike_to_non_backtracking_walks_up_to_2n_minus_3(n):
    """At every length: the laws agree as processes."""
    graph, other = three_paths(n), three_paths(n, uneven=True)
    for window_size in range(1, 2 * n - 2):
        assert first_difference(graph, other, window_size=window_size) is None
    assert total_variation(graph, other, num_steps=200, window_size=2 * n - 3) == 0
    assert first_difference(graph, other, window_size=2 * n - 2) == 2 * n - 2


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_uniform_walks_need_a_window_of_two_to_see_three_paths(n):
    """What the paper leaves open: a constant window suffices for uniform walks, and they differ after n steps."""
    graph, other = three_paths(n), three_paths(n, uneven=True)
    assert first_difference(graph, other, window_size=1, strategy="uniform") is None
    for window_size in range(2, 5):
        assert first_difference(graph, other, window_size=window_size, strategy="uniform") == n


def reaches_across(n: int, num_steps: int) -> Fraction:
    """The probability that a uniform walk on G_n visits one end of the paths and the other or a neighbour of it."""
    graph = three_paths(n)
    near_the_other_end = {1, *graph[1]}
    one_way = visit_probability(graph, num_steps, [0, near_the_other_end])
    return 2 * one_way - visit_probability(graph, num_steps, [0, 1])  # both ways: then it has visited both ends


@pytest.mark.parametrize("length", [1, 2])
def test_the_uniform_distance_of_three_paths_falls_exponentially(length):
    """At length·n steps, through a window as long as the walk, so through any."""
    sizes = range(3, 9)
    distances = [
        total_variation(three_paths(n), three_paths(n, uneven=True), num_steps=length * n, strategy="uniform")
        for n in sizes
    ]
    for n, distance in zip(sizes, distances, strict=True):
        assert 0 < distance <= visit_probability(three_paths(n), length * n, [0, 1]) <= reaches_across(n, length * n)
    ratios = [after / before for before, after in pairwise(distances)]
    assert max(ratios) < 0.6
    slope, _ = np.polyfit(sizes, [math.log(d) for d in distances], 1)
    assert slope < -0.6


def test_the_bound_on_the_distance_falls_exponentially_far_out():
    """Its logarithm is a straight line in n. From Cramér's theorem for 2n steps, the slope tends to -0.26."""
    sizes = list(range(20, 61, 10))
    logarithms = [math.log(reaches_across(n, 2 * n)) for n in sizes]
    slope, intercept = np.polyfit(sizes, logarithms, 1)
    assert np.abs(np.polyval([slope, intercept], sizes) - logarithms).max() < 0.15
    limit = -(1.5 * math.log(1.5) + 0.5 * math.log(0.5))
    assert 1.2 * limit < slope < limit < -0.26


def test_indistinguishable_with_polynomially_many_walks():
    """For m = n² walks of 2n steps and ε = 1/100, from some n on."""
    assert not is_indistinguishable(reaches_across(20, 40), 20**2, Fraction(1, 100))
    assert is_indistinguishable(reaches_across(70, 140), 70**2, Fraction(1, 100))


def test_walks_that_miss_an_end_can_tell_three_paths_apart_too():
    """The paper says that only walks that visit both ends can. But the long path of G'_n has n inner nodes, so a walk
    may go straight over n nodes and turn back there, without visiting an end. In G_n, n nodes in a row hold an end, at
    which the walk may also turn off: the matrix has another probability.
    """
    n = 4
    straight_and_back = (0,) * n + (0b10 | 1 << (n + 1),)  # it is where it was 2 steps ago, next to where it was 3 ago
    laws = [
        feature_law(graph, num_steps=n, window_size=n, strategy="uniform")
        for graph in (three_paths(n), three_paths(n, uneven=True))
    ]
    assert laws[0][straight_and_back] != laws[1][straight_and_back]


@pytest.mark.slow
def test_the_uniform_distance_of_three_paths_far_out():
    sizes = range(3, 14)
    distances = [
        total_variation(three_paths(n), three_paths(n, uneven=True), num_steps=2 * n, strategy="uniform") for n in sizes
    ]
    ratios = [after / before for before, after in pairwise(distances)]
    assert max(ratios) < 0.77  # exp(-0.26), the limit
