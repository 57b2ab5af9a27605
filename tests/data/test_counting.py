from itertools import combinations
from math import comb
from pathlib import Path
from typing import get_args

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import to_networkx

from crawl.data import counting
from crawl.data.counting import Pattern, _count

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "counting.npz"


def count_by_hand(target, graph):
    if target == "star":
        return sum(comb(degree, 3) for _, degree in graph.degree)
    if target == "cycle4":
        cycles = nx.simple_cycles(graph, length_bound=4)
        return sum(len(cycle) == 4 for cycle in cycles)
    corners = [
        three for three in combinations(graph, 3) if all(graph.has_edge(*pair) for pair in combinations(three, 2))
    ]
    return len(corners) if target == "triangle" else sum(graph.degree[v] - 2 for three in corners for v in three)


@pytest.mark.parametrize("target", get_args(Pattern))
def test_counts(target):
    dataset = counting(target, num_graphs=40)
    counts = torch.tensor(
        [count_by_hand(target, to_networkx(dataset.store.graph(i), to_undirected=True)) for i in range(40)]
    )
    scale = counts[dataset.split.train].double().std(correction=0)
    assert torch.allclose(dataset.store.y[:, 0], (counts / scale).float())
    assert dataset.store.y[dataset.split.train].std(correction=0) == pytest.approx(1)
    assert dataset.task.target_names[0].startswith(f"{target} / ")


def test_graphs():
    store = counting(num_graphs=60).store
    sizes = set(zip(store.node_ptr.diff().tolist(), store.edge_ptr.diff().tolist(), strict=True))
    assert sizes == {(10, 40), (15, 60), (20, 60), (30, 90)}
    edges = store.graph(5).edge_index
    assert set(map(tuple, edges.t().tolist())) == set(map(tuple, edges.flip(0).t().tolist()))


def test_seed_and_split():
    first, again, other = counting(num_graphs=20), counting(num_graphs=20), counting(num_graphs=20, seed=1)
    assert torch.equal(first.store.edge_index, again.store.edge_index)
    assert not torch.equal(first.store.node_ptr, other.store.node_ptr)
    assert [len(part) for part in (first.split.train, first.split.val, first.split.test)] == [6, 4, 10]


def test_refuses():
    with pytest.raises(ValueError, match="must be one of triangle, tailed_triangle, star, cycle4, not 'square'"):
        counting("square")
    with pytest.raises(ValueError, match="num_graphs must be a whole number from 10"):
        counting(num_graphs=3)


@pytest.mark.data
def test_formulas_agree_with_the_published_counts():
    published = np.load(PUBLISHED)
    ptr = published["edge_ptr"]
    for i in range(0, 5000, 50):
        n = published["num_nodes"][i]
        adjacency = torch.zeros(1, n, n)
        adjacency[0, *published["edge_index"][:, ptr[i] : ptr[i + 1]].astype(int)] = 1
        counts = [_count(target, adjacency).item() for target in get_args(Pattern)]
        assert counts == published["counts_tri_tailed_star_cyc4"][i].tolist()
