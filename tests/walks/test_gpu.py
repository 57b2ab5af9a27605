"""The Triton sampler equals the reference bit for bit: on a GPU where there is one, else in Triton's interpreter."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crawl import Graph
from crawl.walks import reference
from crawl.walks.strategies import StepLaw

triton = pytest.importorskip("triton")
from crawl.walks import gpu  # noqa: E402 - needs Triton

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
LAWS = {
    "uniform": StepLaw.named("uniform"),
    "non_backtracking": StepLaw.named("non_backtracking"),
    "node2vec": StepLaw.named("node2vec", p=0.5, q=2.0),
    "depth_first": StepLaw.named("depth_first"),
}
# To the kernel these are uniform and non-backtracking walks on a weighted graph.
OTHERS = {name: StepLaw.named(name) for name in ("min_degree", "min_degree_non_backtracking")}
NEVER_BACK = StepLaw.named("node2vec", p=float("inf"), q=0.5)
OTHERS |= {"never_back": NEVER_BACK, "restart": StepLaw.named("restart", restart=0.3)}
WINDOWS = [0, 1, 2, 8, 9, 16, 17, 32]

each_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
# The bits of a window are read while arcs back are looked for, or alone; nothing else in them depends on the law.
each_search = pytest.mark.parametrize(
    "law", [LAWS["uniform"], LAWS["non_backtracking"]], ids=["alone", "with arcs back"]
)
each_weighting = pytest.mark.parametrize("is_weighted", [False, True], ids=["unweighted", "weighted"])


def make_graph(edges: list[tuple[int, int]], num_nodes: int, is_weighted: bool, undirected: bool = True) -> Graph:
    weight = torch.rand(len(edges), generator=torch.Generator().manual_seed(0)) + 0.01 if is_weighted else None
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Graph.from_edge_index(edge_index, num_nodes, edge_weight=weight, undirected=undirected)


def odd_graph(is_weighted: bool) -> Graph:
    """A square with a diagonal, a triple edge, self-loops (one of them doubled), two leaves and an isolated node."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 2), (1, 2), (2, 2), (3, 3), (3, 3), (3, 4), (0, 6)]
    return make_graph(edges, 7, is_weighted)


def starts(graph: Graph, num_walks: int) -> Tensor:
    walkable = (graph.degree > 0).nonzero().squeeze(1).int()
    return walkable.repeat(-(-num_walks // walkable.numel()))[:num_walks]


def random_keys(num_walks: int) -> Tensor:
    return torch.randint(-(2**63), 2**63 - 1, (num_walks,), generator=torch.Generator().manual_seed(1))


def sample_poisoned(graph: Graph, start: Tensor, keys: Tensor, *args: object) -> tuple[Tensor, Tensor, Tensor]:
    """The walks of the kernel, from output that is not left over from earlier walks."""
    torch.use_deterministic_algorithms(True)  # fills new memory with the largest integer
    try:
        return gpu.sample(graph.to(DEVICE), start.to(DEVICE), keys.to(DEVICE), *args)
    finally:
        torch.use_deterministic_algorithms(False)


def assert_equals_reference(
    graph: Graph, start: Tensor, keys: Tensor, num_steps: int, law: StepLaw, window_size: int, seed: int = 7
) -> None:
    graph = law.on(graph)
    expected = reference.sample(graph, start, keys, num_steps, law, window_size, seed)
    found = sample_poisoned(graph, start, keys, num_steps, law, window_size, seed)
    for name, a, b in zip(("nodes", "edges", "code"), found, expected, strict=True):
        assert a.dtype == b.dtype, name
        assert a.shape == b.shape, name
        assert torch.equal(a.cpu(), b), name


@pytest.mark.parametrize("law", [*LAWS.values(), *OTHERS.values()], ids=[*LAWS, *OTHERS])
@each_weighting
def test_every_strategy(law: StepLaw, is_weighted: bool) -> None:
    graph = odd_graph(is_weighted)
    assert_equals_reference(graph, starts(graph, 24), random_keys(24), 9, law, window_size=3)


@each_search
@pytest.mark.parametrize("window_size", WINDOWS)
def test_every_window(law: StepLaw, window_size: int) -> None:
    graph = odd_graph(is_weighted=False)
    assert_equals_reference(graph, starts(graph, 24), random_keys(24), 6, law, window_size)


@pytest.mark.parametrize("window_size", [8, 16, 32])
def test_walks_longer_than_the_window(window_size: int) -> None:
    graph = odd_graph(is_weighted=False)
    law = LAWS["non_backtracking"]
    assert_equals_reference(graph, starts(graph, 12), random_keys(12), window_size + 3, law, window_size)


@pytest.mark.parametrize("p", [0.001, float("inf")])
def test_weights_of_extreme_ratio(p: float) -> None:
    """Almost all of the mass leads back, or almost none; neither keeps the kernel waiting."""
    weight = torch.tensor([1e300, 1e-300, 1.0], dtype=torch.float64)
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]), edge_weight=weight, undirected=True)
    law = StepLaw.named("node2vec", p=p, q=2.0)
    assert_equals_reference(graph, starts(graph, 12), random_keys(12), 5, law, window_size=2)


@each_law
@pytest.mark.parametrize(("degree", "is_weighted"), [(32, False), (33, False), (10_000, True)])
def test_star(law: StepLaw, degree: int, is_weighted: bool) -> None:
    """Rows of more than 32 arcs are searched, not scanned."""
    if law.is_depth_first and not ON_GPU:
        degree = min(degree, 100)  # a search compares all arcs with all nodes found: minutes in the interpreter
    graph = make_graph([(0, leaf) for leaf in range(1, degree + 1)], degree + 1, is_weighted)
    start = torch.tensor([0, 0, 0, 0, 1, 2, degree // 2, degree - 1, degree], dtype=torch.int32)
    assert_equals_reference(graph, start, random_keys(9), 5, law, window_size=4)


@each_law
@each_weighting
def test_scanned_and_searched_rows_side_by_side(law: StepLaw, is_weighted: bool) -> None:
    """Two hubs that share their leaves, one whose 60 arcs lead to three nodes, and a path."""
    edges = [(0, 10 + i) for i in range(20)] + [(1, 10 + i) for i in range(40)]
    edges += [(2, 3 + i % 3) for i in range(60)] + [(3, 4), (5, 6), (6, 10)]
    graph = make_graph(edges, 50, is_weighted)
    start = torch.tensor([0, 1, 2, 3, 4, 5, 6, 10, 49] * 3, dtype=torch.int32)
    assert_equals_reference(graph, start, random_keys(27), 8, law, window_size=3)


@each_law
def test_hub_whose_arcs_all_lead_back(law: StepLaw) -> None:
    graph = make_graph([(0, 1)] * 40, 2, is_weighted=False)
    assert_equals_reference(graph, starts(graph, 4), random_keys(4), 4, law, window_size=2)


@each_law
@each_weighting
def test_directed_graph_without_arcs_back(law: StepLaw, is_weighted: bool) -> None:
    cycle = [(i, (i + 1) % 5) for i in range(5)]
    graph = make_graph([*cycle, (0, 2), (3, 1), (4, 4)], 5, is_weighted, undirected=False)
    assert_equals_reference(graph, starts(graph, 10), random_keys(10), 8, law, window_size=5)


@each_law
def test_draws_on_the_border_between_two_weights(law: StepLaw) -> None:
    """With integer weights as small as 1 every draw is such a draw; usual ones are near 2^27."""
    graph = odd_graph(is_weighted=False)
    ones = torch.cat([torch.arange(1, degree + 1) for degree in graph.degree.tolist()])
    graph = replace(graph, cum_weight=ones)
    assert_equals_reference(graph, starts(graph, 12), random_keys(12), 6, law, window_size=2)


@pytest.mark.parametrize("law", [LAWS["uniform"], LAWS["node2vec"]], ids=["words in turn", "words by attempt"])
@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
def test_every_kind_of_seed_and_key(law: StepLaw, seed: int) -> None:
    graph = odd_graph(is_weighted=True)  # weights make all 32 bits of a draw matter
    keys = torch.tensor([0, 1, -1, 2**31, 2**32 - 1, 2**32, -(2**63), 2**63 - 1])
    assert_equals_reference(graph, starts(graph, 8), keys, 5, law, 0, seed)


@pytest.mark.parametrize("num_walks", [1, 32, 33, 65])
def test_any_number_of_walks(num_walks: int) -> None:
    graph = odd_graph(is_weighted=False)
    assert_equals_reference(
        graph, starts(graph, num_walks), random_keys(num_walks), 5, LAWS["non_backtracking"], window_size=2
    )


@each_law
def test_no_steps(law: StepLaw) -> None:
    graph = odd_graph(is_weighted=False)
    assert_equals_reference(graph, starts(graph, 5), random_keys(5), 0, law, window_size=8)


@each_weighting
def test_searches_that_begin_again(is_weighted: bool) -> None:
    """Walks that are far longer than their graphs are large: some searches are over soon, and some have no way back."""
    cycle = [(i, (i + 1) % 4) for i in range(4)]
    edges = [*cycle, (0, 2), (4, 5), (5, 4), (5, 5), (5, 4), (6, 6), (6, 6)]
    graph = make_graph(edges, 7, is_weighted, undirected=False)
    assert_equals_reference(graph, starts(graph, 14), random_keys(14), 17, LAWS["depth_first"], window_size=3)


@pytest.mark.parametrize(("window_size", "dtype"), [(8, torch.int16), (16, torch.int32), (32, torch.int64)])
def test_no_walks(window_size: int, dtype: torch.dtype) -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    empty = torch.empty(0, dtype=torch.int32)
    nodes, edges, code = sample_poisoned(graph, empty, empty.long(), 4, LAWS["uniform"], window_size, 0)
    assert (nodes.shape, edges.shape, code.shape) == ((0, 5), (0, 4), (0, 5))
    assert (nodes.dtype, edges.dtype, code.dtype) == (torch.int32, torch.int32, dtype)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Graph, Tensor, Tensor, int, StepLaw, int, int]:
    num_nodes = draw(st.integers(1, 9))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), min_size=1, max_size=40))
    undirected = draw(st.booleans())
    if not undirected:  # a node that cannot be left gets a self-loop
        sources = {u for u, _ in edges}
        edges += [(v, v) for v in {v for _, v in edges} - sources]
    graph = make_graph(edges, num_nodes, draw(st.booleans()), undirected)
    start = starts(graph, draw(st.integers(1, 40)))
    keys = torch.tensor([draw(st.integers(-(2**63), 2**63 - 1))]) + torch.arange(start.numel())
    law = draw(st.sampled_from([*LAWS.values(), *OTHERS.values()]))
    return (
        graph,
        start,
        keys,
        draw(st.integers(0, 8)),
        law,
        draw(st.sampled_from(WINDOWS)),
        draw(st.integers(0, 2**64 - 1)),
    )


@settings(max_examples=200 if ON_GPU else 15, deadline=None, print_blob=True)
@given(calls())
def test_random_graphs(call: tuple[Graph, Tensor, Tensor, int, StepLaw, int, int]) -> None:
    assert_equals_reference(*call)


def test_a_graph_on_the_cpu_is_refused_without_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "JITFunction", object)  # what the kernel is when it is compiled
    graph = odd_graph(is_weighted=False)
    with pytest.raises(ValueError, match="needs a graph on an NVIDIA GPU"):
        gpu.sample(graph, starts(graph, 3), random_keys(3), 2, LAWS["uniform"], 2, 0)


@pytest.mark.gpu
@pytest.mark.slow
def test_more_than_2_to_the_31_positions() -> None:
    """The walks behind the 32-bit limit are those of a call of their own; 22 GB."""
    graph = odd_graph(is_weighted=False)
    start, keys = starts(graph, 2**21 + 33), random_keys(2**21 + 33)
    args = (1023, LAWS["non_backtracking"], 8, 0)
    whole = sample_poisoned(graph, start, keys, *args)
    for a, b in zip(whole, sample_poisoned(graph, start[-50:], keys[-50:], *args), strict=True):
        assert torch.equal(a[-50:], b)
