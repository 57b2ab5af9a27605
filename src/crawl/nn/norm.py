"""Batch normalisation that survives batches too small to have a variance."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crawl.nn.gpu import can_use_triton


class BatchNorm(nn.BatchNorm1d):
    """`BatchNorm1d` over rows `[R, C]` or sequences `[W, C, T]`.

    A training batch with fewer than two values per channel has no variance: it is normalised with the running
    statistics, which it leaves as they are.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, num_features: int, *, momentum: float = 0.1) -> None:
        super().__init__(num_features, momentum=momentum)
        self.momentum: float = momentum

    def forward(self, x: Tensor, num_rows: Tensor | None = None, *, relu: bool = False) -> Tensor:
        """The normalised values, in the shape of `x`.

        Args:
            x: `[R, C]` or `[W, C, T]`.
            num_rows: `[1]` int32 on the GPU: only the first so many rows count, the others come out as zeros; all rows
                count when None.
            relu: Put a ReLU behind.
        """
        if x.dim() == 2 and x.dtype == torch.float32 and can_use_triton(x.device):
            from crawl.nn.gpu.norm import batch_norm

            return batch_norm(self, x, num_rows, relu)
        normed = self._forward(x)
        return normed.relu() if relu else normed

    def _forward(self, x: Tensor) -> Tensor:
        if not self.training or self.uses_batch_statistics(x.numel() // self.num_features):
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)

    def uses_batch_statistics(self, num_values: int) -> bool:
        """Whether a batch with so many values per channel is normalised with its own mean and variance."""
        return self.training and num_values >= 2

    @torch.no_grad()
    def track(self, mean: Tensor, var: Tensor, num_values: int) -> None:
        """Move the running statistics towards those of a batch whose (biased) variance is `var`."""
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var * (num_values / (num_values - 1)), self.momentum)
        self.num_batches_tracked += 1
