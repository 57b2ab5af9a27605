"""Scores by brute force, candidates and kinds by hand; subgraphs are connected, and not all the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import torch

from crawl import Graph, Walks, sample_walks
from crawl.explanations.attribution import Attribution, LayerParts
from crawl.explanations.subgraphs import Scores, candidates, top_subgraphs
from crawl.explanations.windows import Evidence, evidence


def made(
    graph: nx.Graph, seed: int = 0, value: Callable[[Walks], torch.Tensor] | None = None, **walk: object
) -> Attribution:
    """An attribution with random parts, or with those of bits by a function; windows of five."""
    drawn = torch.Generator().manual_seed(seed)
    walks = sample_walks(Graph.from_networkx(graph), num_steps=12, window_size=4, seed=seed, **walk)  # type: ignore[arg-type]
    nodes = torch.zeros(walks.nodes.shape) if value else torch.randn(walks.nodes.shape, generator=drawn)
    bits = value(walks) if value else torch.randn(walks.bits().shape, generator=drawn) * walks.bits()
    windows = torch.stack([(nodes + bits.sum(2))[:, i : i + 9].sum(1) for i in range(5)], dim=1)
    own = torch.zeros(graph.number_of_nodes()), torch.zeros(graph.number_of_edges())
    return Attribution(0.0, 0.0, 0.0, *own, (LayerParts(walks, nodes, torch.zeros_like(nodes), bits, windows, 0, 9),))


def edges_of(graph: nx.Graph) -> np.ndarray:
    return np.array(list(graph.edges)).T.reshape(2, -1)


def brute_score(found: Evidence, edge_index: np.ndarray, nodes: set[int]) -> float:
    num_nodes = len(found.nodes)
    total = sum(found.nodes[node] for node in nodes)
    total += sum(value for pair, value in zip(edge_index.T.tolist(), found.edges, strict=True) if set(pair) <= nodes)
    for row, value in zip(found.sets.tolist(), found.of_sets, strict=True):
        total += value if {node for node in row if node < num_nodes} <= nodes else 0
    return float(total)


def test_scores_are_those_of_brute_force() -> None:
    graph = nx.house_graph()
    edge_index = edges_of(graph)
    found = [evidence(made(graph, seed), edge_index) for seed in range(3)]
    scores = Scores(found, edge_index)
    sets = [set(nodes) for size in (1, 2, 3, 5) for nodes in combinations(range(5), size)]
    rows = np.array([sorted(nodes) + [5] * (5 - len(nodes)) for nodes in sets])
    expected = [[brute_score(each, edge_index, nodes) for each in found] for nodes in sets]
    assert np.allclose(scores.of(rows), expected)
    assert np.allclose(scores.of(rows)[-1], scores.total)
    excess, rank = scores.excess(rows, scores.of(rows).mean(axis=1))
    share = scores.total.mean() / 5
    for nodes, value, own, place in zip(sets, scores.of(rows).mean(axis=1), excess, rank, strict=True):
        for_it, against = value - len(nodes) * max(share, 0), value - len(nodes) * min(share, 0)
        assert own == pytest.approx(for_it if for_it >= -against else against)
        assert place == pytest.approx(max(for_it, -against) / len(nodes) ** 0.5)


def test_candidates_are_what_walks_went_through() -> None:
    graph = nx.path_graph(4)
    walks = Walks.from_nodes(Graph.from_networkx(graph), torch.tensor([[0, 1, 2, 3, 2]]), window_size=2)
    zeros = torch.zeros(1, 5)
    windows = torch.tensor([[1.0, 0.0, 0.0]])  # only the first window says anything
    layer = LayerParts(walks, zeros, zeros, torch.zeros(1, 5, 3), windows, 0, 3)
    attribution = Attribution(0.0, 0.0, 0.0, torch.zeros(4), torch.zeros(3), (layer,))
    assert candidates([attribution], 4).tolist() == [[0, 1, 2], [0, 1, 4], [1, 2, 4]]


@pytest.mark.parametrize("strategy", ["non_backtracking", "restart"])
def test_subgraphs_are_connected_and_differ(strategy: str) -> None:
    graph = nx.random_labeled_tree(30, seed=3)
    edge_index = edges_of(graph)
    attributions = [made(graph, seed, strategy=strategy) for seed in range(2)]
    scores = Scores([evidence(each, edge_index) for each in attributions], edge_index)
    for nodes in candidates(attributions, 30):
        assert nx.is_connected(graph.subgraph(nodes[nodes < 30].tolist()))
    found = top_subgraphs(attributions, scores, edge_index, 6)
    assert len(found) == 6
    for one, other in combinations(found, 2):
        assert 2 * len({*one.nodes} & {*other.nodes}) <= min(len(one.nodes), len(other.nodes))
    ranks = [abs(each.excess) / len(each.nodes) ** 0.5 for each in found]
    assert ranks == sorted(ranks, reverse=True)
    for each in found:
        assert [*each.edges] == [i for i, pair in enumerate(edge_index.T.tolist()) if {*pair} <= {*each.nodes}]
        assert each.kind in ("path", "branch")


def test_a_ring_is_found_by_its_bits() -> None:
    """Where nothing counts but coming back after four steps, the top subgraph is the ring of four."""
    graph = nx.cycle_graph(4)
    graph = nx.disjoint_union(graph, nx.path_graph(6))
    graph.add_edge(0, 4)
    edge_index = edges_of(graph)

    def ring(walks: Walks) -> torch.Tensor:
        value = torch.zeros(walks.bits().shape)
        value[:, :, 3] = walks.bits()[:, :, 3].float() * (walks.nodes < 4)  # identity bit 4, on the ring
        return value

    attributions = [made(graph, seed, ring) for seed in range(3)]
    scores = Scores([evidence(each, edge_index) for each in attributions], edge_index)
    top = top_subgraphs(attributions, scores, edge_index, 1)[0]
    assert top.nodes == (0, 1, 2, 3)
    assert (top.kind, top.rings, top.title) == ("ring", (4,), "ring of 4, 4 nodes")
    assert top.seen["identity"][4] > 0
    assert top.seen["adjacency"] == {3: top.seen["adjacency"][3]}
    assert top.score > 0
    assert top.num_windows > 0
    assert top.to_dict()["seen"]["identity"]["4"] == top.seen["identity"][4]


def test_a_graph_without_edges_has_no_subgraphs() -> None:
    empty = torch.zeros(0, 1)
    walks = Walks(
        torch.zeros(0, 13, dtype=torch.int32),
        torch.zeros(0, 12, dtype=torch.int32),
        torch.zeros(0, 13, dtype=torch.int16),
        4,
        2,
        0,
    )
    layer = LayerParts(walks, torch.zeros(0, 13), torch.zeros(0, 13), torch.zeros(0, 13, 7), empty.expand(0, 5), 0, 9)
    attribution = Attribution(0.0, 0.0, 0.0, torch.ones(2), torch.zeros(0), (layer,))
    edge_index = np.empty((2, 0), np.int64)
    scores = Scores([evidence(attribution, edge_index)], edge_index)
    assert top_subgraphs([attribution], scores, edge_index, 5) == ()
