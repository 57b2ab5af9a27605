from __future__ import annotations

import time
from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import crawl
from crawl.theory import color_refinement, three_paths


def random_graph(seed: int, num_nodes: int, density: float) -> nx.Graph:
    return nx.gnp_random_graph(num_nodes, density, seed=seed)


def naive(*graphs: nx.Graph) -> tuple[list[dict[int, int]], int, int | None]:
    """Colours, rounds and the separating round, as the paper's text says it."""
    colors = [dict.fromkeys(graph, 0) for graph in graphs]
    rounds, separated = 0, None if len({len(graph) for graph in graphs}) == 1 else 0
    while True:
        signatures = [
            {v: (color[v], tuple(sorted(color[u] for u in graph[v]))) for v in graph}
            for graph, color in zip(graphs, colors, strict=True)
        ]
        number = {s: i for i, s in enumerate(sorted({s for each in signatures for s in each.values()}))}
        new = [{v: number[s] for v, s in each.items()} for each in signatures]
        if len(number) == len({c for color in colors for c in color.values()}):
            return colors, rounds, separated
        colors, rounds = new, rounds + 1
        if separated is None and len({tuple(sorted(Counter(c.values()).items())) for c in colors}) > 1:
            separated = rounds


def same_partition(mine: list[int], theirs: list[int]) -> bool:
    return len(set(zip(mine, theirs, strict=True))) == len(set(mine)) == len(set(theirs))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(1, 14), st.sampled_from([0.1, 0.2, 0.35, 0.6]))
def test_equals_the_naive_algorithm(seed, num_nodes, num_others, density):
    graphs = random_graph(seed, num_nodes, density), random_graph(seed + 1, num_others, density)
    refined = color_refinement(*graphs)
    colors, rounds, separated = naive(*graphs)
    theirs = [color[v] for graph, color in zip(graphs, colors, strict=True) for v in graph]
    assert same_partition(np.concatenate(refined.colors).tolist(), theirs)
    assert (refined.num_colors, refined.num_rounds, refined.separated_in) == (len(set(theirs)), rounds, separated)


@pytest.mark.parametrize("tree_seed", range(10))
def test_equals_the_naive_algorithm_on_trees_where_rounds_are_many(tree_seed):
    graphs = [nx.random_labeled_tree(60, seed=seed) for seed in (tree_seed, tree_seed + 100)]
    refined = color_refinement(*graphs)
    colors, rounds, separated = naive(*graphs)
    theirs = [color[v] for graph, color in zip(graphs, colors, strict=True) for v in graph]
    assert same_partition(np.concatenate(refined.colors).tolist(), theirs)
    assert (refined.num_rounds, refined.separated_in) == (rounds, separated)


def test_regular_graphs_have_one_color():
    refined = color_refinement(nx.petersen_graph())
    assert (refined.num_colors, refined.num_rounds, refined.separated_in) == (1, 0, None)


def test_a_relabelled_graph_is_not_separated():
    graph = random_graph(1, 30, 0.2)
    order = np.random.default_rng(0).permutation(30)
    other = nx.relabel_nodes(graph, dict(enumerate(order.tolist())))
    assert color_refinement(graph, other).separated_in is None


def test_given_colors():
    path = nx.path_graph(5)
    marked = np.array([0, 0, 1, 0, 0])
    refined = color_refinement(path, colors=[marked])
    assert same_partition(refined.colors[0].tolist(), [0, 1, 2, 1, 0])
    assert color_refinement(path, path, colors=[marked, np.array([0, 0, 2, 0, 0])]).separated_in == 0
    with pytest.raises(ValueError, match="one entry for each node"):
        color_refinement(path, colors=[np.zeros(4, dtype=np.int64)])


def test_the_stable_coloring_in_figure_3():
    """G_3 has two colours, the ends and the rest; in G'_3 only reflections look alike."""
    refined = color_refinement(three_paths(3), three_paths(3, uneven=True))
    even, uneven = refined.colors
    assert len(set(even.tolist())) == 2
    assert len(set(uneven.tolist())) == 5
    assert refined.separated_in == 2


def test_graphs_without_edges():
    refined = color_refinement(nx.empty_graph(3), nx.empty_graph(3))
    assert (refined.num_colors, refined.separated_in) == (1, None)
    assert color_refinement(nx.empty_graph(3), nx.empty_graph(4)).separated_in == 0


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.DiGraph([(0, 1), (1, 2), (2, 0)]), "directed"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "parallel edges"),
        (nx.Graph([(0, 0), (0, 1)]), "self-loop"),
        (crawl.Graph.from_networkx(nx.Graph([(0, 1, {"w": 2.0})]), weight="w"), "edge weights"),
    ],
)
def test_graphs_the_theory_does_not_speak_of(graph, message):
    with pytest.raises(ValueError, match=message):
        color_refinement(graph)


def test_a_million_edges_in_seconds():
    ends = np.random.default_rng(0).integers(0, 400_000, (2, 1_001_000))
    ends = np.sort(ends[:, ends[0] != ends[1]], axis=0)
    edge_index = torch.unique(torch.from_numpy(ends), dim=1)
    assert edge_index.shape[1] > 1_000_000
    graph = crawl.Graph.from_edge_index(edge_index, num_nodes=400_000, undirected=True)
    begin = time.process_time()
    refined = color_refinement(graph)
    assert time.process_time() - begin < 30  # 2 to 3 seconds on an idle core
    assert refined.num_colors > 390_000
    assert refined.num_rounds < 10


def test_many_rounds_stay_near_linear():
    """A path of n nodes takes n / 2 rounds, each of which renames two nodes; all rounds over all nodes would be n²."""
    path = crawl.Graph.from_networkx(nx.path_graph(8000))
    begin = time.process_time()
    refined = color_refinement(path)
    assert time.process_time() - begin < 15
    assert (refined.num_colors, refined.num_rounds) == (4000, 3999)
