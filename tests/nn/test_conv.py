"""The CRaWl layer: against loops written by hand, fast against reference, its invariances and its refusals."""

import copy
import math
import pickle
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from crawl import CRaWlConv, Graph, Walks, sample_walks
from crawl.nn import Rows
from crawl.nn.norm import BatchNorm
from crawl.ops import cpu, walk_conv
from crawl.ops import walks as walk_ops

# The largest difference, relative to the largest value expected, or to 1 where all are smaller. The gradients count as
# one vector, since some of them (of a weight whose scale a norm takes out) are sums of terms that cancel.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
each_mode = pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
each_implementation = pytest.mark.parametrize("implementation", ["fast", "reference"])


def make_graph(edges: list[tuple[int, int]], num_nodes: int) -> Graph:
    return Graph.from_edge_index(torch.tensor(edges).t(), num_nodes, undirected=True)


def odd_graph() -> Graph:
    """A square with a diagonal, a triple edge, self-loops, two leaves, a triangle and two isolated nodes."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 2), (1, 2), (2, 2), (3, 3), (3, 4), (0, 6)]
    return make_graph([*edges, (7, 8), (8, 9), (9, 7)], 11)


def ring(num_nodes: int) -> Graph:
    return make_graph([(i, (i + 1) % num_nodes) for i in range(num_nodes)], num_nodes)


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def no_walks(num_steps: int = 12, window_size: int = 8) -> Walks:
    return sample_walks(Graph.from_edge_index(torch.empty(2, 0)), num_steps, window_size=window_size)


def make_conv(in_channels: int, out_channels: int, dtype: torch.dtype = torch.float32, **options: object) -> CRaWlConv:
    """A layer whose norms are not the identity."""
    torch.manual_seed(3)
    conv = CRaWlConv(in_channels, out_channels, **options).to(dtype)
    for norm in conv.modules():
        if isinstance(norm, BatchNorm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias)
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return conv


def results(conv: CRaWlConv, x: Tensor, walks: Walks, edge_attr: Tensor | None = None) -> dict[str, Tensor]:
    """The output, all gradients and all running statistics after one pass. A gradient that is None counts as zeros."""
    conv = copy.deepcopy(conv)
    inputs = {"x": x, "edge_attr": edge_attr, **dict(conv.named_parameters())}
    inputs = {name: tensor for name, tensor in inputs.items() if tensor is not None}
    x = inputs["x"] = x.clone().requires_grad_()
    if edge_attr is not None:
        edge_attr = inputs["edge_attr"] = edge_attr.clone().requires_grad_()
    out = conv(x, walks, edge_attr)
    (out * random(*out.shape, dtype=out.dtype, seed=99)).sum().backward()
    grads = {f"grad of {k}": torch.zeros_like(v) if v.grad is None else v.grad for k, v in inputs.items()}
    return {"out": out.detach(), **grads, **{f"buffer {k}": v for k, v in conv.named_buffers()}}


def largest(*tensors: Tensor) -> float:
    return max([1.0, *(float(tensor.detach().abs().max()) for tensor in tensors if tensor.numel())])


def assert_close(found: Tensor, expected: Tensor, name: str = "", scale: float | None = None) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
    if not expected.is_floating_point():
        assert torch.equal(found, expected), name
    elif expected.numel():
        difference = float((found - expected).detach().abs().max()) / (scale or largest(expected))
        assert difference <= TOLERANCE[expected.dtype], f"{name} differs by {difference:.1e}"


def assert_equals_reference(conv: CRaWlConv, x: Tensor, walks: Walks, edge_attr: Tensor | None = None) -> None:
    twin = copy.deepcopy(conv)
    twin.implementation = "reference"
    found, expected = results(conv, x, walks, edge_attr), results(twin, x, walks, edge_attr)
    assert found.keys() == expected.keys()
    gradient = largest(*(tensor for name, tensor in expected.items() if name.startswith("grad")))
    for name in expected:
        assert_close(found[name], expected[name], name, gradient if name.startswith("grad") else None)


@pytest.fixture(params=["numba", "torch"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either of the two ways in which `fast` computes."""
    if request.param == "torch":
        monkeypatch.setattr(walk_conv, "fast_module", lambda *_: None)


# ---- fast equals reference


@each_dtype
@each_mode
@pytest.mark.parametrize("edge_dim", [0, 3])
@pytest.mark.parametrize(("identity", "adjacency"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("window_size", [0, 2, 8, 16, 32])
def test_fast_equals_reference(
    window_size: int, identity: bool, adjacency: bool, edge_dim: int, training: bool, dtype: torch.dtype
) -> None:
    conv = make_conv(
        4, 6, dtype=dtype, edge_dim=edge_dim, window_size=window_size, identity=identity, adjacency=adjacency
    ).train(training)
    graph = odd_graph()
    walks = sample_walks(graph, window_size + 10, window_size=window_size, seed=5)
    edge_attr = random(graph.num_edges, edge_dim, dtype=dtype, seed=1) if edge_dim else None
    assert_equals_reference(conv, random(graph.num_nodes, 4, dtype=dtype), walks, edge_attr)


@pytest.mark.usefixtures("path")
@each_dtype
@each_mode
@pytest.mark.parametrize("padding", [False, True])
def test_fast_equals_reference_without_norms(padding: bool, training: bool, dtype: torch.dtype) -> None:
    conv = make_conv(4, 6, dtype=dtype, window_size=4, padding=padding, has_norms=False).train(training)
    with torch.no_grad():
        for norm in (conv.norm, conv.update[1]):
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_()
    graph = odd_graph()
    walks = sample_walks(graph, 9, window_size=4, seed=5)
    assert_equals_reference(conv, random(graph.num_nodes, 4, dtype=dtype), walks, None)
    assert not any(isinstance(module, torch.nn.BatchNorm1d) for module in conv.modules())


@pytest.mark.usefixtures("path")
@each_dtype
@each_mode
@pytest.mark.parametrize("channels", [1, 5, 16, 33, 147])
def test_any_number_of_channels(channels: int, training: bool, dtype: torch.dtype) -> None:
    conv = make_conv(3, channels, dtype=dtype, edge_dim=2).train(training)
    graph = odd_graph()
    walks = sample_walks(graph, 20, seed=2)
    assert_equals_reference(
        conv, random(graph.num_nodes, 3, dtype=dtype), walks, random(graph.num_edges, 2, dtype=dtype, seed=1)
    )


@pytest.mark.usefixtures("path")
@each_dtype
@each_mode
@pytest.mark.parametrize(("window_size", "kernel_size"), [(16, 9), (8, 1), (8, 3), (8, 5), (8, 7), (1, 1), (0, 9)])
def test_any_kernel_size(window_size: int, kernel_size: int, training: bool, dtype: torch.dtype) -> None:
    conv = make_conv(4, 4, dtype=dtype, window_size=window_size, kernel_size=kernel_size).train(training)
    walks = sample_walks(odd_graph(), 17, window_size=window_size, seed=2)
    assert_equals_reference(conv, random(11, 4, dtype=dtype), walks)


@pytest.mark.usefixtures("path")
@each_mode
@pytest.mark.parametrize(("num_walks", "num_steps"), [(0, 8), (1, 8), (2, 8), (1, 9), (1, 10), (1, 30)])
def test_few_windows(num_walks: int, num_steps: int, training: bool) -> None:
    """None, or one (a batch without a variance), or some. Float64, as norms of two values amplify every rounding."""
    graph, dtype = odd_graph(), torch.float64
    walks = sample_walks(graph, num_steps, start=torch.arange(num_walks), seed=1)
    conv = make_conv(3, 5, dtype=dtype, edge_dim=1).train(training)
    assert_equals_reference(conv, random(11, 3, dtype=dtype), walks, random(graph.num_edges, 1, dtype=dtype, seed=1))


@each_dtype
@each_mode
def test_windows_in_pieces(training: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fit in the cache at once; the last piece is smaller."""
    monkeypatch.setattr(cpu, "_PIECE", 1000)
    graph = ring(130)
    conv = make_conv(8, 24, dtype=dtype, edge_dim=2).train(training)
    x, edge_attr = random(130, 8, dtype=dtype), random(130, 2, dtype=dtype, seed=1)
    assert_equals_reference(conv, x, sample_walks(graph, 50, seed=1), edge_attr)


@pytest.mark.usefixtures("path")
def test_inputs_that_are_views() -> None:
    graph = odd_graph()
    x, edge_attr = random(4, 11).t(), random(2 * graph.num_edges, 2)[::2]
    assert not x.is_contiguous()
    assert not edge_attr.is_contiguous()
    assert_equals_reference(make_conv(4, 5, edge_dim=2), x, sample_walks(graph, 12), edge_attr)


def test_variance_beside_a_large_mean() -> None:
    """Compared to the truth in float64."""
    conv = make_conv(3, 8, identity=False, adjacency=False)
    x, walks = random(11, 3) + 100, sample_walks(odd_graph(), 30)
    expected = results(copy.deepcopy(conv).double(), x.double(), walks)
    found = results(conv, x, walks)
    for name in ("out", "buffer norm.running_mean", "buffer norm.running_var"):
        assert_close(found[name], expected[name].float(), name)


@pytest.mark.usefixtures("path")
@each_mode
def test_gradients_are_derivatives(training: bool) -> None:
    graph = odd_graph()
    conv = make_conv(2, 3, dtype=torch.float64, edge_dim=1, window_size=2).train(training)
    walks = sample_walks(graph, 4, window_size=2, seed=1)
    names = list(dict(conv.named_parameters()))
    inputs = [random(11, 2, dtype=torch.float64), random(graph.num_edges, 1, dtype=torch.float64, seed=1)]
    inputs += [parameter.detach().clone() for parameter in conv.parameters()]

    def layer(x: Tensor, edge_attr: Tensor, *parameters: Tensor) -> Tensor:
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(conv, weights, (x, walks, edge_attr))

    assert torch.autograd.gradcheck(layer, [tensor.requires_grad_() for tensor in inputs])


def rings(count: int, num_nodes: int) -> Graph:
    """Rings of `num_nodes` side by side, as in a batch."""
    node = torch.arange(count * num_nodes)
    after = node // num_nodes * num_nodes + (node + 1) % num_nodes
    return Graph.from_edge_index(torch.stack([node, after]), undirected=True, batch=node // num_nodes)


@each_mode
@each_dtype
@pytest.mark.parametrize("graph", [ring(130), rings(13, 10), rings(2, 65)], ids=["one graph", "small", "large graphs"])
def test_two_threads_change_no_bit(graph: Graph, dtype: torch.dtype, training: bool) -> None:
    """Along the walks; torch's own norm of the nodes is not that strict."""
    walks = sample_walks(graph, 50, seed=1)

    def computed(num_threads: int) -> list[Tensor]:
        torch.set_num_threads(num_threads)
        conv = make_conv(20, 147, dtype=dtype, edge_dim=2).train(training)
        x = random(130, 20, dtype=dtype).requires_grad_()
        edge_attr = random(130, 2, dtype=dtype, seed=1).requires_grad_()
        pooled, _ = conv.pooled(x, walks, edge_attr)
        weights = [conv.project.weight, conv.depthwise.weight, conv.norm.weight, conv.norm.bias, conv.mix.weight]
        grads = torch.autograd.grad((pooled * random(130, 147, dtype=dtype)).sum(), [x, edge_attr, *weights])
        return [pooled, *grads, conv.norm.running_mean, conv.norm.running_var]

    for found, expected in zip(computed(num_threads=2), computed(num_threads=1), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(("count", "num_nodes", "is_separate"), [(1, 130, False), (13, 10, True), (2, 500, False)])
def test_parts_of_a_batch_that_share_no_node(count: int, num_nodes: int, is_separate: bool) -> None:
    walks = sample_walks(rings(count, num_nodes), 50, seed=1)
    centres = walks.nodes[:, 4:-4]
    parts = cpu._separate_parts(walks, centres.numel())
    assert (parts is not None) == is_separate
    if parts is not None:
        assert len(parts) > 1
        assert torch.equal(torch.cat([centres.flatten()[part] for part in parts]), centres.flatten())
        visited = [set(centres.flatten()[part].tolist()) for part in parts]
        assert sum(map(len, visited)) == len(set().union(*visited))


# ---- padding, and pooling into edges


def pooled_results(conv: CRaWlConv, x: Tensor, walks: Walks, edge_attr: Tensor | None) -> dict[str, Tensor]:
    """p(v), p(e), all gradients and the running statistics."""
    conv = copy.deepcopy(conv)
    x = x.clone().requires_grad_()
    edge_attr = None if edge_attr is None else edge_attr.clone().requires_grad_()
    of_nodes, of_edges = conv.pooled(x, walks, edge_attr, into_edges=True)
    loss = sum((out * random(*out.shape, dtype=out.dtype, seed=i)).sum() for i, out in enumerate((of_nodes, of_edges)))
    loss.backward()
    found = {"p(v)": of_nodes, "p(e)": of_edges, "grad of x": x.grad}
    if edge_attr is not None:
        found["grad of edge_attr"] = edge_attr.grad
    found |= {f"grad of {name}": p.grad for name, p in conv.named_parameters() if p.grad is not None}
    return found | dict(conv.norm.named_buffers())


@pytest.mark.usefixtures("path")
@each_dtype
@each_mode
@pytest.mark.parametrize("edge_dim", [0, 2])
@pytest.mark.parametrize(
    ("padding", "kernel_size", "num_steps"),
    [(False, 5, 12), (False, 1, 6), (True, 5, 12), (True, 1, 6), (True, 9, 3), (True, 17, 40)],
)
def test_pooling_into_edges_and_padding(
    padding: bool, kernel_size: int, num_steps: int, edge_dim: int, training: bool, dtype: torch.dtype
) -> None:
    graph = odd_graph()
    walks = sample_walks(graph, num_steps, window_size=4, seed=2)
    conv = make_conv(
        3, 5, dtype=dtype, edge_dim=edge_dim, window_size=4, kernel_size=kernel_size, padding=padding
    ).train(training)  # fmt: skip
    twin = copy.deepcopy(conv)
    twin.implementation = "reference"
    edge_attr = random(graph.num_edges, edge_dim, dtype=dtype, seed=1) if edge_dim else None
    found, expected = (pooled_results(each, random(11, 3, dtype=dtype), walks, edge_attr) for each in (conv, twin))
    assert found.keys() == expected.keys()
    gradient = largest(*(tensor for name, tensor in expected.items() if name.startswith("grad")))
    for name in expected:
        assert_close(found[name], expected[name], name, gradient if name.startswith("grad") else None)


@pytest.mark.usefixtures("path")
@each_dtype
@each_mode
@pytest.mark.parametrize("edge_dim", [0, 1, 2])
@pytest.mark.parametrize("padding", [True, False])
def test_fast_equals_reference_on_walks_that_jump(
    padding: bool, edge_dim: int, training: bool, dtype: torch.dtype
) -> None:
    graph = odd_graph()
    walks = sample_walks(graph, 14, "restart", window_size=4, seed=2, restart=0.3)
    conv = make_conv(3, 5, dtype, edge_dim=edge_dim, window_size=4, padding=padding, jumps=True).train(training)
    x = random(graph.num_nodes, 3, dtype=dtype)
    edge_attr = random(graph.num_edges, edge_dim, dtype=dtype, seed=1) if edge_dim > 1 else None
    assert_equals_reference(conv, x, walks, edge_attr)
    slow = copy.deepcopy(conv)
    slow.implementation = "reference"
    found, expected = (pooled_results(each, x, walks, edge_attr) for each in (conv, slow))
    for name, value in expected.items():
        assert_close(found[name], value, name, scale=max(largest(value), 1.0))


def test_features_of_a_jump_by_hand() -> None:
    """The walk 0 → 1 → 2, a jump to 0, then → 1: there the edge features are 0 and the flag is 1."""
    graph = make_graph([(0, 1), (1, 2)], 3)
    walks = Walks.from_nodes(graph, torch.tensor([[0, 1, 2, 1, 0]]), window_size=2)
    nodes, edges = torch.tensor([[0, 1, 2, 0, 1]]).int(), torch.tensor([[0, 1, 2, 0]]).int()
    code = torch.tensor([[0, 0, 0, 0, 0]]).short()
    walks = replace(walks, nodes=nodes, edges=edges, code=code, has_jumps=True)
    conv = CRaWlConv(1, 1, edge_dim=1, window_size=2, jumps=True)
    features = conv.walk_features(torch.tensor([[10.0], [11.0], [12.0]]), walks, torch.tensor([[5.0], [6.0]]))
    assert features[0, :, :3].tolist() == [[10, 0, 0], [11, 5, 0], [12, 6, 0], [10, 0, 1], [11, 5, 0]]


@each_implementation
def test_a_layer_without_the_flag_refuses_walks_that_jump(implementation: str) -> None:
    graph = ring(6)
    walks = sample_walks(graph, 12, "restart")
    conv = CRaWlConv(1, 2, edge_dim=1, implementation=implementation)
    with pytest.raises(ValueError, match="These walks jump, so give the layer jumps=True"):
        conv(random(6, 1), walks, random(6, 1))
    with pytest.raises(ValueError, match="jumps must be True or False, not 2"):
        CRaWlConv(1, 2, jumps=2)


@each_implementation
def test_a_layer_with_the_flag_takes_walks_that_do_not_jump(implementation: str) -> None:
    graph, x, edge_attr = ring(6), random(6, 1), random(6, 1, seed=2)
    conv = make_conv(1, 2, edge_dim=1, jumps=True, implementation=implementation).eval()
    plain = make_conv(1, 2, edge_dim=1, implementation=implementation).eval()
    weights = conv.state_dict()
    weights["project.weight"] = torch.cat([weights["project.weight"][:, :2], weights["project.weight"][:, 3:]], dim=1)
    plain.load_state_dict(weights)
    walks = sample_walks(graph, 12)
    assert_close(conv(x, walks, edge_attr).detach(), plain(x, walks, edge_attr).detach())


@each_dtype
@pytest.mark.parametrize("padding", [True, False])
def test_pooling_into_edges_in_pieces_and_threads(padding: bool, dtype: torch.dtype) -> None:
    """Small graphs, whose parts are pooled one by one, and one large graph; two threads change no bit."""
    for graph in (rings(13, 10), ring(130)):
        walks, edge_attr = sample_walks(graph, 50, seed=1), random(130, 2, dtype=dtype, seed=1)
        conv = make_conv(4, 20, dtype=dtype, edge_dim=2, padding=padding)
        twin = copy.deepcopy(conv)
        twin.implementation = "reference"
        results = []
        for num_threads in (1, 2):
            torch.set_num_threads(num_threads)
            results.append(pooled_results(conv, random(130, 4, dtype=dtype), walks, edge_attr))
        torch.set_num_threads(1)
        expected = pooled_results(twin, random(130, 4, dtype=dtype), walks, edge_attr)
        for name in ("p(v)", "p(e)"):
            assert torch.equal(results[0][name], results[1][name]), name
            assert_close(results[0][name], expected[name], name)


@each_implementation
def test_padded_windows_by_hand(implementation: str) -> None:
    """Every weight is 1, so a window is the sum of what it sees, zeros beyond both ends, up to the norm."""
    walk = [0, 1, 2, 1]
    walks = Walks.from_nodes(make_graph([(0, 1), (1, 2)], 3), torch.tensor([walk]), window_size=0)
    conv = CRaWlConv(1, 1, window_size=0, kernel_size=3, padding=True, implementation=implementation).double().eval()
    with torch.no_grad():
        for weight in (conv.project.weight, conv.depthwise.weight, conv.mix.weight):
            weight.fill_(1)
    value = [1.0, 10.0, 100.0]
    along = [0.0, *(value[v] for v in walk), 0.0]
    windows = [sum(along[i : i + 3]) / math.sqrt(1 + conv.norm.eps) for i in range(4)]
    of_nodes, of_edges = conv.pooled(torch.tensor(value).double().unsqueeze(1), walks, into_edges=True)
    expected = [windows[0], (windows[1] + windows[3]) / 2, windows[2]]
    assert_close(of_nodes, torch.tensor(expected, dtype=torch.float64).unsqueeze(1))
    assert_close(of_edges, torch.tensor([[windows[1]], [(windows[2] + windows[3]) / 2]], dtype=torch.float64))


@each_implementation
def test_walks_shorter_than_a_window_need_padding(implementation: str) -> None:
    x, walks = random(11, 3), sample_walks(odd_graph(), 2)
    with pytest.raises(ValueError, match=r"of 2 steps are shorter .* at least 8 steps, or give the layer padding=True"):
        make_conv(3, 5, implementation=implementation)(x, walks)
    conv = make_conv(3, 5, implementation=implementation, padding=True)
    assert conv(x, walks).shape == (11, 5)
    assert list(conv.state_dict()) == list(make_conv(3, 5).state_dict())


def test_pooling_into_edges_needs_their_number() -> None:
    walks, conv = sample_walks(odd_graph(), 12), make_conv(3, 5)
    with pytest.raises(ValueError, match="how many edges there are: give Walks num_edges"):
        conv.pooled(random(11, 3), replace(walks, num_edges=None), into_edges=True)
    assert conv.pooled(random(11, 3), walks)[1] is None


# ---- both are the layer of the paper


def features_by_hand(
    x: list[list[float]], walk: list[int], edges: dict[tuple[int, int], list[float]], window_size: int
) -> list[list[float]]:
    """The walk feature matrix; `edges` holds both directions."""
    rows = []
    for i, v in enumerate(walk):
        edge = edges[walk[i - 1], v] if i > 0 else [0.0] * len(next(iter(edges.values())))
        identity = [float(i - j >= 0 and walk[i - j] == v) for j in range(1, window_size + 1)]
        adjacency = [float(i - j >= 0 and (walk[i - j], v) in edges) for j in range(2, window_size + 1)]
        rows.append(x[v] + edge + identity + adjacency)
    return rows


def matmul_by_hand(rows: list[list[float]], weight: list[list[float]]) -> list[list[float]]:
    return [[sum(w * value for w, value in zip(column, row, strict=True)) for column in weight] for row in rows]


def norm_by_hand(rows: list[list[float]], norm: BatchNorm) -> list[list[float]]:
    columns = []
    gammas, betas = norm.weight.tolist(), norm.bias.tolist()
    for c, column in enumerate(zip(*rows, strict=True)):
        mean, var = float(norm.running_mean[c]), float(norm.running_var[c])
        if norm.training:
            mean = sum(column) / len(column)
            var = sum((value - mean) ** 2 for value in column) / len(column)
        columns.append([(value - mean) / math.sqrt(var + norm.eps) * gammas[c] + betas[c] for value in column])
    return [list(row) for row in zip(*columns, strict=True)]


def relu_by_hand(rows: list[list[float]]) -> list[list[float]]:
    return [[max(value, 0.0) for value in row] for row in rows]


def layer_by_hand(
    conv: CRaWlConv, x: list[list[float]], walk: list[int], edges: dict[tuple[int, int], list[float]]
) -> list[list[float]]:
    size = conv.kernel_size
    features = features_by_hand(x, walk, edges, conv.window_size)
    projected = matmul_by_hand(features, conv.project.weight[:, :, 0].tolist())
    kernel = conv.depthwise.weight[:, 0].tolist()
    windows = [
        [sum(kernel[c][k] * projected[t + k][c] for k in range(size)) for c in range(conv.out_channels)]
        for t in range(len(walk) - size + 1)
    ]
    hidden = relu_by_hand(norm_by_hand(windows, conv.norm))
    mixed = relu_by_hand(matmul_by_hand(hidden, conv.mix.weight[:, :, 0].tolist()))
    pooled = []
    for v in range(len(x)):
        centred = [mixed[t] for t in range(len(mixed)) if walk[t + size // 2] == v]
        pooled.append([sum(column) / len(centred) for column in zip(*centred, strict=True)] or [0.0] * len(mixed[0]))
    first, norm, _, second = conv.update
    update = relu_by_hand(norm_by_hand(matmul_by_hand(pooled, first.weight.tolist()), norm))
    update = matmul_by_hand(update, second.weight.tolist())
    residual = x if isinstance(conv.residual, nn.Identity) else matmul_by_hand(x, conv.residual.weight.tolist())
    return [[a + b for a, b in zip(old, new, strict=True)] for old, new in zip(residual, update, strict=True)]


@each_mode
@each_implementation
@pytest.mark.parametrize(("window_size", "kernel_size"), [(2, None), (4, 3), (2, 5)])
@pytest.mark.parametrize("in_channels", [2, 3])
def test_one_walk_by_hand(
    in_channels: int, window_size: int, kernel_size: int | None, implementation: str, training: bool
) -> None:
    """A triangle with a tail, a self-loop and an isolated node; with loops over Python's own numbers."""
    columns = [(0, 1), (1, 2), (2, 0), (1, 3), (3, 3), (3, 4)]
    walk = [0, 1, 2, 0, 1, 3, 3, 4, 3, 1, 2, 0]
    edge_attr, x = random(len(columns), 2, dtype=torch.float64, seed=1), random(6, in_channels, dtype=torch.float64)
    edges = {(u, v): edge_attr[i].tolist() for i, (u, v) in enumerate(columns)}
    edges |= {(v, u): attributes for (u, v), attributes in edges.items()}
    conv = make_conv(
        in_channels, 3, dtype=torch.float64, edge_dim=2, window_size=window_size, kernel_size=kernel_size,
        implementation=implementation,
    ).train(training)  # fmt: skip
    expected = layer_by_hand(conv, x.tolist(), walk, edges)
    walks = Walks.from_nodes(make_graph(columns, 6), torch.tensor([walk]), window_size)
    assert_close(conv(x, walks, edge_attr), torch.tensor(expected, dtype=torch.float64))


def test_feature_matrix_by_hand() -> None:
    graph = make_graph([(0, 1), (1, 2), (2, 0), (2, 3)], 4)
    walks = Walks.from_nodes(graph, torch.tensor([[0, 1, 2, 0, 2, 3]]), window_size=3)
    x = torch.tensor([[10.0], [11.0], [12.0], [13.0]])
    edge_attr = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    conv = CRaWlConv(1, 2, edge_dim=1, window_size=3, kernel_size=3)
    features = conv.walk_features(x, walks, edge_attr)
    #  node edge  same as 1, 2, 3 back  joined to 2, 3 back
    expected = [
        [10, 0, 0, 0, 0, 0, 0],
        [11, 1, 0, 0, 0, 0, 0],
        [12, 2, 0, 0, 0, 1, 0],
        [10, 3, 0, 0, 1, 1, 0],
        [12, 3, 0, 1, 0, 0, 1],
        [13, 4, 0, 0, 0, 0, 1],
    ]
    assert features.tolist() == [expected]
    only_adjacent = CRaWlConv(1, 2, edge_dim=1, window_size=3, kernel_size=3, identity=False)
    assert only_adjacent.walk_features(x, walks).tolist() == [[[row[0], 0, *row[5:]] for row in expected]]


@each_mode
@each_implementation
def test_relabelling_nodes_and_edges_relabels_the_output(implementation: str, training: bool) -> None:
    columns = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 3), (3, 4), (5, 6)]
    graph = make_graph(columns, 8)
    x, edge_attr = random(8, 3, dtype=torch.float64), random(len(columns), 2, dtype=torch.float64, seed=1)
    conv = make_conv(3, 5, dtype=torch.float64, edge_dim=2, implementation=implementation).train(training)
    walks = sample_walks(graph, 15)
    out = conv(x, walks, edge_attr)

    generator = torch.Generator().manual_seed(0)
    node, edge = torch.randperm(8, generator=generator), torch.randperm(len(columns), generator=generator)
    relabelled = make_graph([(int(node[columns[i][0]]), int(node[columns[i][1]])) for i in edge], 8)
    old = torch.argsort(node)
    new_walks = Walks.from_nodes(relabelled, node[walks.nodes], window_size=8)
    assert_close(conv(x[old], new_walks, edge_attr[edge]), out[old])


@each_implementation
def test_order_of_walks_does_not_matter(implementation: str) -> None:
    conv, x, walks = make_conv(3, 5, implementation=implementation), random(11, 3), sample_walks(odd_graph(), 15)
    order = torch.randperm(len(walks), generator=torch.Generator().manual_seed(0))
    shuffled = replace(walks, nodes=walks.nodes[order], edges=walks.edges[order], code=walks.code[order])
    assert_close(conv(x, shuffled), conv(x, walks))


@each_implementation
def test_a_node_that_is_no_centre_keeps_its_features_up_to_the_update_of_zero(implementation: str) -> None:
    conv = make_conv(4, 4, implementation=implementation).eval()
    x = random(11, 4)
    update = conv(x, sample_walks(odd_graph(), 15)) - x
    assert_close(update[5], conv.update(torch.zeros(1, 4))[0])  # 5 and 10 are isolated
    assert_close(update[10], update[5])
    assert not torch.allclose(update[0], update[5])


@each_implementation
@pytest.mark.parametrize("larger", [9, 16, 32])
@pytest.mark.parametrize(("identity", "adjacency"), [(True, True), (True, False), (False, True)])
def test_walks_may_see_further_than_the_layer(
    larger: int, identity: bool, adjacency: bool, implementation: str
) -> None:
    conv = make_conv(3, 5, identity=identity, adjacency=adjacency, implementation=implementation)
    x = random(11, 3)
    expected = conv(x, sample_walks(odd_graph(), 40, window_size=8))
    assert_close(conv(x, sample_walks(odd_graph(), 40, window_size=larger)), expected)


@each_implementation
def test_without_bits_no_window_is_needed(implementation: str) -> None:
    conv = make_conv(3, 5, identity=False, adjacency=False, implementation=implementation)
    x = random(11, 3)
    expected = conv(x, sample_walks(odd_graph(), 12, window_size=8))
    assert_close(conv(x, sample_walks(odd_graph(), 12, window_size=0)), expected)


@pytest.mark.parametrize(
    ("options", "num_features"),
    [
        ({}, 3 + 15),
        ({"edge_dim": 2}, 3 + 2 + 15),
        ({"identity": False}, 3 + 7),
        ({"adjacency": False}, 3 + 8),
        ({"identity": False, "adjacency": False}, 3),
        ({"window_size": 0}, 3),
        ({"window_size": 1, "kernel_size": 1}, 3 + 1),
        ({"window_size": 16, "kernel_size": 9}, 3 + 31),
    ],
)
def test_only_the_bits_in_use_have_weights(options: dict[str, object], num_features: int) -> None:
    conv = CRaWlConv(3, 5, **options)
    assert conv.project.weight.shape == (5, num_features, 1)
    assert conv.depthwise.weight.shape == (5, 1, options.get("kernel_size", options.get("window_size", 8) + 1))


# ---- as a module


def test_both_implementations_share_weights() -> None:
    one, other = make_conv(3, 5, edge_dim=2), CRaWlConv(3, 5, edge_dim=2, implementation="reference")
    assert list(one.state_dict()) == list(other.state_dict())
    other.load_state_dict(one.state_dict())
    graph = odd_graph()
    walks, edge_attr = sample_walks(graph, 12), random(graph.num_edges, 2, seed=1)
    assert_close(one(random(11, 3), walks, edge_attr), other(random(11, 3), walks, edge_attr))


@each_implementation
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda conv: pickle.loads(pickle.dumps(conv))])
def test_copies_compute_the_same(copied, implementation: str) -> None:
    conv = make_conv(3, 5, implementation=implementation)
    x, walks = random(11, 3), sample_walks(odd_graph(), 12)
    assert torch.equal(copied(conv)(x, walks), conv(x, walks))


@each_implementation
def test_inputs_are_only_read(implementation: str) -> None:
    graph = odd_graph()
    x, edge_attr, walks = random(11, 3), random(graph.num_edges, 2, seed=1), sample_walks(graph, 12)
    tensors = [x, edge_attr, walks.nodes, walks.edges, walks.code]
    before = [tensor.clone() for tensor in tensors]
    results(make_conv(3, 5, edge_dim=2, implementation=implementation), x, walks, edge_attr)
    assert all(torch.equal(a, b) for a, b in zip(tensors, before, strict=True))


@each_implementation
def test_nothing_random_about_given_walks(implementation: str) -> None:
    conv, x, walks = make_conv(3, 5, implementation=implementation), random(11, 3), sample_walks(odd_graph(), 12)
    for name, tensor in results(conv, x, walks).items():
        assert torch.equal(results(conv, x, walks)[name], tensor), name


@each_implementation
def test_inference_mode(implementation: str) -> None:
    conv, x, walks = make_conv(3, 5, implementation=implementation).eval(), random(11, 3), sample_walks(odd_graph(), 12)
    with torch.inference_mode():
        out = conv(x, walks)
    assert torch.equal(out, conv(x, walks))


@each_implementation
def test_nan_goes_where_its_walks_go(implementation: str) -> None:
    conv = make_conv(3, 5, implementation=implementation).eval()
    x = random(11, 3)
    x[0] = math.nan
    out = conv(x, sample_walks(odd_graph(), 12))
    assert out[:5].isnan().all()  # the square and its first leaf
    assert not out[[5, 7, 8, 9, 10]].isnan().any()  # the triangle and the isolated nodes


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision(dtype: torch.dtype) -> None:
    """Such weights take the way through plain torch."""
    conv, x, walks = make_conv(3, 5), random(11, 3), sample_walks(odd_graph(), 12)
    out = copy.deepcopy(conv).to(dtype)(x.to(dtype), walks)
    assert out.dtype == dtype
    assert torch.allclose(out.float(), conv(x, walks), atol=0.2)


def test_says_what_it_is() -> None:
    assert "kernel_size=9, padding=True" in repr(CRaWlConv(3, 5, padding=True))
    assert "3, 5, edge_dim=2, window_size=16, kernel_size=9" in repr(
        CRaWlConv(3, 5, edge_dim=2, window_size=16, kernel_size=9)
    )


# ---- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_channels": 0}, "in_channels must be a whole number from 1 to .*, not 0"),
        ({"out_channels": 0}, "out_channels must be a whole number from 1 to .*, not 0"),
        ({"edge_dim": -1}, "edge_dim must be a whole number from 0 to .*, not -1"),
        ({"window_size": 7}, "kernel_size must be odd.*not 8.*choose an even window_size"),
        ({"kernel_size": 4}, "kernel_size must be odd.*not 4"),
        ({"kernel_size": -1}, "kernel_size must be a whole number from 1 to .*, not -1"),
        ({"window_size": 33}, "window_size must be a whole number from 0 to 32, not 33"),
        ({"window_size": -1}, "window_size must be"),
        ({"implementation": "slow"}, "implementation must be one of fast, reference, not 'slow'"),
    ],
)
def test_bad_layers_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CRaWlConv(**{"in_channels": 3, "out_channels": 5, **options})


@each_implementation
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.zeros(11)}, r"x must be floating-point .* \[rows, 3\], not torch.float32 of shape \[11\]"),
        ({"x": torch.zeros(11, 4)}, r"x must be .* \[11, 4\]"),
        ({"x": torch.zeros(11, 3).long()}, "x must be floating-point .* torch.int64"),
        ({"x": torch.zeros(9, 3)}, "x has 9 rows, .* graph of 11 nodes: give the features"),
        ({"x": torch.zeros(12, 3)}, "x has 12 rows, .* graph of 11 nodes"),
        ({"x": torch.zeros(0, 3)}, "x has 0 rows"),
        ({"edge_attr": None}, "needs edge_attr with 2 channels"),
        ({"edge_attr": torch.zeros(14)}, r"edge_attr must be .* \[14\]"),
        ({"edge_attr": torch.zeros(14, 3)}, r"edge_attr must be .* \[14, 3\]"),
        ({"edge_attr": torch.zeros(14, 2).long()}, "edge_attr must be floating-point .* torch.int64"),
        ({"edge_attr": torch.zeros(13, 2)}, "edge_attr has 13 rows, .* graph of 14 edges"),
        ({"walks": sample_walks(odd_graph(), 12, window_size=7)}, "see 7 nodes back, the layer needs 8"),
        ({"walks": sample_walks(odd_graph(), 7)}, "of 7 steps are shorter .* 9 nodes: sample at least 8 steps"),
        ({"walks": no_walks(num_steps=7)}, "of 7 steps are shorter"),
        ({"walks": sample_walks(odd_graph(), 12).to("meta")}, "x is on cpu, the walks are on meta"),
    ],
)
def test_bad_inputs_are_refused(changes: dict[str, object], message: str, implementation: str) -> None:
    conv = CRaWlConv(3, 5, edge_dim=2, implementation=implementation)
    walks = sample_walks(odd_graph(), 12, strategy="uniform")
    good = {"x": torch.zeros(11, 3), "walks": walks, "edge_attr": torch.zeros(14, 2)}
    conv(**good)
    with pytest.raises(ValueError, match=message):
        conv(**{**good, **changes})


@pytest.mark.parametrize("num_rows", [2, 0])
def test_walks_that_do_not_know_their_graph_are_looked_at(num_rows: int) -> None:
    walks = replace(sample_walks(ring(3), 10), num_nodes=None, num_edges=None)
    with pytest.raises(ValueError, match=f"nodes 2, but num_nodes is {num_rows}: give .* the features"):
        CRaWlConv(2, 4)(torch.ones(num_rows, 2), walks)
    assert CRaWlConv(2, 4)(torch.ones(4, 2), walks).shape == (4, 4)


def test_walks_below_the_first_row_are_refused() -> None:
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]))
    walks = sample_walks(graph, 10)
    outside = Walks(walks.nodes - 1, walks.edges, walks.code, walks.window_size)
    with pytest.raises(ValueError, match="nodes -1, but num_nodes is 3"):
        CRaWlConv(2, 4)(torch.ones(3, 2), outside)


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_edge_features_that_would_not_be_used_are_refused(implementation: str) -> None:
    conv = make_conv(4, 6, implementation=implementation)
    with pytest.raises(ValueError, match="edge_dim=0 and would not use edge_attr: set edge_dim, or leave it out"):
        conv(torch.ones(11, 4), sample_walks(odd_graph(), 12), torch.ones(14, 3))


# ---- beside other things that torch does


def test_a_call_under_autocast_leaves_no_trace() -> None:
    walk_ops._in_bytes.cache_clear()
    walks = sample_walks(ring(7), 12, seed=1)
    conv, x = make_conv(2, 4).eval(), random(7, 2)
    with torch.autocast("cpu"):
        conv(x, walks)
    assert torch.allclose(conv(x, walks), make_conv(2, 4, implementation="reference").eval()(x, walks), atol=1e-5)


def test_gradient_checkpointing() -> None:
    walks = sample_walks(ring(7), 12, seed=1)
    conv, x = make_conv(2, 4), random(7, 2).requires_grad_()
    (expected,) = torch.autograd.grad(conv(x, walks).square().sum(), x)
    again = checkpoint(conv, x, walks, use_reentrant=False)
    (found,) = torch.autograd.grad(again.square().sum(), x)
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_padding_counts_nowhere(implementation: str) -> None:
    """Walks and nodes that are padding change neither the answer nor the running statistics."""
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 0, 4, 3, 3]]), 5, undirected=True)
    walks = sample_walks(graph, 12, seed=1)
    num_real = int((walks.nodes[:, 0] < 3).sum())
    x = random(5, 2)
    exact, padded = (make_conv(2, 4, implementation=implementation) for _ in range(2))
    padded.load_state_dict(exact.state_dict())
    alone = Walks(walks.nodes[:num_real], walks.edges[:num_real], walks.code[:num_real], 8, 3)
    rows = Rows(5, torch.tensor([3], dtype=torch.int32))
    found = padded(x, replace(walks, num_real=torch.tensor([num_real], dtype=torch.int32)), rows=rows)
    assert torch.allclose(found[:3], exact(x[:3], alone), atol=1e-6)
    for name, buffer in exact.named_buffers():
        assert torch.allclose(padded.get_buffer(name), buffer, atol=1e-6), name
