"""Links that are hidden while they are predicted: each pair is asked about on a graph without its own link."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from crawl import Graph
from crawl.data.hidden_links import NUM_PARTS, hidden_parts, part_of
from crawl.data.one_graph import OneGraph


def store(owners: torch.Tensor, batches: str = "full") -> OneGraph:
    """A random graph with a self-loop, whose edges have their number as a feature."""
    graph = nx.gnp_random_graph(30, 0.3, seed=0)
    ways = torch.tensor([way for u, v in graph.edges for way in ((u, v), (v, u))] + [(4, 4)]).t()
    features = torch.arange(ways.shape[1]).view(-1, 1).float()
    return OneGraph(Graph.from_edge_index(ways, 30), owners, None, features, None, ways, batches)


def test_no_pair_sees_its_own_link_and_few_others_are_missing() -> None:
    pairs = torch.combinations(torch.arange(30))
    whole = store(pairs)
    known = {tuple(way) for way in whole.edge_index.t().tolist()}
    asked = []
    for ids, part in hidden_parts(whole, seed=3):
        asked += ids.tolist()
        assert torch.equal(part.owners, pairs[ids])
        ways = [tuple(way) for way in part.edge_index.t().tolist()]
        assert {*map(tuple, part.owners.tolist()), *map(tuple, part.owners.flip(1).tolist())}.isdisjoint(ways)
        assert (4, 4) in ways
        hidden = known - set(ways)
        assert {tuple(sorted(way)) for way in hidden} <= set(map(tuple, part.owners.tolist()))
        assert len(hidden) < 0.25 * len(known)
        # Features and the graph of walks follow.
        assert [tuple(whole.edge_index[:, int(i)].tolist()) for i in part.edge_attr.flatten()] == ways
        again = Graph.from_edge_index(part.edge_index, 30)
        for name in ("rowptr", "col", "edge_id"):
            assert torch.equal(getattr(part.graph, name), getattr(again, name))
    assert sorted(asked) == list(range(len(pairs)))


def test_the_part_of_a_pair_depends_on_nothing_else() -> None:
    pairs = torch.combinations(torch.arange(200))
    parts = part_of(pairs, 1)
    assert torch.equal(part_of(pairs.flip(1), 1), parts)
    assert not torch.equal(part_of(pairs, 2), parts)
    counts = torch.bincount(parts, minlength=NUM_PARTS).double()
    expected = len(pairs) / NUM_PARTS
    assert float(((counts - expected) ** 2 / expected).sum()) < 27.9  # chi-square with 9 degrees of freedom, 0.1 %
    ids, alone = next(hidden_parts(store(pairs[17:18], "closed"), 1))
    assert ids.tolist() == [0]
    together = dict(enumerate(parts[:435].tolist()))
    assert together[17] == int(part_of(alone.owners, 1))


def test_a_single_edge_may_be_hidden() -> None:
    ways = torch.tensor([[0, 1], [1, 0]])
    (_, part), *others = hidden_parts(OneGraph(Graph.from_edge_index(ways, 3), torch.tensor([[1, 0]])), 0)
    assert not others
    assert (part.num_edges, part.graph.num_arcs, part.edge_index) == (0, 0, None)


def test_other_targets_are_refused() -> None:
    with pytest.raises(ValueError, match="this store asks about nodes"):
        next(hidden_parts(store(torch.arange(3)), 0))
    with pytest.raises(ValueError, match="node 2 is paired with itself"):
        next(hidden_parts(store(torch.tensor([[0, 1], [2, 2]])), 0))
    weighted = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), edge_weight=torch.tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="a graph with weights cannot do yet"):
        next(hidden_parts(OneGraph(weighted, torch.tensor([[0, 1]])), 0))
