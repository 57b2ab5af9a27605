from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from crawl.theory import Estimate, named_graph, rook, shrikhande, walks_needed
from crawl.theory import report as module
from crawl.theory.report import Walked, are_known_isomorphic, draw, refined, walked


def test_refined():
    assert [(row.k, row.separated_in) for row in refined(rook(), shrikhande())] == [(1, None), (2, None), (3, 1)]
    large = nx.random_regular_graph(3, 100, seed=0)
    *_, last = refined(large, large)
    assert last.separated_in is None
    assert "A round of 3-WL would read" in last.too_large
    assert last.implied_by is None
    *_, last = refined(large, nx.path_graph(100))
    assert last.implied_by == 1


def test_walked_is_exact_where_it_fits():
    rows = list(walked(named_graph("cycle:8"), named_graph("cycles:4,4"), (2, 3), num_steps=6))
    assert [(row.strategy, row.window_size) for row in rows] == [
        ("uniform", 2),
        ("uniform", 3),
        ("non_backtracking", 2),
        ("non_backtracking", 3),
    ]
    assert [row.differs_from for row in rows] == [None, 3, None, 3]
    assert [row.is_separating for row in rows] == [False, True, False, True]
    assert rows[3].distance == 1
    assert rows[3].walks_needed(0.95) == (1, 1)
    assert rows[0].walks_needed(0.95) is None


def test_walked_estimates_else(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_STATES", 2000)
    monkeypatch.setattr(module, "MAX_TERMS", 10)
    small, large = list(walked(rook(), shrikhande(), (3, 5), num_steps=6, num_walks=400))[2:]
    assert small.differs_from == 3
    assert isinstance(small.distance, Estimate)
    assert small.is_separating
    assert large.differs_from == "unknown"
    assert isinstance(large.distance, Estimate)
    assert large.distance.low >= small.distance.low  # it sees no less


def test_verdicts():
    far = Walked(4, "uniform", 10, "unknown", Estimate(0.2, 0.4, 0.95, 100))
    assert far.is_separating
    assert far.walks_needed(0.95) == (walks_needed(0.4)[0], walks_needed(0.2)[1])
    open_ = Walked(4, "uniform", 10, "unknown", Estimate(0.0, 0.4, 0.95, 100))
    assert open_.is_separating is None
    assert open_.walks_needed(0.95) is None
    assert not Walked(4, "uniform", 10, 12, Fraction(0)).is_separating
    assert Walked(4, "uniform", 20, 12, Estimate(0.0, 0.1, 0.95, 100)).is_separating


def test_large_graphs_are_sampled_at_once():
    large = nx.random_regular_graph(3, 4000, seed=0)
    (row, *_) = walked(large, large, (2,), num_steps=5, num_walks=50)
    assert row.differs_from == "unknown"


def test_draw():
    pytest.importorskip("matplotlib")
    rows = list(walked(rook(), shrikhande(), (2, 3), num_steps=4))
    figure = draw(rook(), shrikhande(), ("rook", "shrikhande"), rows)
    assert len(figure.axes) == 3
    assert figure.axes[0].get_title() == "rook: 16 nodes"


def test_a_smaller_window_that_shows_nothing_takes_nothing_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_STATES", 2000)
    alone, *_ = walked(rook(), shrikhande(), (8,), num_steps=5, num_walks=2000)
    small, large, *_ = walked(rook(), shrikhande(), (2, 8), num_steps=5, num_walks=2000)
    assert small.distance == 0
    assert large == alone
    assert large.distance.low > 0
    exact, large, *_ = walked(rook(), shrikhande(), (3, 8), num_steps=5, num_walks=50)
    assert large.distance.low == float(exact.distance) > 0


@pytest.mark.parametrize("name", ["rook", "cycles:6,6", "csl:41,2", "paths:5", "cfi:K4:twisted", "cfi:wagner"])
def test_isomorphic(name: str):
    graph = named_graph(name)
    nodes = np.random.default_rng(0).permutation(len(graph)).tolist()
    other = nx.empty_graph(len(graph))
    other.add_edges_from((nodes[u], nodes[v]) for u, v in nx.convert_node_labels_to_integers(graph).edges)
    assert are_known_isomorphic(graph, other)


def test_not_isomorphic():
    union = nx.disjoint_union_all
    pairs = [
        (rook(), shrikhande()),
        (named_graph("cfi:K4"), named_graph("cfi:K4:twisted")),
        (nx.path_graph(3), nx.path_graph(4)),
        (union([rook()] * 4), union([rook(), rook(), rook(), shrikhande()])),  # the search is stopped
    ]
    assert not any(are_known_isomorphic(*pair) for pair in pairs)
