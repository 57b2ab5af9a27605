"""Between the walks and the matrix products: one pass over all windows for each thing that is done to them."""

# mypy: allow-untyped-decorators, disable-error-code="assignment"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from crawl.choices import Precision
from crawl.ops.triton.kernel import kernel
from crawl.ops.triton.norm import MEAN, RSTD, SCALE, SHIFT
from crawl.ops.triton.products import dot_precision
from crawl.ops.triton.segments import sum_parts
from crawl.ops.triton.shape import CHANNELS, ROWS, Shape
from crawl.ops.walks import WalkTensors

_NUM_MAXIMA = 64
_TILES = 4  # of windows, which one program sums
_LARGEST_HALF = tl.constexpr(65504.0)  # of float16; no activation comes near it


def activate(shape: Shape, windows: Tensor, statistics: Tensor, dtype: torch.dtype) -> Tensor:
    """The windows, normalised and clipped at zero."""
    hidden = torch.empty_like(windows, dtype=dtype)
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            _activate[shape.tiles(ROWS)](
                windows,
                statistics,
                shape.count,
                hidden,
                shape.windows_per_walk,
                shape.num_windows,
                STRIDE=shape.stride,
                ROWS=ROWS,
                CHANNELS=CHANNELS,
            )
    return hidden


@kernel("windows_per_walk", "num_slots")
def _activate(
    windows: tl.tensor,
    statistics: tl.tensor,
    count: tl.tensor,
    hidden: tl.tensor,
    windows_per_walk: tl.int32,
    num_slots: tl.int64,
    STRIDE: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    row, channel, inside = _window_tile(STRIDE, ROWS, CHANNELS)
    is_row = row < tl.load(count).to(tl.int64) * windows_per_walk
    place = row[:, None] * STRIDE + channel[None, :]
    value = _hidden(windows, statistics, place, is_row, channel, inside, STRIDE, hidden.dtype.element_ty == tl.float16)
    mask = (row < num_slots)[:, None] & inside[None, :]
    tl.store(hidden + place, value.to(hidden.dtype.element_ty), mask=mask)


@triton.jit
def _window_tile(STRIDE: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr) -> tl.tuple:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    return row, channel, channel < STRIDE


@triton.jit
def _hidden(
    windows: tl.tensor,
    statistics: tl.tensor,
    place: tl.tensor,
    is_row: tl.tensor,
    channel: tl.tensor,
    inside: tl.tensor,
    STRIDE: tl.constexpr,
    IS_HALF: tl.constexpr,
) -> tl.tensor:
    """Windows, normalised and clipped at zero; zeros for rows that are not real."""
    mask = is_row[:, None] & inside[None, :]
    value = tl.load(windows + place, mask=mask, other=0).to(tl.float32)
    scale = tl.load(statistics + SCALE * STRIDE + channel, mask=inside, other=0)
    shift = tl.load(statistics + SHIFT * STRIDE + channel, mask=inside, other=0)
    hidden = value * scale[None, :] + shift[None, :]
    if IS_HALF:
        hidden = tl.where(hidden > _LARGEST_HALF, _LARGEST_HALF, hidden)
    return tl.where((hidden < 0) | (mask == 0), 0, hidden)  # unlike a maximum, it lets NaN through


def mixed_backward(
    shape: Shape,
    walks: WalkTensors,
    windows: Tensor,
    statistics: Tensor,
    is_active: Tensor,
    pooled: list[tuple[Tensor, Tensor]],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """The activations again, the gradients of the CNN's outputs before their ReLU, and the unit these are in, `[1]`.

    `pooled` holds the gradients of the means at nodes and of how many windows each mean is; if windows were pooled into
    edges, too, the same of edges.
    """
    hidden, grad_mixed = (torch.empty_like(windows, dtype=dtype) for _ in range(2))
    pooled = [(grad.contiguous(), counts) for grad, counts in pooled]
    unit = windows.new_empty(1, dtype=torch.float32)
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            maxima = largest_gradients(pooled)
            _mixed_backward[shape.tiles(ROWS)](
                windows,
                statistics,
                is_active,
                *pooled[0],
                *pooled[-1],
                maxima,
                walks.nodes,
                walks.edges,
                shape.count,
                hidden,
                grad_mixed,
                unit,
                shape.num_positions,
                shape.num_windows,
                C=shape.num_channels,
                STRIDE=shape.stride,
                KERNEL_SIZE=shape.centred_size,
                NUM_MAXIMA=maxima.numel(),
                HAS_EDGES=len(pooled) > 1,
                IS_PACKED=is_active.dtype == torch.int16,
                ROWS=ROWS,
                CHANNELS=CHANNELS,
            )
    return hidden, grad_mixed, unit


def largest_gradients(pooled: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Some gradients of windows, the largest among them; `pooled` is as in `mixed_backward`, and contiguous."""
    maxima = pooled[0][0].new_empty(len(pooled), _NUM_MAXIMA, dtype=torch.float32)
    for (grad, counts), largest in zip(pooled, maxima, strict=True):
        _largest[(_NUM_MAXIMA,)](grad, counts, largest, grad.numel(), C=grad.shape[1], BLOCK=1024)
    return maxima


@kernel("size")
def _largest(
    grad_pooled: tl.tensor,
    counts: tl.tensor,
    maxima: tl.tensor,
    size: tl.int64,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """The largest gradient of a window that each program sees."""
    largest = tl.zeros([BLOCK], tl.float32)
    for first in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):
        place = first + tl.arange(0, BLOCK)
        grad = tl.abs(tl.load(grad_pooled + place, mask=place < size, other=0))
        largest = tl.maximum(largest, grad / tl.load(counts + place // C, mask=place < size, other=1))
    tl.store(maxima + tl.program_id(0), tl.max(largest, axis=0))


@kernel("num_positions", "num_slots")
def _mixed_backward(
    windows: tl.tensor,
    statistics: tl.tensor,
    is_active: tl.tensor,
    grad_nodes: tl.tensor,
    counts: tl.tensor,
    grad_edges: tl.tensor,
    edge_counts: tl.tensor,
    maxima: tl.tensor,
    nodes: tl.tensor,
    edges: tl.tensor,
    count: tl.tensor,
    hidden: tl.tensor,
    grad_mixed: tl.tensor,
    unit: tl.tensor,
    num_positions: tl.int32,
    num_slots: tl.int64,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    KERNEL_SIZE: tl.constexpr,
    NUM_MAXIMA: tl.constexpr,
    HAS_EDGES: tl.constexpr,
    IS_PACKED: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    exponent = exponent_of_unit(maxima, NUM_MAXIMA)
    if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
        tl.store(unit, (exponent << 23).to(tl.float32, bitcast=True))
    per_unit = ((254 - exponent) << 23).to(tl.float32, bitcast=True)

    row, channel, inside = _window_tile(STRIDE, ROWS, CHANNELS)
    is_row = row < tl.load(count).to(tl.int64) * (num_positions - KERNEL_SIZE + 1)
    place = row[:, None] * STRIDE + channel[None, :]
    if IS_PACKED:  # a bit for each channel
        word = is_active + row[:, None] * (STRIDE // 16) + (channel // 16)[None, :]
        active = (tl.load(word, mask=is_row[:, None] & inside[None, :], other=0) >> (channel & 15)[None, :]) & 1
    else:
        active = tl.load(is_active + place, mask=is_row[:, None] & inside[None, :], other=0)
    owners = owners_of_windows(
        counts, edge_counts, nodes, edges, tl.program_id(0).to(tl.int64) * ROWS, is_row, per_unit, num_positions,
        KERNEL_SIZE, HAS_EDGES, True, ROWS,
    )  # fmt: skip
    grad = spread_gradient(grad_nodes, grad_edges, owners, is_row, channel, C, HAS_EDGES)
    value = _hidden(windows, statistics, place, is_row, channel, inside, STRIDE, hidden.dtype.element_ty == tl.float16)
    stored = (row < num_slots)[:, None] & inside[None, :]
    tl.store(hidden + place, value.to(hidden.dtype.element_ty), mask=stored)
    tl.store(grad_mixed + place, tl.where(active != 0, grad, 0).to(grad_mixed.dtype.element_ty), mask=stored)


@triton.jit
def exponent_of_unit(maxima: tl.tensor, NUM_MAXIMA: tl.constexpr) -> tl.tensor:
    """The biased exponent of the unit of gradients: the power of two at or below the largest gradient of a window.

    To divide by it changes no bit, but what is 10^4 times smaller than the largest loses bits in float16, and what is
    10^7 times smaller is lost.
    """
    largest = tl.max(tl.load(maxima + tl.arange(0, NUM_MAXIMA)), axis=0)
    exponent = (largest.to(tl.int32, bitcast=True) >> 23) & 255
    return tl.minimum(tl.maximum(exponent, 27), 227)


@triton.jit
def owners_of_windows(
    counts: tl.tensor,
    edge_counts: tl.tensor,
    nodes: tl.tensor,
    edges: tl.tensor,
    first: tl.tensor,
    is_row: tl.tensor,
    per_unit: tl.tensor,
    num_positions: tl.int32,
    KERNEL_SIZE: tl.constexpr,
    HAS_EDGES: tl.constexpr,
    IS_LARGE: tl.constexpr,
    ROWS: tl.constexpr,
) -> tl.tuple:
    """The node at the centre of each window and the window's share of its mean; the same of the edge that led there,
    and whether there is one. The windows are those of `ROWS` rows.
    """
    windows_per_walk = num_positions - KERNEL_SIZE + 1
    # to divide 64 bits takes long: once for all rows is enough
    walk = first // windows_per_walk
    window = (first - walk * windows_per_walk).to(tl.int32) + tl.arange(0, ROWS)
    walk, position = walk + window // windows_per_walk, window % windows_per_walk + KERNEL_SIZE // 2
    centre = walk * num_positions + position
    ids: tl.constexpr = tl.int64 if IS_LARGE else tl.int32
    node = tl.load(nodes + centre, mask=is_row, other=0).to(ids)
    share = per_unit / tl.load(counts + node, mask=is_row, other=1)
    edge, edge_share, has_edge = node, share, is_row
    if HAS_EDGES:
        has_edge = is_row & (position > 0)
        edge = tl.load(edges + (centre - walk - 1), mask=has_edge, other=0).to(ids)
        edge_share = per_unit / tl.load(edge_counts + edge, mask=has_edge, other=1)
    return node, share, edge, edge_share, has_edge


@triton.jit
def spread_gradient(
    grad_nodes: tl.tensor,
    grad_edges: tl.tensor,
    owners: tl.tuple,
    is_row: tl.tensor,
    channel: tl.tensor,
    C: tl.constexpr,
    HAS_EDGES: tl.constexpr,
) -> tl.tensor:
    """The gradients of some windows after their ReLU; zeros for rows and channels that are not real."""
    node, share, edge, edge_share, has_edge = owners
    inside = (channel < C)[None, :]
    place = (node * C)[:, None] + channel[None, :]
    grad = tl.load(grad_nodes + place, mask=is_row[:, None] & inside, other=0) * share[:, None]
    if HAS_EDGES:
        place = (edge * C)[:, None] + channel[None, :]
        grad += tl.load(grad_edges + place, mask=has_edge[:, None] & inside, other=0) * edge_share[:, None]
    return grad


def norm_sums(shape: Shape, windows: Tensor, statistics: Tensor, grad_hidden: Tensor, unit: Tensor) -> Tensor:
    """`[2, stride]` the gradients of the batch norm's bias and weight."""
    grid = shape.tiles(_TILES * ROWS)
    parts = windows.new_empty(grid[0], 2, shape.stride, dtype=torch.float32)
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            _sum_grads[grid](
                windows, statistics, grad_hidden, unit, shape.count, parts, shape.windows_per_walk,
                STRIDE=shape.stride, TILES=_TILES, ROWS=ROWS, CHANNELS=CHANNELS,
            )  # fmt: skip
    return sum_parts(parts)


@kernel("windows_per_walk")
def _sum_grads(
    windows: tl.tensor,
    statistics: tl.tensor,
    grad_hidden: tl.tensor,
    unit: tl.tensor,
    count: tl.tensor,
    parts: tl.tensor,
    windows_per_walk: tl.int32,
    STRIDE: tl.constexpr,
    TILES: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < STRIDE
    num_rows = tl.load(count).to(tl.int64) * windows_per_walk
    scale = tl.load(statistics + SCALE * STRIDE + channel, mask=inside, other=0)[None, :]
    shift = tl.load(statistics + SHIFT * STRIDE + channel, mask=inside, other=0)[None, :]
    mean = tl.load(statistics + MEAN * STRIDE + channel, mask=inside, other=0)[None, :]
    rstd = tl.load(statistics + RSTD * STRIDE + channel, mask=inside, other=0)[None, :]
    in_units_of = tl.load(unit)
    total = tl.zeros([ROWS, CHANNELS], tl.float32)
    dot = tl.zeros([ROWS, CHANNELS], tl.float32)
    for tile in tl.static_range(TILES):
        row = tl.program_id(0).to(tl.int64) * (TILES * ROWS) + tile * ROWS + tl.arange(0, ROWS)
        place = row[:, None] * STRIDE + channel[None, :]
        mask = (row < num_rows)[:, None] & inside[None, :]
        value = tl.load(windows + place, mask=mask, other=0).to(tl.float32)
        grad = tl.load(grad_hidden + place, mask=mask, other=0).to(tl.float32) * in_units_of
        grad = tl.where(value * scale + shift > 0, grad, 0)
        total += grad
        dot += grad * ((value - mean) * rstd)
    parts += tl.program_id(0).to(tl.int64) * (2 * STRIDE) + channel
    tl.store(parts, tl.sum(total, axis=0), mask=inside)
    tl.store(parts + STRIDE, tl.sum(dot, axis=0), mask=inside)


def bit_weight_backward(shape: Shape, walks: WalkTensors, grad_rows: Tensor, precision: Precision) -> Tensor:
    """The gradients of the weights of all bits of the code, `[bits, stride]`."""
    num_code_bits = 8 * walks.code.element_size()
    num_tiles = triton.cdiv(grad_rows.shape[0], ROWS)
    num_parts = max(1, min(triton.cdiv(num_tiles, 8), 256))
    parts = grad_rows.new_empty(num_parts, num_code_bits, shape.stride, dtype=torch.float32)
    with torch.cuda.device(grad_rows.get_device()):
        _bit_weight[(num_parts, triton.cdiv(shape.stride, 64))](
            grad_rows, walks.code, shape.count, parts, shape.num_positions,
            STRIDE=shape.stride, BITS=num_code_bits, PRECISION=dot_precision(precision), ROWS=ROWS, CHANNELS=64,
            num_warps=4,
        )  # fmt: skip
    return sum_parts(parts)


@kernel("num_positions")
def _bit_weight(
    grad_rows: tl.tensor,
    code: tl.tensor,
    count: tl.tensor,
    parts: tl.tensor,
    num_positions: tl.int32,
    STRIDE: tl.constexpr,
    BITS: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    num_rows = tl.load(count).to(tl.int64) * num_positions
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    bit = tl.arange(0, BITS)
    total = tl.zeros([BITS, CHANNELS], tl.float32)
    num_tiles = tl.cdiv(num_rows, ROWS)
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
        codes = tl.load(code + row, mask=row < num_rows, other=0).to(tl.int64)
        bits = ((codes[None, :] >> bit[:, None].to(tl.int64)) & 1).to(grad_rows.dtype.element_ty)
        mask = (row < num_rows)[:, None] & (channel < STRIDE)[None, :]
        grad = tl.load(grad_rows + row[:, None] * STRIDE + channel[None, :], mask=mask, other=0)
        total = tl.dot(bits, grad, total, input_precision=PRECISION)
    parts += tl.program_id(0).to(tl.int64) * (BITS * STRIDE)
    tl.store(parts + bit[:, None] * STRIDE + channel[None, :], total, mask=(channel < STRIDE)[None, :])
