"""Norms: of a batch, which survives batches too small to have a variance, of each row, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import torch
from torch import Tensor, nn

from crawl.checks import check_choice
from crawl.choices import NormName
from crawl.ops.norm import Norm, batch_norm
from crawl.ops.segments import Rows


class BatchNorm(nn.BatchNorm1d):
    """`BatchNorm1d` over rows `[R, C]` or sequences `[W, C, T]`.

    A training batch with fewer than two values per channel has no variance: it is normalised with the running
    statistics, which it leaves as they are.

    Attributes:
        across: Sums a tensor over the processes that train together, so that statistics are of all their batches; set
            by a `Trainer`. None for those of a batch alone.
    """

    across: Callable[[Tensor], Tensor] | None = None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, num_features: int, *, momentum: float = 0.1) -> None:
        super().__init__(num_features, momentum=momentum)
        self.momentum: float = momentum

    def forward(self, x: Tensor, rows: Rows | None = None, *, relu: bool = False) -> Tensor:
        """The normalised values, in the shape of `x`.

        Args:
            x: `[R, C]` or `[W, C, T]`.
            rows: Which of the rows are real, as in `batch.nodes.rows`: padding does not count. All when None.
            relu: Clip the result at zero.
        """
        return batch_norm(x, self.tensors(), None if rows is None else rows.real, relu=relu)

    def tensors(self) -> Norm:
        """The weights, running statistics and settings, for the operations of `crawl.ops`."""
        statistics = (self.running_mean, self.running_var, self.num_batches_tracked)
        return Norm(self.weight, self.bias, *statistics, self.momentum, self.eps, self.training, self.across)


class LayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm` of rows `[R, C]`, called as `BatchNorm` is; a row does not depend on others."""

    def forward(self, x: Tensor, rows: Rows | None = None, *, relu: bool = False) -> Tensor:
        """The normalised rows; `rows` does not matter here."""
        del rows
        normed = super().forward(x)
        return normed.relu() if relu else normed


class Affine(nn.Module):
    """No norm: each channel gets a learned scale and shift, as norms give it last. It is called as `BatchNorm` is."""

    mean: Tensor
    var: Tensor
    num_batches: Tensor

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(num_features)), nn.Parameter(torch.zeros(num_features))
        for name, value in (("mean", self.bias), ("var", self.weight), ("num_batches", torch.tensor(0))):
            self.register_buffer(name, value.detach().clone(), persistent=False)

    def forward(self, x: Tensor, rows: Rows | None = None, *, relu: bool = False) -> Tensor:
        """The rows `[R, C]` or sequences `[W, C, T]`, scaled and shifted; `rows` does not matter here."""
        del rows
        shape = (1, -1, *[1] * (x.dim() - 2))
        scaled = self.weight.view(shape) * x + self.bias.view(shape)
        return scaled.relu() if relu else scaled

    def tensors(self) -> Norm:
        """As a batch norm whose statistics are always mean 0 and variance 1, for the operations of `crawl.ops`."""
        return Norm(self.weight, self.bias, self.mean, self.var, self.num_batches, 0.0, 0.0, training=False)


def make_norm(name: NormName, channels: int) -> BatchNorm | LayerNorm | Affine:
    """The norm of this name: `batch`, `layer`, or `none` for a learned scale and shift."""
    check_choice("norm", name, get_args(NormName))
    if name == "layer":
        return LayerNorm(channels)
    return BatchNorm(channels) if name == "batch" else Affine(channels)
