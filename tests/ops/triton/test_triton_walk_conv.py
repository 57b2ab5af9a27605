"""The walk convolution in Triton against its reference: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from crawl import CRaWlConv, Graph, Walks, sample_walks

pytest.importorskip("triton")
from crawl.ops.triton import walk_conv

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
TOLERANCE = {"float32": 2e-5, "tf32": 3e-3, "bf16": 3e-2}  # |found - expected| / |expected|
# A value near zero that is rounded across it opens or closes a ReLU, and takes its gradient along. With as few windows
# as here, a handful of them among ten thousand are some percent of the norm.
GRADIENT_TOLERANCE = {"float32": 2e-5, "tf32": 1e-1, "bf16": 3e-1}


@pytest.fixture(autouse=True)
def _triton_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})
    monkeypatch.setitem(walk_conv._MOST_FUSED, torch.float32, 176)  # the interpreter's precision, too
    monkeypatch.setitem(walk_conv._MOST_FUSED_BACKWARD, torch.float32, 96)


def molecules(num_graphs: int = 3) -> Graph:
    """Rings with tails, a leaf, an isolated node and a self-loop."""
    edges, first = [], 0
    for size in range(5, 5 + num_graphs):
        edges += [(first + i, first + (i + 1) % size) for i in range(size)] + [(first, first + size)]
        first += size + 1
    edges += [(1, 1), (0, 2)]
    return Graph.from_edge_index(torch.tensor(edges).t(), num_nodes=first + 1, undirected=True)


def walks_on(graph: Graph, num_steps: int, window_size: int) -> Walks:
    """From every node; in the interpreter from five, which are a whole and a partial tile, there and back."""
    start = None if ON_GPU else torch.tensor([0, 1, 3, 5, 6])  # 5 is a leaf
    return sample_walks(graph, num_steps, start=start, window_size=window_size, seed=1)


def assert_close(found: Tensor, expected: Tensor, precision: str, name: str = "out") -> None:
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    error = (found - expected).norm() / expected.norm().clamp_min(1e-6)
    tolerance = TOLERANCE if "out" in name or "running" in name else GRADIENT_TOLERANCE
    assert float(error) <= tolerance[precision], f"{name}: {float(error):.2e}"


def make_conv(walks: Walks, width_in: int, width: int, edge_dim: int, kernel_size: int, **options: object) -> CRaWlConv:
    torch.manual_seed(0)
    conv = CRaWlConv(
        width_in, width, edge_dim=edge_dim, window_size=walks.window_size, kernel_size=kernel_size, **options
    )
    with torch.no_grad():
        conv.norm.weight.uniform_(0.5, 1.5)
        conv.norm.bias.uniform_(-0.3, 0.3)
        conv.norm.running_mean.uniform_(-0.1, 0.1)
    return conv


def both_ways(
    conv: CRaWlConv, walks: Walks, num_nodes: int, num_edges: int, *, into_edges: bool = False
) -> tuple[dict, dict]:
    """Outputs, gradients and running statistics of the reference in float64 and of the kernels."""
    x = torch.randn(num_nodes, conv.in_channels)
    edge_attr = torch.randn(num_edges, conv.edge_dim) if conv.edge_dim and num_edges else None
    grad, grad_edges = torch.randn(num_nodes, conv.out_channels), torch.randn(num_edges, conv.out_channels)
    results = []
    for exact in (True, False):
        layer = copy.deepcopy(conv).double() if exact else copy.deepcopy(conv).to(DEVICE)
        layer.implementation = "reference" if exact else "fast"
        dtype, device = (torch.float64, "cpu") if exact else (torch.float32, DEVICE)
        inputs = [v if v is None else v.to(device, dtype).requires_grad_() for v in (x, edge_attr)]
        out, edges_out = layer.pooled(inputs[0], walks.to(device), inputs[1], into_edges=into_edges)
        loss = (out * grad.to(device, dtype)).sum()
        if edges_out is not None:
            loss = loss + (edges_out * grad_edges.to(device, dtype)).sum()
        loss.backward()
        result = {"out": out, "out of edges": edges_out}
        result |= {"x": inputs[0].grad, "edge_attr": None if edge_attr is None else inputs[1].grad}
        used = ("project", "depthwise", "norm", "mix")
        result |= {name: p.grad for name, p in layer.named_parameters() if name.split(".")[0] in used}
        result |= {name: b for name, b in layer.named_buffers() if name.startswith("norm")}
        results.append({name: value for name, value in result.items() if value is not None})
    return results[0], results[1]


def check(conv: CRaWlConv, walks: Walks, graph: Graph, *, into_edges: bool = False) -> None:
    expected, found = both_ways(conv, walks, graph.num_nodes, graph.num_edges, into_edges=into_edges)
    assert expected.keys() == found.keys()
    assert ("out of edges" in expected) == into_edges
    for name in expected:
        assert_close(found[name], expected[name], conv.precision, name)


Case = tuple[int, ...]
CASES = [  # width in, width, edge_dim, window, kernel, steps
    (3, 16, 0, 4, 5, 12),
    (5, 17, 2, 8, 9, 20),
    (1, 1, 1, 2, 3, 4),
    (4, 40, 3, 16, 9, 25),
    (2, 33, 0, 0, 1, 6),
    (3, 7, 1, 32, 33, 36),
    (3, 7, 1, 12, 13, 16),
]
PADDED = [  # the same: walks longer and shorter than a window
    (3, 16, 2, 4, 5, 12),
    (5, 17, 2, 8, 9, 3),
    (2, 33, 0, 0, 1, 6),
    (3, 7, 1, 12, 13, 16),
    (3, 7, 1, 32, 33, 2),
    (3, 7, 0, 4, 5, 1),
]


def without(kernel_size: int, cases: list[Case]) -> list[Case]:
    """The cases; in the interpreter without the kernel, of several passes, that is pooled the other way."""
    return [case for case in cases if ON_GPU or case[4] != kernel_size]


def both_poolings(into_nodes: list[Case], into_edges: list[Case]) -> list[tuple[Case, bool]]:
    """Each case with whether it pools into edges; on a GPU each both ways."""
    return [(case, False) for case in into_nodes] + [(case, True) for case in into_edges]


# The interpreter multiplies in float32 whatever it is told, and does not know bfloat16. Into edges it pools some cases:
# with and without features, of one block of channels and two, and of the kernel of several passes.
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"] if ON_GPU else ["float32"])
@pytest.mark.parametrize(
    ("case", "into_edges"),
    both_poolings(without(33, CASES), CASES if ON_GPU else CASES[1:3] + CASES[4:6]),
    ids=str,
)
def test_equals_the_reference(case: Case, into_edges: bool, precision: str) -> None:
    width_in, width, edge_dim, window_size, kernel_size, num_steps = case
    graph = molecules(2)
    walks = walks_on(graph, num_steps, window_size)
    conv = make_conv(walks, width_in, width, edge_dim, kernel_size, precision=precision)
    check(conv, walks, graph, into_edges=into_edges)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"] if ON_GPU else ["float32"])
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("into_edges", [False, True], ids=["nodes", "edges"])
def test_products_by_cublas(padding: bool, into_edges: bool, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_conv, "_MOST_FUSED", dict.fromkeys(walk_conv._MOST_FUSED, 0))
    monkeypatch.setattr(walk_conv, "_MOST_FUSED_BACKWARD", dict.fromkeys(walk_conv._MOST_FUSED, 0))
    graph = molecules(2)
    walks = walks_on(graph, 12, window_size=4)
    conv = make_conv(walks, 5, 33, 2, 5, precision=precision, padding=padding)
    check(conv, walks, graph, into_edges=into_edges)


def test_channels_too_many_for_one_kernel() -> None:
    graph = molecules(1)
    walks = sample_walks(graph, 6, window_size=4, seed=1)
    check(make_conv(walks, 3, 260, 2, 5, precision="float32"), walks, graph)


def test_edges_without_features() -> None:
    graph = molecules(2)
    walks = walks_on(graph, 12, window_size=4)
    conv = make_conv(walks, 3, 16, 1, 5, precision="float32")
    expected, found = both_ways(conv, replace(walks, num_edges=None), graph.num_nodes, num_edges=0)
    assert not expected["project.weight"][:, 3].any()
    for name in expected:
        assert_close(found[name], expected[name], "float32", name)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"] if ON_GPU else ["float32"])
@pytest.mark.parametrize(
    ("case", "into_edges"),
    both_poolings(without(13, PADDED), without(33, PADDED)),
    ids=str,
)
def test_padded_walks(case: Case, into_edges: bool, precision: str) -> None:
    width_in, width, edge_dim, window_size, kernel_size, num_steps = case
    graph = molecules(2)
    walks = walks_on(graph, num_steps, window_size)
    conv = make_conv(walks, width_in, width, edge_dim, kernel_size, precision=precision, padding=True)
    check(conv, walks, graph, into_edges=into_edges)


def test_padded_walks_without_a_step() -> None:
    """In evaluation: in training the norm would take out the scale of the only tap, and leave its gradient near 0."""
    graph = molecules(2)
    walks = sample_walks(graph, 0, window_size=4, seed=1)
    check(make_conv(walks, 3, 7, 0, 5, precision="float32", padding=True).eval(), walks, graph, into_edges=True)


def test_replaced_walks_have_groups_of_their_own() -> None:
    graph = molecules(2)
    walks, others = (sample_walks(graph, 12, window_size=4, seed=seed).to(DEVICE) for seed in (1, 2))
    conv, x = make_conv(walks, 3, 16, 0, 5, precision="float32").to(DEVICE), torch.randn(graph.num_nodes, 3)
    conv.pooled(x.to(DEVICE), walks)
    replaced = replace(walks, nodes=others.nodes, edges=others.edges, code=others.code)
    assert torch.equal(conv.pooled(x.to(DEVICE), replaced)[0], conv.pooled(x.to(DEVICE), others)[0])


@pytest.mark.parametrize(("identity", "adjacency"), [(False, True), (True, False), (False, False)])
def test_without_some_bits(identity: bool, adjacency: bool) -> None:
    graph = molecules(2)
    walks = walks_on(graph, 12, window_size=4)
    conv = make_conv(walks, 3, 16, 2, 5, identity=identity, adjacency=adjacency, precision="float32")
    check(conv, walks, graph)


def test_walks_with_a_larger_window() -> None:
    graph = molecules(2)
    conv = make_conv(sample_walks(graph, 12, window_size=4), 3, 16, 2, 5, precision="float32")
    check(conv, walks_on(graph, 12, window_size=9), graph)


def test_evaluation_uses_the_running_statistics() -> None:
    graph = molecules(2)
    walks = walks_on(graph, 12, window_size=4)
    check(make_conv(walks, 3, 16, 2, 5, precision="float32").eval(), walks, graph)


@pytest.mark.parametrize("num_steps", [4, 5])
def test_one_walk_of_one_or_two_windows(num_steps: int) -> None:
    """One window has no variance: the running statistics serve."""
    graph = molecules(1)
    walks = sample_walks(graph, num_steps, start=torch.tensor([0]), window_size=4, seed=1)
    check(make_conv(walks, 3, 16, 2, 5, precision="float32"), walks, graph)


def test_a_mean_far_from_zero_keeps_its_variance() -> None:
    graph = molecules(2)
    walks = sample_walks(graph, 12, window_size=4, seed=1)
    conv = make_conv(walks, 3, 16, 0, 5, precision="float32")
    layer = copy.deepcopy(conv).to(DEVICE)
    x = 1e-2 * torch.randn(graph.num_nodes, 3) + 100
    layer.pooled(x.to(DEVICE), walks.to(DEVICE))
    exact = copy.deepcopy(conv).double()
    exact.implementation = "reference"
    exact.pooled(x.double(), walks)
    assert torch.allclose(layer.norm.running_var.cpu().double(), exact.norm.running_var, rtol=2e-3)


def test_no_walks() -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    walks = sample_walks(graph, 8, window_size=4)
    check(make_conv(walks, 3, 16, 0, 5, precision="float32"), walks, graph)


@pytest.mark.parametrize("num_real", [0, 1, 6, 11])
def test_walks_after_the_real_ones_change_nothing(num_real: int) -> None:
    graph = molecules(2)
    real = sample_walks(graph, 12, window_size=4, seed=1, start=torch.arange(num_real))
    more = sample_walks(graph, 12, window_size=4, seed=1, start=torch.arange(11))
    absent = slice(num_real, None)
    nodes, edges = more.nodes.clone(), more.edges.clone()
    nodes[absent], edges[absent] = graph.num_nodes, graph.num_edges
    padded = Walks(nodes, edges, more.code, 4, num_real=torch.tensor([num_real], dtype=torch.int32)).to(DEVICE)
    conv = make_conv(real, 3, 16, 2, 5, precision="float32").to(DEVICE)
    x, edge_attr = torch.randn(graph.num_nodes, 3, device=DEVICE), torch.randn(graph.num_edges, 2, device=DEVICE)
    results = []
    for walks in (real.to(DEVICE), padded):
        layer = copy.deepcopy(conv)
        out, _ = layer.pooled(x, walks, edge_attr)
        out.square().sum().backward()
        gradients = [p.grad for p in layer.parameters() if p.grad is not None]
        results.append([out, *gradients, layer.norm.running_mean, layer.norm.running_var])
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, atol=1e-5, rtol=1e-5)
        assert not b.isnan().any()


def test_the_same_bits_every_time() -> None:
    graph = molecules(300 if ON_GPU else 1)
    walks = sample_walks(graph, 30 if ON_GPU else 8, window_size=4, seed=1).to(DEVICE)
    conv = make_conv(walks, 5, 33, 2, 5).to(DEVICE)
    x, edge_attr = torch.randn(graph.num_nodes, 5, device=DEVICE), torch.randn(graph.num_edges, 2, device=DEVICE)
    results = []
    for _ in range(2):
        layer = copy.deepcopy(conv)
        out, _ = layer.pooled(x, walks, edge_attr)
        out.square().sum().backward()
        results.append([out, *(p.grad for p in layer.parameters() if p.grad is not None)])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
