from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import to_networkx

import crawl
from crawl.data import csl
from crawl.data.csl import SKIPS

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "csl.npz"


def test_graphs_are_those_of_their_class():
    store = csl().store
    assert len(store) == 150
    for i in range(0, 150, 5):
        graph = to_networkx(store.graph(i), to_undirected=True)
        skip = SKIPS[int(store.y[i])]
        assert set(dict(graph.degree).values()) == {4}
        assert nx.is_isomorphic(graph, nx.circulant_graph(41, [1, skip]))


def test_edges_are_listed_both_ways_once():
    edges = csl().store.graph(7).edge_index
    pairs = set(map(tuple, edges.t().tolist()))
    assert len(pairs) == edges.shape[1] == 164
    assert all((v, u) in pairs and u != v for u, v in pairs)


def test_copies_of_a_class_differ_and_are_always_the_same():
    first, again = csl(0).store, csl(1).store
    assert torch.equal(first.edge_index, again.edge_index)
    assert len({tuple(sorted(map(tuple, first.graph(i).edge_index.t().tolist()))) for i in range(15)}) == 15


def test_folds():
    tests = []
    for fold in range(5):
        dataset = csl(fold)
        assert dataset.split.ids.tolist() == list(range(150))
        assert dataset.store.y[dataset.split.val].bincount().tolist() == [3] * 10
        assert dataset.store.y[dataset.split.test].bincount().tolist() == [3] * 10
        tests += dataset.split.test.tolist()
    assert sorted(tests) == list(range(150))


def test_laplacian_features():
    x = csl(laplacian=4).store
    for i in (0, 77):
        data = x.graph(i)
        laplacian = torch.eye(41)
        laplacian[data.edge_index[0], data.edge_index[1]] = -1 / 4
        eigenvalues = torch.linalg.eigvalsh(laplacian)[1:5]
        assert torch.allclose(laplacian @ data.x, data.x * eigenvalues, atol=1e-5)
        assert torch.allclose(data.x.t() @ data.x, torch.eye(4), atol=1e-5)
        assert (data.x.gather(0, data.x.abs().argmax(0, keepdim=True)) > 0).all()


def test_model_runs():
    batch = csl().store.batch([0, 149])
    assert crawl.CRaWl(1, 10, hidden_channels=8)(batch).shape == (2, 10)


@pytest.mark.parametrize("arguments", [{"fold": 5}, {"fold": -1}, {"laplacian": 41}])
def test_refuses(arguments):
    with pytest.raises(ValueError, match="must be a whole number from 0"):
        csl(**arguments)


@pytest.mark.data
def test_equals_the_published_one():
    published = np.load(PUBLISHED)
    store = csl().store
    assert store.y.tolist() == published["y"].tolist()
    for fold in range(5):
        split = csl(fold).split
        for part in ("train", "val", "test"):
            assert getattr(split, part).tolist() == sorted(published[part][fold].tolist())
    for i in range(0, 150, 15):
        theirs = nx.Graph(published["edge_index"][i].T.tolist())
        assert nx.is_isomorphic(to_networkx(store.graph(i), to_undirected=True), theirs)
