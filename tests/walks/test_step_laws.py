"""The law of every step, by chi-square at fixed seeds, against the definition of each strategy."""

import math
from collections import Counter, defaultdict
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import stats

from crawl import Graph, Walks, sample_walks
from crawl.walks.strategies import StepLaw

# A triangle and a 4-cycle that share node 2, a parallel edge 1 2, a self-loop at 4, a leaf 6, an isolated node 7.
UNDIRECTED = [(5, 6), (0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 2), (1, 2), (4, 4)]
# Several arcs without their reverse, a parallel arc, a self-loop.
DIRECTED = [(3, 0), (0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (0, 1), (3, 3), (1, 0), (2, 1)]
WEIGHTS = [1.0, 2.0, 0.5, 3.0, 1.5, 0.25, 4.0, 1.0, 2.5, 5.0]
INFINITY = math.inf
STRATEGIES = [
    ("uniform", 1.0, 1.0),
    ("non_backtracking", 1.0, 1.0),
    ("node2vec", 1.0, 1.0),
    ("node2vec", 0.25, 4.0),
    ("node2vec", 4.0, 0.25),
    ("node2vec", 0.5, 0.5),
    ("node2vec", INFINITY, 1.0),
    ("node2vec", INFINITY, 3.0),
    ("node2vec", 0.001, 0.1),
    ("min_degree", 1.0, 1.0),
    ("min_degree_non_backtracking", 1.0, 1.0),
]

Arc = tuple[int, int, int]  # source, target, column


def arcs_of(edges: list[tuple[int, int]], undirected: bool) -> list[Arc]:
    """All steps a walk may take."""
    arcs = [(u, v, column) for column, (u, v) in enumerate(edges)]
    return arcs + [(v, u, column) for u, v, column in arcs if undirected and u != v]


def expected_law(
    arcs: list[Arc], weights: list[float], strategy: str, p: float, q: float, previous: int | None, here: int
) -> dict[int, float]:
    """The chance of each column for the next step, from the definition."""
    neighbours = {v for u, v, _ in arcs if u == previous}
    degree = Counter(u for u, _, _ in arcs)
    law = {}
    for u, v, column in arcs:
        if u != here:
            continue
        factor = 1.0
        if strategy.startswith("min_degree"):
            factor = 1 / min(degree[u], degree[v])
        if previous is not None and strategy.endswith("non_backtracking") and v == previous:
            factor = 0.0
        if previous is not None and strategy == "node2vec":
            factor = 1 / p if v == previous else 1.0 if v in neighbours else 1 / q
        law[column] = factor * weights[column]
    if sum(law.values()) == 0:  # there is only the way back
        return expected_law(arcs, weights, strategy.replace("non_backtracking", "backtracking"), p, q, None, here)
    total = sum(law.values())
    return {column: value / total for column, value in law.items()}


def sample(
    edges: list[tuple[int, int]], undirected: bool, is_weighted: bool, strategy: str, p: float, q: float, seed: int
) -> Walks:
    graph = Graph.from_edge_index(
        torch.tensor(edges).t(),
        8,
        edge_weight=torch.tensor(WEIGHTS) if is_weighted else None,
        undirected=undirected,
    )
    start = (graph.degree > 0).nonzero().squeeze(1).repeat(400)
    return sample_walks(graph, 24, strategy, start, window_size=0, seed=seed, p=p, q=q, backend="reference")


def assert_law(counts: dict[int, Counter[int]], laws: dict[int, dict[int, float]]) -> None:
    """One chi-square test over all states; what has no chance never happens."""
    statistic, freedom = 0.0, 0
    for state, counter in counts.items():
        law = laws[state]
        num_draws = counter.total()
        assert all(law.get(column, 0) > 0 for column in counter), (state, counter, law)
        # rare columns are counted together, as the test needs about five of each kind
        cells = [(counter[c], chance * num_draws) for c, chance in law.items() if chance > 0]
        large = [cell for cell in cells if cell[1] >= 5]
        small = [cell for cell in cells if cell[1] < 5]
        if small:
            large.append((sum(c[0] for c in small), sum(c[1] for c in small)))
        if large[-1][1] < 5:
            large.pop()
        statistic += sum((found - expected) ** 2 / expected for found, expected in large)
        freedom += max(len(large) - 1, 0)
    assert freedom > 0
    chance = stats.chi2.sf(statistic, freedom)
    assert chance > 1e-3, f"chi-square {statistic:.1f} with {freedom} degrees of freedom: {chance:.2g}"


@pytest.mark.parametrize("is_weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(
    ("edges", "undirected"), [(UNDIRECTED, True), (DIRECTED, False)], ids=["undirected", "directed"]
)
@pytest.mark.parametrize(("strategy", "p", "q"), STRATEGIES)
def test_every_step_follows_its_law(
    strategy: str, p: float, q: float, edges: list[tuple[int, int]], undirected: bool, is_weighted: bool
) -> None:
    walks = sample(edges, undirected, is_weighted, strategy, p, q, seed=3)
    arcs = arcs_of(edges, undirected)
    weights = WEIGHTS if is_weighted else [1.0] * len(edges)

    first: dict[tuple[None, int], Counter[int]] = defaultdict(Counter)
    later: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for nodes, columns in zip(walks.nodes.tolist(), walks.edges.tolist(), strict=True):
        first[None, nodes[0]][columns[0]] += 1
        for previous, here, column in zip(nodes, nodes[1:], columns[1:], strict=False):
            later[previous, here][column] += 1
    for counts in (first, later):
        assert_law(counts, {state: expected_law(arcs, weights, strategy, p, q, *state) for state in counts})
    states = {(u, v) for u, v, _ in arcs}
    if not strategy.endswith("non_backtracking") and p >= 0.25:
        assert states == set(later)  # every arc has been walked, so every second-order law was tested


State = tuple[int, int, frozenset[int]]  # the current node, its parent (-1 for a root), the nodes seen


def searched(arcs: list[Arc], nodes: list[int]) -> list[State]:
    """The state of a depth-first search at each position but the last, from the definition."""
    neighbours: dict[int, set[int]] = defaultdict(set)
    for u, v, _ in arcs:
        neighbours[u].add(v)
    path, seen, states = [nodes[0]], {nodes[0]}, []
    for here, target in pairwise(nodes):
        parent = path[-2] if len(path) > 1 else -1
        if neighbours[here] <= seen and parent not in neighbours[here]:
            path, seen, parent = [here], {here}, -1
        states.append((here, parent, frozenset(seen)))
        if target not in seen:
            path.append(target)
            seen.add(target)
        elif target == parent:
            path.pop()
    return states


def search_law(arcs: list[Arc], weights: list[float], state: State) -> dict[int, float]:
    """The chance of each column for the next step of a depth-first search."""
    here, parent, seen = state
    row = [(v, column) for u, v, column in arcs if u == here]
    chosen = [column for v, column in row if v not in seen] or [column for v, column in row if v == parent]
    chosen = chosen or [column for _, column in row]
    total = sum(weights[column] for column in chosen)
    return {column: weights[column] / total for column in chosen}


@pytest.mark.parametrize("is_weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(
    ("edges", "undirected"), [(UNDIRECTED, True), (DIRECTED, False)], ids=["undirected", "directed"]
)
def test_every_step_of_a_search_follows_its_law(
    edges: list[tuple[int, int]], undirected: bool, is_weighted: bool
) -> None:
    walks = sample(edges, undirected, is_weighted, "depth_first", 1, 1, seed=1)
    arcs = arcs_of(edges, undirected)
    weights = WEIGHTS if is_weighted else [1.0] * len(edges)
    counts: dict[State, Counter[int]] = defaultdict(Counter)
    for nodes, columns in zip(walks.nodes.tolist(), walks.edges.tolist(), strict=True):
        for state, column in zip(searched(arcs, nodes), columns, strict=True):
            counts[state][column] += 1
    assert_law(counts, {state: search_law(arcs, weights, state) for state in counts})


@pytest.mark.parametrize("backend", ["reference", "numba"])
def test_a_search_sees_a_connected_graph_in_two_steps_a_node(backend: str) -> None:
    """It takes each edge of its tree twice, then begins again at its root."""
    graph = Graph.from_networkx(nx.random_labeled_tree(30, seed=1))
    nodes = sample_walks(graph, 58, "depth_first", backend=backend).nodes
    assert all(sorted(set(row)) == list(range(30)) for row in nodes.tolist())
    assert torch.equal(nodes[:, -1], nodes[:, 0])
    twice = sample_walks(graph, 116, "depth_first", backend=backend).nodes
    assert all(sorted(set(row)) == list(range(30)) for row in twice[:, 58:].tolist())


@pytest.mark.parametrize("is_weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("backend", ["reference", "numba"])
def test_restarts_follow_their_law(backend: str, is_weighted: bool) -> None:
    """Each step jumps to its start with the given chance, wherever it is, and else is one of a uniform walk."""
    weights = WEIGHTS if is_weighted else [1.0] * len(UNDIRECTED)
    graph = Graph.from_edge_index(
        torch.tensor(UNDIRECTED).t(), 8, edge_weight=torch.tensor(weights) if is_weighted else None, undirected=True
    )
    start = torch.tensor([0, 2, 6]).repeat(1000)
    walks = sample_walks(graph, 24, "restart", start, window_size=3, seed=1, restart=0.2, backend=backend)
    jump, arcs = len(UNDIRECTED), arcs_of(UNDIRECTED, True)
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for nodes, columns in zip(walks.nodes.tolist(), walks.edges.tolist(), strict=True):
        for (here, target), column in zip(pairwise(nodes), columns, strict=True):
            counts[here][column] += 1
            assert target == nodes[0] if column == jump else (here, target, column) in arcs
    laws = {}
    for node in counts:
        law = expected_law(arcs, weights, "uniform", 1, 1, None, node)
        laws[node] = {jump: 0.2} | {column: 0.8 * chance for column, chance in law.items()}
    assert_law(counts, laws)
    jumps = (walks.edges == jump).long()
    table = (jumps[:, :-1] * 2 + jumps[:, 1:]).flatten().bincount(minlength=4)
    assert stats.chisquare(table.numpy(), table.sum().item() * np.array([0.64, 0.16, 0.16, 0.04])).pvalue > 1e-3


def test_the_minimum_degree_rule_is_that_of_a_reversible_walk() -> None:
    """Its stationary law is in proportion to the sum of 1 / min(degree, degree) over the edges of a node."""
    tree = nx.lollipop_graph(6, 5)
    walks = sample_walks(Graph.from_networkx(tree), 400, "min_degree", torch.arange(11).repeat(400), window_size=0)
    mass = torch.tensor([sum(1 / min(tree.degree[u], tree.degree[v]) for v in tree[u]) for u in range(11)])
    share = walks.nodes[:, 300:].flatten().bincount(minlength=11) / walks.nodes[:, 300:].numel()
    torch.testing.assert_close(share, mass / mass.sum(), atol=0.01, rtol=0)


@pytest.mark.parametrize(("strategy", "p", "q"), [("uniform", 1.0, 1.0), ("node2vec", 1.0, 1.0)])
def test_where_a_walk_came_from_is_forgotten(strategy: str, p: float, q: float) -> None:
    """The uniform law, which node2vec with p = q = 1 equals, is first-order: the state is the node alone."""
    walks = sample(UNDIRECTED, True, True, strategy, p, q, seed=2)
    arcs = arcs_of(UNDIRECTED, True)
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for nodes, columns in zip(walks.nodes.tolist(), walks.edges.tolist(), strict=True):
        for here, column in zip(nodes, columns, strict=False):
            counts[here][column] += 1
    assert_law(counts, {node: expected_law(arcs, WEIGHTS, "uniform", 1, 1, None, node) for node in counts})


def test_draws_of_steps_and_walks_are_independent() -> None:
    """On two nodes with self-loops every step stays or goes, half each: a toss of a coin."""
    pair = Graph.from_edge_index(torch.tensor([[0, 1, 0, 1], [0, 1, 1, 0]]))
    walks = sample_walks(pair, 16, "uniform", torch.zeros(4096, dtype=torch.long), window_size=1, seed=3)
    stays = walks.bits()[:, 1:, 0].long()
    for runs in (stays[:, i : i + 5] for i in range(12)):  # across the borders of Philox blocks, too
        counts = (runs * torch.tensor([1, 2, 4, 8, 16])).sum(1).bincount(minlength=32)
        assert stats.chisquare(counts.numpy()).pvalue > 1e-3
    for other in (1, 2, 64):  # neighbouring walks
        table = (stays[:-other] * 2 + stays[other:]).flatten().bincount(minlength=4)
        assert stats.chisquare(table.numpy()).pvalue > 1e-3
    again = sample_walks(pair, 16, "uniform", torch.zeros(4096, dtype=torch.long), window_size=1, seed=4)
    table = (stays * 2 + again.bits()[:, 1:, 0].long()).flatten().bincount(minlength=4)
    assert stats.chisquare(table.numpy()).pvalue > 1e-3


def test_extreme_weights_do_not_keep_node2vec_waiting() -> None:
    """Almost all of the mass leads back, where p = infinity never goes."""
    graph = Graph.from_edge_index(
        torch.tensor([[0, 1], [1, 2]]), edge_weight=torch.tensor([1e300, 1e-300], dtype=torch.float64), undirected=True
    )
    for backend in ("reference", "numba"):
        walks = sample_walks(graph, 4, "node2vec", torch.tensor([0]), p=INFINITY, q=0.001, backend=backend)
        assert walks.nodes.tolist() == [[0, 1, 2, 1, 0]]


def test_weights_of_extreme_ratio() -> None:
    weight = torch.tensor([1e300, 1e-300, 3e300], dtype=torch.float64)
    graph = Graph.from_edge_index(torch.tensor([[0, 0, 0], [1, 2, 3]]), edge_weight=weight, undirected=True)
    walks = sample_walks(graph, 1, "uniform", torch.zeros(4000, dtype=torch.long))
    counts = Counter(walks.nodes[:, 1].tolist())
    assert counts[2] == 0
    assert stats.binomtest(counts[1], 4000, 0.25).pvalue > 1e-3


def test_named_laws() -> None:
    assert StepLaw.named("uniform") == StepLaw()
    assert StepLaw.named("non_backtracking") == StepLaw(skips_previous=True)
    assert StepLaw.named("min_degree") == StepLaw(is_by_degree=True)
    assert StepLaw.named("min_degree_non_backtracking") == StepLaw(skips_previous=True, is_by_degree=True)
    assert StepLaw.named("restart", restart=0.25) == StepLaw(restart=2**30)
    assert StepLaw.named("depth_first") == StepLaw(is_depth_first=True)
    assert StepLaw.named("node2vec") == StepLaw(node2vec=(2**32, 2**32, 2**32, 2**32))
    assert StepLaw.named("node2vec", p=2.0, q=4.0) == StepLaw(node2vec=(2**31, 2**32, 2**32, 2**30))
    assert StepLaw.named("node2vec", p=0.5, q=0.5) == StepLaw(node2vec=(2**32, 2**32, 2**31, 2**32))
    assert StepLaw.named("node2vec", p=0.25, q=2.0) == StepLaw(node2vec=(2**32, 2**30, 2**32, 2**31))
    assert StepLaw.named("node2vec", p=INFINITY).node2vec == (0, 2**32, 2**32, 2**32)


@pytest.mark.parametrize(
    ("p", "q"), [(0.0, 1.0), (-1.0, 1.0), (0.0005, 1.0), (math.nan, 1.0), (1.0, 0.0), (1.0, 2000.0), (1.0, math.nan)]
)
def test_node2vec_refuses(p: float, q: float) -> None:
    with pytest.raises(ValueError, match=r"node2vec needs p from 0\.001 to infinity and q from 0\.001 to 1000"):
        StepLaw.named("node2vec", p, q)


@pytest.mark.parametrize("restart", [0.0, 1.0, -0.1, math.nan, "often"])
def test_restart_refuses(restart: float) -> None:
    with pytest.raises(ValueError, match="restart must be a number between 0 and 1, not"):
        StepLaw.named("restart", restart=restart)


def test_unknown_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match=r"strategy must be one of uniform, .*, not 'levy'"):
        StepLaw.named("levy")
