from __future__ import annotations

from collections import Counter
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import crawl
from crawl.theory import (
    TooLarge,
    count_walks,
    cycles,
    feature_law,
    first_visits,
    named_graph,
    rook,
    sample_features,
    three_paths,
)


def all_walks(graph: nx.Graph, num_steps: int, strategy: str) -> dict[tuple[int, ...], Fraction]:
    """Every walk with its probability, one by one."""
    starts = [v for v in graph if graph.degree[v]]
    walks = {(v,): Fraction(1, len(starts)) for v in starts}
    for _ in range(num_steps):
        longer = {}
        for walk, chance in walks.items():
            choices = set(graph[walk[-1]])
            if strategy == "non_backtracking" and len(walk) > 1 and len(choices) > 1:
                choices -= {walk[-2]}
            longer |= {(*walk, v): chance / len(choices) for v in choices}
        walks = longer
    return walks


def law_of_listed_walks(graph: nx.Graph, num_steps: int, window_size: int, strategy: str) -> dict:
    walks = all_walks(graph, num_steps, strategy)
    nodes = torch.tensor(list(walks))
    codes = crawl.Walks.from_nodes(crawl.Graph.from_networkx(graph), nodes, window_size).code.tolist()
    law: Counter = Counter()
    for code, chance in zip(codes, walks.values(), strict=True):
        law[tuple(code)] += chance
    return dict(law)


TINY = {
    "tailed triangle": nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3)]),
    "star": nx.star_graph(3),
    "K4": nx.complete_graph(4),
    "two parts": cycles(3, 4),
    "with an isolated node": nx.union(nx.path_graph(3), nx.relabel_nodes(nx.empty_graph(1), {0: 3})),
}


@pytest.mark.parametrize("strategy", ["uniform", "non_backtracking"])
@pytest.mark.parametrize("window_size", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", TINY)
def test_equals_the_law_of_all_walks_listed_one_by_one(name, window_size, strategy):
    law = feature_law(TINY[name], num_steps=5, window_size=window_size, strategy=strategy)
    assert law == law_of_listed_walks(TINY[name], 5, window_size, strategy)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 4), st.sampled_from(["uniform", "non_backtracking"]))
def test_equals_the_law_of_all_walks_on_random_graphs(seed, n, window_size, strategy):
    graph = nx.gnp_random_graph(n, 0.6, seed=seed)
    graph.add_edge(0, 1)
    law = feature_law(graph, num_steps=4, window_size=window_size, strategy=strategy)
    assert law == law_of_listed_walks(graph, 4, window_size, strategy)
    assert sum(law.values()) == 1


def test_a_law_by_hand():
    """From the end of a path of three nodes a walk goes to the middle; from there it goes back or on, 1 : 1."""
    law = feature_law(nx.path_graph(3), num_steps=2, window_size=2, strategy="uniform")
    assert law == {(0, 0, 2): Fraction(2, 3), (0, 0, 0): Fraction(1, 3)}  # code 2: where I was two steps ago


@pytest.mark.parametrize("strategy", ["uniform", "non_backtracking"])
def test_samples_follow_the_law(strategy):
    graph = three_paths(2, uneven=True)
    law = feature_law(graph, num_steps=6, window_size=3, strategy=strategy)
    samples = Counter(sample_features(graph, 20_000, num_steps=6, window_size=3, strategy=strategy, seed=5))
    assert set(samples) <= set(law)
    expected = np.array([float(law[key]) * 20_000 for key in law])
    observed = np.array([samples[key] for key in law])
    assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_samples_of_the_whole_walk_are_first_visits():
    rows = sample_features(nx.path_graph(3), 200, num_steps=4, strategy="uniform")
    from_an_end = {(-1, -2, 0, 1, 0), (-1, -2, 0, 1, -3), (-1, -2, -3, 1, 2), (-1, -2, -3, 1, 0)}
    assert set(rows) == from_an_end | {(-1, -2, 0, -2, 0)}
    assert first_visits(nx.path_graph(3), [0, 1, 2, 1, 0]).rows == (-1, -2, -3, 1, 0)


def test_long_walks_fit_where_they_all_look_alike():
    """There are 2^200 walks or so, but one matrix."""
    assert count_walks(three_paths(5), 1000, "non_backtracking") > 2**190
    law = feature_law(three_paths(5), num_steps=1000, window_size=7)
    assert law == {(0,) * 1001: 1}


@pytest.mark.parametrize("strategy", ["uniform", "non_backtracking"])
def test_counting_walks(strategy):
    for graph in TINY.values():
        for num_steps in range(5):
            assert count_walks(graph, num_steps, strategy) == len(all_walks(graph, num_steps, strategy))


def test_refuses_politely_with_the_number_it_would_need():
    walks = 16 * 6**20
    with pytest.raises(TooLarge, match=f"{walks:,} walks"):
        feature_law(rook(), num_steps=20, window_size=3, strategy="uniform", max_entries=100_000)
    states = sum(16 * 6**i for i in range(12))
    with pytest.raises(TooLarge, match=f"A window of 12 has {states:,} states"):
        feature_law(rook(), num_steps=20, window_size=12, strategy="uniform")
    with pytest.raises(TooLarge, match=r"there are about 10\^4582 walks"):
        feature_law(named_graph("cfi:K4"), num_steps=9600, window_size=3, strategy="uniform", max_entries=1000)


def test_bad_arguments():
    with pytest.raises(ValueError, match="no edge"):
        feature_law(nx.empty_graph(3), num_steps=2, window_size=2)
    with pytest.raises(ValueError, match="no edge"):
        sample_features(nx.empty_graph(3), 2, num_steps=2)
    with pytest.raises(ValueError, match="strategy must be one of uniform, non_backtracking, not 'node2vec'"):
        feature_law(rook(), num_steps=2, window_size=2, strategy="node2vec")
    with pytest.raises(ValueError, match="windows up to 32, or as long as the walk"):
        sample_features(rook(), 2, num_steps=50, window_size=40)
    with pytest.raises(ValueError, match="num_steps must be a whole number from 0"):
        feature_law(rook(), num_steps=-1, window_size=2)
    with pytest.raises(ValueError, match="window_size must be a whole number from 0"):
        feature_law(rook(), num_steps=2, window_size=-1)
    with pytest.raises(ValueError, match="num_steps must be a whole number from 0"):
        count_walks(rook(), -1)
