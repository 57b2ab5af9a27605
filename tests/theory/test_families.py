from __future__ import annotations

import networkx as nx
import pytest

from crawl.theory import cfi, cycles, cyclic_skip_links, isomorphism, named_graph, rook, shrikhande, three_paths, wagner
from crawl.theory.families import is_name


@pytest.mark.parametrize("n", [2, 3, 7])
def test_three_paths_have_the_size_and_degrees_of_the_paper(n):
    even, uneven = three_paths(n), three_paths(n, uneven=True)
    for graph in (even, uneven):
        assert (graph.number_of_nodes(), graph.number_of_edges()) == (3 * n - 1, 3 * n)
        assert sorted(degree for _, degree in graph.degree) == [2] * (3 * n - 3) + [3, 3]
        assert graph.degree[0] == graph.degree[1] == 3
    assert nx.shortest_path_length(even, 0, 1) == n
    assert nx.shortest_path_length(uneven, 0, 1) == n - 1
    assert nx.girth(uneven) == 2 * n - 1


def test_strongly_regular_graphs():
    for graph in (rook(), shrikhande()):
        assert nx.is_strongly_regular(graph)
        assert {degree for _, degree in graph.degree} == {6}
    assert max(map(len, nx.find_cliques(rook()))) == 4
    assert max(map(len, nx.find_cliques(shrikhande()))) == 3


@pytest.mark.parametrize("base", ["K4", "K33", "prism", "wagner", "petersen"])
def test_cfi_graphs_over_regular_bases_are_regular_and_connected(base):
    for name, degree, factor in ((f"cfi:{base}", 3, 10), (f"cfi:{base}:compact", 6, 4)):
        graph, twin = named_graph(name), named_graph(f"{name}:twisted")
        assert len(graph) == len(twin)
        assert len(graph) % factor == 0
        for each in (graph, twin):
            assert {each.degree[node] for node in each} == {degree}
            assert nx.is_connected(each)


def test_only_the_parity_of_twists_matters():
    base = nx.complete_graph(4)
    graph, twin = cfi(base), cfi(base, twisted=True)
    assert isomorphism(graph, twin) is None
    elsewhere = nx.Graph()
    elsewhere.add_nodes_from(base)
    elsewhere.add_edges_from(list(base.edges)[::-1])  # another edge comes first and is twisted
    assert isomorphism(twin, cfi(elsewhere, twisted=True)) is not None


def test_small_cfi_graphs_are_old_acquaintances():
    assert isomorphism(named_graph("cfi:C3:compact"), cycles(3, 3)) is not None
    assert isomorphism(named_graph("cfi:C3:compact:twisted"), cycles(6)) is not None
    assert isomorphism(named_graph("cfi:K4:compact"), rook()) is not None
    assert isomorphism(named_graph("cfi:K4:compact:twisted"), shrikhande()) is not None


def test_skip_links():
    graph = cyclic_skip_links(41, 16)
    assert {degree for _, degree in graph.degree} == {4}
    assert graph.has_edge(0, 16)
    assert nx.is_isomorphic(wagner(), nx.circulant_graph(8, [1, 4]))


def test_names():
    assert nx.is_isomorphic(named_graph("cycle:12"), nx.cycle_graph(12))
    assert nx.number_connected_components(named_graph("cycles:6,6")) == 2
    assert nx.is_isomorphic(named_graph("paths:5:uneven"), three_paths(5, uneven=True))
    assert nx.is_isomorphic(named_graph("csl:41,2"), cyclic_skip_links(41, 2))
    assert is_name("cfi:nonsense")
    assert not is_name("cycle.txt")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cfi:K5", "is not the name of a graph"),
        ("cfi:K4:twisted:compact", "Names: cycle:N"),
        ("cycle:2", "a whole number from 3 to 1000000, not 2"),
        ("cycle:x", "invalid literal"),
        ("paths:1", "n must be a whole number from 2 to 1000000, not 1"),
        ("csl:41", "expected 2 numbers, not 1"),
        ("csl:41,21", "2 to 20 nodes ahead"),
        ("rook:5", "is not the name of a graph"),
        ("cycle:99999999999", "at most 100000 nodes"),
        ("cycles:6,99999999999", "at most 100000 nodes"),
        ("paths:99999999999", "at most 100000 nodes"),
        ("csl:99999999999,2", "at most 100000 nodes"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(ValueError, match=message):
        named_graph(name)


def test_bases_must_be_connected():
    with pytest.raises(ValueError, match="connected"):
        cfi(nx.empty_graph(3))


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (nx.Graph([(0, 1), (1, 1)]), "Node 1 of the base graph has a self-loop: remove it"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "parallel edges: take nx.Graph"),
        (nx.DiGraph([(0, 1)]), "is directed"),
    ],
)
def test_bases_must_be_simple(base, message):
    with pytest.raises(ValueError, match=message):
        cfi(base)
