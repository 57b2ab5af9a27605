"""The two walk operations of `fast` on the CPU, forward and backward, with numba.

Threads share out the channels, not the walks: every sum into a node, an edge or a table row then has one owner and one order,
so results do not depend on the number of threads, and no thread needs a copy of anything.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from numba import njit, prange
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.walks import Walks
from crawl.walks.cpu import use_torch_threads

_LINE = 16  # float32 in a cache line


def convolve_walks(
    node_rows: Tensor, edge_rows: Tensor | None, code_rows: Tensor, kernel: Tensor, walks: Walks
) -> Tensor:
    """See `fast.convolve_walks`."""
    if edge_rows is None:
        edge_rows = node_rows.new_zeros(0, node_rows.shape[1])
    return _ConvolveWalks.apply(node_rows, edge_rows, code_rows, kernel, walks)  # type: ignore[no-any-return]


def pool_windows(windows: Tensor, centres: Tensor, num_nodes: int) -> Tensor:
    """See `fast.pool_windows`."""
    count = torch.bincount(centres, minlength=num_nodes)
    return _PoolWindows.apply(windows, centres, count.clamp_min(1).to(windows.dtype))  # type: ignore[no-any-return]


class _ConvolveWalks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, node_rows: Tensor, edge_rows: Tensor, code_rows: Tensor, kernel: Tensor, walks: Walks
    ) -> Tensor:
        ctx.walks = walks
        ctx.save_for_backward(node_rows, edge_rows, code_rows, kernel)
        num_channels, kernel_size = kernel.shape
        out = node_rows.new_empty(len(walks), walks.nodes.shape[1] - kernel_size + 1, num_channels)
        if out.numel():
            _convolve(
                _blocks(num_channels),
                *_arrays(node_rows, edge_rows, code_rows, kernel.t()),
                *_walk_arrays(walks),
                out.numpy(),
            )
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        grads = [torch.zeros_like(tensor, memory_format=torch.contiguous_format) for tensor in inputs]
        grad_kernel = torch.zeros_like(inputs[3].t(), memory_format=torch.contiguous_format)
        if grad_out.numel():
            _convolve_backward(
                _blocks(inputs[3].shape[0]),
                *_arrays(*inputs[:3], inputs[3].t()),
                *_walk_arrays(ctx.walks),
                *_arrays(grad_out, *grads[:3], grad_kernel),
            )
        return (*grads[:3], grad_kernel.t(), None)


class _PoolWindows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, windows: Tensor, centres: Tensor, count: Tensor) -> Tensor:
        ctx.save_for_backward(windows, centres, count)
        out = windows.new_zeros(count.numel(), windows.shape[1])
        _pool(_blocks(windows.shape[1]), *_arrays(windows, centres, count, out))
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        windows, centres, count = ctx.saved_tensors
        grad_windows = torch.empty_like(windows, memory_format=torch.contiguous_format)
        use_torch_threads()
        _pool_backward(*_arrays(windows, centres, grad_out / count.unsqueeze(1), grad_windows))
        return grad_windows, None, None


def _arrays(*tensors: Tensor) -> list[np.ndarray[Any, Any]]:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def _walk_arrays(walks: Walks) -> list[np.ndarray[Any, Any]]:
    return _arrays(walks.nodes, walks.edges, walks.code)


def _blocks(num_channels: int) -> np.ndarray[Any, Any]:
    """Where the block of channels of each thread begins and ends; whole cache lines of float32 where possible."""
    use_torch_threads()
    width = -(-num_channels // numba.get_num_threads())
    width = -(-width // _LINE) * _LINE
    return np.append(np.arange(0, num_channels, width), num_channels)


@njit(inline="always")
def _add(target, source):  # type: ignore[no-untyped-def]
    for c in range(target.size):
        target[c] += source[c]


@njit(inline="always")
def _add_product(target, a, b):  # type: ignore[no-untyped-def]
    for c in range(target.size):
        target[c] += a[c] * b[c]


@njit(inline="always")
def _byte(code, i):  # type: ignore[no-untyped-def]
    return (np.int64(code) >> (8 * i)) & 255


@njit(inline="always")
def _gather(rows, node_rows, edge_rows, code_rows, nodes, edges, code, low, high):  # type: ignore[no-untyped-def]
    """The rows along one walk, channels low to high."""
    for t in range(nodes.size):
        rows[t] = node_rows[nodes[t], low:high]
        if t > 0 and edge_rows.shape[0] > 0:
            _add(rows[t], edge_rows[edges[t - 1], low:high])
        for i in range(code_rows.shape[0]):
            _add(rows[t], code_rows[i, _byte(code[t], i), low:high])


@njit(parallel=True, cache=True)
def _convolve(  # type: ignore[no-untyped-def]
    blocks, node_rows, edge_rows, code_rows, kernel, nodes, edges, code, out
):
    for block in prange(blocks.size - 1):
        low, high = blocks[block], blocks[block + 1]
        rows = np.empty((nodes.shape[1], high - low), node_rows.dtype)
        for w in range(nodes.shape[0]):
            _gather(rows, node_rows, edge_rows, code_rows, nodes[w], edges[w], code[w], low, high)
            for t in range(out.shape[1]):
                window = out[w, t, low:high]
                window[:] = 0
                for k in range(kernel.shape[0]):
                    _add_product(window, kernel[k, low:high], rows[t + k])


@njit(parallel=True, cache=True)
def _convolve_backward(  # type: ignore[no-untyped-def]
    blocks, node_rows, edge_rows, code_rows, kernel, nodes, edges, code,
    grad_out, grad_node, grad_edge, grad_code, grad_kernel,
):  # fmt: skip
    kernel_size = kernel.shape[0]
    for block in prange(blocks.size - 1):
        low, high = blocks[block], blocks[block + 1]
        rows = np.empty((nodes.shape[1], high - low), node_rows.dtype)
        grad_rows = np.empty_like(rows)
        grad_taps = np.empty((kernel_size, high - low), node_rows.dtype)
        for w in range(nodes.shape[0]):
            _gather(rows, node_rows, edge_rows, code_rows, nodes[w], edges[w], code[w], low, high)
            grad_rows[:] = 0
            grad_taps[:] = 0
            for t in range(grad_out.shape[1]):
                window = grad_out[w, t, low:high]
                for k in range(kernel_size):
                    _add_product(grad_rows[t + k], kernel[k, low:high], window)
                    _add_product(grad_taps[k], rows[t + k], window)
            for k in range(kernel_size):  # walk by walk, so that no long sum loses digits
                _add(grad_kernel[k, low:high], grad_taps[k])
            for t in range(nodes.shape[1]):
                _add(grad_node[nodes[w, t], low:high], grad_rows[t])
                if t > 0 and edge_rows.shape[0] > 0:
                    _add(grad_edge[edges[w, t - 1], low:high], grad_rows[t])
                for i in range(code_rows.shape[0]):
                    _add(grad_code[i, _byte(code[w, t], i), low:high], grad_rows[t])


@njit(parallel=True, cache=True)
def _pool(blocks, windows, centres, count, out):  # type: ignore[no-untyped-def]
    for block in prange(blocks.size - 1):
        low, high = blocks[block], blocks[block + 1]
        for r in range(centres.size):
            target, window = out[centres[r], low:high], windows[r, low:high]
            for c in range(target.size):
                target[c] += max(window[c], 0)
        for node in range(count.size):
            for c in range(low, high):
                out[node, c] /= count[node]


@njit(parallel=True, cache=True)
def _pool_backward(windows, centres, grad_out, grad_windows):  # type: ignore[no-untyped-def]
    for r in prange(centres.size):
        for c in range(windows.shape[1]):
            grad_windows[r, c] = grad_out[centres[r], c] if windows[r, c] > 0 else 0
