"""`fast.pooled_windows` on a GPU, forward and backward.

Two kernels go along the walks: one looks rows up, adds them, convolves and takes the moments for the batch norm, the
other does the way back. In between lie matrix products that normalise their operand as they read it. What the
backward pass needs is computed again, except the windows before the batch norm and which outputs were positive.
"""

# mypy: allow-untyped-decorators

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from crawl.nn.bits import chosen_bits, code_bits
from crawl.nn.gpu.norm import MEAN, RSTD, SCALE, SHARE, SHIFT, finalise
from crawl.nn.gpu.segments import STEPS, WINDOWS, sum_rows
from crawl.walks import Walks
from crawl.walks.walks import num_bits

if TYPE_CHECKING:
    from crawl.nn.conv import CRaWlConv, Precision

_CHANNELS = 32  # of a tile along the walks: a row of it is one line of memory
_WALKS = 4
_MOST_TAPS = 9  # of the depthwise kernel in one pass along the walks
_ROWS = 64  # of a tile of windows in the matrix products


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
        padding = -num_channels % 16
        storage = torch.bfloat16 if conv.precision == "bf16" else torch.float32
        weight = F.pad(project.detach(), (0, 0, 0, padding))
        mix = F.pad(mix.detach(), (0, padding, 0, padding)).to(storage)
        first_bit = conv.in_channels + conv.edge_dim
        node_rows = x @ weight[:, : conv.in_channels].t()
        edge_rows = None if edge_attr is None else edge_attr @ weight[:, conv.in_channels : first_bit].t()
        code_rows = code_bits(conv, walks, weight.dtype) @ weight[:, first_bit:].t()
        shape = _Shape(conv, walks, num_nodes)

        windows = x.new_empty(shape.num_windows, shape.stride, dtype=storage)
        inputs = (node_rows, edge_rows, code_rows, kernel.detach().contiguous())
        statistics = finalise(conv.norm, _convolve_all(shape, walks, inputs, windows))
        mixed, is_active = _mix_all(shape, walks, windows, statistics, mix, conv.precision)
        nodes = walks.groups_of_nodes(num_nodes)
        pooled, counts = sum_rows(
            mixed,
            nodes.ptr,
            nodes.order,
            places=WINDOWS,
            num_positions=shape.num_positions,
            kernel_size=shape.kernel_size,
            mean=True,
        )
        ctx.conv, ctx.walks, ctx.shape = conv, walks, shape
        ctx.save_for_backward(x, edge_attr, weight, mix, *inputs, windows, statistics, is_active, counts)
        return pooled[:, :num_channels]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_pooled: Tensor) -> tuple[Tensor | None, ...]:
        conv, walks, shape = ctx.conv, ctx.walks, ctx.shape
        x, edge_attr, weight, mix, *inputs, windows, statistics, is_active, counts = ctx.saved_tensors
        num_channels, num_bit_weights = conv.out_channels, conv.num_identity_bits + conv.num_adjacency_bits
        # every window centred at a node has the same gradient, but for the ReLU
        grad_nodes = F.pad(grad_pooled / counts.clamp_min(1).unsqueeze(1), (0, shape.stride - num_channels))
        grad_normed, sums = _mix_all_backward(
            shape, walks, windows, statistics, is_active, grad_nodes, mix.t().contiguous(), conv.precision
        )
        grad_mix = _mix_weight_backward(shape, walks, windows, statistics, is_active, grad_nodes, conv.precision)
        grad_rows, grad_kernel = _convolve_all_backward(shape, walks, inputs, windows, statistics, grad_normed, sums)
        del grad_normed

        nodes = walks.groups_of_nodes(shape.num_nodes)
        grad_node_rows, _ = sum_rows(grad_rows, nodes.ptr, nodes.order)
        first_bit = conv.in_channels + conv.edge_dim
        grad_weight = torch.empty_like(weight)
        torch.mm(grad_node_rows.t(), x, out=grad_weight[:, : conv.in_channels])
        grad_x = grad_node_rows @ weight[:, : conv.in_channels] if ctx.needs_input_grad[0] else None
        grad_edge_attr = None
        if edge_attr is not None:
            edges = walks.groups_of_edges(edge_attr.shape[0])
            grad_edge_rows, _ = sum_rows(
                grad_rows, edges.ptr, edges.order, places=STEPS, num_positions=shape.num_positions
            )
            edge_columns = slice(conv.in_channels, first_bit)
            torch.mm(grad_edge_rows.t(), edge_attr, out=grad_weight[:, edge_columns])
            grad_edge_attr = grad_edge_rows @ weight[:, edge_columns] if ctx.needs_input_grad[1] else None
        if num_bit_weights:
            by_bit = _bit_weight_backward(shape, walks, grad_rows, conv.precision)
            torch.mm(by_bit.t(), chosen_bits(conv, walks, len(by_bit), by_bit.dtype), out=grad_weight[:, first_bit:])
        return (
            grad_x,
            grad_edge_attr,
            grad_weight[:num_channels],
            grad_kernel[:, :num_channels].t(),
            sums[1, :num_channels],
            sums[0, :num_channels],
            grad_mix[:num_channels, :num_channels],
            None,
            None,
        )


class _Shape:
    """The sizes that the kernels of a layer share."""

    def __init__(self, conv: CRaWlConv, walks: Walks, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.num_walks, self.num_positions = walks.nodes.shape
        self.kernel_size = conv.kernel_size
        self.num_channels = conv.out_channels
        self.stride = -(-conv.out_channels // 16) * 16
        self.num_code_bytes = walks.code.element_size() if conv.num_identity_bits + conv.num_adjacency_bits else 0
        self.num_windows = self.num_walks * (self.num_positions - self.kernel_size + 1)
        self.count = walks.num_real
        if self.count is None:
            self.count = torch.full((1,), self.num_walks, dtype=torch.int32, device=walks.device)
        self.num_blocks = triton.cdiv(self.num_walks, _WALKS)
        self.num_tiles = triton.cdiv(self.num_windows, _ROWS)

    @property
    def passes(self) -> list[tuple[int, int]]:
        """The first tap and the number of taps of each pass along the walks: as many taps as registers can keep."""
        if self.kernel_size <= _MOST_TAPS + 2:
            return [(0, self.kernel_size)]
        return [(k, min(_MOST_TAPS, self.kernel_size - k)) for k in range(0, self.kernel_size, _MOST_TAPS)]

    @property
    def product_block(self) -> int:
        """How many output channels a program of a matrix product has."""
        width = triton.next_power_of_2(self.stride)
        return width if width <= 256 else 128


def _convolve_all(
    shape: _Shape, walks: Walks, inputs: tuple[Tensor, Tensor | None, Tensor, Tensor], windows: Tensor
) -> Tensor:
    """Fill `windows`; the moments of each block of walks, `[P, 3, stride]`."""
    node_rows, edge_rows, code_rows, kernel = inputs
    moments = windows.new_empty(shape.num_blocks, 3, shape.stride, dtype=torch.float32)
    with torch.cuda.device(windows.get_device()):
        for first_tap, num_taps in shape.passes:
            _convolve[(shape.num_blocks, triton.cdiv(shape.stride, _CHANNELS))](
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
                WALKS=_WALKS,
                CHANNELS=_CHANNELS,
                num_warps=1,
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
    WALKS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    num_windows = num_positions - kernel_size + 1
    walk, is_walk, channel, inside = _walk_tile(count, STRIDE, WALKS, CHANNELS)
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
            tl.store(
                windows + window[:, None] * STRIDE, value.to(windows.dtype.element_ty), mask=is_value & is_window
            )
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
def _walk_tile(count: tl.tensor, STRIDE: tl.constexpr, WALKS: tl.constexpr, CHANNELS: tl.constexpr) -> tl.tuple:
    walk = tl.program_id(0).to(tl.int64) * WALKS + tl.arange(0, WALKS)
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
    node = tl.load(nodes + place, mask=is_there, other=0).to(tl.int64)
    row = tl.load(node_rows + (node * STRIDE)[:, None] + channel[None, :], mask=mask, other=0)
    if HAS_EDGES:
        has_edge = is_there & (position > 0)
        edge = tl.load(edges + (place - walk - 1), mask=has_edge, other=0).to(tl.int64)
        row += tl.load(
            edge_rows + (edge * STRIDE)[:, None] + channel[None, :], mask=has_edge[:, None] & inside[None, :], other=0
        )
    if NUM_BYTES > 0:
        bits = tl.load(code + place, mask=is_there, other=0)
        for i in tl.static_range(NUM_BYTES):
            value = 256 * i + ((bits >> (8 * i)) & 255).to(tl.int32)
            row += tl.load(code_rows + (value * STRIDE)[:, None] + channel[None, :], mask=mask, other=0)
    return row


def _mix_all(
    shape: _Shape, walks: Walks, windows: Tensor, statistics: Tensor, mix: Tensor, precision: Precision
) -> tuple[Tensor, Tensor]:
    """The outputs of the CNN at each window, and where they are positive."""
    mixed = torch.empty_like(windows)
    is_active = torch.empty_like(windows, dtype=torch.int8)
    block = shape.product_block
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            _mix[(shape.num_tiles, triton.cdiv(shape.stride, block))](
                windows,
                statistics,
                mix,
                shape.count,
                mixed,
                is_active,
                shape.num_positions - shape.kernel_size + 1,
                STRIDE=shape.stride,
                PRECISION=_dot_precision(precision),
                ROWS=_ROWS,
                DEPTH=32,
                WIDTH=block,
                num_warps=8 if block == 256 else 4,
            )
    return mixed, is_active


def _dot_precision(precision: Precision) -> str:
    return "ieee" if precision == "float32" else "tf32"


@triton.jit(do_not_specialize=["windows_per_walk"])
def _mix(
    windows: tl.tensor,
    statistics: tl.tensor,
    mix: tl.tensor,
    count: tl.tensor,
    mixed: tl.tensor,
    is_active: tl.tensor,
    windows_per_walk: tl.int32,
    STRIDE: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    num_rows = tl.load(count).to(tl.int64) * windows_per_walk
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = (row < num_rows)[:, None]
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    if tl.program_id(0).to(tl.int64) * ROWS < num_rows:
        total = tl.zeros([ROWS, WIDTH], tl.float32)
        for first in range(0, STRIDE, DEPTH):
            channel = first + tl.arange(0, DEPTH)
            hidden = _hidden(windows, statistics, row, is_row, channel, STRIDE)
            weight = tl.load(
                mix + column[:, None] * STRIDE + channel[None, :],
                mask=(column < STRIDE)[:, None] & (channel < STRIDE)[None, :],
                other=0,
            )
            total = tl.dot(hidden.to(mix.dtype.element_ty), tl.trans(weight), total, input_precision=PRECISION)
        place = row[:, None] * STRIDE + column[None, :]
        mask = is_row & (column < STRIDE)[None, :]
        is_positive = total > 0
        tl.store(mixed + place, tl.where(total < 0, 0, total).to(mixed.dtype.element_ty), mask=mask)
        tl.store(is_active + place, is_positive.to(tl.int8), mask=mask)


@triton.jit
def _hidden(
    windows: tl.tensor,
    statistics: tl.tensor,
    row: tl.tensor,
    is_row: tl.tensor,
    channel: tl.tensor,
    STRIDE: tl.constexpr,
) -> tl.tensor:
    """Windows, normalised and clipped at zero; zeros for rows that are none."""
    inside = channel < STRIDE
    value = tl.load(windows + row[:, None] * STRIDE + channel[None, :], mask=is_row & inside[None, :], other=0)
    scale = tl.load(statistics + SCALE * STRIDE + channel, mask=inside, other=0)
    shift = tl.load(statistics + SHIFT * STRIDE + channel, mask=inside, other=0)
    hidden = value.to(tl.float32) * scale[None, :] + shift[None, :]
    return tl.where((hidden < 0) | (is_row == 0), 0, hidden)


def _mix_all_backward(
    shape: _Shape,
    walks: Walks,
    windows: Tensor,
    statistics: Tensor,
    is_active: Tensor,
    grad_nodes: Tensor,
    mix_t: Tensor,
    precision: Precision,
) -> tuple[Tensor, Tensor]:
    """The gradient of the batch norm's output before the ReLU, and two sums of it: plain, and times the normed."""
    grad_normed = torch.empty_like(windows)
    block = shape.product_block
    parts = windows.new_empty(shape.num_tiles, 2, shape.stride, dtype=torch.float32)
    if shape.num_windows:
        with torch.cuda.device(windows.get_device()):
            _mix_backward[(shape.num_tiles, triton.cdiv(shape.stride, block))](
                windows,
                statistics,
                mix_t,
                is_active,
                grad_nodes,
                walks.nodes,
                shape.count,
                grad_normed,
                parts,
                shape.num_positions,
                STRIDE=shape.stride,
                KERNEL_SIZE=shape.kernel_size,
                PRECISION=_dot_precision(precision),
                ROWS=_ROWS,
                DEPTH=32,
                WIDTH=block,
                num_warps=8 if block == 256 else 4,
            )
    return grad_normed, parts.sum(0)


@triton.jit(do_not_specialize=["num_positions"])
def _mix_backward(
    windows: tl.tensor,
    statistics: tl.tensor,
    mix_t: tl.tensor,
    is_active: tl.tensor,
    grad_nodes: tl.tensor,
    nodes: tl.tensor,
    count: tl.tensor,
    grad_normed: tl.tensor,
    parts: tl.tensor,
    num_positions: tl.int32,
    STRIDE: tl.constexpr,
    KERNEL_SIZE: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    windows_per_walk = num_positions - KERNEL_SIZE + 1
    num_rows = tl.load(count).to(tl.int64) * windows_per_walk
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = (row < num_rows)[:, None]
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    is_column = column < STRIDE
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    centre = _centre(nodes, row, row < num_rows, num_positions, KERNEL_SIZE)
    if tl.program_id(0).to(tl.int64) * ROWS < num_rows:
        for first in range(0, STRIDE, DEPTH):
            channel = first + tl.arange(0, DEPTH)
            grad = _grad_mixed(grad_nodes, is_active, centre, row, is_row, channel, STRIDE)
            weight = tl.load(
                mix_t + column[:, None] * STRIDE + channel[None, :],
                mask=is_column[:, None] & (channel < STRIDE)[None, :],
                other=0,
            )
            total = tl.dot(grad.to(mix_t.dtype.element_ty), tl.trans(weight), total, input_precision=PRECISION)
    place = row[:, None] * STRIDE + column[None, :]
    mask = is_row & is_column[None, :]
    value = tl.load(windows + place, mask=mask, other=0).to(tl.float32)
    scale = tl.load(statistics + SCALE * STRIDE + column, mask=is_column, other=0)
    shift = tl.load(statistics + SHIFT * STRIDE + column, mask=is_column, other=0)
    mean = tl.load(statistics + MEAN * STRIDE + column, mask=is_column, other=0)
    rstd = tl.load(statistics + RSTD * STRIDE + column, mask=is_column, other=0)
    total = tl.where((value * scale[None, :] + shift[None, :] > 0) & mask, total, 0)
    tl.store(grad_normed + place, total.to(grad_normed.dtype.element_ty), mask=mask)
    normed = (value - mean[None, :]) * rstd[None, :]
    parts += tl.program_id(0).to(tl.int64) * (2 * STRIDE) + column
    tl.store(parts, tl.sum(total, axis=0), mask=is_column)
    tl.store(parts + STRIDE, tl.sum(total * normed, axis=0), mask=is_column)


@triton.jit
def _centre(
    nodes: tl.tensor, row: tl.tensor, is_row: tl.tensor, num_positions: tl.int32, KERNEL_SIZE: tl.constexpr
) -> tl.tensor:
    """The node at the centre of each window."""
    windows_per_walk = num_positions - KERNEL_SIZE + 1
    place = row // windows_per_walk * num_positions + row % windows_per_walk + KERNEL_SIZE // 2
    return tl.load(nodes + place, mask=is_row, other=0).to(tl.int64)


@triton.jit
def _grad_mixed(
    grad_nodes: tl.tensor,
    is_active: tl.tensor,
    centre: tl.tensor,
    row: tl.tensor,
    is_row: tl.tensor,
    channel: tl.tensor,
    STRIDE: tl.constexpr,
) -> tl.tensor:
    """The gradient of the CNN's outputs before their ReLU; zeros for rows that are none."""
    mask = is_row & (channel < STRIDE)[None, :]
    active = tl.load(is_active + row[:, None] * STRIDE + channel[None, :], mask=mask, other=0)
    grad = tl.load(grad_nodes + centre[:, None] * STRIDE + channel[None, :], mask=mask, other=0)
    return tl.where(active != 0, grad, 0)


def _mix_weight_backward(
    shape: _Shape,
    walks: Walks,
    windows: Tensor,
    statistics: Tensor,
    is_active: Tensor,
    grad_nodes: Tensor,
    precision: Precision,
) -> Tensor:
    """The gradient of the second convolution of width one, `[stride, stride]`."""
    height, width = min(triton.next_power_of_2(shape.stride), 64), shape.product_block
    # Few rows for each program, so that the GPU is full; no more than a few hundred partial sums.
    num_parts = max(1, min(triton.cdiv(shape.num_tiles, 8), 256))
    parts = windows.new_empty(num_parts, shape.stride, shape.stride, dtype=torch.float32)
    with torch.cuda.device(windows.get_device()):
        _mix_weight[(num_parts, triton.cdiv(shape.stride, height), triton.cdiv(shape.stride, width))](
            windows,
            statistics,
            is_active,
            grad_nodes,
            walks.nodes,
            shape.count,
            parts,
            shape.num_positions,
            STRIDE=shape.stride,
            KERNEL_SIZE=shape.kernel_size,
            PRECISION=_dot_precision(precision),
            ROWS=32,
            HEIGHT=height,
            WIDTH=width,
            num_warps=8 if width == 256 else 4,
        )
    return parts.sum(0)


@triton.jit(do_not_specialize=["num_positions"])
def _mix_weight(
    windows: tl.tensor,
    statistics: tl.tensor,
    is_active: tl.tensor,
    grad_nodes: tl.tensor,
    nodes: tl.tensor,
    count: tl.tensor,
    parts: tl.tensor,
    num_positions: tl.int32,
    STRIDE: tl.constexpr,
    KERNEL_SIZE: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    windows_per_walk = num_positions - KERNEL_SIZE + 1
    num_rows = tl.load(count).to(tl.int64) * windows_per_walk
    out_channel = tl.program_id(1) * HEIGHT + tl.arange(0, HEIGHT)
    in_channel = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros([HEIGHT, WIDTH], tl.float32)
    num_tiles = tl.cdiv(num_rows, ROWS)
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
        is_row = (row < num_rows)[:, None]
        centre = _centre(nodes, row, row < num_rows, num_positions, KERNEL_SIZE)
        grad = _grad_mixed(grad_nodes, is_active, centre, row, is_row, out_channel, STRIDE)
        hidden = _hidden(windows, statistics, row, is_row, in_channel, STRIDE)
        dtype = windows.dtype.element_ty
        total = tl.dot(tl.trans(grad.to(dtype)), hidden.to(dtype), total, input_precision=PRECISION)
    parts += tl.program_id(0).to(tl.int64) * (STRIDE * STRIDE)
    tl.store(
        parts + out_channel[:, None] * STRIDE + in_channel[None, :],
        total,
        mask=(out_channel < STRIDE)[:, None] & (in_channel < STRIDE)[None, :],
    )


def _convolve_all_backward(
    shape: _Shape,
    walks: Walks,
    inputs: tuple[Tensor, Tensor | None, Tensor, Tensor],
    windows: Tensor,
    statistics: Tensor,
    grad_normed: Tensor,
    sums: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of the looked-up rows, `[W * T, stride]`, and of the depthwise kernel, `[kernel_size, stride]`."""
    node_rows, edge_rows, code_rows, kernel = inputs
    grad_rows = windows.new_empty(shape.num_walks * shape.num_positions, shape.stride)
    parts = windows.new_empty(shape.num_blocks, shape.kernel_size, shape.stride, dtype=torch.float32)
    with torch.cuda.device(windows.get_device()):
        for first_tap, num_taps in shape.passes:
            _convolve_backward[(shape.num_blocks, triton.cdiv(shape.stride, _CHANNELS))](
                node_rows,
                node_rows if edge_rows is None else edge_rows,
                code_rows,
                kernel,
                walks.nodes,
                walks.edges,
                walks.code,
                shape.count,
                windows,
                grad_normed,
                statistics,
                sums,
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
                WALKS=_WALKS,
                CHANNELS=_CHANNELS,
                num_warps=1,
            )
    return grad_rows, parts.sum(0)


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
    grad_normed: tl.tensor,
    statistics: tl.tensor,
    sums: tl.tensor,
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
    WALKS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    num_windows = num_positions - kernel_size + 1
    walk, is_walk, channel, inside = _walk_tile(count, STRIDE, WALKS, CHANNELS)
    is_value = is_walk[:, None] & inside[None, :]
    window_place = (walk * num_windows)[:, None] * STRIDE + channel[None, :]
    grad_rows += (walk * num_positions)[:, None] * STRIDE + channel[None, :]
    taps = _load_taps(kernel + first_tap, kernel_size, channel, C, TAPS)
    # through the normalisation: d window = scale * (d normed - its mean - normed * mean of d normed * normed)
    scale = tl.load(statistics + SCALE * STRIDE + channel, mask=inside, other=0)[None, :]
    mean = tl.load(statistics + MEAN * STRIDE + channel, mask=inside, other=0)[None, :]
    rstd = tl.load(statistics + RSTD * STRIDE + channel, mask=inside, other=0)[None, :]
    share = tl.load(statistics + SHARE * STRIDE + channel, mask=inside, other=0)[None, :]
    mean_grad = share * tl.load(sums + channel, mask=inside, other=0)[None, :]
    mean_dot = share * tl.load(sums + STRIDE + channel, mask=inside, other=0)[None, :]

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
            grad = tl.load(grad_normed + window_place + window[:, None] * STRIDE, mask=mask, other=0).to(tl.float32)
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
            PRECISION=_dot_precision(precision),
            ROWS=_ROWS,
            CHANNELS=64,
            num_warps=4,
        )
    return parts.sum(0)


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
    tl.store(
        parts + bit[:, None] * STRIDE + channel[None, :], total, mask=(channel < STRIDE)[None, :]
    )
