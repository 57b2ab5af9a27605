"""Batch normalisation of the first `num_rows` rows, a number that only the device knows, with or without a ReLU."""

# mypy: allow-untyped-decorators

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.nn.gpu.segments import sum_parts
from crawl.nn.norm import BatchNorm

# The rows of `statistics`: what the kernels need to know of a normalisation, per channel.
MEAN, RSTD, SCALE, SHIFT, SHARE = (tl.constexpr(i) for i in range(5))  # SHARE: 1 / rows, 0 with running statistics
NUM_STATISTICS = 5

_ROWS, _CHANNELS = 64, 32  # of a tile


def batch_norm(norm: BatchNorm, x: Tensor, num_rows: Tensor | None, relu: bool) -> Tensor:
    """The normalised rows `[R, C]`; zeros behind the first `num_rows` (`[1]` int32, all when None)."""
    if x.shape[0] == 0:
        return x
    out: Tensor = _BatchNorm.apply(x, norm.weight, norm.bias, norm, num_rows, relu)
    return out


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, norm: BatchNorm, num_rows: Tensor | None, relu: bool
    ) -> Tensor:
        x = x.contiguous()
        if num_rows is None:
            num_rows = torch.full((1,), x.shape[0], dtype=torch.int32, device=x.device)
        num_channels = x.shape[1]
        grid = (triton.cdiv(x.shape[0], _ROWS), triton.cdiv(num_channels, _CHANNELS))
        moments = x.new_empty(grid[0], 3, num_channels, dtype=torch.float32)
        out = torch.empty_like(x)
        with torch.cuda.device(x.get_device()):
            if norm.training:
                _moments[grid](x, num_rows, moments, C=num_channels, ROWS=_ROWS, CHANNELS=_CHANNELS)
            statistics = finalise(norm, moments)
            arguments = {"C": num_channels, "RELU": relu, "ROWS": _ROWS, "CHANNELS": _CHANNELS}
            _normalise[grid](x, num_rows, statistics, out, len(x), **arguments)
        ctx.relu = relu
        ctx.save_for_backward(x, num_rows, statistics)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        x, num_rows, statistics = ctx.saved_tensors
        num_channels = x.shape[1]
        grad_out = grad_out.contiguous()
        grid = (triton.cdiv(x.shape[0], _ROWS), triton.cdiv(num_channels, _CHANNELS))
        parts = x.new_empty(grid[0], 2, num_channels, dtype=torch.float32)
        grad_x = torch.empty_like(x)
        arguments = {"C": num_channels, "RELU": ctx.relu, "ROWS": _ROWS, "CHANNELS": _CHANNELS}
        with torch.cuda.device(x.get_device()):
            _grad_sums[grid](x, grad_out, num_rows, statistics, parts, **arguments)
            sums = sum_parts(parts)
            _grad_rows[grid](x, grad_out, num_rows, statistics, sums, grad_x, len(x), **arguments)
        return grad_x, sums[1], sums[0], None, None, None


def finalise(norm: BatchNorm, moments: Tensor) -> Tensor:
    """`[5, S]` the statistics to normalise with, of a batch given by its parts; moves the running ones in training.

    With fewer than two rows in the batch, and in evaluation, they are the running ones.

    Args:
        norm: The batch norm.
        moments: `[P, 3, S]` the number of rows, mean and sum of squared deviations of each part; S is at least the
            number of channels, and the channels behind those get zeros.
    """
    num_parts, _, stride = moments.shape
    statistics = moments.new_empty(NUM_STATISTICS, stride)
    with torch.cuda.device(moments.get_device()):
        _finalise[(triton.cdiv(stride, 16),)](
            moments,
            num_parts,
            norm.weight,
            norm.bias,
            norm.running_mean,
            norm.running_var,
            norm.num_batches_tracked,
            statistics,
            norm.momentum,
            norm.eps,
            C=norm.num_features,
            STRIDE=stride,
            USES_BATCH=norm.training,
            PARTS=256,
            CHANNELS=16,
        )
    return statistics


@triton.jit(do_not_specialize=["num_parts", "momentum", "eps"])
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
    mean = tl.load(running_mean + channel, mask=inside, other=0)
    var = tl.load(running_var + channel, mask=inside, other=1)
    share = tl.zeros([CHANNELS], tl.float32)
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
        batch_mean = tl.sum(total, axis=0) / tl.maximum(num_rows, 1)
        squares = tl.zeros([PARTS, CHANNELS], tl.float32)
        for first in range(0, num_parts, PARTS):
            part = first + tl.arange(0, PARTS)
            place = part.to(tl.int64)[:, None] * (3 * STRIDE) + channel[None, :]
            mask = (part < num_parts)[:, None] & inside[None, :]
            size = tl.load(moments + place, mask=mask, other=0)
            distance = tl.load(moments + STRIDE + place, mask=mask, other=0) - batch_mean[None, :]
            squares += tl.load(moments + 2 * STRIDE + place, mask=mask, other=0) + size * distance * distance
        batch_var = tl.sum(squares, axis=0) / tl.maximum(num_rows, 1)
        is_batch = num_rows >= 2
        unbiased = batch_var * (num_rows / tl.maximum(num_rows - 1, 1))
        tl.store(running_mean + channel, mean + momentum * (batch_mean - mean), mask=inside & is_batch)
        tl.store(running_var + channel, var + momentum * (unbiased - var), mask=inside & is_batch)
        if tl.program_id(0) == 0:
            was = tl.load(num_batches)
            tl.store(num_batches, was + tl.max(is_batch.to(tl.int64), axis=0))
        mean = tl.where(is_batch, batch_mean, mean)
        var = tl.where(is_batch, batch_var, var)
        share = tl.where(is_batch, 1 / tl.maximum(num_rows, 1), 0)
    rstd = tl.where(inside, 1 / tl.sqrt(var + eps), 0)
    scale = tl.load(gamma + channel, mask=inside, other=0) * rstd
    shift = tl.load(beta + channel, mask=inside, other=0) - mean * scale
    statistics += channel
    stored = channel < STRIDE
    tl.store(statistics + MEAN * STRIDE, mean, mask=stored)
    tl.store(statistics + RSTD * STRIDE, rstd, mask=stored)
    tl.store(statistics + SCALE * STRIDE, scale, mask=stored)
    tl.store(statistics + SHIFT * STRIDE, shift, mask=stored)
    tl.store(statistics + SHARE * STRIDE, tl.where(inside, share, 0), mask=stored)


@triton.jit
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


@triton.jit(do_not_specialize=["num_slots"])
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
    value = value * scale[None, :] + shift[None, :]
    if RELU:
        value = tl.where(value < 0, 0, value)  # unlike a maximum, it lets NaN through
    # Rows that do not count must not be left as they were: what is computed from them should be finite.
    exists = place < num_slots.to(tl.int64) * C
    value = tl.where(inside, value, 0).to(out.dtype.element_ty)
    tl.store(out + place, value, mask=exists & (channel < C)[None, :])


@triton.jit
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


@triton.jit(do_not_specialize=["num_slots"])
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
    scale = tl.load(statistics + SCALE * C + channel, mask=channel < C, other=0)
    share = tl.load(statistics + SHARE * C + channel, mask=channel < C, other=0)
    mean_grad = share * tl.load(sums + channel, mask=channel < C, other=0)
    mean_dot = share * tl.load(sums + C + channel, mask=channel < C, other=0)
    value = scale[None, :] * (grad - mean_grad[None, :] - normed * mean_dot[None, :])
    exists = place < num_slots.to(tl.int64) * C
    value = tl.where(inside, value, 0).to(grad_x.dtype.element_ty)
    tl.store(grad_x + place, value, mask=exists & (channel < C)[None, :])


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
