"""Along the walks: look rows up, add them, convolve, and take the moments for the batch norm; and the way back."""

# mypy: allow-untyped-decorators, disable-error-code="assignment"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from crawl.ops.triton.kernel import kernel
from crawl.ops.triton.norm import MEAN, RSTD, SCALE, SHARE, SHIFT
from crawl.ops.triton.segments import sum_parts
from crawl.ops.triton.shape import CHANNELS, Shape
from crawl.ops.walks import WalkTensors

# Of the kernels for windows, for gradients of rows, and of taps: walks of a tile, of which a thread would need more
# registers than there are if there were more; and registers of a thread, of which more would let fewer threads fit.
_WALKS = (4, 2, 4)
_REGISTERS = (168, 80, 168)


def convolve(
    shape: Shape, walks: WalkTensors, inputs: tuple[Tensor, Tensor | None, Tensor, Tensor], windows: Tensor
) -> Tensor:
    """Fill `windows`; the moments of each block of walks, `[P, 3, stride]`."""
    node_rows, edge_rows, code_rows, kernel = inputs
    num_blocks = triton.cdiv(shape.num_walks, _WALKS[0])
    moments = windows.new_empty(num_blocks, 3, shape.stride, dtype=torch.float32)
    with torch.cuda.device(windows.get_device()):
        for first_tap, num_taps in shape.passes:
            _convolve[(num_blocks, triton.cdiv(shape.stride, CHANNELS))](
                node_rows, node_rows if edge_rows is None else edge_rows, code_rows, kernel, walks.nodes, walks.edges,
                walks.code, shape.count, windows, moments, shape.num_positions, shape.kernel_size, first_tap,
                C=shape.num_channels, STRIDE=shape.stride, TAPS=num_taps, IS_FIRST=first_tap == 0,
                IS_LAST=first_tap + num_taps == shape.kernel_size, NUM_BYTES=shape.num_code_bytes,
                HAS_EDGES=edge_rows is not None, MARGIN=shape.margin, IS_LARGE=shape.is_large(node_rows, edge_rows),
                WALKS=_WALKS[0], CHANNELS=CHANNELS, num_warps=1, maxnreg=_REGISTERS[0],
            )  # fmt: skip
    return moments


@kernel("num_positions", "kernel_size", "first_tap")
def _convolve(
    node_rows: tl.tensor,
    edge_rows: tl.tensor,
    code_rows: tl.tensor,
    kernel: tl.tensor,
    nodes: tl.tensor,
    edges: tl.tensor,
    code: tl.tensor,
    count: tl.tensor,
    windows: tl.tensor,
    moments: tl.tensor,
    num_positions: tl.int32,
    kernel_size: tl.int32,
    first_tap: tl.int32,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    TAPS: tl.constexpr,
    IS_FIRST: tl.constexpr,
    IS_LAST: tl.constexpr,
    NUM_BYTES: tl.constexpr,
    HAS_EDGES: tl.constexpr,
    MARGIN: tl.constexpr,
    IS_LARGE: tl.constexpr,
    WALKS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    num_windows = num_positions + 2 * MARGIN - kernel_size + 1
    walk, is_walk, channel, inside = _walk_tile(count, STRIDE, IS_LARGE, WALKS, CHANNELS)
    is_value = is_walk[:, None] & inside[None, :]
    windows += (walk * num_windows)[:, None] * STRIDE + channel[None, :]
    taps = _load_taps(kernel + first_tap, kernel_size, channel, C, TAPS)
    none, zero = tl.zeros([WALKS], tl.int32), tl.zeros([WALKS, CHANNELS], tl.float32)
    rows = (zero,) * TAPS  # the latest rows; every pass of the loop replaces all of them
    first, total, squares = zero, zero, zero
    for begin in range(0, num_windows + TAPS - 1, TAPS):
        values = ()
        for i in tl.static_range(TAPS):  # all loads first: a load does not overtake a store
            row = _gather(
                node_rows, edge_rows, code_rows, nodes, edges, code, walk, is_walk, channel, inside,
                none + (first_tap + begin + i - MARGIN), num_positions, STRIDE, NUM_BYTES, HAS_EDGES, MARGIN,
            )  # fmt: skip
            rows = rows + (row,)  # noqa: RUF005 - Triton cannot unpack with a star
            value = zero
            if not IS_FIRST:
                window = none + (begin + i - (TAPS - 1))
                mask = is_value & ((window >= 0) & (window < num_windows))[:, None]
                value = tl.load(windows + window[:, None] * STRIDE, mask=mask, other=0).to(tl.float32)
            values = values + (value,)  # noqa: RUF005
        for i in tl.static_range(TAPS):
            rows = rows[1:]
            window = none + (begin + i - (TAPS - 1))  # the window whose last row, in this pass, is here
            value = values[i]
            for k in tl.static_range(TAPS):
                value += taps[k][None, :] * rows[k]
            is_window = ((window >= 0) & (window < num_windows))[:, None]
            tl.store(windows + window[:, None] * STRIDE, value.to(windows.dtype.element_ty), mask=is_value & is_window)
            # Deviations from the walk's first window: squares of the windows themselves would lose their digits
            # beside a large mean.
            if IS_LAST:
                first = tl.where((window == 0)[:, None], value, first)
                distance = tl.where(is_window, value - first, 0)
                total += distance
                squares += distance * distance
    if IS_LAST:
        # The moments of each walk, then of the block.
        is_counted = is_walk[:, None].to(tl.float32)
        num_values = num_windows.to(tl.float32)
        mean_of_walk = first + total / num_values
        squares = (squares - total * total / num_values) * is_counted
        num_walks = tl.sum(is_counted, axis=0)
        mean = tl.sum(mean_of_walk * is_counted, axis=0) / tl.maximum(num_walks, 1)
        distance = (mean_of_walk - mean[None, :]) * is_counted
        squares = tl.sum(squares + num_values * distance * distance, axis=0)
        moments += tl.program_id(0).to(tl.int64) * (3 * STRIDE) + channel
        tl.store(moments, tl.zeros([CHANNELS], tl.float32) + num_walks * num_values, mask=inside)
        tl.store(moments + STRIDE, mean, mask=inside)
        tl.store(moments + 2 * STRIDE, squares, mask=inside)


@triton.jit
def _walk_tile(
    count: tl.tensor, STRIDE: tl.constexpr, IS_LARGE: tl.constexpr, WALKS: tl.constexpr, CHANNELS: tl.constexpr
) -> tl.tuple:
    walk = tl.program_id(0) * WALKS + tl.arange(0, WALKS)
    if IS_LARGE:  # addresses in 64 bits take twice the instructions
        walk = walk.to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    return walk, walk < tl.load(count), channel, channel < STRIDE


@triton.jit
def _load_taps(
    kernel: tl.tensor, kernel_size: tl.int32, channel: tl.tensor, C: tl.constexpr, TAPS: tl.constexpr
) -> tl.tuple:
    taps = ()
    for k in tl.static_range(TAPS):
        taps = taps + (tl.load(kernel + channel * kernel_size + k, mask=channel < C, other=0),)  # noqa: RUF005
    return taps


@triton.jit
def _gather(
    node_rows: tl.tensor,
    edge_rows: tl.tensor,
    code_rows: tl.tensor,
    nodes: tl.tensor,
    edges: tl.tensor,
    code: tl.tensor,
    walk: tl.tensor,
    is_walk: tl.tensor,
    channel: tl.tensor,
    inside: tl.tensor,
    position: tl.tensor,
    num_positions: tl.int32,
    STRIDE: tl.constexpr,
    NUM_BYTES: tl.constexpr,
    HAS_EDGES: tl.constexpr,
    MARGIN: tl.constexpr,
) -> tl.tensor:
    """The rows at a position of the walks; zeros before their start and after their end."""
    is_there = is_walk & _is_on_walk(position, num_positions, MARGIN)
    mask = is_there[:, None] & inside[None, :]
    place = walk * num_positions + position
    node = tl.load(nodes + place, mask=is_there, other=0).to(walk.dtype)
    row = tl.load(node_rows + (node * STRIDE)[:, None] + channel[None, :], mask=mask, other=0)
    if HAS_EDGES:
        has_edge = is_there & (position > 0)
        edge = tl.load(edges + (place - walk - 1), mask=has_edge, other=0).to(walk.dtype)
        row += tl.load(
            edge_rows + (edge * STRIDE)[:, None] + channel[None, :], mask=has_edge[:, None] & inside[None, :], other=0
        )
    if NUM_BYTES > 0:
        bits = tl.load(code + place, mask=is_there, other=0)
        for i in tl.static_range(NUM_BYTES):
            value = 256 * i + ((bits >> (8 * i)) & 255).to(tl.int32)
            row += tl.load(code_rows + (value * STRIDE)[:, None] + channel[None, :], mask=mask, other=0)
    return row


@triton.jit
def _is_on_walk(position: tl.tensor, num_positions: tl.int32, MARGIN: tl.constexpr) -> tl.tensor:
    is_there = position < num_positions
    if MARGIN > 0:
        is_there = is_there & (position >= 0)
    return is_there


def rows_backward(
    shape: Shape,
    kernel: Tensor,
    windows: Tensor,
    statistics: Tensor,
    grad_hidden: Tensor,
    sums: Tensor,
    unit: Tensor,
) -> Tensor:
    """The gradients of the looked-up rows, `[W * T, stride]`."""
    grad_rows = windows.new_empty(shape.num_walks * shape.num_positions, shape.stride)
    with torch.cuda.device(windows.get_device()):
        for first_tap, num_taps in shape.passes:
            _rows_backward[(triton.cdiv(shape.num_walks, _WALKS[1]), triton.cdiv(shape.stride, CHANNELS))](
                kernel, shape.count, windows, grad_hidden, statistics, sums, unit, grad_rows, shape.num_positions,
                shape.kernel_size, first_tap,
                C=shape.num_channels, STRIDE=shape.stride, TAPS=num_taps, IS_FIRST=first_tap == 0, MARGIN=shape.margin,
                IS_LARGE=shape.is_large(kernel), WALKS=_WALKS[1], CHANNELS=CHANNELS, num_warps=1, maxnreg=_REGISTERS[1],
            )  # fmt: skip
    return grad_rows


@kernel("num_positions", "kernel_size", "first_tap")
def _rows_backward(
    kernel: tl.tensor,
    count: tl.tensor,
    windows: tl.tensor,
    grad_hidden: tl.tensor,
    statistics: tl.tensor,
    sums: tl.tensor,
    unit: tl.tensor,
    grad_rows: tl.tensor,
    num_positions: tl.int32,
    kernel_size: tl.int32,
    first_tap: tl.int32,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    TAPS: tl.constexpr,
    IS_FIRST: tl.constexpr,
    MARGIN: tl.constexpr,
    IS_LARGE: tl.constexpr,
    WALKS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    num_windows = num_positions + 2 * MARGIN - kernel_size + 1
    walk, is_walk, channel, inside = _walk_tile(count, STRIDE, IS_LARGE, WALKS, CHANNELS)
    is_value = is_walk[:, None] & inside[None, :]
    window_place = (walk * num_windows)[:, None] * STRIDE + channel[None, :]
    grad_rows += (walk * num_positions)[:, None] * STRIDE + channel[None, :]
    taps = _load_taps(kernel + first_tap, kernel_size, channel, C, TAPS)
    through = _load_norm(statistics, sums, unit, channel, inside, STRIDE)
    none, zero = tl.zeros([WALKS], tl.int32), tl.zeros([WALKS, CHANNELS], tl.float32)
    grads = (zero,) * TAPS  # of the latest windows; every pass of the loop replaces all of them
    for begin in range(0, num_positions + MARGIN - first_tap, TAPS):
        totals = ()
        for i in tl.static_range(TAPS):  # all loads first: a load does not overtake a store
            window = none + (begin + i)
            mask = is_value & (window < num_windows)[:, None]
            grad = _grad_window(windows, grad_hidden, window_place + window[:, None] * STRIDE, mask, through)
            grads = grads + (grad,)  # noqa: RUF005 - Triton cannot unpack with a star
            total = zero
            if not IS_FIRST:
                position = window + first_tap - MARGIN
                mask = is_value & _is_on_walk(position, num_positions, MARGIN)[:, None]
                total = tl.load(grad_rows + position[:, None] * STRIDE, mask=mask, other=0).to(tl.float32)
            totals = totals + (total,)  # noqa: RUF005
        for i in tl.static_range(TAPS):
            position = none + (first_tap + begin + i - MARGIN)  # it is in this window, the one before, and so on
            grads = grads[1:]
            total = totals[i]
            for k in tl.static_range(TAPS):
                total += taps[k][None, :] * grads[TAPS - 1 - k]
            mask = is_value & _is_on_walk(position, num_positions, MARGIN)[:, None]
            tl.store(grad_rows + position[:, None] * STRIDE, total.to(grad_rows.dtype.element_ty), mask=mask)


def taps_backward(
    shape: Shape,
    walks: WalkTensors,
    inputs: tuple[Tensor, Tensor | None, Tensor, Tensor],
    windows: Tensor,
    statistics: Tensor,
    grad_hidden: Tensor,
    sums: Tensor,
    unit: Tensor,
) -> Tensor:
    """The gradient of the depthwise kernel, `[C, kernel_size]`."""
    node_rows, edge_rows, code_rows, _ = inputs
    num_blocks = triton.cdiv(shape.num_walks, _WALKS[2])
    parts = windows.new_empty(num_blocks, shape.num_channels, shape.kernel_size, dtype=torch.float32)
    with torch.cuda.device(windows.get_device()):
        for first_tap, num_taps in shape.passes:
            _taps_backward[(num_blocks, triton.cdiv(shape.stride, CHANNELS))](
                node_rows, node_rows if edge_rows is None else edge_rows, code_rows, walks.nodes, walks.edges,
                walks.code, shape.count, windows, grad_hidden, statistics, sums, unit, parts, shape.num_positions,
                shape.kernel_size, first_tap,
                C=shape.num_channels, STRIDE=shape.stride, TAPS=num_taps, NUM_BYTES=shape.num_code_bytes,
                HAS_EDGES=edge_rows is not None, MARGIN=shape.margin, IS_LARGE=shape.is_large(node_rows, edge_rows),
                WALKS=_WALKS[2], CHANNELS=CHANNELS, num_warps=1, maxnreg=_REGISTERS[2],
            )  # fmt: skip
    return sum_parts(parts)


@kernel("num_positions", "kernel_size", "first_tap")
def _taps_backward(
    node_rows: tl.tensor,
    edge_rows: tl.tensor,
    code_rows: tl.tensor,
    nodes: tl.tensor,
    edges: tl.tensor,
    code: tl.tensor,
    count: tl.tensor,
    windows: tl.tensor,
    grad_hidden: tl.tensor,
    statistics: tl.tensor,
    sums: tl.tensor,
    unit: tl.tensor,
    parts: tl.tensor,
    num_positions: tl.int32,
    kernel_size: tl.int32,
    first_tap: tl.int32,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    TAPS: tl.constexpr,
    NUM_BYTES: tl.constexpr,
    HAS_EDGES: tl.constexpr,
    MARGIN: tl.constexpr,
    IS_LARGE: tl.constexpr,
    WALKS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    num_windows = num_positions + 2 * MARGIN - kernel_size + 1
    walk, is_walk, channel, inside = _walk_tile(count, STRIDE, IS_LARGE, WALKS, CHANNELS)
    is_value = is_walk[:, None] & inside[None, :]
    window_place = (walk * num_windows)[:, None] * STRIDE + channel[None, :]
    through = _load_norm(statistics, sums, unit, channel, inside, STRIDE)
    none, zero = tl.zeros([WALKS], tl.int32), tl.zeros([WALKS, CHANNELS], tl.float32)
    grads = (zero,) * TAPS  # of the latest windows; every pass of the loop replaces all of them
    grad_taps = (zero,) * TAPS
    for begin in range(0, num_positions + MARGIN - first_tap, TAPS):
        for i in tl.static_range(TAPS):
            window = none + (begin + i)
            row = _gather(
                node_rows, edge_rows, code_rows, nodes, edges, code, walk, is_walk, channel, inside,
                window + first_tap - MARGIN, num_positions, STRIDE, NUM_BYTES, HAS_EDGES, MARGIN,
            )  # fmt: skip
            mask = is_value & (window < num_windows)[:, None]
            grad = _grad_window(windows, grad_hidden, window_place + window[:, None] * STRIDE, mask, through)
            grads = grads[1:] + (grad,)  # noqa: RUF005 - Triton cannot unpack with a star
            new_taps = ()
            for k in tl.static_range(TAPS):  # the row is in this window, the one before, and so on
                new_taps = new_taps + (grad_taps[k] + row * grads[TAPS - 1 - k],)  # noqa: RUF005
            grad_taps = new_taps
    parts += (tl.program_id(0).to(tl.int64) * C + channel) * kernel_size + first_tap
    for k in tl.static_range(TAPS):
        tl.store(parts + k, tl.sum(grad_taps[k], axis=0), mask=channel < C)


@triton.jit
def _load_norm(
    statistics: tl.tensor,
    sums: tl.tensor,
    unit: tl.tensor,
    channel: tl.tensor,
    inside: tl.tensor,
    STRIDE: tl.constexpr,
) -> tl.tuple:
    """What takes gradients back through the batch norm, for each channel; see `_grad_window`."""
    scale = tl.load(statistics + SCALE * STRIDE + channel, mask=inside, other=0)
    shift = tl.load(statistics + SHIFT * STRIDE + channel, mask=inside, other=0)
    mean = tl.load(statistics + MEAN * STRIDE + channel, mask=inside, other=0)
    rstd = tl.load(statistics + RSTD * STRIDE + channel, mask=inside, other=0)
    share = tl.load(statistics + SHARE * STRIDE + channel, mask=inside, other=0)
    mean_grad = share * tl.load(sums + channel, mask=inside, other=0)
    mean_dot = share * tl.load(sums + STRIDE + channel, mask=inside, other=0)
    return scale, shift, mean, rstd, mean_grad, mean_dot, tl.load(unit)


@triton.jit
def _grad_window(
    windows: tl.tensor, grad_hidden: tl.tensor, place: tl.tensor, mask: tl.tensor, through: tl.tuple
) -> tl.tensor:
    """The gradients of windows before the batch norm:

    d window = scale * (d normed - its mean - normed * mean of d normed * normed).
    """
    scale, shift, mean, rstd, mean_grad, mean_dot, in_units_of = through
    value = tl.load(windows + place, mask=mask, other=0).to(tl.float32)
    grad = tl.load(grad_hidden + place, mask=mask, other=0).to(tl.float32)
    grad = tl.where(value * scale[None, :] + shift[None, :] > 0, grad * in_units_of, 0)
    grad = scale[None, :] * (grad - mean_grad[None, :] - (value - mean[None, :]) * rstd[None, :] * mean_dot[None, :])
    return tl.where(mask, grad, 0)
