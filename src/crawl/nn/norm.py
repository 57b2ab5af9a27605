"""Batch normalisation that survives batches too small to have a variance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crawl.checks import check_type, shown
from crawl.ops.norm import Norm, batch_norm
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
            relu: Clip the result at zero.
        """
        return batch_norm(x, self.tensors(), None if rows is None else rows.real, relu=relu)

    def tensors(self) -> Norm:
        """The weights, running statistics and settings, for the operations of `crawl.ops`."""
        statistics = (self.running_mean, self.running_var, self.num_batches_tracked)
        return Norm(self.weight, self.bias, *statistics, self.momentum, self.eps, self.training)


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
