"""The Triton layers against the plain ones: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from crawl import CRaWlConv, Graph, Walks, sample_walks
from crawl.nn import reference
from crawl.nn.norm import BatchNorm
from crawl.walks.groups import Groups

pytest.importorskip("triton")
from crawl.nn.gpu import norm as gpu_norm
from crawl.nn.gpu import products, segments, windows

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
TOLERANCE = {"float32": 2e-5, "tf32": 3e-3, "bf16": 3e-2}  # |found - expected| / |expected|
# A value near zero that is rounded across it opens or closes a ReLU, and takes its gradient along. With as few windows
# as here, a handful of them among ten thousand are some percent of the norm.
GRADIENT_TOLERANCE = {"float32": 2e-5, "tf32": 1e-1, "bf16": 3e-1}


def molecules(num_graphs: int = 3) -> Graph:
    """Rings with tails, a leaf, an isolated node and a self-loop."""
    edges, first = [], 0
    for size in range(5, 5 + num_graphs):
        edges += [(first + i, first + (i + 1) % size) for i in range(size)] + [(first, first + size)]
        first += size + 1
    edges += [(1, 1), (0, 2)]
    return Graph.from_edge_index(torch.tensor(edges).t(), num_nodes=first + 1, undirected=True)


def assert_close(found: Tensor, expected: Tensor, precision: str, name: str = "out") -> None:
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    error = (found - expected).norm() / expected.norm().clamp_min(1e-6)
    tolerance = TOLERANCE if name == "out" or "running" in name else GRADIENT_TOLERANCE
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


def both_ways(conv: CRaWlConv, walks: Walks, num_nodes: int, num_edges: int) -> tuple[dict, dict]:
    """Outputs, gradients and running statistics of the reference in float64 and of the kernels."""
    x = torch.randn(num_nodes, conv.in_channels)
    edge_attr = torch.randn(num_edges, conv.edge_dim) if conv.edge_dim and num_edges else None
    grad = torch.randn(num_nodes, conv.out_channels)
    results = []
    for exact in (True, False):
        layer = copy.deepcopy(conv).double() if exact else copy.deepcopy(conv).to(DEVICE)
        dtype, device = (torch.float64, "cpu") if exact else (torch.float32, DEVICE)
        inputs = [v if v is None else v.to(device, dtype).requires_grad_() for v in (x, edge_attr)]
        pool = reference.pooled_windows if exact else windows.pooled_windows
        out = pool(layer, inputs[0], walks.to(device), inputs[1])
        out.backward(grad.to(device, dtype))
        result = {"out": out, "x": inputs[0].grad, "edge_attr": None if edge_attr is None else inputs[1].grad}
        used = ("project", "depthwise", "norm", "mix")
        result |= {name: p.grad for name, p in layer.named_parameters() if name.split(".")[0] in used}
        result |= {name: b for name, b in layer.named_buffers() if name.startswith("norm")}
        results.append({name: value for name, value in result.items() if value is not None})
    return results[0], results[1]


def check(conv: CRaWlConv, walks: Walks, graph: Graph) -> None:
    expected, found = both_ways(conv, walks, graph.num_nodes, graph.num_edges)
    assert expected.keys() == found.keys()
    for name in expected:
        assert_close(found[name], expected[name], conv.precision, name)


CASES = [  # width in, width, edge_dim, window, kernel, steps
    (3, 16, 0, 4, 5, 12),
    (5, 17, 2, 8, 9, 20),
    (1, 1, 1, 2, 3, 4),
    (4, 40, 3, 16, 9, 25),
    (2, 33, 0, 0, 1, 6),
    (3, 7, 1, 32, 33, 36),
    (3, 7, 1, 12, 13, 16),
]


# The interpreter multiplies in float32 whatever it is told, and does not know bfloat16.
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"] if ON_GPU else ["float32"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_the_reference(case: tuple[int, ...], precision: str) -> None:
    width_in, width, edge_dim, window_size, kernel_size, num_steps = case
    graph = molecules(2)
    walks = sample_walks(graph, num_steps, window_size=window_size, seed=1)
    check(make_conv(walks, width_in, width, edge_dim, kernel_size, precision=precision), walks, graph)


def test_edges_without_features() -> None:
    graph = molecules(2)
    walks = sample_walks(graph, 12, window_size=4, seed=1)
    conv = make_conv(walks, 3, 16, 1, 5, precision="float32")
    expected, found = both_ways(conv, walks, graph.num_nodes, num_edges=0)
    assert not expected["project.weight"][:, 3].any()
    for name in expected:
        assert_close(found[name], expected[name], "float32", name)


@pytest.mark.parametrize(("identity", "adjacency"), [(False, True), (True, False), (False, False)])
def test_without_some_bits(identity: bool, adjacency: bool) -> None:
    graph = molecules(2)
    walks = sample_walks(graph, 12, window_size=4, seed=1)
    conv = make_conv(walks, 3, 16, 2, 5, identity=identity, adjacency=adjacency, precision="float32")
    check(conv, walks, graph)


def test_walks_with_a_larger_window() -> None:
    graph = molecules(2)
    conv = make_conv(sample_walks(graph, 12, window_size=4), 3, 16, 2, 5, precision="float32")
    check(conv, sample_walks(graph, 12, window_size=9, seed=1), graph)


def test_evaluation_uses_the_running_statistics() -> None:
    graph = molecules(2)
    walks = sample_walks(graph, 12, window_size=4, seed=1)
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
    windows.pooled_windows(layer, x.to(DEVICE), walks.to(DEVICE), None)
    exact = copy.deepcopy(conv).double()
    reference.pooled_windows(exact, x.double(), walks, None)
    assert torch.allclose(layer.norm.running_var.cpu().double(), exact.norm.running_var, rtol=2e-3)


def test_no_walks() -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    walks = sample_walks(graph, 8, window_size=4)
    check(make_conv(walks, 3, 16, 0, 5, precision="float32"), walks, graph)


@pytest.mark.parametrize("num_real", [0, 1, 6, 11])
def test_walks_behind_the_real_ones_change_nothing(num_real: int) -> None:
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
        out = windows.pooled_windows(layer, x, walks, edge_attr)
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
        out = windows.pooled_windows(layer, x, walks, edge_attr)
        out.square().sum().backward()
        results.append([out, *(p.grad for p in layer.parameters() if p.grad is not None)])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("num_rows", "num_real"), [(1, 1), (3, 3), (70, 65), (130, 1), (65, 0), (9000, 8190)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(num_rows: int, num_real: int, relu: bool, training: bool) -> None:
    torch.manual_seed(0)
    plain = BatchNorm(37 if num_rows < 1000 else 3).train(training)
    with torch.no_grad():
        plain.weight.uniform_(0.5, 1.5)
        plain.bias.uniform_(-0.5, 0.5)
        plain.running_mean.uniform_(-1, 1)
    fast = copy.deepcopy(plain).to(DEVICE)
    plain.double()
    x, grad = (torch.randn(num_rows, plain.num_features) for _ in range(2))
    x += 3
    a = x.double().requires_grad_()
    b = x.to(DEVICE).requires_grad_()
    expected = plain(a[:num_real], relu=relu)
    expected.backward(grad[:num_real].double())
    found = gpu_norm.batch_norm(fast, b, torch.tensor([num_real], dtype=torch.int32, device=DEVICE), relu)
    found.backward(grad.to(DEVICE))
    assert torch.equal(found[num_real:], torch.zeros_like(found[num_real:]))
    expected_grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in (a, plain.weight, plain.bias)]
    values = [*expected_grads, plain.running_mean, plain.running_var]
    found_values = [b.grad, fast.weight.grad, fast.bias.grad, fast.running_mean, fast.running_var]
    for v, w in zip([expected, *values], [found[:num_real], *found_values], strict=True):
        assert torch.allclose(v, w.double().cpu(), atol=2e-5, rtol=2e-5)
    assert plain.num_batches_tracked == fast.num_batches_tracked.cpu()


@pytest.mark.parametrize("num_channels", [1, 16, 37, 300])
def test_sums_over_groups(num_channels: int) -> None:
    torch.manual_seed(0)
    rows = torch.randn(120, num_channels)
    ids = torch.randint(0, 7, (120,))
    ids[ids == 3] = 4  # an empty group
    groups = Groups.of(ids.to(DEVICE), 7)
    found = segments.sum_rows(rows.to(DEVICE), groups.ptr, groups.order)
    expected = torch.zeros(7, num_channels).index_add(0, ids, rows)
    assert torch.allclose(found.cpu(), expected, atol=1e-5)


@pytest.mark.parametrize("sizes", [[600], [0, 3, 70, 64, 0, 2, 200, 1], [5, 59, 64, 128, 7, 63, 65, 0], [1] * 130])
@pytest.mark.parametrize("has_order", [True, False])
def test_long_groups_are_summed_in_pieces(sizes: list[int], has_order: bool, monkeypatch) -> None:
    monkeypatch.setattr(segments, "_LONG", 64)
    monkeypatch.setattr(segments, "_PIECE", 16)
    torch.manual_seed(0)
    rows = torch.randn(sum(sizes), 70)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    order = torch.randperm(len(rows)) if has_order else torch.arange(len(rows))
    group = torch.repeat_interleave(torch.tensor(sizes))
    launches = Launches(segments._sum_pieces)
    monkeypatch.setattr(segments, "_sum_pieces", launches)
    arguments = rows.to(DEVICE), ptr.to(DEVICE), order.to(DEVICE) if has_order else None
    expected = torch.zeros(len(sizes), 70).index_add(0, group, rows[order])
    assert torch.allclose(segments.sum_rows(*arguments).cpu(), expected, atol=1e-5)
    assert launches.number == 1
    assert torch.allclose(segments.sum_rows(*arguments, longest=64).cpu(), expected, atol=1e-5)
    assert launches.number == 1  # no group was said to be long


class Launches:
    """A kernel that counts its launches."""

    def __init__(self, kernel) -> None:
        self.kernel, self.number = kernel, 0

    def __getitem__(self, grid):
        self.number += 1
        return self.kernel[grid]


def test_the_mean_of_windows_at_a_hub(monkeypatch) -> None:
    leaves = torch.arange(1, 30)
    star = Graph.from_edge_index(torch.stack([torch.zeros_like(leaves), leaves]), 30, undirected=True)
    walks = sample_walks(star, 20, window_size=4, seed=0)
    visits = walks.groups_of_nodes(30)
    num_windows = walks.nodes.shape[1] - 4
    windows = torch.randn(len(walks) * num_windows, 20, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    on_device = Groups(visits.order.to(DEVICE), visits.ptr.to(DEVICE))
    whole = segments.mean_windows(windows, on_device, walks.nodes.shape[1], 5)
    monkeypatch.setattr(segments, "_LONG", 64)
    monkeypatch.setattr(segments, "_PIECE", 16)
    pieces = segments.mean_windows(windows, on_device, walks.nodes.shape[1], 5)
    assert torch.allclose(whole[0], pieces[0], atol=1e-5)
    assert torch.equal(whole[1], pieces[1])
    assert torch.equal(whole[2], pieces[2])
    centre = walks.nodes[:, 2:-2].flatten()
    expected = torch.zeros(30, 20).index_add(0, centre, windows.cpu().relu()) / centre.bincount(minlength=30).clamp_min(
        1
    ).unsqueeze(1)
    assert torch.allclose(pieces[0].cpu(), expected, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "tf32"] if ON_GPU else ["float32"])
@pytest.mark.parametrize(("height", "depth", "width"), [(1, 1, 1), (33, 40, 35), (5, 300, 31), (70, 0, 3), (0, 4, 4)])
@pytest.mark.parametrize("form", ["plain", "transposed", "added", "wider"])
def test_products(height: int, depth: int, width: int, form: str, precision: str) -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(depth, height).t(), torch.randn(depth, width), torch.randn(height, width)
    if form == "transposed":
        a, b = a.contiguous(), b.t().contiguous().t()
    add = c.to(DEVICE) if form == "added" else None
    wider = width + 5 if form == "wider" else 0
    found = products.product(a.to(DEVICE), b.to(DEVICE), precision, add=add, width=wider).cpu()
    expected = a.double() @ b.double() + (c.double() if form == "added" else 0)
    assert_close(found[:, :width], expected, precision)
    assert not found[:, width:].any()


@pytest.mark.parametrize("num_real", [0, 3, 5])
def test_what_a_graph_says_to_its_nodes(num_real: int) -> None:
    rows, groups = torch.randn(3, 37), torch.tensor([0, 0, 1, 1, 2], dtype=torch.int32)
    count = torch.tensor([num_real], dtype=torch.int32)
    found = segments.spread_rows(rows.to(DEVICE), groups.to(DEVICE), count.to(DEVICE)).cpu()
    assert torch.equal(found[:num_real], rows[groups[:num_real].long()])
    assert not found[num_real:].any()
