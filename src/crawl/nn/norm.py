"""Batch normalisation that survives batches too small to have a variance."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crawl.checks import check_type, shown
from crawl.nn.gpu import can_use_triton
from crawl.ops.segments import Rows, Segments
from crawl.tensor_checks import plain_tensor


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

    def forward(self, x: Tensor, rows: Rows | None = None, *, relu: bool = False) -> Tensor:
        """The normalised values, in the shape of `x`.

        Args:
            x: `[R, C]` or `[W, C, T]`.
            rows: Which of the rows are real, as in `batch.nodes.rows`: padding does not count. All when None.
            relu: Apply a ReLU after it.
        """
        num_rows = None if rows is None else rows.real
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
        """Whether a batch with this many values per channel is normalised with its own mean and variance."""
        return self.training and num_values >= 2

    @torch.no_grad()
    def track(self, mean: Tensor, var: Tensor, num_values: int) -> None:
        """Move the running statistics towards those of a batch whose (biased) variance is `var`."""
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var * (num_values / (num_values - 1)), self.momentum)
        self.num_batches_tracked += 1


def check_rows(x: Tensor, members: Segments, like: Tensor) -> None:
    """Refuses node features that are not those of these nodes, or do not fit a weight for each channel, `like`.

    Raises:
        ValueError: If they are not.
    """
    check_type("members", members, Segments, "call Segments.of(batch, num_graphs)")
    expected = [members.rows.size, like.numel()]
    if not plain_tensor("x", x).is_floating_point() or list(x.shape) != expected:
        raise ValueError(f"x must be floating-point numbers of shape {expected}, not {shown(x)}.")
    if x.device.type == "cpu" and x.dtype != like.dtype and not torch.is_autocast_enabled("cpu"):
        raise ValueError(f"x is of {x.dtype}, but the layer of {like.dtype}: move one with .to(dtype).")
