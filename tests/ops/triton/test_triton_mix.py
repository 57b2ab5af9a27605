"""The last convolution of the walks in one kernel: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from crawl import CRaWlConv, Graph, Walks, sample_walks
from crawl.ops.walk_conv import Weights, centres

pytest.importorskip("triton")
from crawl.ops.triton import mix
from crawl.ops.triton.norm import MEAN, NUM_STATISTICS, RSTD, SCALE, SHIFT
from crawl.ops.triton.products import padded
from crawl.ops.triton.shape import Shape

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}  # |found - expected| / |expected|
WIDTHS = [1, 16, 40, 100, 147]
CASES = [(width, torch.float32) for width in WIDTHS] + [(width, torch.float16) for width in (*WIDTHS, 240)]
if ON_GPU:  # the interpreter does not know bfloat16
    CASES += [(width, torch.bfloat16) for width in WIDTHS]


def weights_of(conv: CRaWlConv) -> Weights:
    weights = (conv.project.weight, conv.depthwise.weight, conv.norm.tensors(), conv.mix.weight)
    return Weights(*weights, conv.bits, conv.padding)


class Problem(NamedTuple):
    """Windows of walks, of which some are padding, and all that is done to them."""

    conv: CRaWlConv
    walks: Walks
    shape: Shape
    windows: Tensor
    statistics: Tensor
    num_real: int

    @classmethod
    def of(cls, width: int, dtype: torch.dtype, num_real: int = 9, *, padding: bool = False) -> Problem:
        torch.manual_seed(0)
        ring = torch.stack([torch.arange(11), (torch.arange(11) + 1) % 11])
        graph = Graph.from_edge_index(ring, num_nodes=11, undirected=True)
        walks = sample_walks(graph, 14, window_size=4, seed=1)
        walks = Walks(walks.nodes, walks.edges, walks.code, 4, num_real=torch.tensor([num_real], dtype=torch.int32))
        conv = CRaWlConv(3, width, window_size=4, kernel_size=5, padding=padding).to(DEVICE)
        walks = walks.to(DEVICE)
        shape = Shape(weights_of(conv), walks, 11)
        storage = torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
        windows = torch.randn(shape.num_windows, shape.stride, device=DEVICE).to(storage)
        statistics = torch.randn(NUM_STATISTICS, shape.stride, device=DEVICE)
        windows[:, width:] = statistics[:, width:] = 0  # as they are after the real channels
        windows[num_real * shape.windows_per_walk :] = torch.nan
        return cls(conv, walks, shape, windows, statistics, num_real * shape.windows_per_walk)

    def matrices(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return padded(self.conv.mix.weight.detach().squeeze(2), self.shape.stride, dtype)

    def row(self, which) -> Tensor:
        return self.statistics[which.value].double()

    @property
    def normed(self) -> Tensor:
        """After the batch norm, of the real windows, in float64."""
        return self.windows[: self.num_real].double() * self.row(SCALE) + self.row(SHIFT)


def unpacked(is_active: Tensor) -> Tensor:
    bits = (is_active.unsqueeze(2).int() >> torch.arange(16, device=is_active.device)) & 1
    return bits.flatten(1).bool()


def error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm().clamp_min(1e-12))


@pytest.fixture(autouse=True)
def _few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that take several tiles."""
    monkeypatch.setattr(mix, "_PROGRAMS", (2, 2))


@pytest.mark.parametrize(("width", "dtype"), CASES, ids=str)
def test_forward(width: int, dtype: torch.dtype) -> None:
    problem = Problem.of(width, dtype)
    matrix, matrix_t = problem.matrices(dtype)
    mixed, is_active = mix.mix_windows(problem.shape, problem.windows, problem.statistics, matrix_t, dtype)
    before = problem.normed.relu() @ matrix.double().t()
    num_real = problem.num_real
    assert mixed.dtype == dtype
    assert error(mixed[:num_real], before.relu()) < TOLERANCE[dtype]
    assert not mixed[num_real:].any()
    assert not mixed[:, width:].any()
    active = unpacked(is_active)
    is_clear = before.abs() > 10 * TOLERANCE[dtype]  # of its sign
    assert torch.equal(active[:num_real][is_clear], (before > 0)[is_clear])
    assert not active[num_real:].any()


@pytest.mark.parametrize("into_edges", [False, True], ids=["nodes", "edges"])
@pytest.mark.parametrize(("width", "dtype"), CASES, ids=str)
def test_backward(width: int, dtype: torch.dtype, into_edges: bool) -> None:
    problem = Problem.of(width, dtype, padding=into_edges)
    shape, num_real = problem.shape, problem.num_real
    matrix, matrix_t = problem.matrices(dtype)
    _, is_active = mix.mix_windows(shape, problem.windows, problem.statistics, matrix_t, dtype)
    nodes, edges = centres(problem.walks, weights_of(problem.conv), 22)
    pooled, expected = [], torch.zeros(num_real, shape.stride, dtype=torch.float64, device=DEVICE)
    for owners, number in ((nodes, 11), (edges, 22)) if into_edges else ((nodes, 11),):
        owners = owners[:num_real].long()
        has_owner = owners >= 0
        counts = torch.bincount(owners[has_owner], minlength=number).clamp_min(1).float()
        grad = 1e-6 * torch.randn(number, width, device=DEVICE)  # too small for float16
        pooled.append((grad, counts))
        expected[has_owner, :width] += (grad.double() / counts.double().unsqueeze(1))[owners[has_owner]]
    hidden, grad_mixed, grad_hidden, sums, unit = mix.mix_backward(
        shape, problem.walks, problem.windows, problem.statistics, matrix, is_active, pooled
    )
    expected *= unpacked(is_active)[:num_real]
    normed = problem.normed
    assert error(hidden[:num_real], normed.relu()) < TOLERANCE[dtype]
    assert error(grad_mixed[:num_real].double() * unit, expected) < TOLERANCE[dtype]
    expected = expected @ matrix.double()
    assert error(grad_hidden[:num_real].double() * unit, expected) < TOLERANCE[dtype]
    expected *= normed > 0
    deviation = (problem.windows[:num_real].double() - problem.row(MEAN)) * problem.row(RSTD)
    assert error(sums[0], expected.sum(0)) < TOLERANCE[dtype]
    assert error(sums[1], (expected * deviation).sum(0)) < TOLERANCE[dtype]
    for padding in (hidden, grad_mixed, grad_hidden):
        assert padding.dtype == dtype
        assert not padding[num_real:].any()
    again = mix.mix_backward(shape, problem.walks, problem.windows, problem.statistics, matrix, is_active, pooled)
    assert all(torch.equal(a, b) for a, b in zip((hidden, grad_mixed, grad_hidden, sums, unit), again, strict=True))


def test_half_precision_saturates_and_keeps_nan() -> None:
    problem = Problem.of(16, torch.float16)
    problem.windows[0], problem.windows[1] = 1e6, torch.nan
    problem.statistics[SCALE.value], problem.statistics[SHIFT.value] = 1, 0
    matrix = torch.eye(16, dtype=torch.float16, device=DEVICE) * 2
    mixed, is_active = mix.mix_windows(problem.shape, problem.windows, problem.statistics, matrix, torch.float16)
    assert bool((mixed[0] == torch.finfo(torch.float16).max).all())
    assert bool(unpacked(is_active)[0].all())
    assert bool(mixed[1].isnan().all())


@pytest.mark.parametrize("num_real", [0, 1])
def test_few_real_walks(num_real: int) -> None:
    problem = Problem.of(40, torch.float16, num_real)
    _, matrix_t = problem.matrices(torch.float16)
    mixed, is_active = mix.mix_windows(problem.shape, problem.windows, problem.statistics, matrix_t, torch.float16)
    assert bool(mixed[: problem.num_real].any()) == (num_real > 0)
    assert not mixed[problem.num_real :].any()
    assert not is_active[problem.num_real :].any()
