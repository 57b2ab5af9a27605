"""The numba sampler equals the reference bit for bit, whatever the threads, the order and the company of the walks."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crawl import Graph, Walks, sample_walks

STRATEGIES: list[dict[str, Any]] = [
    {"strategy": "uniform"},
    {"strategy": "non_backtracking"},
    {"strategy": "node2vec"},
    {"strategy": "node2vec", "p": 0.25, "q": 4.0},
    {"strategy": "node2vec", "p": math.inf, "q": 0.25},
    {"strategy": "min_degree"},
    {"strategy": "min_degree_non_backtracking"},
    {"strategy": "depth_first"},
    {"strategy": "restart", "restart": 0.3},
]
each_strategy = pytest.mark.parametrize("law", STRATEGIES, ids=lambda law: "-".join(str(v) for v in law.values()))
each_weighting = pytest.mark.parametrize("is_weighted", [False, True], ids=["unweighted", "weighted"])


@pytest.fixture(autouse=True)
def _poisoned_memory() -> Iterator[None]:
    """New memory holds the largest integer, so that nothing left over from earlier walks passes for a result."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def make_graph(
    edges: list[tuple[int, int]], num_nodes: int, is_weighted: bool = False, undirected: bool = True, seed: int = 0
) -> Graph:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(len(edges), generator=generator) ** 4 + 1e-3 if is_weighted else None
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Graph.from_edge_index(edge_index, num_nodes, edge_weight=weight, undirected=undirected)


def random_edges(num_nodes: int, num_edges: int, seed: int) -> list[tuple[int, int]]:
    generator = torch.Generator().manual_seed(seed)
    return [tuple(pair) for pair in torch.randint(num_nodes, (num_edges, 2), generator=generator).tolist()]


def assert_same(walks: Walks, expected: Walks) -> None:
    for name in ("nodes", "edges", "code"):
        found, wanted = getattr(walks, name), getattr(expected, name)
        assert found.dtype == wanted.dtype, name
        assert found.shape == wanted.shape, name
        assert torch.equal(found, wanted), name


def assert_backends_agree(graph: Graph, **arguments: Any) -> None:
    assert_same(
        sample_walks(graph, backend="numba", **arguments), sample_walks(graph, backend="reference", **arguments)
    )


def walkable(graph: Graph, num_walks: int) -> Tensor:
    nodes = (graph.degree > 0).nonzero().squeeze(1)
    return nodes.repeat(-(-num_walks // nodes.numel()))[:num_walks]


@st.composite
def calls(draw: st.DrawFn) -> tuple[Graph, dict[str, Any]]:
    """Any graph and any arguments. Few nodes with many edges make long rows with parallel edges and self-loops."""
    num_nodes = draw(st.integers(1, 12))
    num_edges = draw(st.sampled_from([1, 3, 8, 15, 30, 60, 150, 400]))
    edges = random_edges(num_nodes, num_edges, draw(st.integers(0, 10**6)))
    undirected = draw(st.booleans())
    if not undirected:  # a node that cannot be left gets a self-loop
        edges += [(v, v) for v in sorted({v for _, v in edges} - {u for u, _ in edges})]
    graph = make_graph(edges, num_nodes, draw(st.booleans()), undirected, seed=num_edges)
    start = walkable(graph, draw(st.sampled_from([1, 7, 63, 64, 65, 150])))
    arguments = draw(st.sampled_from(STRATEGIES)) | {
        "start": start,
        "num_steps": draw(st.integers(0, 40)),
        "window_size": draw(st.integers(0, 32)),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "keys": draw(st.none() | st.integers(-(2**63), 2**63 - 1 - 150).map(lambda k: k + torch.arange(start.numel()))),
    }
    return graph, arguments


@settings(max_examples=150, deadline=None, print_blob=True)
@given(calls())
def test_random_graphs(call: tuple[Graph, dict[str, Any]]) -> None:
    graph, arguments = call
    assert_backends_agree(graph, **arguments)


# numba reads rows of up to 6, 16, 64 and more arcs in different ways, and those in sight of the end of `col`.
@each_strategy
@each_weighting
@pytest.mark.parametrize("degree", [1, 2, 6, 7, 15, 16, 17, 32, 33, 63, 64, 65, 100], ids="degree_{}".format)
def test_rows_of_every_length(degree: int, is_weighted: bool, law: dict[str, Any]) -> None:
    """Hubs that share their leaves: one at the start of `col`, one in the middle, one at the end."""
    leaves = range(1, degree + 1)
    hubs = [0, degree + 1, degree + 2]
    edges = [(hub, leaf) for hub in hubs[:1] + hubs[2:] for leaf in leaves]
    edges += [(hubs[1], 1)] * (degree // 2) + [(hubs[1], degree)] * (degree - degree // 2)
    graph = make_graph(edges, degree + 3, is_weighted)
    assert sorted(set(graph.degree[hubs].tolist())) == [degree]
    assert_backends_agree(graph, num_steps=9, window_size=5, start=torch.tensor(hubs * 3 + [1, degree]), **law)


@each_strategy
@each_weighting
def test_rows_of_all_lengths_in_one_block(is_weighted: bool, law: dict[str, Any]) -> None:
    edges = [(u, v) for u in range(100) for v in range(u + 1, 100) if (u * v) % 7 == 1 or u < 2 or v == u + 1]
    graph = make_graph(edges, 103, is_weighted)
    degree = graph.degree.tolist()
    assert min(degree) == 0
    assert max(degree) > 64
    assert any(6 < d <= 16 for d in degree)
    assert any(16 < d <= 64 for d in degree)
    assert_backends_agree(graph, num_steps=12, window_size=8, **law)


@each_strategy
@each_weighting
def test_star_with_ten_thousand_leaves(is_weighted: bool, law: dict[str, Any]) -> None:
    graph = make_graph([(10_000, leaf) for leaf in range(10_000)], 10_001, is_weighted)
    start = torch.cat([torch.full((70,), 10_000), torch.tensor([0, 1, 5_000, 9_999])])
    assert_backends_agree(graph, num_steps=6, window_size=4, start=start, **law)


@each_strategy
def test_hub_whose_arcs_all_lead_back(law: dict[str, Any]) -> None:
    for num_edges in (3, 10, 40, 90):
        assert_backends_agree(make_graph([(0, 1)] * num_edges, 2), num_steps=5, window_size=2, **law)


@each_strategy
@pytest.mark.parametrize("num_loops", [1, 7, 15, 16, 17, 100])
def test_loops_on_one_node(num_loops: int, law: dict[str, Any]) -> None:
    """Up to 15 arcs in the whole graph are fewer than one vector holds."""
    for is_weighted in (False, True):
        assert_backends_agree(make_graph([(0, 0)] * num_loops, 1, is_weighted), num_steps=5, window_size=3, **law)


@pytest.mark.parametrize("window_size", [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32])
@pytest.mark.parametrize("num_edges", [12, 60, 400])
def test_every_window(window_size: int, num_edges: int) -> None:
    graph = make_graph(random_edges(9, num_edges, seed=num_edges), 9)
    assert_backends_agree(graph, num_steps=40, window_size=window_size, strategy="uniform")


@each_strategy
@pytest.mark.parametrize("num_steps", [0, 1, 2, 3, 4, 5, 8, 9])
def test_every_place_in_a_philox_block(num_steps: int, law: dict[str, Any]) -> None:
    graph = make_graph(random_edges(20, 40, seed=1), 20, is_weighted=True)
    assert_backends_agree(graph, num_steps=num_steps, window_size=2, seed=2**64 - 1, **law)


@each_strategy
def test_number_of_threads_does_not_matter(law: dict[str, Any]) -> None:
    graph = make_graph(random_edges(500, 1500, seed=2), 500)
    threads = torch.get_num_threads()
    found = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            found.append(sample_walks(graph, 30, seed=1, **law))
    finally:
        torch.set_num_threads(threads)
    assert_same(*found)


@each_strategy
@pytest.mark.parametrize("backend", ["numba", "reference"])
def test_company_and_order_of_the_walks_do_not_matter(backend: str, law: dict[str, Any]) -> None:
    graph = make_graph(random_edges(60, 150, seed=3), 60)
    start, keys = walkable(graph, 150), torch.arange(150) * 977 - 5
    together = sample_walks(graph, 12, start=start, keys=keys, seed=6, backend=backend, **law)
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0))
    for rows in (torch.arange(1), torch.arange(60, 70), torch.arange(64, 150), order):
        part = sample_walks(graph, 12, start=start[rows], keys=keys[rows], seed=6, backend=backend, **law)
        assert_same(
            part, replace(together, nodes=together.nodes[rows], edges=together.edges[rows], code=together.code[rows])
        )


@each_strategy
@each_weighting
@pytest.mark.parametrize("backend", ["numba", "reference"])
def test_relabelling_that_keeps_the_order_relabels_the_walks(
    backend: str, is_weighted: bool, law: dict[str, Any]
) -> None:
    """Rows are sorted by node, so new names in the same order, as a batch gives, change nothing else."""
    edges = random_edges(12, 30, seed=4)
    graph = make_graph(edges, 12, is_weighted)
    names = torch.tensor([3, 4, 7, 10, 11, 12, 20, 21, 30, 31, 39, 40])
    relabelled = make_graph([(int(names[u]), int(names[v])) for u, v in edges], 45, is_weighted)
    start = walkable(graph, 30)
    keys = torch.arange(30)
    walks = sample_walks(graph, 15, start=start, keys=keys, backend=backend, **law)
    expected = replace(walks, nodes=names[walks.nodes].int(), num_nodes=45)
    assert_same(sample_walks(relabelled, 15, start=names[start], keys=keys, backend=backend, **law), expected)


def test_any_relabelling_keeps_what_is_seen_along_a_walk() -> None:
    edges = random_edges(12, 30, seed=5)
    graph = make_graph(edges, 12)
    names = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    relabelled = make_graph([(int(names[u]), int(names[v])) for u, v in edges], 12)
    walks = sample_walks(graph, 30)
    assert torch.equal(Walks.from_nodes(relabelled, names[walks.nodes], 8, walks.edges).code, walks.code)


@each_strategy
@pytest.mark.parametrize("backend", ["numba", "reference"])
def test_order_of_the_edges_does_not_matter(backend: str, law: dict[str, Any]) -> None:
    edges = sorted({(min(pair), max(pair)) for pair in random_edges(12, 30, seed=6)})  # no parallel ones
    order = torch.randperm(len(edges), generator=torch.Generator().manual_seed(2))
    shuffled = make_graph([edges[i] for i in order.tolist()], 12)
    walks = sample_walks(make_graph(edges, 12), 20, backend=backend, **law)
    again = sample_walks(shuffled, 20, backend=backend, **law)
    columns = torch.cat([order, torch.tensor([len(edges)])])  # a jump is one everywhere
    assert_same(replace(again, edges=columns[again.edges].int()), walks)
