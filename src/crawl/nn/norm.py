"""Batch normalisation that survives batches too small to have a variance."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class BatchNorm(nn.BatchNorm1d):
    """`BatchNorm1d` over rows `[R, C]` or sequences `[W, C, T]`.

    A training batch with fewer than two values per channel has no variance: it is normalised with the running statistics,
    which it leaves as they are.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The normalised values, in the shape of `x`."""
        if x.numel() >= 2 * self.num_features or not self.training:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
