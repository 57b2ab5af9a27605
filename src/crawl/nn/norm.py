"""Batch normalisation that survives batches too small to have a variance."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

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
