"""Batch normalisation of rows or sequences, given its weights and running statistics as tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from crawl.checks import shown
from crawl.ops.backends import fast_module


class Norm(NamedTuple):
    """A batch norm over C channels; in training its running statistics are changed in place.

    All tensors are `[C]`, except `num_batches`, `[]` int64: how many batches have moved the running statistics.
    `momentum` says how far a batch moves them, 0 to 1. `across` sums a tensor over the processes that train together,
    for statistics of all their batches; None for those of this batch alone.
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    num_batches: Tensor
    momentum: float
    eps: float
    training: bool
    across: Callable[[Tensor], Tensor] | None = None

    def num_values(self, own: int) -> int:
        """The values per channel that statistics are of: those of this batch, or of the batches of all processes."""
        if self.across is None or not self.training:
            return own
        return int(self.across(torch.tensor([own], dtype=torch.float64, device=self.weight.device)))

    def moments(self, own: int, mean: Tensor, squares: Tensor, num_values: int) -> tuple[Tensor, Tensor]:
        """Mean and variance of all `num_values`, from the mean of `own` ones and their sum of squared deviations."""
        if self.across is None:
            return mean, squares / num_values
        overall = self.across(mean.double() * own) / num_values
        deviations = self.across(squares.double() + own * (mean - overall).square())
        return overall.to(mean.dtype), (deviations / num_values).to(mean.dtype)

    def uses_batch_statistics(self, num_values: int) -> bool:
        """Whether a batch with this many values per channel is normalised with its own mean and variance."""
        return self.training and num_values >= 2

    @torch.no_grad()
    def track(self, mean: Tensor, var: Tensor, num_values: int) -> None:
        """Move the running statistics towards those of a batch whose (biased) variance is `var`."""
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var * (num_values / (num_values - 1)), self.momentum)
        self.num_batches.add_(1)


def batch_norm(x: Tensor, norm: Norm, num_rows: Tensor | None = None, *, relu: bool = False) -> Tensor:
    """The normalised values, in the shape of `x`.

    A training batch with fewer than two values per channel has no variance: it is normalised with the running
    statistics, which it leaves as they are.

    Args:
        x: `[R, C]` or `[W, C, T]`.
        norm: The batch norm.
        num_rows: `[1]` int32 on the device: only the first this many rows count, the others come out as zeros.
        relu: Clip the result at zero.

    Raises:
        ValueError: If `x` does not have a channel for each weight.
    """
    if x.dim() < 2 or x.shape[1] != norm.weight.numel():  # a kernel would write beside the statistics
        raise ValueError(
            f"A batch norm for {norm.weight.numel()} channels does not fit {shown(x)}: make it for others."
        )
    fast = fast_module("batch_norm", x.device, x.dtype) if x.dim() == 2 and norm.across is None else None
    if fast is not None:
        out: Tensor = fast.batch_norm(x, norm, num_rows, relu)
        return out
    if num_rows is not None:  # here the host may wait for the number
        normed = batch_norm(x[: int(num_rows)], norm, relu=relu)
        return F.pad(normed, (*[0, 0] * (x.dim() - 1), 0, len(x) - len(normed)))
    num_values = norm.num_values(x.numel() // norm.weight.numel())
    uses_batch = norm.uses_batch_statistics(num_values)
    if uses_batch and norm.across is not None:
        rows = x.transpose(1, -1)
        normed, mean, var = _NormAcross.apply(  # type: ignore[no-untyped-call]
            rows.reshape(-1, rows.shape[-1]), norm.weight, norm.bias, norm, num_values
        )
        norm.track(mean, var, num_values)
        out = normed.view(rows.shape).transpose(1, -1)
        return out.relu() if relu else out
    if uses_batch:
        norm.num_batches.add_(1)
    if norm.eps == 0 and not uses_batch:  # which torch 2.11 refuses
        shape = (1, -1, *[1] * (x.dim() - 2))
        scale = norm.weight * norm.running_var.rsqrt()
        out = (x - norm.running_mean.view(shape)) * scale.view(shape) + norm.bias.view(shape)
        return out.relu() if relu else out
    normed = F.batch_norm(
        x, norm.running_mean, norm.running_var, norm.weight, norm.bias, uses_batch, norm.momentum, norm.eps
    )
    return normed.relu() if relu else normed


class _NormAcross(torch.autograd.Function):
    """Rows, normalised with the statistics of all processes. The gradients of weight and bias are of these rows."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, norm: Norm, num_values: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        own = len(x)
        local = x.sum(0) / max(own, 1)
        mean, var = norm.moments(own, local, (x - local).square().sum(0), num_values)
        rate = torch.rsqrt(var + norm.eps)
        ctx.across, ctx.num_values = norm.across, num_values
        ctx.save_for_backward(x, weight, mean, rate)
        ctx.mark_non_differentiable(mean, var)
        return (x - mean) * (rate * weight) + bias, mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, rate = ctx.saved_tensors
        normed = (x - mean) * rate
        of_bias, of_weight = grad.sum(0), (grad * normed).sum(0)
        shared = shared_gradients(ctx.across, of_bias, of_weight) / ctx.num_values
        return (grad - shared[0] - normed * shared[1]) * (rate * weight), of_weight, of_bias, None, None


def shared_gradients(across: Callable[[Tensor], Tensor] | None, of_bias: Tensor, of_weight: Tensor) -> Tensor:
    """`[2, C]` the gradients of bias and weight, summed over the processes if statistics are of all of them."""
    own = torch.stack([of_bias, of_weight])
    return own if across is None else across(own.double()).to(own.dtype)
