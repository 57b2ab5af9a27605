from __future__ import annotations

from collections import Counter
from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl.theory import TooLarge, cycles, k_wl, named_graph, rook, separating_round, shrikhande, tuples


def naive(graphs: list[nx.Graph], k: int) -> tuple[list[dict[tuple[int, ...], int]], int, int | None]:
    def atomic(graph, t):
        return tuple((a == b, graph.has_edge(a, b)) for a in t for b in t)

    signatures = [{t: atomic(graph, t) for t in product(graph, repeat=k)} for graph in graphs]
    rounds, separated, before, colors = -1, None, 0, []
    while True:
        number = {s: i for i, s in enumerate(sorted({s for each in signatures for s in each.values()}))}
        if len(number) == before:
            return colors, rounds, separated
        colors = [{t: number[s] for t, s in each.items()} for each in signatures]
        rounds, before = rounds + 1, len(number)
        if separated is None and len({tuple(sorted(Counter(c.values()).items())) for c in colors}) > 1:
            separated = rounds
        signatures = [
            {
                t: (color[t], tuple(sorted(tuple(color[(*t[:i], w, *t[i + 1 :])] for i in range(k)) for w in graph)))
                for t in color
            }
            for graph, color in zip(graphs, colors, strict=True)
        ]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.3, 0.6]), st.sampled_from([2, 3]))
def test_equals_the_naive_algorithm(seed, n, density, k):
    graphs = [nx.gnp_random_graph(n, density, seed=seed + i) for i in range(2)]
    refined = k_wl(*graphs, k=k)
    colors, rounds, separated = naive(graphs, k)
    theirs = [color[t] for graph, color in zip(graphs, colors, strict=True) for t in product(graph, repeat=k)]
    mine = np.concatenate([color.reshape(-1) for color in refined.colors]).tolist()
    assert len(set(zip(mine, theirs, strict=True))) == len(set(mine)) == len(set(theirs)) == refined.num_colors
    assert (refined.num_rounds, refined.separated_in) == (rounds, separated)


def separated_in_the_union(graph: nx.Graph, other: nx.Graph, k: int) -> bool:
    """By the colouring of the disjoint union, where tuples may mix the graphs."""
    n = len(graph)
    color = k_wl(nx.disjoint_union(graph, other), k=k).colors[0]
    mine, others = color[(slice(0, n),) * k], color[(slice(n, None),) * k]
    return Counter(mine.reshape(-1).tolist()) != Counter(others.reshape(-1).tolist())


@pytest.mark.parametrize(
    ("names", "k"),
    [
        (("cycle:8", "cycles:4,4"), 2),
        (("rook", "shrikhande"), 2),
        (("rook", "shrikhande"), 3),
        (("cfi:C3:compact", "cfi:C3:compact:twisted"), 2),
        (("paths:3", "paths:3:uneven"), 2),
        (("cycles:3,4", "cycles:7"), 3),
    ],
)
def test_separates_as_the_disjoint_union_does(names, k):
    graph, other = map(named_graph, names)
    assert separated_in_the_union(graph, other, k) == (separating_round(graph, other, k) is not None)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 7))
def test_separates_random_graphs_as_the_disjoint_union_does(seed, n):
    graph, other = (nx.gnm_random_graph(n, n, seed=seed + i) for i in range(2))
    assert separated_in_the_union(graph, other, 2) == (separating_round(graph, other, 2) is not None)


def test_the_hierarchy_on_known_pairs():
    verdicts = {
        ("cycle:12", "cycles:6,6"): (False, True, True),
        ("rook", "shrikhande"): (False, False, True),
        ("csl:11,2", "csl:11,3"): (False, True, True),
        ("paths:4", "paths:4:uneven"): (True, True, True),
    }
    for names, expected in verdicts.items():
        graph, other = map(named_graph, names)
        assert tuple(separating_round(graph, other, k) is not None for k in (1, 2, 3)) == expected, names


def test_isomorphic_graphs_are_not_separated():
    assert k_wl(cycles(6), nx.relabel_nodes(cycles(6), lambda v: 5 * v % 6), k=2).separated_in is None


def test_strongly_regular_graphs_have_three_colors_of_pairs():
    assert k_wl(rook(), shrikhande(), k=2).num_colors == 3


def test_many_colors_of_many_entries():
    graph, other = (nx.gnp_random_graph(16, 0.5, seed=seed) for seed in (1, 2))
    assert k_wl(graph, other, k=4).separated_in == 0
    refined = k_wl(graph, nx.relabel_nodes(graph, lambda v: 5 * v % 16), k=4)
    assert refined.num_colors**4 > 2**63  # four colours do not fit one integer
    assert refined.separated_in is None


@pytest.mark.parametrize("k", [2, 3])
def test_renumbering_on_the_way_changes_nothing(k, monkeypatch):
    graphs = [nx.gnp_random_graph(8, 0.3, seed=seed) for seed in (1, 2)] + [nx.path_graph(5)]
    expected = k_wl(*graphs, k=k)
    monkeypatch.setattr(tuples, "_MAX_NUMBER", 1)
    found = k_wl(*graphs, k=k)
    assert (found.num_rounds, found.separated_in) == (expected.num_rounds, expected.separated_in)
    pairs = set(zip(*(np.concatenate([c.ravel() for c in each.colors]) for each in (found, expected)), strict=True))
    assert len(pairs) == found.num_colors == expected.num_colors


@pytest.mark.parametrize("k", [2, 3])
def test_empty_graphs(k):
    empty = nx.empty_graph(0)
    refined = k_wl(empty, empty, k=k)
    assert (refined.num_colors, refined.num_rounds, refined.separated_in) == (0, 0, None)
    assert k_wl(empty, nx.empty_graph(2), k=k).separated_in == 0
    assert k_wl(nx.empty_graph(2), empty, k=k).separated_in == 0


def test_refusals():
    with pytest.raises(ValueError, match="k must be a whole number from 2 to 9"):
        k_wl(nx.empty_graph(3), k=10)
    with pytest.raises(TooLarge, match="would read 3,000,000,000,000 colours"):
        k_wl(nx.empty_graph(1000), k=3)
    with pytest.raises(ValueError, match="use color_refinement"):
        k_wl(nx.empty_graph(3), k=1)
