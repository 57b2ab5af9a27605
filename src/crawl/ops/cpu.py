"""`walk_conv` on the CPU, forward and backward: numba along the walks, torch's matrix products in between.

Two things make it fast. Between the passes along the walks, rows are handled in pieces that stay in the cache; what
the backward pass needs of them, except signs, is computed again. And along the walks threads share out the channels,
sixteen or a multiple of it at a time, not the walks: every sum into a node, an edge or a table row has one owner and
one order. Products are shared out in parts that do not depend on the threads. So no result depends on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from crawl.memory import recycled
from crawl.ops import lanes
from crawl.ops.lanes import LANES
from crawl.ops.norm import Norm, shared_gradients
from crawl.ops.walk_conv import Tables, Weights, centres, pool_walks
from crawl.ops.walks import WalkTensors
from crawl.threads import num_threads, share_out

_ALIGNED = 8  # channels: products whose width is a multiple of it are faster, padding included
_PIECE = 1024  # rows that are normalised and multiplied while they are in the cache
_PART, _MOST_PARTS = 2048, 32  # the rows a thread takes at a time; sums of parts are kept apart until the end


@torch.compiler.disable
def walk_conv(
    x: Tensor, edge_attr: Tensor | None, walks: WalkTensors, weights: Weights, num_edges: int | None
) -> tuple[Tensor, Tensor | None]:
    """See `crawl.ops.walk_conv.walk_conv`."""
    tables = Tables.of(x, edge_attr, walks, weights)
    nodes, edges = centres(walks, weights, num_edges)
    is_autocast = tables.nodes.dtype != weights.mix.dtype
    if is_autocast or nodes.numel() == 0:
        return pool_walks(tables, walks, weights, num_edges)
    norm, statistics = weights.norm, None
    num_values = norm.num_values(nodes.numel())
    if not norm.uses_batch_statistics(num_values):
        statistics = (norm.running_mean.clone(), norm.running_var.clone())  # training may move them before backward
    kernel, mix = weights.depthwise.squeeze(1), weights.mix.squeeze(2)
    edge_rows = tables.nodes.new_zeros(0, tables.nodes.shape[1]) if tables.edges is None else tables.edges
    pooled, pooled_edges, mean, var = _PoolWalks.apply(
        *(tables.nodes, edge_rows, tables.code, kernel, norm.weight, norm.bias, mix),
        *(walks, nodes, edges, num_edges, weights.margin, norm, num_values, statistics),
    )
    if statistics is None:
        norm.track(mean, var, num_values)
    return pooled, pooled_edges


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
        walks: WalkTensors,
        nodes: Tensor,
        edges: Tensor | None,
        num_edges: int | None,
        margin: int,
        norm: Norm,
        num_values: int,
        statistics: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        num_channels, num_rows = kernel.shape[0], nodes.numel()
        inputs = [_padded(rows) for rows in (node_rows, edge_rows, code_rows, kernel.t())]
        stride = inputs[0].shape[-1]
        windows = recycled(num_rows, stride, dtype=node_rows.dtype)
        moments = np.zeros((2, stride))
        convolve = partial(_convolve, *_flat(*inputs), stride, margin, *_walk_arrays(walks), *_flat(windows), moments)
        _by_channels(convolve, stride)
        if statistics is None:
            own_mean, squares = torch.from_numpy(moments[:, :num_channels])
            mean, var = norm.moments(num_rows, own_mean, squares, num_values)
            mean, var = mean.to(windows.dtype), var.to(windows.dtype)
        else:
            mean, var = statistics
        scale = gamma * torch.rsqrt(var + norm.eps)
        shift = beta - mean * scale
        affine = _padded(torch.stack([scale, shift]))
        width = -(-num_channels // _ALIGNED) * _ALIGNED
        mix_padded = F.pad(mix.detach(), (0, width - num_channels, 0, width - num_channels))

        is_active = recycled(num_rows, stride, dtype=torch.bool)
        pools = [_Pool.zeros(nodes, len(node_rows), stride, node_rows.dtype)]
        if edges is not None and num_edges is not None:
            pools.append(_Pool.zeros(edges, num_edges, stride, node_rows.dtype))
        parts = _separate_parts(walks, num_rows, has_edges=edges is not None)
        all_mixed = None if parts else recycled(num_rows, stride, dtype=windows.dtype)
        parts = parts or _even_parts(num_rows)

        def mix_rows(i: int) -> None:
            hidden, in_cache = recycled(2, _PIECE, stride, dtype=windows.dtype)
            for piece in _pieces(parts[i]):
                size = piece.stop - piece.start
                mixed = in_cache[:size] if all_mixed is None else all_mixed[piece]
                _activate(windows[piece].numpy(), affine.numpy(), hidden.numpy())
                torch.mm(hidden[:size, :width], mix_padded.t(), out=mixed[:, :width])
                _rectify(mixed.numpy(), is_active[piece].numpy())
                if all_mixed is None:
                    for pool in pools:
                        _pool(*_flat(mixed), pool.owners[piece].numpy(), stride, *_flat(pool.total), 0, stride)

        share_out(mix_rows, len(parts))
        if all_mixed is not None:
            for pool in pools:
                add_rows = partial(_pool, *_flat(all_mixed), pool.owners.numpy(), stride, *_flat(pool.total))
                _by_channels(add_rows, stride)

        ctx.walks, ctx.margin, ctx.uses_batch = walks, margin, statistics is None
        ctx.across, ctx.num_values = norm.across, num_values
        of_pools = [tensor for pool in pools for tensor in (pool.owners, pool.num_rows)]
        ctx.save_for_backward(*inputs, mix_padded, windows, is_active, mean, var + norm.eps, affine, *of_pools)
        ctx.mark_non_differentiable(mean, var)
        means = [pool.total[:, :num_channels] / pool.num_rows for pool in pools]
        return means[0], means[1] if len(means) > 1 else None, mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads_pooled: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        *inputs, mix, windows, is_active, mean, var, affine = saved[:10]
        owners, counts = saved[10::2], saved[11::2]
        num_channels, width, (num_rows, stride) = len(mean), len(mix), windows.shape
        parts = _even_parts(num_rows)
        grad_means = [_padded(grad / count) for grad, count in zip(grads_pooled, counts, strict=False)]
        grad_normed = recycled(num_rows, stride, dtype=windows.dtype)
        grad_mix = windows.new_zeros(len(parts), width, width)
        sums = np.zeros((len(parts), 2, stride))

        def unmix_rows(i: int) -> None:
            hidden, grad_mixed = recycled(2, _PIECE, stride, dtype=windows.dtype)
            for piece in _pieces(parts[i]):
                size = piece.stop - piece.start
                window, active, grad = windows[piece].numpy(), is_active[piece].numpy(), grad_normed[piece]
                _activate(window, affine.numpy(), hidden.numpy())
                _spread(grad_means[0].numpy(), owners[0][piece].numpy(), active, grad_mixed.numpy())
                for grad_mean, owner in zip(grad_means[1:], owners[1:], strict=True):
                    _spread_more(grad_mean.numpy(), owner[piece].numpy(), active, grad_mixed.numpy())
                grad_mix[i].addmm_(grad_mixed[:size, :width].t(), hidden[:size, :width])
                torch.mm(grad_mixed[:size, :width], mix, out=grad[:, :width])
                _deactivate(grad.numpy(), hidden.numpy(), window, sums[i])

        share_out(unmix_rows, len(parts))
        grad_sum, grad_dot = torch.from_numpy(sums.sum(0)[:, :num_channels]).to(windows.dtype)
        # through the normalisation: d window = scale * d normed + tilt * window + offset
        scale = affine[0, :num_channels]
        grad_gamma = (grad_dot - mean * grad_sum) * torch.rsqrt(var)
        back = windows.new_zeros(3, stride)
        back[0] = affine[0]
        if ctx.uses_batch:
            of_beta, of_gamma = shared_gradients(ctx.across, grad_sum, grad_gamma) / ctx.num_values
            tilt = -scale * of_gamma * torch.rsqrt(var)
            back[1, :num_channels] = tilt
            back[2, :num_channels] = -scale * of_beta - tilt * mean

        grads = [torch.zeros_like(rows) for rows in inputs]
        convolve_backward = partial(
            _convolve_backward,
            *_flat(*inputs),
            stride,
            ctx.margin,
            *_walk_arrays(ctx.walks),
            *_flat(windows, grad_normed, back),
            *_flat(*grads),
        )
        _by_channels(convolve_backward, stride)
        node, edge, code, kernel = (grad[..., :num_channels] for grad in grads)
        grad_mix = grad_mix.sum(0)[:num_channels, :num_channels]
        return node, edge, code, kernel.t(), grad_gamma, grad_sum, grad_mix, *[None] * 8


class _Pool(NamedTuple):
    """Sums into nodes or edges: the owner of each row, or -1, the sums, and how many rows each is of, at least 1."""

    owners: Tensor
    total: Tensor
    num_rows: Tensor

    @classmethod
    def zeros(cls, owners: Tensor, num_owners: int, stride: int, dtype: torch.dtype) -> _Pool:
        """Sums of nothing yet."""
        num_rows = torch.bincount(owners + 1, minlength=num_owners + 1)[1:].clamp_min(1).unsqueeze(1)
        return cls(owners, torch.zeros(num_owners, stride, dtype=dtype, device="cpu"), num_rows)


def _padded(rows: Tensor) -> Tensor:
    """The rows, contiguous, made longer with zeros to a multiple of sixteen."""
    return F.pad(rows.detach(), (0, -rows.shape[-1] % LANES)).contiguous()


def _flat(*tensors: Tensor) -> list[np.ndarray[Any, Any]]:
    return [tensor.view(-1).numpy() for tensor in tensors]


def _walk_arrays(walks: WalkTensors) -> list[np.ndarray[Any, Any]]:
    return [tensor.contiguous().numpy() for tensor in (walks.nodes, walks.edges, walks.code)]


def _by_channels(work: Callable[[int, int], None], stride: int) -> None:
    """Share out the channels: two blocks of them for each thread, so that one that is held up can be helped."""
    groups = stride // LANES
    num_blocks = min(2 * num_threads(), groups)
    bounds = [-(-groups * block // num_blocks) * LANES for block in range(num_blocks + 1)]  # larger blocks first
    share_out(lambda block: work(bounds[block], bounds[block + 1]), num_blocks)


def _even_parts(num_rows: int) -> list[slice]:
    """Parts of the rows, of which a thread takes one at a time."""
    num_parts = min(-(-num_rows // _PART), _MOST_PARTS)
    bounds = [num_rows * i // num_parts for i in range(num_parts + 1)]
    return [slice(low, high) for low, high in pairwise(bounds)]


def _separate_parts(walks: WalkTensors, num_rows: int, *, has_edges: bool = False) -> list[slice] | None:
    """Parts whose walks have no node in common, nor an edge, so that each is pooled by itself, or None.

    Batches of small graphs have them, since their walks come graph by graph; a single large graph has none.
    """
    even, num_walks = _even_parts(num_rows), len(walks.nodes)
    is_free = _is_new(walks.nodes)
    if has_edges and walks.edges.numel():
        is_free &= _is_new(walks.edges)
    is_free = F.pad(is_free, (1, 1), value=True)  # [W + 1]: whether a part may begin with this walk
    free = is_free.nonzero().squeeze(1) * (num_rows // num_walks)
    wanted = torch.tensor([part.start for part in even] + [num_rows], device="cpu")
    bounds = free[torch.searchsorted(free, wanted)].unique().tolist()
    parts = [slice(low, high) for low, high in pairwise(bounds)]
    largest = max(part.stop - part.start for part in parts)
    return parts if largest <= 2 * (even[0].stop + 1) else None


def _is_new(ids: Tensor) -> Tensor:
    """`[W - 1]` whether the ids of this walk, from the second on, and of all after it are above those before it."""
    highest = ids.amax(1).cummax(0).values
    lowest = ids.amin(1).flip(0).cummin(0).values.flip(0)
    return highest[:-1] < lowest[1:]


def _pieces(part: slice) -> Iterator[slice]:
    """The pieces of a part."""
    for low in range(part.start, part.stop, _PIECE):
        yield slice(low, min(low + _PIECE, part.stop))


@njit(nogil=True, cache=True)
def _activate(windows, affine, hidden):
    """hidden = ReLU(scale * windows + shift); NaN stays NaN."""
    zero = hidden.dtype.type(0)
    for r in range(windows.shape[0]):
        for c in range(windows.shape[1]):
            value = affine[0, c] * windows[r, c] + affine[1, c]
            hidden[r, c] = zero if value < zero else value


@njit(nogil=True, cache=True)
def _rectify(mixed, is_active):
    """ReLU in place, and where it lets through; NaN stays NaN."""
    zero = mixed.dtype.type(0)
    for r in range(mixed.shape[0]):
        for c in range(mixed.shape[1]):
            is_active[r, c] = mixed[r, c] > zero
            mixed[r, c] = zero if mixed[r, c] < zero else mixed[r, c]


@njit(nogil=True, cache=True)
def _spread(grad_rows, centres, is_active, grad_mixed):
    """The gradient of each window's centre, where the window was active."""
    zero = grad_mixed.dtype.type(0)
    for r in range(len(centres)):
        grad_row = grad_rows[centres[r]]
        for c in range(grad_row.size):
            grad_mixed[r, c] = grad_row[c] if is_active[r, c] else zero


@njit(nogil=True, cache=True)
def _spread_more(grad_rows, owners, is_active, grad_mixed):
    """Add the gradient of each window's owner, if it has one, where the window was active."""
    for r in range(len(owners)):
        if owners[r] >= 0:
            grad_row = grad_rows[owners[r]]
            for c in range(grad_row.size):
                if is_active[r, c]:
                    grad_mixed[r, c] += grad_row[c]


@njit(nogil=True, cache=True)
def _deactivate(grad, hidden, windows, sums):
    """Backward through the ReLU, in place; adds the sums of the gradient and of its product with the windows."""
    zero = grad.dtype.type(0)
    total = np.zeros((2, grad.shape[1]), grad.dtype)
    for r in range(grad.shape[0]):
        for c in range(grad.shape[1]):
            value = grad[r, c] if hidden[r, c] > zero else zero
            grad[r, c] = value
            total[0, c] += value
            total[1, c] += value * windows[r, c]
    sums += total


@njit(nogil=True, cache=True)
def _pool(mixed, owners, stride, pooled, low, high):
    """Add each window to the row of its owner, if it has one, for the channels from `low` to `high`."""
    for r in range(len(owners)):
        if owners[r] >= 0:
            for channel in range(low, high, LANES):
                lanes.add(pooled, owners[r] * stride + channel, mixed, r * stride + channel)


@njit
def _aligned(size, like):
    """An uninitialised array that begins with a cache line, so that sixteen numbers are in as few as possible."""
    memory = np.empty(size + 64, like.dtype)
    first = (-memory.ctypes.data % 64) // memory.itemsize
    return memory[first : first + size]


@njit(inline="always")
def _gather(rows, margin, node_rows, edge_rows, code_rows, nodes, edges, code, channel, stride):
    """The rows along one walk, sixteen channels wide, after a margin."""
    for t in range(nodes.size):
        to = (margin + t) * LANES
        lanes.sum_of(
            rows, to, node_rows, nodes[t] * stride + channel, code_rows, _code_row(code[t], 0) * stride + channel
        )
        for i in range(1, code_rows.size // (256 * stride)):
            lanes.add(rows, to, code_rows, _code_row(code[t], i) * stride + channel)
        if t > 0 and edge_rows.size > 0:
            lanes.add(rows, to, edge_rows, edges[t - 1] * stride + channel)


@njit(inline="always")
def _code_row(code, i):
    return 256 * i + ((np.int64(code) >> (8 * i)) & 255)


@njit(nogil=True, cache=True)
def _convolve(node_rows, edge_rows, code_rows, kernel, stride, pad, nodes, edges, code, windows, moments, low, high):
    """Fill `windows`, all walks one after the other, and `moments`: the means and the sums of squared deviations.

    Both for the channels from `low` to `high`, sixteen at a time.

    Matrices of floats are flat, their rows `stride` long, a multiple of sixteen. There are `pad` zeros at each end of
    a walk.
    """
    kernel_size = kernel.size // stride
    num_rows = nodes.shape[1] + 2 * pad
    num_windows = num_rows - kernel_size + 1
    rows = _aligned(num_rows * LANES, node_rows)
    rows[:] = 0
    centred = _aligned(num_windows * LANES, node_rows)
    ones, minus_first = _aligned(LANES, node_rows), _aligned(LANES, node_rows)
    total, squares = _aligned(LANES, node_rows), _aligned(LANES, node_rows)
    ones[:] = 1
    for w in range(nodes.shape[0]):
        for channel in range(low, high, LANES):
            _gather(rows, pad, node_rows, edge_rows, code_rows, nodes[w], edges[w], code[w], channel, stride)
            at = w * num_windows * stride + channel
            for t in range(num_windows):
                lanes.dot(windows, at + t * stride, kernel, channel, stride, rows, t * LANES, LANES, kernel_size)
            # Deviations from the walk's first window: sums of squares of the windows would lose their digits beside a
            # large mean. Walks are then combined in float64 (Chan, Golub and LeVeque, 1983).
            for c in range(LANES):
                minus_first[c] = -windows[at + c]
            for t in range(num_windows):
                lanes.sum_of(centred, t * LANES, windows, at + t * stride, minus_first, 0)
            lanes.dot(total, 0, ones, 0, 0, centred, 0, LANES, num_windows)
            lanes.dot(squares, 0, centred, 0, LANES, centred, 0, LANES, num_windows)
            for c in range(LANES):
                shift = np.float64(total[c]) / num_windows
                distance = shift - minus_first[c] - moments[0, channel + c]
                moments[0, channel + c] += distance / (w + 1)
                moments[1, channel + c] += squares[c] - shift * total[c] + distance**2 * num_windows * w / (w + 1)


@njit(nogil=True, cache=True)
def _convolve_backward(
    node_rows, edge_rows, code_rows, kernel, stride, pad, nodes, edges, code, windows, grad_normed, affine,
    grad_node, grad_edge, grad_code, grad_kernel, low, high,
):  # fmt: skip
    kernel_size = kernel.size // stride
    num_rows = nodes.shape[1] + 2 * pad
    num_windows = num_rows - kernel_size + 1
    margin = kernel_size - 1
    rows, total = _aligned(num_rows * LANES, node_rows), _aligned(LANES, node_rows)
    rows[:] = 0
    # gradients of the windows, between zeros, so that every position has kernel_size of them
    grads = _aligned((num_windows + 2 * margin) * LANES, node_rows)
    grads[:] = 0
    for w in range(nodes.shape[0]):
        first = w * num_windows * stride
        for channel in range(low, high, LANES):
            _gather(rows, pad, node_rows, edge_rows, code_rows, nodes[w], edges[w], code[w], channel, stride)
            for t in range(num_windows):
                to, at = (t + margin) * LANES, first + t * stride + channel
                lanes.combine(grads, to, affine, channel, stride, grad_normed, at, windows, at)
            for k in range(kernel_size):
                lanes.dot(total, 0, rows, k * LANES, LANES, grads, margin * LANES, LANES, num_windows)
                lanes.add(grad_kernel, k * stride + channel, total, 0)
            for t in range(nodes.shape[1]):
                lanes.dot(total, 0, kernel, channel, stride, grads, (t + pad + margin) * LANES, -LANES, kernel_size)
                lanes.add(grad_node, nodes[w, t] * stride + channel, total, 0)
                if t > 0 and edge_rows.size > 0:
                    lanes.add(grad_edge, edges[w, t - 1] * stride + channel, total, 0)
                for i in range(code_rows.size // (256 * stride)):
                    lanes.add(grad_code, _code_row(code[w, t], i) * stride + channel, total, 0)
