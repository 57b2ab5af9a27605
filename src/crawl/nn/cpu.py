"""`fast.pooled_windows` on the CPU, forward and backward: numba along the walks, torch's matrix products in between.

Two things make it fast. Between the passes along the walks, rows are handled in pieces that stay in the cache; what
the backward pass needs of them, except signs, is computed again. And along the walks threads share out the channels,
sixteen at a time, not the walks: every sum into a node, an edge or a table row has one owner and one order, so these
sums do not depend on the number of threads (torch's products may), and no thread needs a copy of anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import torch
from numba import njit, prange
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from crawl import _lanes as lanes
from crawl._lanes import LANES
from crawl.nn.norm import BatchNorm
from crawl.walks import Walks
from crawl.walks.cpu import use_torch_threads

_PIECE = 2048  # rows that are normalised, multiplied and pooled while they are in the cache


@torch.compiler.disable
def pool_walks(
    node_rows: Tensor,
    edge_rows: Tensor | None,
    code_rows: Tensor,
    kernel: Tensor,
    norm: BatchNorm,
    mix: Tensor,
    walks: Walks,
    centres: Tensor,
) -> Tensor:
    """See `fast.pool_walks`."""
    if edge_rows is None:
        edge_rows = node_rows.new_zeros(0, node_rows.shape[1])
    statistics = None
    if not norm.uses_batch_statistics(centres.numel()):
        statistics = (norm.running_mean.clone(), norm.running_var.clone())  # training may move them before backward
    pooled, mean, var = _PoolWalks.apply(
        node_rows, edge_rows, code_rows, kernel, norm.weight, norm.bias, mix, walks, centres, norm.eps, statistics
    )
    if statistics is None:
        norm.track(mean, var, centres.numel())
    return pooled  # type: ignore[no-any-return]


class _PoolWalks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        node_rows: Tensor,
        edge_rows: Tensor,
        code_rows: Tensor,
        kernel: Tensor,
        gamma: Tensor,
        beta: Tensor,
        mix: Tensor,
        walks: Walks,
        centres: Tensor,
        eps: float,
        statistics: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        num_channels, num_rows = kernel.shape[0], centres.numel()
        inputs = [_padded(rows) for rows in (node_rows, edge_rows, code_rows, kernel.t())]
        stride = inputs[0].shape[-1]
        windows = node_rows.new_empty(num_rows, stride)
        moments = np.zeros((2, stride))
        _convolve(_blocks(stride), *_flat(*inputs), stride, *_walk_arrays(walks), *_flat(windows), moments)
        if statistics is None:
            mean = torch.from_numpy(moments[0, :num_channels]).to(windows.dtype)
            var = torch.from_numpy(moments[1, :num_channels] / num_rows).to(windows.dtype)
        else:
            mean, var = statistics
        scale = gamma * torch.rsqrt(var + eps)
        shift = beta - mean * scale

        pooled = torch.zeros_like(node_rows, memory_format=torch.contiguous_format)
        is_active = windows.new_empty(num_rows, num_channels, dtype=torch.bool)
        hidden, mixed = windows.new_empty(2, min(_PIECE, num_rows), num_channels)
        for piece, size in _pieces(num_rows):
            torch.addcmul(shift, windows[piece, :num_channels], scale, out=hidden[:size]).relu_()
            torch.mm(hidden[:size], mix.t(), out=mixed[:size]).relu_()
            torch.gt(mixed[:size], 0, out=is_active[piece])
            pooled.index_add_(0, centres[piece], mixed[:size])
        count = torch.bincount(centres, minlength=len(pooled)).clamp_min(1).unsqueeze(1)
        pooled /= count

        ctx.walks, ctx.uses_batch = walks, statistics is None
        ctx.save_for_backward(*inputs, mix, centres, count, windows, is_active, mean, var + eps, scale, shift)
        ctx.mark_non_differentiable(mean, var)
        return pooled, mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_pooled: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        inputs, rest = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
        mix, centres, count, windows, is_active, mean, var, scale, shift = rest
        num_channels, (num_rows, stride) = len(mean), windows.shape
        grad_rows = grad_pooled / count
        grad_mix = torch.zeros_like(mix, memory_format=torch.contiguous_format)
        grad_normed = torch.empty_like(windows)
        grad_sum, grad_dot = torch.zeros_like(mean), torch.zeros_like(mean)
        hidden, grad_mixed = windows.new_empty(2, min(_PIECE, num_rows), num_channels)
        for piece, size in _pieces(num_rows):
            window = windows[piece, :num_channels]
            torch.addcmul(shift, window, scale, out=hidden[:size]).relu_()
            torch.index_select(grad_rows, 0, centres[piece], out=grad_mixed[:size]).mul_(is_active[piece])
            grad_mix.addmm_(grad_mixed[:size].t(), hidden[:size])
            grad = torch.mm(grad_mixed[:size], mix, out=grad_mixed[:size].new_empty(size, num_channels))
            torch.ops.aten.threshold_backward.grad_input(grad, hidden[:size], 0, grad_input=grad)
            grad_normed[piece, :num_channels] = grad
            grad_sum += grad.sum(0)
            grad_dot += torch.mul(grad, window, out=hidden[:size]).sum(0)
        # through the normalisation: d window = scale * d normed + tilt * window + offset
        grad_gamma = (grad_dot - mean * grad_sum) * torch.rsqrt(var)
        affine = windows.new_zeros(3, stride)
        affine[0, :num_channels] = scale
        if ctx.uses_batch:
            tilt = -scale * grad_gamma * torch.rsqrt(var) / num_rows
            affine[1, :num_channels] = tilt
            affine[2, :num_channels] = -scale * grad_sum / num_rows - tilt * mean

        grads = [torch.zeros_like(rows) for rows in inputs]
        _convolve_backward(
            _blocks(stride),
            *_flat(*inputs),
            stride,
            *_walk_arrays(ctx.walks),
            *_flat(windows, grad_normed),
            affine.numpy(),
            *_flat(*grads),
        )
        node, edge, code, kernel = (grad[..., :num_channels] for grad in grads)
        return node, edge, code, kernel.t(), grad_gamma, grad_sum, grad_mix, None, None, None, None


def _blocks(stride: int) -> np.ndarray[Any, Any]:
    """Where the channels of each thread begin and end, sixteen or a multiple of it each."""
    use_torch_threads()
    groups = stride // LANES
    num_blocks = min(int(numba.get_num_threads()), groups)
    return np.arange(num_blocks + 1) * groups // num_blocks * LANES


def _padded(rows: Tensor) -> Tensor:
    """The rows, contiguous, made longer with zeros to a multiple of sixteen."""
    return F.pad(rows.detach(), (0, -rows.shape[-1] % LANES)).contiguous()


def _flat(*tensors: Tensor) -> list[np.ndarray[Any, Any]]:
    return [tensor.view(-1).numpy() for tensor in tensors]


def _walk_arrays(walks: Walks) -> list[np.ndarray[Any, Any]]:
    return [tensor.contiguous().numpy() for tensor in (walks.nodes, walks.edges, walks.code)]


def _pieces(num_rows: int) -> Iterator[tuple[slice, int]]:
    for low in range(0, num_rows, _PIECE):
        high = min(low + _PIECE, num_rows)
        yield slice(low, high), high - low


@njit(inline="always")
def _gather(rows, node_rows, edge_rows, code_rows, nodes, edges, code, channel, stride):
    """The rows along one walk, sixteen channels wide."""
    rows[:] = 0
    for t in range(nodes.size):
        to = t * LANES
        lanes.add(rows, to, node_rows, nodes[t] * stride + channel)
        if t > 0 and edge_rows.size > 0:
            lanes.add(rows, to, edge_rows, edges[t - 1] * stride + channel)
        for i in range(code_rows.size // (256 * stride)):
            lanes.add(rows, to, code_rows, _code_row(code[t], i) * stride + channel)


@njit(inline="always")
def _code_row(code, i):
    return 256 * i + ((np.int64(code) >> (8 * i)) & 255)


@njit(parallel=True, cache=True)
def _convolve(blocks, node_rows, edge_rows, code_rows, kernel, stride, nodes, edges, code, windows, moments):
    """Fill `windows`, all walks one after the other, and `moments`: the means and the sums of squared deviations.

    Matrices of floats are flat, their rows `stride` long, a multiple of sixteen.
    """
    kernel_size = kernel.size // stride
    num_windows = nodes.shape[1] - kernel_size + 1
    for block in prange(blocks.size - 1):
        rows = np.empty(nodes.shape[1] * LANES, node_rows.dtype)
        centred = np.empty(num_windows * LANES, node_rows.dtype)
        ones = np.ones(LANES, node_rows.dtype)
        minus_first = np.empty(LANES, node_rows.dtype)
        total, squares = np.empty(LANES, node_rows.dtype), np.empty(LANES, node_rows.dtype)
        for w in range(nodes.shape[0]):
            for channel in range(blocks[block], blocks[block + 1], LANES):
                _gather(rows, node_rows, edge_rows, code_rows, nodes[w], edges[w], code[w], channel, stride)
                at = w * num_windows * stride + channel
                for t in range(num_windows):
                    lanes.dot(windows, at + t * stride, kernel, channel, stride, rows, t * LANES, LANES, kernel_size)
                # Deviations from the walk's first window: sums of squares of the windows would lose their digits
                # beside a large mean. Walks are then combined in float64 (Chan, Golub and LeVeque, 1983).
                for c in range(LANES):
                    minus_first[c] = -windows[at + c]
                for t in range(num_windows):
                    lanes.dot(centred, t * LANES, ones, 0, 0, windows, at + t * stride, 0, 1)
                    lanes.add(centred, t * LANES, minus_first, 0)
                lanes.dot(total, 0, ones, 0, 0, centred, 0, LANES, num_windows)
                lanes.dot(squares, 0, centred, 0, LANES, centred, 0, LANES, num_windows)
                for c in range(LANES):
                    shift = np.float64(total[c]) / num_windows
                    distance = shift - minus_first[c] - moments[0, channel + c]
                    moments[0, channel + c] += distance / (w + 1)
                    moments[1, channel + c] += squares[c] - shift * total[c] + distance**2 * num_windows * w / (w + 1)


@njit(parallel=True, cache=True)
def _convolve_backward(
    blocks, node_rows, edge_rows, code_rows, kernel, stride, nodes, edges, code, windows, grad_normed, affine,
    grad_node, grad_edge, grad_code, grad_kernel,
):  # fmt: skip
    kernel_size = kernel.size // stride
    num_positions = nodes.shape[1]
    num_windows = num_positions - kernel_size + 1
    margin = kernel_size - 1
    for block in prange(blocks.size - 1):
        rows = np.empty(num_positions * LANES, node_rows.dtype)
        # gradients of the windows, between zeros, so that every position has kernel_size of them
        grads = np.zeros((num_windows + 2 * margin) * LANES, node_rows.dtype)
        total = np.empty(LANES, node_rows.dtype)
        for w in range(nodes.shape[0]):
            first = w * num_windows * stride
            for channel in range(blocks[block], blocks[block + 1], LANES):
                _gather(rows, node_rows, edge_rows, code_rows, nodes[w], edges[w], code[w], channel, stride)
                for t in range(num_windows):
                    to, at = (t + margin) * LANES, first + t * stride + channel
                    lanes.dot(grads, to, affine, channel, 0, grad_normed, at, 0, 1)
                    lanes.add_product(grads, to, affine, stride + channel, windows, at)
                    lanes.add(grads, to, affine, 2 * stride + channel)
                for k in range(kernel_size):
                    lanes.dot(total, 0, rows, k * LANES, LANES, grads, margin * LANES, LANES, num_windows)
                    lanes.add(grad_kernel, k * stride + channel, total, 0)
                for t in range(num_positions):
                    lanes.dot(total, 0, kernel, channel, stride, grads, (t + margin) * LANES, -LANES, kernel_size)
                    lanes.add(grad_node, nodes[w, t] * stride + channel, total, 0)
                    if t > 0 and edge_rows.size > 0:
                        lanes.add(grad_edge, edges[w, t - 1] * stride + channel, total, 0)
                    for i in range(code_rows.size // (256 * stride)):
                        lanes.add(grad_code, _code_row(code[w, t], i) * stride + channel, total, 0)
