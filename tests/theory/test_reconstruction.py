from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import crawl
from crawl.theory import (
    TooLarge,
    cover_time_bound,
    cycles,
    first_visits,
    isomorphism,
    reconstruct,
    rook,
    shrikhande,
    visit_probability,
)


@st.composite
def graphs_and_walks(draw) -> tuple[nx.Graph, list[int]]:
    n = draw(st.integers(2, 9))
    graph = nx.gnp_random_graph(n, draw(st.sampled_from([0.2, 0.5, 0.8])), seed=draw(st.integers(0, 10**6)))
    graph.add_edge(0, 1)
    walk = [draw(st.sampled_from([v for v in graph if graph.degree[v]]))]
    for _ in range(draw(st.integers(1, 30))):
        walk.append(draw(st.sampled_from(sorted(graph[walk[-1]]))))
    return graph, walk


def bits_of(graph: nx.Graph, walk: list[int], window_size: int) -> np.ndarray:
    return crawl.Walks.from_nodes(crawl.Graph.from_networkx(graph), torch.tensor([walk]), window_size).bits()[0].numpy()


def same(graph: nx.Graph, other: nx.Graph) -> bool:
    return isomorphism(graph, other) is not None and nx.is_isomorphic(graph, other)


@settings(max_examples=150, deadline=None)
@given(graphs_and_walks())
def test_a_whole_walk_gives_back_the_subgraph_it_induces(example):
    graph, walk = example
    seen = reconstruct(bits_of(graph, walk, max(len(walk) - 1, 1)))
    assert same(seen.graph, graph.subgraph(walk))
    assert seen == first_visits(graph, walk)
    node_of = dict(zip(seen.position.tolist(), walk, strict=True))
    assert nx.utils.graphs_equal(nx.relabel_nodes(seen.graph, node_of), nx.Graph(graph.subgraph(walk)))


@settings(max_examples=50, deadline=None)
@given(graphs_and_walks(), st.integers(1, 8))
def test_every_window_gives_back_the_subgraph_it_induces(example, window_size):
    graph, walk = example
    bits = bits_of(graph, walk, window_size)
    for first in range(len(walk)):
        last = min(first + window_size, len(walk) - 1)
        seen = reconstruct(bits, first, last)
        assert same(seen.graph, graph.subgraph(walk[first : last + 1]))
        blind = bits.copy()
        blind[: first + 1] = True  # row `first` is not read: s rows tell s + 1 nodes, as observation 1 says
        assert reconstruct(blind, first, last) == seen


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 8))
def test_a_walk_that_covers_the_graph_gives_it_back(seed, n):
    graph = nx.connected_watts_strogatz_graph(n, 3, 0.5, seed=seed) if n > 3 else nx.path_graph(n)
    walks = crawl.sample_walks(crawl.Graph.from_networkx(graph), 2 * cover_time_bound(graph), window_size=0, seed=seed)
    covering = [nodes for nodes in walks.nodes.tolist() if len(set(nodes)) == n]
    assert covering
    assert same(first_visits(graph, covering[0]).graph, graph)


def test_a_window_that_is_too_small_is_refused():
    bits = bits_of(rook(), [0, 1, 2, 3, 0], 3)
    assert same(reconstruct(bits, 0, 3).graph, nx.complete_graph(4))
    with pytest.raises(ValueError, match="A window of 3 holds up to 4 positions, not 0 to 4"):
        reconstruct(bits)
    with pytest.raises(ValueError, match=r"shape \[num_steps \+ 1, 2s - 1\]"):
        reconstruct(np.zeros((3, 4)))


def test_bits_no_walk_has():
    bits = np.zeros((3, 3))
    bits[1, 0] = 1  # the same node as one step before
    with pytest.raises(ValueError, match="row 1 contradicts"):
        reconstruct(bits)


def test_isomorphisms():
    image = isomorphism(nx.petersen_graph(), nx.kneser_graph(5, 2))
    names = list(nx.kneser_graph(5, 2))
    assert all(nx.kneser_graph(5, 2).has_edge(names[image[u]], names[image[v]]) for u, v in nx.petersen_graph().edges)
    assert isomorphism(rook(), shrikhande()) is None
    assert isomorphism(cycles(6), cycles(3, 3)) is None
    assert isomorphism(nx.path_graph(3), nx.path_graph(4)) is None


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7))
def test_isomorphism_agrees_with_networkx(seed, n):
    graph, other = (nx.gnm_random_graph(n, n, seed=seed + i) for i in range(2))
    assert (isomorphism(graph, other) is not None) == nx.is_isomorphic(graph, other)


@pytest.mark.parametrize("graph", [nx.path_graph(4), nx.complete_graph(4), nx.star_graph(3), nx.cycle_graph(5)])
def test_twice_the_cover_time_bound_covers_with_probability_one_half(graph):
    """8nm steps; the paper's 12n² for 3-regular graphs, such as K4. Exact."""
    chance = visit_probability(graph, 2 * cover_time_bound(graph))
    assert Fraction(1, 2) <= chance < 1


def test_the_cover_time_bound_of_the_paper():
    assert cover_time_bound(nx.petersen_graph()) == 6 * 10**2  # 3-regular: 4 · n · (3/2) n
    with pytest.raises(ValueError, match="not connected"):
        cover_time_bound(cycles(3, 3))
    with pytest.raises(ValueError, match="no nodes"):
        cover_time_bound(nx.empty_graph(0))


@pytest.mark.parametrize("strategy", ["uniform", "non_backtracking"])
def test_visit_probabilities(strategy):
    graph = nx.cycle_graph(5)
    chance = {"uniform": Fraction(1, 8), "non_backtracking": 1}[strategy]  # straight ahead for four steps
    assert visit_probability(graph, 4, strategy=strategy) == chance
    assert visit_probability(graph, 0, [0]) == Fraction(1, 5)
    assert visit_probability(graph, 0, [{0, 1}]) == Fraction(2, 5)
    with pytest.raises(TooLarge, match="states"):
        visit_probability(nx.path_graph(40), 3)
    with pytest.raises(TooLarge, match=r"about 10\^\d+ states"):
        visit_probability(nx.path_graph(20_000), 3)
    assert visit_probability(graph, 0, np.array([0])) == Fraction(1, 5)
    for bad in ([5], [-1], [{0, 7}], ["a"]):
        with pytest.raises(ValueError, match="each of nodes must be a whole number from 0 to 4"):
            visit_probability(graph, 4, bad)
    with pytest.raises(ValueError, match="num_steps must be a whole number"):
        visit_probability(graph, -1)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([0, 1, 3], "no edge from 1 to 3"),
        ([0, 0], "no edge from 0 to 0"),
        ([4, 5], "from 0 to 4, not 4 to 5"),
        ([-1, 0], "from 0 to 4"),
        ([], "one for each position"),
        ([[0, 1]], "one for each position"),
        ([0.0, 1.0], "one for each position"),
    ],
)
def test_what_is_no_walk(nodes, message):
    with pytest.raises(ValueError, match=message):
        first_visits(nx.cycle_graph(5), nodes)
