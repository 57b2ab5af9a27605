"""Batch normalisation of rows or sequences, given its weights and running statistics as tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from crawl.ops.backends import fast_module


class Norm(NamedTuple):
    """A batch norm over C channels; in training its running statistics are changed in place.

    All tensors are `[C]`, except `num_batches`, `[]` int64: how many batches have moved the running statistics.
    `momentum` says how far a batch moves them, 0 to 1.
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    num_batches: Tensor
    momentum: float
    eps: float
    training: bool

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
    """
    fast = fast_module("batch_norm", x.device, x.dtype) if x.dim() == 2 else None
    if fast is not None:
        out: Tensor = fast.batch_norm(x, norm, num_rows, relu)
        return out
    if num_rows is not None:  # here the host may wait for the number
        normed = batch_norm(x[: int(num_rows)], norm, relu=relu)
        return F.pad(normed, (*[0, 0] * (x.dim() - 1), 0, len(x) - len(normed)))
    uses_batch = norm.uses_batch_statistics(x.numel() // norm.weight.numel())
    if uses_batch:
        norm.num_batches.add_(1)
    normed = F.batch_norm(
        x, norm.running_mean, norm.running_var, norm.weight, norm.bias, uses_batch, norm.momentum, norm.eps
    )
    return normed.relu() if relu else normed
