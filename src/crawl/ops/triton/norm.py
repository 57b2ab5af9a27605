"""Batch normalisation of the first `num_rows` rows, a number that only the device knows, with or without a ReLU."""

# mypy: allow-untyped-decorators

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.ops.norm import Norm
from crawl.ops.triton.kernel import kernel
from crawl.ops.triton.segments import sum_parts

# The rows of `statistics`: what the kernels need to know of a normalisation, per channel.
MEAN, RSTD, SCALE, SHIFT, SHARE = (tl.constexpr(i) for i in range(5))  # SHARE: 1 / rows, 0 with running statistics
NUM_STATISTICS = 5

_ROWS, _CHANNELS = 64, 32  # of a tile
_AT_ONCE = 2**13  # values that the registers of one program can hold
_MOST_ROWS_AT_ONCE = 2**13
_FEWEST_CHANNELS, _PER_WARP = 2, 1024


def batch_norm(x: Tensor, norm: Norm, num_rows: Tensor | None, relu: bool) -> Tensor:
    """The normalised rows `[R, C]`; zeros after the first `num_rows` (`[1]` int32, all when None)."""
    if x.shape[0] == 0:
        return x
    out: Tensor = _BatchNorm.apply(x, norm.weight, norm.bias, norm, num_rows, relu)
    return out


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, norm: Norm, num_rows: Tensor | None, relu: bool
    ) -> Tensor:
        del gamma, beta  # they are here for their gradients; `norm` holds them, too
        x, num_channels = x.contiguous(), x.shape[1]
        if num_rows is None:
            num_rows = torch.full((1,), x.shape[0], dtype=torch.int32, device=x.device)
        out = torch.empty_like(x)
        with torch.cuda.device(x.get_device()):
            if len(x) <= _MOST_ROWS_AT_ONCE:
                statistics = x.new_empty(NUM_STATISTICS, num_channels)
                grid, tile = _columns(x)
                _normalise_at_once[grid](
                    x, num_rows, *norm[:5], statistics, out, len(x), norm.momentum, norm.eps,
                    C=num_channels, USES_BATCH=norm.training, RELU=relu, **tile,
                )  # fmt: skip
            else:
                grid, tile = _tiles(x)
                moments = x.new_empty(grid[0], 3, num_channels, dtype=torch.float32)
                if norm.training:
                    _moments[grid](x, num_rows, moments, C=num_channels, **tile)
                statistics = finalise(norm, moments)
                _normalise[grid](x, num_rows, statistics, out, len(x), C=num_channels, RELU=relu, **tile)
        ctx.relu = relu
        ctx.save_for_backward(x, num_rows, statistics)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        x, num_rows, statistics = ctx.saved_tensors
        num_channels = x.shape[1]
        grad_out, grad_x = grad_out.contiguous(), torch.empty_like(x)
        with torch.cuda.device(x.get_device()):
            if len(x) <= _MOST_ROWS_AT_ONCE:
                grid, tile = _columns(x)
                sums = x.new_empty(2, num_channels, dtype=torch.float32)
                _grads_at_once[grid](
                    x, grad_out, num_rows, statistics, sums, grad_x, len(x), C=num_channels, RELU=ctx.relu, **tile
                )
            else:
                grid, tile = _tiles(x)
                parts = x.new_empty(grid[0], 2, num_channels, dtype=torch.float32)
                _grad_sums[grid](x, grad_out, num_rows, statistics, parts, C=num_channels, RELU=ctx.relu, **tile)
                sums = sum_parts(parts)
                _grad_rows[grid](
                    x, grad_out, num_rows, statistics, sums, grad_x, len(x), C=num_channels, RELU=ctx.relu, **tile
                )
        return grad_x, sums[1], sums[0], None, None, None


def _columns(x: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """The grid for programs that have all rows of a few channels at once, and their tile."""
    num_rows = triton.next_power_of_2(len(x))
    num_channels = min(max(_AT_ONCE // num_rows, _FEWEST_CHANNELS), 32)
    num_warps = min(max(num_rows * num_channels // _PER_WARP, 4), 16)
    tile = {"ROWS": num_rows, "CHANNELS": num_channels, "num_warps": num_warps}
    return (1, triton.cdiv(x.shape[1], num_channels)), tile


def _tiles(x: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """The grid for programs that have some rows of some channels, and their tile."""
    return (triton.cdiv(len(x), _ROWS), triton.cdiv(x.shape[1], _CHANNELS)), {"ROWS": _ROWS, "CHANNELS": _CHANNELS}


def finalise(norm: Norm, moments: Tensor) -> Tensor:
    """`[5, S]` the statistics to normalise with, of a batch given by its parts; moves the running ones in training.

    With fewer than two rows in the batch, and in evaluation, they are the running ones.

    Args:
        norm: The batch norm.
        moments: `[P, 3, S]` the number of rows, mean and sum of squared deviations of each part; S is at least the
            number of channels, and the channels after those get zeros.
    """
    num_parts, _, stride = moments.shape
    statistics = moments.new_empty(NUM_STATISTICS, stride)
    parts_at_once, num_channels = (512, 8) if num_parts > 128 else (128, 16)
    with torch.cuda.device(moments.get_device()):
        _finalise[(triton.cdiv(stride, num_channels),)](
            moments,
            num_parts,
            *norm[:5],
            statistics,
            norm.momentum,
            norm.eps,
            C=norm.weight.numel(),
            STRIDE=stride,
            USES_BATCH=norm.training,
            PARTS=parts_at_once,
            CHANNELS=num_channels,
        )
    return statistics


@kernel("num_parts", "momentum", "eps")
def _finalise(
    moments: tl.tensor,
    num_parts: tl.int32,
    gamma: tl.tensor,
    beta: tl.tensor,
    running_mean: tl.tensor,
    running_var: tl.tensor,
    num_batches: tl.tensor,
    statistics: tl.tensor,
    momentum: tl.float32,
    eps: tl.float32,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    USES_BATCH: tl.constexpr,
    PARTS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < C
    given = _load_given(gamma, beta, running_mean, running_var, channel, inside)
    mean = tl.zeros([CHANNELS], tl.float32)
    var, num_rows = mean, mean
    if USES_BATCH:
        # Parts are combined with their distances from a common mean (Chan, Golub and LeVeque, 1983): the squares of
        # the values themselves would lose their digits beside a large mean.
        total = tl.zeros([PARTS, CHANNELS], tl.float32)
        number = tl.zeros([PARTS, CHANNELS], tl.float32)
        for first in range(0, num_parts, PARTS):
            part = first + tl.arange(0, PARTS)
            place = part.to(tl.int64)[:, None] * (3 * STRIDE) + channel[None, :]
            mask = (part < num_parts)[:, None] & inside[None, :]
            size = tl.load(moments + place, mask=mask, other=0)
            number += size
            total += size * tl.load(moments + STRIDE + place, mask=mask, other=0)
        num_rows = tl.sum(number, axis=0)
        mean = tl.sum(total, axis=0) / tl.maximum(num_rows, 1)
        squares = tl.zeros([PARTS, CHANNELS], tl.float32)
        for first in range(0, num_parts, PARTS):
            part = first + tl.arange(0, PARTS)
            place = part.to(tl.int64)[:, None] * (3 * STRIDE) + channel[None, :]
            mask = (part < num_parts)[:, None] & inside[None, :]
            size = tl.load(moments + place, mask=mask, other=0)
            distance = tl.load(moments + STRIDE + place, mask=mask, other=0) - mean[None, :]
            squares += tl.load(moments + 2 * STRIDE + place, mask=mask, other=0) + size * distance * distance
        var = tl.sum(squares, axis=0) / tl.maximum(num_rows, 1)
    _settle(
        mean, var, num_rows, channel, tl.program_id(0) == 0, given, running_mean, running_var, num_batches,
        statistics, momentum, eps, C, STRIDE, USES_BATCH,
    )  # fmt: skip


@triton.jit
def _load_given(
    gamma: tl.tensor,
    beta: tl.tensor,
    running_mean: tl.tensor,
    running_var: tl.tensor,
    channel: tl.tensor,
    inside: tl.tensor,
) -> tl.tuple:
    """What a norm has before it sees a batch; loaded early, so that nothing waits for it at the end."""
    return (
        tl.load(gamma + channel, mask=inside, other=0),
        tl.load(beta + channel, mask=inside, other=0),
        tl.load(running_mean + channel, mask=inside, other=0),
        tl.load(running_var + channel, mask=inside, other=1),
    )


@triton.jit
def _settle(
    mean: tl.tensor,
    var: tl.tensor,
    num_rows: tl.tensor,
    channel: tl.tensor,
    counts_batch: tl.tensor,
    given: tl.tuple,
    running_mean: tl.tensor,
    running_var: tl.tensor,
    num_batches: tl.tensor,
    statistics: tl.tensor,
    momentum: tl.float32,
    eps: tl.float32,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    USES_BATCH: tl.constexpr,
) -> tl.tuple:
    """Write the statistics to normalise with, move the running ones; the scale and the shift of each channel."""
    inside = channel < C
    gamma, beta, old_mean, old_var = given
    is_batch = num_rows >= 2
    if USES_BATCH:
        unbiased = var * (num_rows / tl.maximum(num_rows - 1, 1))
        tl.store(running_mean + channel, old_mean + momentum * (mean - old_mean), mask=inside & is_batch)
        tl.store(running_var + channel, old_var + momentum * (unbiased - old_var), mask=inside & is_batch)
        if counts_batch:
            tl.store(num_batches, tl.load(num_batches) + tl.max(is_batch.to(tl.int64), axis=0))
    mean = tl.where(is_batch, mean, old_mean)
    var = tl.where(is_batch, var, old_var)
    share = tl.where(is_batch & inside, 1 / tl.maximum(num_rows, 1), 0)
    rstd = tl.where(inside, 1 / tl.sqrt(var + eps), 0)
    scale = gamma * rstd
    shift = beta - mean * scale
    stored = channel < STRIDE
    tl.store(statistics + MEAN * STRIDE + channel, mean, mask=stored)
    tl.store(statistics + RSTD * STRIDE + channel, rstd, mask=stored)
    tl.store(statistics + SCALE * STRIDE + channel, scale, mask=stored)
    tl.store(statistics + SHIFT * STRIDE + channel, shift, mask=stored)
    tl.store(statistics + SHARE * STRIDE + channel, share, mask=stored)
    return scale, shift


@kernel("num_slots", "momentum", "eps")
def _normalise_at_once(
    x: tl.tensor,
    num_rows: tl.tensor,
    gamma: tl.tensor,
    beta: tl.tensor,
    running_mean: tl.tensor,
    running_var: tl.tensor,
    num_batches: tl.tensor,
    statistics: tl.tensor,
    out: tl.tensor,
    num_slots: tl.int32,
    momentum: tl.float32,
    eps: tl.float32,
    C: tl.constexpr,
    USES_BATCH: tl.constexpr,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    place, inside, channel = _tile(num_rows, C, ROWS, CHANNELS)
    given = _load_given(gamma, beta, running_mean, running_var, channel, channel < C)
    value = tl.load(x + place, mask=inside, other=0).to(tl.float32)
    mean = tl.zeros([CHANNELS], tl.float32)
    var, size = mean, mean
    if USES_BATCH:
        size += tl.load(num_rows).to(tl.float32)
        mean = tl.sum(value, axis=0) / tl.maximum(size, 1)
        distance = tl.where(inside, value - mean[None, :], 0)
        var = tl.sum(distance * distance, axis=0) / tl.maximum(size, 1)
    scale, shift = _settle(
        mean, var, size, channel, tl.program_id(1) == 0, given, running_mean, running_var, num_batches,
        statistics, momentum, eps, C, C, USES_BATCH,
    )  # fmt: skip
    _store_normed(value, scale, shift, place, inside, channel, out, num_slots, C, RELU)


@kernel("num_slots")
def _grads_at_once(
    x: tl.tensor,
    grad_out: tl.tensor,
    num_rows: tl.tensor,
    statistics: tl.tensor,
    sums: tl.tensor,
    grad_x: tl.tensor,
    num_slots: tl.int32,
    C: tl.constexpr,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    place, inside, channel = _tile(num_rows, C, ROWS, CHANNELS)
    grad, normed = _grad_normed(x, grad_out, statistics, place, inside, channel, C, RELU)
    total, product = tl.sum(grad, axis=0), tl.sum(grad * normed, axis=0)
    tl.store(sums + channel, total, mask=channel < C)
    tl.store(sums + C + channel, product, mask=channel < C)
    _store_grad(grad, normed, total, product, statistics, place, inside, channel, grad_x, num_slots, C)


@kernel()
def _moments(
    x: tl.tensor, num_rows: tl.tensor, moments: tl.tensor, C: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr
) -> None:
    place, inside, channel = _tile(num_rows, C, ROWS, CHANNELS)
    value = tl.load(x + place, mask=inside, other=0).to(tl.float32)
    size = tl.sum(inside.to(tl.float32), axis=0)
    mean = tl.sum(value, axis=0) / tl.maximum(size, 1)
    distance = tl.where(inside, value - mean[None, :], 0)
    squares = tl.sum(distance * distance, axis=0)
    moments += tl.program_id(0).to(tl.int64) * (3 * C) + channel
    tl.store(moments, size, mask=channel < C)
    tl.store(moments + C, mean, mask=channel < C)
    tl.store(moments + 2 * C, squares, mask=channel < C)


@kernel("num_slots")
def _normalise(
    x: tl.tensor,
    num_rows: tl.tensor,
    statistics: tl.tensor,
    out: tl.tensor,
    num_slots: tl.int32,
    C: tl.constexpr,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    place, inside, channel = _tile(num_rows, C, ROWS, CHANNELS)
    value = tl.load(x + place, mask=inside, other=0).to(tl.float32)
    scale = tl.load(statistics + SCALE * C + channel, mask=channel < C, other=0)
    shift = tl.load(statistics + SHIFT * C + channel, mask=channel < C, other=0)
    _store_normed(value, scale, shift, place, inside, channel, out, num_slots, C, RELU)


@triton.jit
def _store_normed(
    value: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    place: tl.tensor,
    inside: tl.tensor,
    channel: tl.tensor,
    out: tl.tensor,
    num_slots: tl.int32,
    C: tl.constexpr,
    RELU: tl.constexpr,
) -> None:
    value = value * scale[None, :] + shift[None, :]
    if RELU:
        value = tl.where(value < 0, 0, value)  # unlike a maximum, it lets NaN through
    # Rows that do not count must not be left as they were: what is computed from them should be finite.
    exists = (place < num_slots.to(tl.int64) * C) & (channel < C)[None, :]
    tl.store(out + place, tl.where(inside, value, 0).to(out.dtype.element_ty), mask=exists)


@kernel()
def _grad_sums(
    x: tl.tensor,
    grad_out: tl.tensor,
    num_rows: tl.tensor,
    statistics: tl.tensor,
    parts: tl.tensor,
    C: tl.constexpr,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    place, inside, channel = _tile(num_rows, C, ROWS, CHANNELS)
    grad, normed = _grad_normed(x, grad_out, statistics, place, inside, channel, C, RELU)
    parts += tl.program_id(0).to(tl.int64) * (2 * C) + channel
    tl.store(parts, tl.sum(grad, axis=0), mask=channel < C)
    tl.store(parts + C, tl.sum(grad * normed, axis=0), mask=channel < C)


@kernel("num_slots")
def _grad_rows(
    x: tl.tensor,
    grad_out: tl.tensor,
    num_rows: tl.tensor,
    statistics: tl.tensor,
    sums: tl.tensor,
    grad_x: tl.tensor,
    num_slots: tl.int32,
    C: tl.constexpr,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    place, inside, channel = _tile(num_rows, C, ROWS, CHANNELS)
    grad, normed = _grad_normed(x, grad_out, statistics, place, inside, channel, C, RELU)
    total = tl.load(sums + channel, mask=channel < C, other=0)
    product = tl.load(sums + C + channel, mask=channel < C, other=0)
    _store_grad(grad, normed, total, product, statistics, place, inside, channel, grad_x, num_slots, C)


@triton.jit
def _store_grad(
    grad: tl.tensor,
    normed: tl.tensor,
    total: tl.tensor,
    product: tl.tensor,
    statistics: tl.tensor,
    place: tl.tensor,
    inside: tl.tensor,
    channel: tl.tensor,
    grad_x: tl.tensor,
    num_slots: tl.int32,
    C: tl.constexpr,
) -> None:
    scale = tl.load(statistics + SCALE * C + channel, mask=channel < C, other=0)
    share = tl.load(statistics + SHARE * C + channel, mask=channel < C, other=0)
    value = scale[None, :] * (grad - (share * total)[None, :] - normed * (share * product)[None, :])
    exists = (place < num_slots.to(tl.int64) * C) & (channel < C)[None, :]
    tl.store(grad_x + place, tl.where(inside, value, 0).to(grad_x.dtype.element_ty), mask=exists)


@triton.jit
def _grad_normed(
    x: tl.tensor,
    grad_out: tl.tensor,
    statistics: tl.tensor,
    place: tl.tensor,
    inside: tl.tensor,
    channel: tl.tensor,
    C: tl.constexpr,
    RELU: tl.constexpr,
) -> tl.tuple:
    """The gradient of gamma * normed + beta, and normed itself, of the rows of a tile."""
    value = tl.load(x + place, mask=inside, other=0).to(tl.float32)
    grad = tl.load(grad_out + place, mask=inside, other=0).to(tl.float32)
    mean = tl.load(statistics + MEAN * C + channel, mask=channel < C, other=0)
    rstd = tl.load(statistics + RSTD * C + channel, mask=channel < C, other=0)
    if RELU:
        scale = tl.load(statistics + SCALE * C + channel, mask=channel < C, other=0)
        shift = tl.load(statistics + SHIFT * C + channel, mask=channel < C, other=0)
        grad = tl.where(value * scale[None, :] + shift[None, :] > 0, grad, 0)
    return grad, tl.where(inside, (value - mean[None, :]) * rstd[None, :], 0)


@triton.jit
def _tile(num_rows: tl.tensor, C: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr) -> tl.tuple:
    """The places in memory of a tile's values, which of them count, and its channels."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = (row < tl.load(num_rows))[:, None] & (channel < C)[None, :]
    return row[:, None] * C + channel[None, :], inside, channel
