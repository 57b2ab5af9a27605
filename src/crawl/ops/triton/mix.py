"""The last convolution of the walks, of width one, between the ReLUs around it: one kernel there and one back.

Programs take tiles of windows in turn. Each has the whole matrix in shared memory and computes a tile from end to end,
so that of what is between windows and means only the outputs pass through memory. Channels are cut into pieces whose
sizes are powers of two, 160 into 128 and 32: a product needs such sizes.
"""

# mypy: allow-untyped-decorators, disable-error-code="assignment"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from crawl.ops.triton.activations import (
    exponent_of_unit,
    largest_gradients,
    owners_of_windows,
    spread_gradient,
)
from crawl.ops.triton.kernel import kernel
from crawl.ops.triton.norm import MEAN, RSTD, SCALE, SHIFT
from crawl.ops.triton.segments import sum_parts
from crawl.ops.triton.shape import Shape
from crawl.ops.walks import WalkTensors

# Piece number k, of 0 to 3, has 128 >> k channels, if the stride has that bit; so a stride is at most 240.
_LARGEST_HALF = tl.constexpr(65504.0)

# Of the kernels there and back. A product on a Hopper GPU has a multiple of 64 rows for every four warps.
_ROWS = (64, 128)
_PROGRAMS = (264, 264)  # more than fit on the GPU at once only load the matrix more often
_WARPS = (4, 4)
_STAGES = (1, 1)
_REGISTERS = (None, None)  # of a thread; as many as it likes when None


def mix_windows(
    shape: Shape, windows: Tensor, statistics: Tensor, mix_t: Tensor, storage: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The outputs of the CNN after the last ReLU, `[windows, stride]`, and which of them are positive.

    float16 outputs end at the largest number of that type. The second result has a bit for each of them, in
    `[windows, stride / 16]` int16.

    Args:
        shape: The sizes.
        windows: Before the batch norm, `[windows, stride]`.
        statistics: Of the batch norm.
        mix_t: The transposed matrix in the type of the factors, `[stride, stride]`.
        storage: The type of the outputs.
    """
    mixed = torch.empty_like(windows, dtype=storage)
    is_active = windows.new_empty(len(windows), shape.stride // 16, dtype=torch.int16)
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            _mix[_grid(shape, 0)](
                windows, statistics, mix_t, shape.count, mixed, is_active, shape.windows_per_walk, shape.num_windows,
                STRIDE=shape.stride, IS_LARGE=shape.is_large(windows), ROWS=_ROWS[0], PRECISION=_precision(mix_t),
                num_warps=_WARPS[0], num_stages=_STAGES[0], maxnreg=_REGISTERS[0],
            )  # fmt: skip
    return mixed, is_active


def mix_backward(
    shape: Shape,
    walks: WalkTensors,
    windows: Tensor,
    statistics: Tensor,
    mix: Tensor,
    is_active: Tensor,
    pooled: list[tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The activations again; the gradients of the CNN's outputs before their ReLU, and of the activations;
    `[2, stride]` the gradients of the batch norm's bias and weight; and the unit, `[1]`, that the gradients of outputs
    and activations are in.

    Args:
        shape: The sizes.
        walks: The walks.
        windows: Before the batch norm, `[windows, stride]`.
        statistics: Of the batch norm.
        mix: The matrix in the type of the factors, `[stride, stride]`.
        is_active: Which outputs are positive, as `mix_windows` returns it.
        pooled: The gradients of the means at nodes, and how many windows each mean is of; if windows were pooled into
            edges, too, the same of edges.
    """
    hidden, grad_mixed, grad_hidden = (torch.empty_like(windows, dtype=mix.dtype) for _ in range(3))
    pooled = [(grad.contiguous(), counts) for grad, counts in pooled]
    unit = windows.new_empty(1, dtype=torch.float32)
    parts = windows.new_empty(triton.cdiv(shape.num_windows, _ROWS[1]), 2, shape.stride, dtype=torch.float32)
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            maxima = largest_gradients(pooled)
            _mix_backward[_grid(shape, 1)](
                windows,
                statistics,
                mix,
                is_active,
                *pooled[0],
                *pooled[-1],
                maxima,
                walks.nodes,
                walks.edges,
                shape.count,
                hidden,
                grad_mixed,
                grad_hidden,
                parts,
                unit,
                shape.num_positions,
                shape.num_windows,
                C=shape.num_channels,
                STRIDE=shape.stride,
                KERNEL_SIZE=shape.centred_size,
                NUM_MAXIMA=maxima.numel(),
                HAS_EDGES=len(pooled) > 1,
                IS_LARGE=shape.is_large(*(grad for grad, _ in pooled)),
                ROWS=_ROWS[1],
                PRECISION=_precision(mix),
                num_warps=_WARPS[1],
                num_stages=_STAGES[1],
                maxnreg=_REGISTERS[1],
            )
    return hidden, grad_mixed, grad_hidden, sum_parts(parts), unit


def _grid(shape: Shape, way: int) -> tuple[int]:
    return (min(triton.cdiv(shape.num_windows, _ROWS[way]), _PROGRAMS[way]),)


def _precision(matrix: Tensor) -> str:
    """How Triton multiplies: factors are float32 only in that precision, and of the others it rounds none."""
    return "ieee" if matrix.dtype == torch.float32 else "tf32"


@kernel("windows_per_walk", "num_slots")
def _mix(
    windows: tl.tensor,
    statistics: tl.tensor,
    mix_t: tl.tensor,
    count: tl.tensor,
    mixed: tl.tensor,
    is_active: tl.tensor,
    windows_per_walk: tl.int32,
    num_slots: tl.int64,
    STRIDE: tl.constexpr,
    IS_LARGE: tl.constexpr,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    factor: tl.constexpr = mix_t.dtype.element_ty
    storage: tl.constexpr = mixed.dtype.element_ty
    matrix = _load_matrix(mix_t, STRIDE)
    num_rows = tl.load(count).to(tl.int64) * windows_per_walk
    for tile in range(tl.program_id(0), tl.cdiv(num_slots.to(tl.int64), ROWS), tl.num_programs(0)):
        row = _rows(tile, ROWS, IS_LARGE)
        is_row, is_slot = row < num_rows, (row < num_slots)[:, None]
        values = _load_windows(windows, row, is_row, STRIDE)
        hidden = ()
        for k in tl.static_range(4):
            piece = values[k]
            if STRIDE & (128 >> k):
                piece = _activated(piece, statistics, is_row, k, STRIDE, factor == tl.float16).to(factor)
            hidden = hidden + (piece,)  # noqa: RUF005 - Triton cannot unpack with a star
        for n in tl.static_range(4):
            if STRIDE & (128 >> n):
                out = _product(hidden, matrix, n, STRIDE, ROWS, PRECISION)
                channel = _channels(n, STRIDE)
                bit = (out > 0).to(tl.int32) << (channel & 15)[None, :]
                words = tl.sum(tl.reshape(bit, [ROWS, 8 >> n, 16]), axis=2)
                out = tl.where(out < 0, 0, out)  # unlike a maximum, it lets NaN through
                if storage == tl.float16:
                    out = tl.where(out > _LARGEST_HALF, _LARGEST_HALF, out)
                tl.store(mixed + row[:, None] * STRIDE + channel[None, :], out.to(storage), mask=is_slot)
                word = STRIDE // (256 >> n) * (16 >> n) + tl.arange(0, 8 >> n)
                place = row[:, None] * (STRIDE // 16) + word[None, :]
                tl.store(is_active + place, words.to(tl.int16), mask=is_slot)


@kernel("num_positions", "num_slots")
def _mix_backward(
    windows: tl.tensor,
    statistics: tl.tensor,
    mix: tl.tensor,
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
    grad_hidden: tl.tensor,
    parts: tl.tensor,
    unit: tl.tensor,
    num_positions: tl.int32,
    num_slots: tl.int64,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    KERNEL_SIZE: tl.constexpr,
    NUM_MAXIMA: tl.constexpr,
    HAS_EDGES: tl.constexpr,
    IS_LARGE: tl.constexpr,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    factor: tl.constexpr = mix.dtype.element_ty
    matrix = _load_matrix(mix, STRIDE)
    exponent = exponent_of_unit(maxima, NUM_MAXIMA)
    in_units_of = (exponent << 23).to(tl.float32, bitcast=True)
    per_unit = ((254 - exponent) << 23).to(tl.float32, bitcast=True)
    if tl.program_id(0) == 0:
        tl.store(unit, in_units_of)
    num_rows = tl.load(count).to(tl.int64) * (num_positions - KERNEL_SIZE + 1)
    for tile in range(tl.program_id(0), tl.cdiv(num_slots.to(tl.int64), ROWS), tl.num_programs(0)):
        row = _rows(tile, ROWS, IS_LARGE)
        is_row, is_slot = row < num_rows, (row < num_slots)[:, None]
        owners = owners_of_windows(
            counts, edge_counts, nodes, edges, tile * ROWS, is_row, per_unit, num_positions,
            KERNEL_SIZE, HAS_EDGES, IS_LARGE, ROWS,
        )  # fmt: skip
        grads = ()
        for k in tl.static_range(4):
            grad = tl.zeros([1], tl.float32)
            if STRIDE & (128 >> k):
                channel = _channels(k, STRIDE)
                word = row[:, None] * (STRIDE // 16) + (channel // 16)[None, :]
                active = (tl.load(is_active + word, mask=is_row[:, None], other=0) >> (channel & 15)[None, :]) & 1
                grad = spread_gradient(grad_nodes, grad_edges, owners, is_row, channel, C, HAS_EDGES)
                grad = tl.where(active != 0, grad, 0).to(factor)
                tl.store(grad_mixed + row[:, None] * STRIDE + channel[None, :], grad, mask=is_slot)
            grads = grads + (grad,)  # noqa: RUF005
        for n in tl.static_range(4):
            if STRIDE & (128 >> n):
                grad = _product(grads, matrix, n, STRIDE, ROWS, PRECISION)
                place = row[:, None] * STRIDE + _channels(n, STRIDE)[None, :]
                tl.store(grad_hidden + place, grad.to(factor), mask=is_slot)
        # A product spreads a channel over many threads, which take long to add it. Read back, it is in a few of them;
        # after the barrier every thread sees what the others have stored.
        tl.debug_barrier()
        for n in tl.static_range(4):
            if STRIDE & (128 >> n):
                channel = _channels(n, STRIDE)
                place = row[:, None] * STRIDE + channel[None, :]
                window = tl.load(windows + place, mask=is_row[:, None], other=0).to(tl.float32)
                grad = tl.load(grad_hidden + place, mask=is_row[:, None], other=0).to(tl.float32) * in_units_of
                value = _activated(window, statistics, is_row, n, STRIDE, factor == tl.float16)
                tl.store(hidden + place, value.to(factor), mask=is_slot)
                grad = tl.where(value > 0, grad, 0)
                mean = tl.load(statistics + MEAN * STRIDE + channel)[None, :]
                rstd = tl.load(statistics + RSTD * STRIDE + channel)[None, :]
                part = parts + tile * (2 * STRIDE) + channel
                tl.store(part, tl.sum(grad, axis=0))
                tl.store(part + STRIDE, tl.sum(grad * ((window - mean) * rstd), axis=0))


@triton.jit
def _rows(tile: tl.tensor, ROWS: tl.constexpr, IS_LARGE: tl.constexpr) -> tl.tensor:
    """The rows of a tile. Their places are computed anew for each tile: to keep them takes too many registers."""
    row = tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
    return row if IS_LARGE else row.to(tl.int32)  # places in 64 bits take twice the registers


@triton.jit
def _channels(piece: tl.constexpr, STRIDE: tl.constexpr) -> tl.tensor:
    """The channels of a piece: they come after those of the larger pieces."""
    return STRIDE // (256 >> piece) * (256 >> piece) + tl.arange(0, 128 >> piece)


@triton.jit
def _load_matrix(matrix: tl.tensor, STRIDE: tl.constexpr) -> tl.tuple:
    """The pieces of a square matrix, row by row; something else for those that do not exist."""
    pieces = ()
    for k in tl.static_range(4):
        for n in tl.static_range(4):
            piece = tl.zeros([1], tl.float32)
            if (STRIDE & (128 >> k)) and (STRIDE & (128 >> n)):
                place = _channels(k, STRIDE)[:, None] * STRIDE + _channels(n, STRIDE)[None, :]
                piece = tl.load(matrix + place)
            pieces = pieces + (piece,)  # noqa: RUF005
    return pieces


@triton.jit
def _load_windows(windows: tl.tensor, row: tl.tensor, is_row: tl.tensor, STRIDE: tl.constexpr) -> tl.tuple:
    """The pieces of some rows, as they are stored; zeros for rows that are not real."""
    pieces = ()
    for k in tl.static_range(4):
        piece = tl.zeros([1], tl.float32)
        if STRIDE & (128 >> k):
            place = row[:, None] * STRIDE + _channels(k, STRIDE)[None, :]
            piece = tl.load(windows + place, mask=is_row[:, None], other=0)
        pieces = pieces + (piece,)  # noqa: RUF005
    return pieces


@triton.jit
def _activated(
    value: tl.tensor,
    statistics: tl.tensor,
    is_row: tl.tensor,
    piece: tl.constexpr,
    STRIDE: tl.constexpr,
    IS_HALF: tl.constexpr,
) -> tl.tensor:
    """A piece of windows, normalised and clipped at zero; zeros for rows that are not real."""
    channel = _channels(piece, STRIDE)
    scale = tl.load(statistics + SCALE * STRIDE + channel)
    shift = tl.load(statistics + SHIFT * STRIDE + channel)
    hidden = value.to(tl.float32) * scale[None, :] + shift[None, :]
    if IS_HALF:
        hidden = tl.where(hidden > _LARGEST_HALF, _LARGEST_HALF, hidden)
    return tl.where((hidden < 0) | (is_row == 0)[:, None], 0, hidden)  # unlike a maximum, it lets NaN through


@triton.jit
def _product(
    rows: tl.tuple,
    matrix: tl.tuple,
    piece: tl.constexpr,
    STRIDE: tl.constexpr,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """A piece of the columns of rows @ matrix."""
    total = tl.zeros([ROWS, 128 >> piece], tl.float32)
    for k in tl.static_range(4):
        if STRIDE & (128 >> k):
            total = tl.dot(rows[k], matrix[4 * k + piece], total, input_precision=PRECISION)
    return total
