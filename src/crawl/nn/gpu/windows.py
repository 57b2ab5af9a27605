"""`fast.pooled_windows` on a GPU, forward and backward.

One kernel goes along the walks: it looks rows up, adds them, convolves and takes the moments for the batch norm.
Another does the way back. In between, matrix products are cuBLAS's, and what is done to their factors is one pass each.
What the backward pass needs is computed again, except the windows before the batch norm and which outputs were
positive.

TF32 keeps ten bits of a factor, as float16 does. So factors are written as float16, which is half of the memory, and
multiplied twice as fast: activations behind a batch norm are of its range, and gradients are brought there by a power
of two.
"""

# mypy: allow-untyped-decorators, disable-error-code="assignment"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.nn.bits import chosen_bits, code_bits
from crawl.nn.gpu.norm import MEAN, RSTD, SCALE, SHARE, SHIFT, finalise
from crawl.nn.gpu.products import dot_precision, multiply, product
from crawl.nn.gpu.segments import mean_windows, sum_parts, sum_rows
from crawl.nn.gpu.streams import catch_up, in_parallel, later
from crawl.walks import Walks
from crawl.walks.walks import num_bits

if TYPE_CHECKING:
    from crawl.nn.conv import CRaWlConv
    from crawl.nn.linear import Precision

_NUM_MAXIMA = 64
_LARGEST_HALF = tl.constexpr(65504.0)  # of float16; no activation comes near it
_CHANNELS = 32  # of a tile along the walks: a row of it is one line of memory
_WALKS = (4, 2)  # of a tile, on the way there and back: with more, a thread would need more registers than there are
_REGISTERS = (168, 128)  # of a thread: with fewer, more of them fit
_FACTORS = {"tf32": torch.float16, "bf16": torch.bfloat16, "float32": torch.float32}
_MOST_TAPS = 9  # of the depthwise kernel in one pass along the walks
_ROWS = 64  # of a tile of windows


def pooled_windows(conv: CRaWlConv, x: Tensor, walks: Walks, edge_attr: Tensor | None) -> Tensor:
    """p(v), `[N, out_channels]`; see `reference.pooled_windows`."""
    pooled: Tensor = _PooledWindows.apply(
        x,
        edge_attr,
        conv.project.weight.squeeze(2),
        conv.depthwise.weight.squeeze(1),
        conv.norm.weight,
        conv.norm.bias,
        conv.mix.weight.squeeze(2),
        conv,
        walks,
    )
    return pooled


class _PooledWindows(torch.autograd.Function):
    """Matrices of floats are padded with zero columns to a multiple of 16 channels, so that rows are aligned."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        edge_attr: Tensor | None,
        project: Tensor,
        kernel: Tensor,
        gamma: Tensor,
        beta: Tensor,
        mix: Tensor,
        conv: CRaWlConv,
        walks: Walks,
    ) -> Tensor:
        del gamma, beta  # `finalise` takes them from the batch norm; they are here for their gradients
        num_channels, num_nodes = conv.out_channels, x.shape[0]
        storage = torch.bfloat16 if conv.precision == "bf16" else torch.float32
        factors = _FACTORS[conv.precision]
        shape = _Shape(conv, walks, num_nodes)
        weight = project.detach()
        first_bit = conv.in_channels + conv.edge_dim

        def table(rows: Tensor, columns: slice) -> Tensor:
            return product(rows, weight[:, columns].t(), conv.precision, width=shape.stride)

        edge_columns = slice(conv.in_channels, first_bit)
        node_rows, edge_rows, code_rows = in_parallel(
            x.device,
            lambda: table(x, slice(conv.in_channels)),
            lambda: None if edge_attr is None else table(edge_attr, edge_columns),
            lambda: table(code_bits(conv, walks, weight.dtype), slice(first_bit, None)),
        )
        mix, mix_t = _padded(mix.detach(), shape.stride, factors)
        windows = x.new_empty(shape.num_windows, shape.stride, dtype=storage)
        inputs = (node_rows, edge_rows, code_rows, kernel.detach().contiguous())
        statistics = finalise(conv.norm, _convolve_all(shape, walks, inputs, windows))
        mixed = multiply(_activate_all(shape, windows, statistics, factors), mix.t(), storage)
        nodes = walks.groups_of_nodes(num_nodes)
        pooled, counts, is_active = mean_windows(mixed, nodes, shape.num_positions, shape.kernel_size)
        ctx.conv, ctx.walks, ctx.shape = conv, walks, shape
        ctx.save_for_backward(x, edge_attr, weight, mix_t, *inputs, windows, statistics, is_active, counts)
        return pooled[:, :num_channels]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_pooled: Tensor) -> tuple[Tensor | None, ...]:
        conv, walks, shape = ctx.conv, ctx.walks, ctx.shape
        x, edge_attr, weight, mix_t, *inputs, windows, statistics, is_active, counts = ctx.saved_tensors
        num_channels = conv.out_channels
        catch_up(x.device)  # frees what the layer behind this one kept
        hidden, grad_mixed, unit = _mixed_backward_all(
            shape, walks, windows, statistics, is_active, grad_pooled, counts, mix_t.dtype
        )

        def weight_of_mix() -> Tensor:
            return multiply(grad_mixed.t(), hidden, torch.float32)[:num_channels, :num_channels] * unit

        grad_mix = later(x.device, weight_of_mix, hidden, grad_mixed, unit)
        grad_hidden = multiply(grad_mixed, mix_t.t(), mix_t.dtype)
        sums = _norm_sums(shape, windows, statistics, grad_hidden, unit)
        grad_rows, grad_kernel = _convolve_all_backward(
            shape, walks, inputs, windows, statistics, grad_hidden, sums, unit
        )
        first_bit = conv.in_channels + conv.edge_dim
        nodes = walks.groups_of_nodes(shape.num_nodes)
        grad_nodes = sum_rows(grad_rows, nodes.ptr, nodes.order)[:, :num_channels]

        def weight_of_project() -> Tensor:
            parts = [product(grad_nodes.t(), x, conv.precision)]
            if edge_attr is not None:
                parts.append(product(_sum_edges(shape, walks, grad_rows, edge_attr).t(), edge_attr, conv.precision))
            if shape.num_code_bytes:
                by_bit = _bit_weight_backward(shape, walks, grad_rows, conv.precision)[:, :num_channels]
                parts.append(product(by_bit.t(), chosen_bits(conv, walks, len(by_bit), by_bit.dtype), "float32"))
            return torch.cat(parts, dim=1)

        grad_x = grad_edge_attr = None
        if ctx.needs_input_grad[0]:
            grad_x = product(grad_nodes, weight[:, : conv.in_channels], conv.precision)
        if ctx.needs_input_grad[1]:
            grad_edges = _sum_edges(shape, walks, grad_rows, edge_attr)
            grad_edge_attr = product(grad_edges, weight[:, conv.in_channels : first_bit], conv.precision)
        return (
            grad_x,
            grad_edge_attr,
            later(x.device, weight_of_project, grad_rows, grad_nodes, x, edge_attr),
            grad_kernel[:, :num_channels].t(),
            sums[1, :num_channels],
            sums[0, :num_channels],
            grad_mix,
            None,
            None,
        )


def _sum_edges(shape: _Shape, walks: Walks, grad_rows: Tensor, edge_attr: Tensor) -> Tensor:
    """`[E, C]` the gradients of the rows of edges."""
    edges = walks.groups_of_edges(edge_attr.shape[0])
    return sum_rows(grad_rows, edges.ptr, edges.order, steps_of=shape.num_positions)[:, : shape.num_channels]


def _padded(square: Tensor, stride: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A square matrix with zeros around, and the same transposed: products of rows with rows are the fastest."""
    out = square.new_empty(2, stride, stride, dtype=dtype)
    with torch.cuda.device(square.get_device()):
        _pad[(triton.cdiv(stride * stride, 1024),)](square.contiguous(), out, len(square), STRIDE=stride, BLOCK=1024)
    return out[0], out[1]


@triton.jit(do_not_specialize=["size"])
def _pad(square: tl.tensor, out: tl.tensor, size: tl.int32, STRIDE: tl.constexpr, BLOCK: tl.constexpr) -> None:
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = place // STRIDE, place % STRIDE
    mask = (row < size) & (column < size)
    value = tl.load(square + row * size + column, mask=mask, other=0)
    value_t = tl.load(square + column * size + row, mask=mask, other=0)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=place < STRIDE * STRIDE)
    tl.store(out + STRIDE * STRIDE + place, value_t.to(out.dtype.element_ty), mask=place < STRIDE * STRIDE)


class _Shape:
    """The sizes that the kernels of a layer share."""

    def __init__(self, conv: CRaWlConv, walks: Walks, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.num_walks, self.num_positions = walks.nodes.shape
        self.kernel_size = conv.kernel_size
        self.num_channels = conv.out_channels
        self.stride = -(-conv.out_channels // 16) * 16
        self.num_code_bytes = walks.code.element_size() if conv.num_identity_bits + conv.num_adjacency_bits else 0
        self.windows_per_walk = self.num_positions - self.kernel_size + 1
        self.num_windows = self.num_walks * self.windows_per_walk
        self.count = walks.num_real
        if self.count is None:
            self.count = torch.full((1,), self.num_walks, dtype=torch.int32, device=walks.device)

    def tiles(self, num_rows: int) -> tuple[int, int]:
        """The grid of tiles of so many windows and `_CHANNELS` channels."""
        return triton.cdiv(self.num_windows, num_rows), triton.cdiv(self.stride, _CHANNELS)

    def is_large(self, *tables: Tensor | None) -> bool:
        """Whether something has more than 2^31 entries, or comes near it."""
        sizes = [table.numel() for table in tables if table is not None]
        return max(self.num_walks * (self.num_positions + self.kernel_size) * self.stride, *sizes) >= 2**30

    @property
    def passes(self) -> list[tuple[int, int]]:
        """The first tap and the number of taps of each pass along the walks: as many taps as registers can keep."""
        if self.kernel_size <= _MOST_TAPS + 2:
            return [(0, self.kernel_size)]
        return [(k, min(_MOST_TAPS, self.kernel_size - k)) for k in range(0, self.kernel_size, _MOST_TAPS)]


def _convolve_all(
    shape: _Shape, walks: Walks, inputs: tuple[Tensor, Tensor | None, Tensor, Tensor], windows: Tensor
) -> Tensor:
    """Fill `windows`; the moments of each block of walks, `[P, 3, stride]`."""
    node_rows, edge_rows, code_rows, kernel = inputs
    num_blocks = triton.cdiv(shape.num_walks, _WALKS[0])
    moments = windows.new_empty(num_blocks, 3, shape.stride, dtype=torch.float32)
    with torch.cuda.device(windows.get_device()):
        for first_tap, num_taps in shape.passes:
            _convolve[(num_blocks, triton.cdiv(shape.stride, _CHANNELS))](
                node_rows,
                node_rows if edge_rows is None else edge_rows,
                code_rows,
                kernel,
                walks.nodes,
                walks.edges,
                walks.code,
                shape.count,
                windows,
                moments,
                shape.num_positions,
                shape.kernel_size,
                first_tap,
                C=shape.num_channels,
                STRIDE=shape.stride,
                TAPS=num_taps,
                IS_FIRST=first_tap == 0,
                IS_LAST=first_tap + num_taps == shape.kernel_size,
                NUM_BYTES=shape.num_code_bytes,
                HAS_EDGES=edge_rows is not None,
                IS_LARGE=shape.is_large(node_rows, edge_rows),
                WALKS=_WALKS[0],
                CHANNELS=_CHANNELS,
                num_warps=1,
                maxnreg=_REGISTERS[0],
            )
    return moments


@triton.jit(do_not_specialize=["num_positions", "kernel_size", "first_tap"])
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
    IS_LARGE: tl.constexpr,
    WALKS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    num_windows = num_positions - kernel_size + 1
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
                none + (first_tap + begin + i), num_positions, STRIDE, NUM_BYTES, HAS_EDGES,
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
) -> tl.tensor:
    """The rows at a position of the walks; zeros behind their end."""
    is_there = is_walk & (position < num_positions)
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


def _activate_all(shape: _Shape, windows: Tensor, statistics: Tensor, dtype: torch.dtype) -> Tensor:
    """The windows, normalised and clipped at zero."""
    hidden = torch.empty_like(windows, dtype=dtype)
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            _activate[shape.tiles(_ROWS)](
                windows,
                statistics,
                shape.count,
                hidden,
                shape.windows_per_walk,
                shape.num_windows,
                STRIDE=shape.stride,
                ROWS=_ROWS,
                CHANNELS=_CHANNELS,
            )
    return hidden


@triton.jit(do_not_specialize=["windows_per_walk", "num_slots"])
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
    """Windows, normalised and clipped at zero; zeros for rows that are none."""
    mask = is_row[:, None] & inside[None, :]
    value = tl.load(windows + place, mask=mask, other=0).to(tl.float32)
    scale = tl.load(statistics + SCALE * STRIDE + channel, mask=inside, other=0)
    shift = tl.load(statistics + SHIFT * STRIDE + channel, mask=inside, other=0)
    hidden = value * scale[None, :] + shift[None, :]
    if IS_HALF:
        hidden = tl.where(hidden > _LARGEST_HALF, _LARGEST_HALF, hidden)
    return tl.where((hidden < 0) | (mask == 0), 0, hidden)  # unlike a maximum, it lets NaN through


def _mixed_backward_all(
    shape: _Shape,
    walks: Walks,
    windows: Tensor,
    statistics: Tensor,
    is_active: Tensor,
    grad_pooled: Tensor,
    counts: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """The activations again, the gradients of the CNN's outputs before their ReLU, and the unit these are in, `[1]`."""
    hidden, grad_mixed = (torch.empty_like(windows, dtype=dtype) for _ in range(2))
    grad_pooled = grad_pooled.contiguous()
    unit = windows.new_ones(1, dtype=torch.float32)
    maxima = windows.new_empty(_NUM_MAXIMA, dtype=torch.float32)
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            _largest[(_NUM_MAXIMA,)](grad_pooled, counts, maxima, grad_pooled.numel(), C=shape.num_channels, BLOCK=1024)
            _mixed_backward[shape.tiles(_ROWS)](
                windows,
                statistics,
                is_active,
                grad_pooled,
                maxima,
                counts,
                walks.nodes,
                shape.count,
                hidden,
                grad_mixed,
                unit,
                shape.num_positions,
                shape.num_windows,
                C=shape.num_channels,
                STRIDE=shape.stride,
                KERNEL_SIZE=shape.kernel_size,
                NUM_MAXIMA=_NUM_MAXIMA,
                ROWS=_ROWS,
                CHANNELS=_CHANNELS,
            )
    return hidden, grad_mixed, unit


@triton.jit(do_not_specialize=["size"])
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


@triton.jit(do_not_specialize=["num_positions", "num_slots"])
def _mixed_backward(
    windows: tl.tensor,
    statistics: tl.tensor,
    is_active: tl.tensor,
    grad_pooled: tl.tensor,
    maxima: tl.tensor,
    counts: tl.tensor,
    nodes: tl.tensor,
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
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    # The unit is the power of two at or below the largest gradient of a window. To divide by it changes no bit, but
    # what is 10^4 times smaller than the largest loses bits in float16, and 10^7 times smaller is lost.
    largest = tl.max(tl.load(maxima + tl.arange(0, NUM_MAXIMA)), axis=0)
    exponent = (largest.to(tl.int32, bitcast=True) >> 23) & 255
    exponent = tl.minimum(tl.maximum(exponent, 27), 227)
    if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
        tl.store(unit, (exponent << 23).to(tl.float32, bitcast=True))
    per_unit = ((254 - exponent) << 23).to(tl.float32, bitcast=True)

    windows_per_walk = num_positions - KERNEL_SIZE + 1
    row, channel, inside = _window_tile(STRIDE, ROWS, CHANNELS)
    is_row = row < tl.load(count).to(tl.int64) * windows_per_walk
    centre = row // windows_per_walk * num_positions + row % windows_per_walk + KERNEL_SIZE // 2
    node = tl.load(nodes + centre, mask=is_row, other=0).to(tl.int64)
    place = row[:, None] * STRIDE + channel[None, :]
    mask = is_row[:, None] & inside[None, :]
    active = tl.load(is_active + place, mask=mask, other=0)
    # every window centred at a node has the same gradient, but for the ReLU
    grad = tl.load(grad_pooled + node[:, None] * C + channel[None, :], mask=mask & (channel < C)[None, :], other=0)
    grad = grad * per_unit / tl.load(counts + node, mask=is_row, other=1)[:, None]
    value = _hidden(windows, statistics, place, is_row, channel, inside, STRIDE, hidden.dtype.element_ty == tl.float16)
    stored = (row < num_slots)[:, None] & inside[None, :]
    tl.store(hidden + place, value.to(hidden.dtype.element_ty), mask=stored)
    tl.store(grad_mixed + place, tl.where(active != 0, grad, 0).to(grad_mixed.dtype.element_ty), mask=stored)


def _norm_sums(shape: _Shape, windows: Tensor, statistics: Tensor, grad_hidden: Tensor, unit: Tensor) -> Tensor:
    """`[2, stride]` the gradients of the batch norm's bias and weight."""
    num_tiles, num_chunks = shape.tiles(_ROWS)
    parts = windows.new_empty(num_tiles, 2, shape.stride, dtype=torch.float32)
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            _sum_grads[(num_tiles, num_chunks)](
                windows,
                statistics,
                grad_hidden,
                unit,
                shape.count,
                parts,
                shape.windows_per_walk,
                STRIDE=shape.stride,
                ROWS=_ROWS,
                CHANNELS=_CHANNELS,
            )
    return sum_parts(parts)


@triton.jit(do_not_specialize=["windows_per_walk"])
def _sum_grads(
    windows: tl.tensor,
    statistics: tl.tensor,
    grad_hidden: tl.tensor,
    unit: tl.tensor,
    count: tl.tensor,
    parts: tl.tensor,
    windows_per_walk: tl.int32,
    STRIDE: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    row, channel, inside = _window_tile(STRIDE, ROWS, CHANNELS)
    is_row = row < tl.load(count).to(tl.int64) * windows_per_walk
    scale = tl.load(statistics + SCALE * STRIDE + channel, mask=inside, other=0)[None, :]
    shift = tl.load(statistics + SHIFT * STRIDE + channel, mask=inside, other=0)[None, :]
    mean = tl.load(statistics + MEAN * STRIDE + channel, mask=inside, other=0)[None, :]
    rstd = tl.load(statistics + RSTD * STRIDE + channel, mask=inside, other=0)[None, :]
    place = row[:, None] * STRIDE + channel[None, :]
    mask = is_row[:, None] & inside[None, :]
    value = tl.load(windows + place, mask=mask, other=0).to(tl.float32)
    grad = tl.load(grad_hidden + place, mask=mask, other=0).to(tl.float32) * tl.load(unit)
    grad = tl.where(value * scale + shift > 0, grad, 0)
    parts += tl.program_id(0).to(tl.int64) * (2 * STRIDE) + channel
    tl.store(parts, tl.sum(grad, axis=0), mask=inside)
    tl.store(parts + STRIDE, tl.sum(grad * ((value - mean) * rstd), axis=0), mask=inside)


def _convolve_all_backward(
    shape: _Shape,
    walks: Walks,
    inputs: tuple[Tensor, Tensor | None, Tensor, Tensor],
    windows: Tensor,
    statistics: Tensor,
    grad_hidden: Tensor,
    sums: Tensor,
    unit: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of the looked-up rows, `[W * T, stride]`, and of the depthwise kernel, `[kernel_size, stride]`."""
    node_rows, edge_rows, code_rows, kernel = inputs
    grad_rows = windows.new_empty(shape.num_walks * shape.num_positions, shape.stride)
    num_blocks = triton.cdiv(shape.num_walks, _WALKS[1])
    parts = windows.new_empty(num_blocks, shape.kernel_size, shape.stride, dtype=torch.float32)
    with torch.cuda.device(windows.get_device()):
        for first_tap, num_taps in shape.passes:
            _convolve_backward[(num_blocks, triton.cdiv(shape.stride, _CHANNELS))](
                node_rows,
                node_rows if edge_rows is None else edge_rows,
                code_rows,
                kernel,
                walks.nodes,
                walks.edges,
                walks.code,
                shape.count,
                windows,
                grad_hidden,
                statistics,
                sums,
                unit,
                grad_rows,
                parts,
                shape.num_positions,
                shape.kernel_size,
                first_tap,
                C=shape.num_channels,
                STRIDE=shape.stride,
                TAPS=num_taps,
                IS_FIRST=first_tap == 0,
                NUM_BYTES=shape.num_code_bytes,
                HAS_EDGES=edge_rows is not None,
                IS_LARGE=shape.is_large(node_rows, edge_rows),
                WALKS=_WALKS[1],
                CHANNELS=_CHANNELS,
                num_warps=1,
                maxnreg=_REGISTERS[1],
            )
    return grad_rows, sum_parts(parts)


@triton.jit(do_not_specialize=["num_positions", "kernel_size", "first_tap"])
def _convolve_backward(
    node_rows: tl.tensor,
    edge_rows: tl.tensor,
    code_rows: tl.tensor,
    kernel: tl.tensor,
    nodes: tl.tensor,
    edges: tl.tensor,
    code: tl.tensor,
    count: tl.tensor,
    windows: tl.tensor,
    grad_hidden: tl.tensor,
    statistics: tl.tensor,
    sums: tl.tensor,
    unit: tl.tensor,
    grad_rows: tl.tensor,
    parts: tl.tensor,
    num_positions: tl.int32,
    kernel_size: tl.int32,
    first_tap: tl.int32,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    TAPS: tl.constexpr,
    IS_FIRST: tl.constexpr,
    NUM_BYTES: tl.constexpr,
    HAS_EDGES: tl.constexpr,
    IS_LARGE: tl.constexpr,
    WALKS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    num_windows = num_positions - kernel_size + 1
    walk, is_walk, channel, inside = _walk_tile(count, STRIDE, IS_LARGE, WALKS, CHANNELS)
    is_value = is_walk[:, None] & inside[None, :]
    window_place = (walk * num_windows)[:, None] * STRIDE + channel[None, :]
    grad_rows += (walk * num_positions)[:, None] * STRIDE + channel[None, :]
    taps = _load_taps(kernel + first_tap, kernel_size, channel, C, TAPS)
    # through the normalisation: d window = scale * (d normed - its mean - normed * mean of d normed * normed)
    scale = tl.load(statistics + SCALE * STRIDE + channel, mask=inside, other=0)[None, :]
    shift = tl.load(statistics + SHIFT * STRIDE + channel, mask=inside, other=0)[None, :]
    mean = tl.load(statistics + MEAN * STRIDE + channel, mask=inside, other=0)[None, :]
    rstd = tl.load(statistics + RSTD * STRIDE + channel, mask=inside, other=0)[None, :]
    share = tl.load(statistics + SHARE * STRIDE + channel, mask=inside, other=0)[None, :]
    mean_grad = share * tl.load(sums + channel, mask=inside, other=0)[None, :]
    mean_dot = share * tl.load(sums + STRIDE + channel, mask=inside, other=0)[None, :]
    in_units_of = tl.load(unit)

    none, zero = tl.zeros([WALKS], tl.int32), tl.zeros([WALKS, CHANNELS], tl.float32)
    grads = (zero,) * TAPS  # of the latest windows; every pass of the loop replaces all of them
    grad_taps = (zero,) * TAPS
    for begin in range(0, num_positions - first_tap, TAPS):
        rows = ()
        totals = ()
        for i in tl.static_range(TAPS):  # all loads first: a load does not overtake a store
            window = none + (begin + i)
            position = window + first_tap
            row = _gather(
                node_rows, edge_rows, code_rows, nodes, edges, code, walk, is_walk, channel, inside,
                position, num_positions, STRIDE, NUM_BYTES, HAS_EDGES,
            )  # fmt: skip
            rows = rows + (row,)  # noqa: RUF005 - Triton cannot unpack with a star
            mask = is_value & (window < num_windows)[:, None]
            value = tl.load(windows + window_place + window[:, None] * STRIDE, mask=mask, other=0).to(tl.float32)
            grad = tl.load(grad_hidden + window_place + window[:, None] * STRIDE, mask=mask, other=0).to(tl.float32)
            grad = tl.where(value * scale + shift > 0, grad * in_units_of, 0)
            grad = scale * (grad - mean_grad - (value - mean) * rstd * mean_dot)
            grads = grads + (tl.where(mask, grad, 0),)  # noqa: RUF005
            total = zero
            if not IS_FIRST:
                mask = is_value & (position < num_positions)[:, None]
                total = tl.load(grad_rows + position[:, None] * STRIDE, mask=mask, other=0).to(tl.float32)
            totals = totals + (total,)  # noqa: RUF005
        for i in tl.static_range(TAPS):
            position = none + (first_tap + begin + i)  # it is in this window, the one before, and so on
            grads = grads[1:]
            total = totals[i]
            new_taps = ()
            for k in tl.static_range(TAPS):
                total += taps[k][None, :] * grads[TAPS - 1 - k]
                new_taps = new_taps + (grad_taps[k] + rows[i] * grads[TAPS - 1 - k],)  # noqa: RUF005
            grad_taps = new_taps
            mask = is_value & (position < num_positions)[:, None]
            tl.store(grad_rows + position[:, None] * STRIDE, total.to(grad_rows.dtype.element_ty), mask=mask)
    parts += (tl.program_id(0).to(tl.int64) * kernel_size + first_tap) * STRIDE + channel
    for k in tl.static_range(TAPS):
        tl.store(parts + k * STRIDE, tl.sum(grad_taps[k], axis=0), mask=inside)


def _bit_weight_backward(shape: _Shape, walks: Walks, grad_rows: Tensor, precision: Precision) -> Tensor:
    """The gradients of the weights of all bits of the code, `[bits, stride]`."""
    num_code_bits = max(triton.next_power_of_2(num_bits(walks.window_size)), 16)
    num_tiles = triton.cdiv(grad_rows.shape[0], _ROWS)
    num_parts = max(1, min(triton.cdiv(num_tiles, 8), 256))
    parts = grad_rows.new_empty(num_parts, num_code_bits, shape.stride, dtype=torch.float32)
    with torch.cuda.device(grad_rows.get_device()):
        _bit_weight[(num_parts, triton.cdiv(shape.stride, 64))](
            grad_rows,
            walks.code,
            shape.count,
            parts,
            shape.num_positions,
            STRIDE=shape.stride,
            BITS=num_code_bits,
            PRECISION=dot_precision(precision),
            ROWS=_ROWS,
            CHANNELS=64,
            num_warps=4,
        )
    return sum_parts(parts)


@triton.jit(do_not_specialize=["num_positions"])
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
