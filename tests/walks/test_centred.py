"""Centred walks: the same on all samplers, along edges in their direction, and with the law of a long walk's middle."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from crawl import Graph, WalkPlan, Walks, sample_walks
from crawl.walks import cpu, reference
from crawl.walks.centred import why_inexact
from crawl.walks.strategies import StepLaw

STRATEGIES = ["uniform", "non_backtracking", "min_degree", "min_degree_non_backtracking"]
OTHERS = ["numba", "triton"] if find_spec("triton") else ["numba"]
DEVICES = {"triton": "cuda" if torch.cuda.is_available() else "cpu"}

each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
each_weighting = pytest.mark.parametrize("is_weighted", [False, True], ids=["unweighted", "weighted"])
each_listing = pytest.mark.parametrize("undirected", [False, True], ids=["both directions", "undirected=True"])

# A square with a diagonal, a triple edge, self-loops (one of them doubled), two leaves and an isolated node.
ODD = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 2), (1, 2), (2, 2), (3, 3), (3, 3), (3, 4), (0, 6)]
# A triangle and a square that share node 2, and a leaf; a path; a star; a ring with a chord and a self-loop.
SIMPLE = {
    "cycles and leaf": [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 2), (5, 6)],
    "path": [(0, 1), (1, 2), (2, 3)],
    "star": [(0, 1), (0, 2), (0, 3), (0, 4)],
    "ring with loop": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (3, 3)],
}


@pytest.fixture(autouse=True)
def _poisoned_memory() -> Iterator[None]:
    """New memory holds the largest integer, so that nothing left over from earlier walks passes for a result."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def make_graph(
    edges: list[tuple[int, int]], num_nodes: int, is_weighted: bool = False, undirected: bool = True
) -> Graph:
    """Each edge once, walked both ways, or listed in both directions, the columns in some order."""
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    weight = torch.rand(len(edges), generator=generator) ** 2 + 0.05
    if not undirected:
        is_loop = edge_index[0] == edge_index[1]
        edge_index = torch.cat([edge_index, edge_index.flip(0)[:, ~is_loop]], dim=1)
        weight = torch.cat([weight, weight[~is_loop]])
        order = torch.randperm(len(weight), generator=generator)
        edge_index, weight = edge_index[:, order], weight[order]
    return Graph.from_edge_index(
        edge_index, num_nodes, edge_weight=weight if is_weighted else None, undirected=undirected
    )


def arcs_of(graph: Graph) -> list[tuple[int, int, int]]:
    """Source, target and column of every arc."""
    source = torch.repeat_interleave(graph.degree.long())
    return list(zip(source.tolist(), graph.col.tolist(), graph.edge_id.tolist(), strict=True))


def assert_same(walks: Walks, expected: Walks) -> None:
    for name in ("nodes", "edges", "code"):
        found, wanted = getattr(walks, name).cpu(), getattr(expected, name)
        assert found.dtype == wanted.dtype, name
        assert torch.equal(found, wanted), name


def rows(walks: Walks, which: Tensor | slice) -> Walks:
    return replace(walks, nodes=walks.nodes[which], edges=walks.edges[which], code=walks.code[which])


# On all samplers


# To the kernels the minimum-degree rule is a weighted graph.
@pytest.mark.parametrize(
    ("backend", "strategy"),
    [each for each in product(OTHERS, STRATEGIES) if "triton" not in each or each[1] in STRATEGIES[:2]],
)
@each_weighting
@each_listing
def test_samplers_agree(backend: str, undirected: bool, is_weighted: bool, strategy: str) -> None:
    graph = make_graph(ODD, 8, is_weighted, undirected)
    elsewhere = graph.to(DEVICES.get(backend, "cpu"))
    start = torch.tensor([0, 1, 2, 3, 4, 6]).repeat(5)  # not 5 and 7, which are isolated
    for num_steps in (0, 1, 2, 3, 8):
        call: dict[str, Any] = {"start": start, "window_size": 3, "seed": 2**63 + num_steps, "centred": True}
        expected = sample_walks(graph, num_steps, strategy, backend="reference", **call)
        assert torch.equal(expected.nodes[:, num_steps // 2], start.int())
        assert_same(sample_walks(elsewhere, num_steps, strategy, backend=backend, **call), expected)


@pytest.mark.parametrize("window_size", [0, 1, 2, 8, 9, 16, 17, 32])
@pytest.mark.parametrize("backend", OTHERS)
def test_every_window(backend: str, window_size: int) -> None:
    graph = make_graph(ODD, 8)
    call: dict[str, Any] = {"num_steps": window_size + 4, "window_size": window_size, "centred": True}
    found = sample_walks(graph.to(DEVICES.get(backend, "cpu")), backend=backend, **call)
    assert_same(found, sample_walks(graph, backend="reference", **call))


@each_strategy
@pytest.mark.parametrize("backend", OTHERS)
def test_long_rows(backend: str, strategy: str) -> None:
    """Rows of up to 6, 16, 32, 64 and more arcs are read in different ways, alone and side by side."""
    hubs = {0: 100, 1: 40, 2: 20, 3: 5}
    edges = [(hub, 10 + leaf) for hub, degree in hubs.items() for leaf in range(degree)]
    graph = make_graph([*edges, (4, 10), (4, 11), *[(4, 12)] * 70], 110, undirected=False)
    call: dict[str, Any] = {"start": torch.tensor([0, 1, 2, 3, 4, 12, 60, 109] * 2), "window_size": 4, "centred": True}
    found = sample_walks(graph.to(DEVICES.get(backend, "cpu")), 9, strategy, backend=backend, **call)
    assert_same(found, sample_walks(graph, 9, strategy, backend="reference", **call))


@st.composite
def calls(draw: st.DrawFn) -> tuple[Graph, dict[str, Any]]:
    num_nodes = draw(st.integers(1, 12))
    number = draw(st.sampled_from([1, 3, 8, 15, 30, 60, 150, 400]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    edges = [tuple(pair) for pair in torch.randint(num_nodes, (number, 2), generator=generator).tolist()]
    graph = make_graph(edges, num_nodes, draw(st.booleans()), draw(st.booleans()))
    walkable = (graph.degree > 0).nonzero().squeeze(1)
    start = walkable.repeat(150)[: draw(st.sampled_from([1, 7, 64, 65, 150]))]
    return graph, {
        "strategy": draw(st.sampled_from(STRATEGIES)),
        "start": start,
        "num_steps": draw(st.integers(0, 40)),
        "window_size": draw(st.integers(0, 32)),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "keys": draw(st.none() | st.integers(-(2**63), 2**63 - 1 - 150).map(lambda k: k + torch.arange(start.numel()))),
        "centred": True,
    }


@settings(max_examples=60, deadline=None, print_blob=True)
@given(calls())
def test_random_graphs(call: tuple[Graph, dict[str, Any]]) -> None:
    graph, arguments = call
    walks = sample_walks(graph, backend="numba", **arguments)
    assert_same(walks, sample_walks(graph, backend="reference", **arguments))
    # refuses a step that is not along an edge in its direction
    code = reference.encode(graph, walks.nodes, walks.window_size)
    assert torch.equal(Walks.from_nodes(graph, walks.nodes, walks.window_size, walks.edges).code, code)


@pytest.mark.parametrize("backend", ["reference", *OTHERS])
def test_no_walks_without_edges(backend: str) -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0), 3).to(DEVICES.get(backend, "cpu"))
    walks = sample_walks(graph, 4, window_size=9, backend=backend, centred=True)
    assert (walks.nodes.shape, walks.edges.shape, walks.code.shape) == ((0, 5), (0, 4), (0, 5))
    assert walks.code.dtype == torch.int32


# What a walk is


@each_strategy
@each_listing
def test_every_step_is_along_an_edge_in_its_direction(undirected: bool, strategy: str) -> None:
    graph = make_graph(ODD, 8, undirected=undirected)
    arcs = set(arcs_of(graph))
    walks = sample_walks(graph, 21, strategy, window_size=4, centred=True)
    for nodes, edges in zip(walks.nodes.tolist(), walks.edges.tolist(), strict=True):
        assert all((u, v, edge) in arcs for (u, v), edge in zip(pairwise(nodes), edges, strict=True))


@each_strategy
def test_of_parallel_edges_the_one_back_has_the_same_rank(strategy: str) -> None:
    """Columns k and E + k are the two directions of one edge: the same walk takes the same edges in both listings."""
    edges = torch.tensor([(0, 1), (0, 1), (1, 2), (0, 2), (0, 1), (0, 2), (2, 3)]).t()
    once = Graph.from_edge_index(edges, undirected=True)
    both = Graph.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1))
    start = torch.arange(4).repeat(50)
    wanted = sample_walks(once, 9, strategy, start, centred=True)
    found = sample_walks(both, 9, strategy, start, centred=True)
    assert torch.equal(found.nodes, wanted.nodes)
    is_forward = wanted.nodes[:, :-1] < wanted.nodes[:, 1:]
    assert torch.equal(found.edges, torch.where(is_forward, wanted.edges, wanted.edges + edges.shape[1]))
    assert found.edges.unique().numel() == both.num_edges


@pytest.mark.parametrize("backend", ["reference", *OTHERS])
def test_of_fewer_parallel_edges_back_the_last_one_is_taken(backend: str) -> None:
    """Three columns lead from 0 to 1, and two back."""
    edge_index = torch.tensor([[0, 0, 1, 0, 1], [1, 1, 0, 1, 0]])
    graph = Graph.from_edge_index(edge_index).to(DEVICES.get(backend, "cpu"))
    walks = sample_walks(graph, 3, start=torch.zeros(300, dtype=torch.long), backend=backend, centred=True)
    assert walks.nodes.unique(dim=0).tolist() == [[1, 0, 1, 0]]
    counts = walks.edges[:, 0].bincount(minlength=5).tolist()  # ranks 0, 1 and 2 of those from 0 to 1
    assert counts[2] + counts[4] == 300
    assert stats.binomtest(counts[2], 300, 1 / 3).pvalue > 1e-3


@each_strategy
@pytest.mark.parametrize("num_steps", [1, 2, 7, 8])
def test_the_arm_ahead_is_an_ordinary_walk(num_steps: int, strategy: str) -> None:
    graph = make_graph(ODD, 8, is_weighted=True)
    centre = num_steps // 2
    centred = sample_walks(graph, num_steps, strategy, seed=3, centred=True)
    ordinary = sample_walks(graph, num_steps - centre, strategy, seed=3)
    assert torch.equal(centred.nodes[:, centre:], ordinary.nodes)
    assert torch.equal(centred.edges[:, centre:], ordinary.edges)


@pytest.mark.parametrize("window_size", [1, 2, 5, 8])
@each_listing
def test_bits_are_those_of_the_joined_walk(undirected: bool, window_size: int) -> None:
    graph = make_graph(ODD, 8, undirected=undirected)
    is_arc = {(u, v) for u, v, _ in arcs_of(graph)}
    walks = sample_walks(graph, 13, window_size=window_size, centred=True)
    for nodes, bits in zip(walks.nodes.tolist(), walks.bits().tolist(), strict=True):
        for i, node in enumerate(nodes):
            identity = [i >= j and nodes[i - j] == node for j in range(1, window_size + 1)]
            adjacency = [i >= j and (node, nodes[i - j]) in is_arc for j in range(2, window_size + 1)]
            assert bits[i] == identity + adjacency


@each_strategy
@pytest.mark.parametrize("backend", ["numba", "reference"])
def test_company_and_order_of_the_walks_do_not_matter(backend: str, strategy: str) -> None:
    generator = torch.Generator().manual_seed(3)
    graph = make_graph([tuple(e) for e in torch.randint(60, (150, 2), generator=generator).tolist()], 60)
    start = (graph.degree > 0).nonzero().squeeze(1).repeat(3)[:150]
    keys = torch.arange(150) * 977 - 5
    call: dict[str, Any] = {"strategy": strategy, "seed": 6, "backend": backend, "centred": True}
    together = sample_walks(graph, 12, start=start, keys=keys, **call)
    order = torch.randperm(150, generator=generator)
    for which in (torch.arange(1), torch.arange(60, 70), torch.arange(64, 150), order):
        part = sample_walks(graph, 12, start=start[which], keys=keys[which], **call)
        assert_same(part, rows(together, which))


def test_with_node_keys_a_graph_has_the_same_walks_in_every_batch() -> None:
    edges = torch.tensor(SIMPLE["cycles and leaf"]).t()
    pair = Graph.from_edge_index(torch.cat([edges, edges + 7], dim=1), batch=torch.arange(14) // 7, undirected=True)
    alone = Graph.from_edge_index(edges, undirected=True)
    plan = WalkPlan(num_eval_steps=9, centred=True, num_walks=3)
    together = plan.sample(pair, seed=1, graph_keys=torch.tensor([5, 8]))
    of_second = plan.sample(alone, seed=1, graph_keys=torch.tensor([8]))
    assert torch.equal(together.nodes[21:] - 7, of_second.nodes)
    assert torch.equal(together.edges[21:] - edges.shape[1], of_second.edges)
    assert torch.equal(together.code[21:], of_second.code)


# The law: that of a long walk seen from its middle


def step_laws(
    edges: list[tuple[int, int]], weights: list[float], strategy: str
) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], dict[int, float]]]:
    """The stationary law of the pair (previous, current node), and that of the next node for each pair."""
    mass: dict[int, Counter[int]] = defaultdict(Counter)
    for (u, v), weight in zip(edges, weights, strict=True):
        mass[u][v] += weight
        if u != v:
            mass[v][u] += weight
    total = sum(row.total() for row in mass.values())
    pairs = {(u, v): weight / total for u, row in mass.items() for v, weight in row.items()}
    laws = {}
    for u, v in pairs:
        row = dict(mass[v])
        if strategy == "non_backtracking":
            row = {w: weight for w, weight in row.items() if w != u} or row
        laws[u, v] = {w: weight / sum(row.values()) for w, weight in row.items()}
    return pairs, laws


def law_of_the_middle(
    edges: list[tuple[int, int]], weights: list[float], strategy: str, length: int
) -> dict[int, dict[tuple[int, ...], float]]:
    """For each node, the law of this many consecutive positions of a stationary walk with the node in their middle."""
    pairs, laws = step_laws(edges, weights, strategy)
    for (_, v), w in product(pairs, {v for pair in pairs for v in pair}):  # the law of pairs is stationary
        flow = sum(chance * laws[pair].get(w, 0) for pair, chance in pairs.items() if pair[1] == v)
        assert flow == pytest.approx(pairs.get((v, w), 0))
    paths: dict[tuple[int, ...], float] = dict(pairs)
    for _ in range(length - 2):
        paths = {(*path, w): chance * of_w for path, chance in paths.items() for w, of_w in laws[path[-2:]].items()}
    by_middle: dict[int, dict[tuple[int, ...], float]] = defaultdict(dict)
    for path, chance in paths.items():
        by_middle[path[length // 2]][path] = chance
    return {v: {path: c / sum(law.values()) for path, c in law.items()} for v, law in by_middle.items()}


def assert_law(counts: dict[int, Counter[tuple[int, ...]]], laws: dict[int, dict[tuple[int, ...], float]]) -> None:
    """One chi-square test over all starts; what has no chance never happens. Rare paths are counted together."""
    statistic, freedom = 0.0, 0
    for start, counter in counts.items():
        law = laws[start]
        assert counter.keys() <= law.keys(), start
        cells = [(counter[path], chance * counter.total()) for path, chance in law.items()]
        large = [cell for cell in cells if cell[1] >= 5]
        small = [cell for cell in cells if cell[1] < 5]
        if small and sum(cell[1] for cell in small) >= 5:
            large.append((sum(cell[0] for cell in small), sum(cell[1] for cell in small)))
        statistic += sum((found - expected) ** 2 / expected for found, expected in large)
        freedom += max(len(large) - 1, 0)
    assert stats.chi2.sf(statistic, max(freedom, 1)) > 1e-3


@pytest.mark.parametrize(
    ("strategy", "is_weighted"),
    [("uniform", False), ("uniform", True), ("min_degree", False), ("non_backtracking", False)],
)
@pytest.mark.parametrize("edges", SIMPLE.values(), ids=SIMPLE)
def test_the_law_is_that_of_a_stationary_walk_seen_from_its_middle(
    edges: list[tuple[int, int]], strategy: str, is_weighted: bool
) -> None:
    weights = [0.5 + (7 * i) % 5 for i in range(len(edges))] if is_weighted else [1.0] * len(edges)
    edge_weight = torch.tensor(weights) if is_weighted else None
    graph = Graph.from_edge_index(torch.tensor(edges).t(), edge_weight=edge_weight, undirected=True)
    start = torch.arange(graph.num_nodes).repeat_interleave(1500)
    if strategy == "min_degree":
        degree = graph.degree.tolist()
        weights = [1 / min(degree[u], degree[v]) for u, v in edges]
    for num_steps in (8, 9):
        walks = sample_walks(graph, num_steps, strategy, start, window_size=0, seed=num_steps, centred=True)
        for reach in (1, 2, 3):
            laws = law_of_the_middle(edges, weights, strategy, 2 * reach + 1)
            counts: dict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
            centre = num_steps // 2
            for path in walks.nodes[:, centre - reach : centre + reach + 1].tolist():
                counts[path[reach]][tuple(path)] += 1
            assert_law(counts, laws)


@pytest.mark.parametrize(
    ("strategy", "more", "reason"),
    [
        ("uniform", [], ""),
        ("uniform", [(1, 2)], ""),
        ("non_backtracking", [], ""),
        ("min_degree", [(1, 2)], ""),
        ("non_backtracking", [(1, 2)], "Some edges are listed several times"),
        ("min_degree_non_backtracking", [], "Steps are drawn by degrees"),
    ],
)
def test_long_walks_look_the_same_from_their_middle_or_a_remark_says_why_not(
    strategy: str, more: list[tuple[int, int]], reason: str
) -> None:
    """Walks of 400 steps are drawn from one end; both samples are compared."""
    edges = SIMPLE["cycles and leaf"] + more
    graph = Graph.from_edge_index(torch.tensor(edges).t(), undirected=True)
    long = sample_walks(graph, 400, strategy, torch.arange(7).repeat(3000), window_size=0, seed=1).nodes[:, 198:203]
    start = long[:, 2].long()  # as often as long walks are there in their middle
    centred = sample_walks(graph, 4, strategy, start, window_size=0, seed=2, centred=True).nodes
    paths, which = torch.cat([long, centred]).unique(dim=0, return_inverse=True)
    table = torch.stack([part.bincount(minlength=len(paths)) for part in which.chunk(2)])
    table = table[:, table.sum(0) >= 10]
    is_same = stats.chi2_contingency(table.numpy()).pvalue > 1e-3
    told = why_inexact(strategy, graph)
    assert is_same == (not told)
    assert told.startswith(reason)


@pytest.mark.parametrize("size", [1, 2, 3, 2**22])
def test_parallel_edges_are_found_in_pieces(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl.walks.centred._ARCS", size)
    edges = [(0, 2), (1, 2), (2, 5), (3, 5), (5, 5)]  # rows end and begin with the same node
    assert not why_inexact("non_backtracking", make_graph(edges, 7))
    assert why_inexact("non_backtracking", make_graph([*edges, (3, 5)], 7)).startswith("Some edges are listed")
    assert why_inexact("non_backtracking", make_graph(edges, 7, is_weighted=True)).startswith("Edges have weights")
    assert not why_inexact("non_backtracking", make_graph([], 3))


@pytest.mark.parametrize("backend", ["reference", *OTHERS])
def test_the_first_step_back_is_drawn_as_if_the_walk_had_come_from_the_first_node_ahead(backend: str) -> None:
    """Also with weights and parallel edges."""
    edges, weights = [(0, 1), (0, 1), (0, 2), (0, 3), (3, 4), (2, 4)], [1.0, 2.0, 3.0, 4.0, 1.0, 1.0]
    graph = Graph.from_edge_index(torch.tensor(edges).t(), edge_weight=torch.tensor(weights), undirected=True)
    start = torch.zeros(4000 if backend != "triton" else 800, dtype=torch.long)
    call: dict[str, Any] = {"start": start, "window_size": 0, "backend": backend, "centred": True}
    walks = sample_walks(graph.to(DEVICES.get(backend, "cpu")), 2, **call)
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for (_, _, ahead), (back, _) in zip(walks.nodes.tolist(), walks.edges.tolist(), strict=True):
        counts[ahead][back] += 1
    for ahead, counter in counts.items():
        law = {k: w for k, ((u, v), w) in enumerate(zip(edges, weights, strict=True)) if u == 0 and v != ahead}
        assert counter.keys() == law.keys()
        expected = [law[k] / sum(law.values()) * counter.total() for k in law]
        assert stats.chisquare([counter[k] for k in law], expected).pvalue > 1e-3


def test_at_a_leaf_a_walk_turns_round() -> None:
    path = make_graph([(0, 1), (1, 2), (2, 3)], 4)
    walks = sample_walks(path, 6, start=torch.tensor([0, 3]), centred=True)
    assert walks.nodes.tolist() == [[3, 2, 1, 0, 1, 2, 3], [0, 1, 2, 3, 2, 1, 0]]
    assert walks.edges.tolist() == [[2, 1, 0, 0, 1, 2], [0, 1, 2, 2, 1, 0]]


# Codes of given walks


@pytest.mark.parametrize("window_size", [0, 1, 2, 8, 9, 17, 32])
@pytest.mark.parametrize("num_edges", [12, 60, 400])
def test_codes_of_given_walks(num_edges: int, window_size: int) -> None:
    generator = torch.Generator().manual_seed(num_edges)
    graph = make_graph([tuple(e) for e in torch.randint(9, (num_edges, 2), generator=generator).tolist()], 9)
    for num_steps in (0, 1, 40):
        nodes = sample_walks(graph, num_steps, "uniform", window_size=0).nodes.repeat(9, 1)
        expected = reference.encode(graph, nodes, window_size)
        for same in (nodes, nodes.long(), nodes.t().contiguous().t()):
            found = cpu.encode(graph, same, window_size)
            assert found.dtype == expected.dtype
            assert torch.equal(found, expected)


@pytest.mark.parametrize("window_size", [0, 1, 2, 9, 32])
def test_codes_of_given_walks_on_a_gpu(window_size: int) -> None:
    pytest.importorskip("triton")
    from crawl.walks import gpu

    graph = make_graph([*ODD, *[(0, 7)] * 20, *[(1, 7)] * 20], 8)  # rows of more than 32 arcs are searched
    nodes = sample_walks(graph, 12, "uniform", window_size=0).nodes
    expected = reference.encode(graph, nodes, window_size)
    device = DEVICES["triton"]
    assert torch.equal(gpu.encode(graph.to(device), nodes.to(device), window_size).cpu(), expected)


def test_a_node_without_edges_is_a_walk_of_no_steps() -> None:
    graph = make_graph([(0, 1)], 3)
    assert Walks.from_nodes(graph, torch.tensor([[2], [0]])).code.tolist() == [[0], [0]]


# Refusals


@pytest.mark.parametrize("strategy", ["node2vec", "depth_first", "restart"])
def test_other_strategies_are_refused(strategy: str) -> None:
    message = f"{strategy} walks cannot be centred: take uniform, non_backtracking, min_degree or "
    with pytest.raises(ValueError, match=message):
        sample_walks(make_graph(ODD, 8), strategy=strategy, centred=True)
    with pytest.raises(ValueError, match=message):
        WalkPlan(strategy=strategy, centred=True)


def test_centred_is_true_or_false() -> None:
    with pytest.raises(ValueError, match="centred must be True or False, not 1"):
        sample_walks(make_graph(ODD, 8), centred=1)


@pytest.mark.parametrize("part", [2, 2**24])
def test_a_graph_with_one_way_edges_is_refused(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl.compressed_rows._PART", part)
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3, 3], [1, 0, 2, 1, 3, 2, 0]])
    graph = Graph.from_edge_index(edge_index)
    assert graph.one_way == (3, 0)
    with pytest.raises(ValueError, match=r"no edge leads from node 0 back to node 3: pass undirected=True"):
        sample_walks(graph, centred=True)
    assert len(sample_walks(graph)) == 4
    assert len(sample_walks(Graph.from_edge_index(edge_index, undirected=True), centred=True)) == 4


def test_a_graph_is_searched_for_one_way_edges_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    search = "crawl.graph.one_way_arc"
    monkeypatch.setattr(search, lambda rowptr, col: searched.append(len(col)))
    graph = make_graph(ODD, 8)
    for seed in range(3):
        sample_walks(graph, seed=seed)
    assert searched == []
    for seed in range(3):
        sample_walks(graph, seed=seed, centred=True)
    assert searched == [graph.num_arcs]
    assert graph.to("cpu").num_arcs == graph.num_arcs  # with what was found


def test_named_law() -> None:
    assert StepLaw.named("uniform", centred=True) == StepLaw(is_centred=True)
    assert WalkPlan("min_degree", centred=True).law == StepLaw(is_by_degree=True, is_centred=True)
