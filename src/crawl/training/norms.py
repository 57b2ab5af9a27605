"""Statistics of batch norms, measured for evaluation.

In training, a batch norm remembers a moving average over the last batches, whose walks may be shorter than those of an
evaluation. Where small errors matter, as in counting, its noise and the difference of the walks may show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from crawl.nn.norm import BatchNorm


class Norms:
    """The batch norms of a model that remember statistics."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.members = [norm for norm in model.modules() if isinstance(norm, _BatchNorm) and norm.track_running_stats]

    @contextmanager
    def using_batches(self) -> Iterator[None]:
        """Evaluate the model, except for its norms: they use and remember the statistics of the current batch alone."""
        was_training, momenta = self.model.training, [norm.momentum for norm in self.members]
        self.model.eval()
        for norm in self.members:
            norm.train()
            norm.momentum = 1.0
        try:
            with self.alone():
                yield
        finally:
            self.model.train(was_training)
            for norm, momentum in zip(self.members, momenta, strict=True):
                norm.momentum = momentum

    def num_uses(self) -> Tensor:
        """`[norms]` how many batches each has seen; counted once for each time that a pass uses it."""
        return torch.stack([norm.get_buffer("num_batches_tracked") for norm in self.members])

    def check_used_once(self, num_uses: Tensor, num_batches: int) -> None:
        """Refuses norms that were used more often than there were batches: they remember their last use alone."""
        for norm, number in zip(self.members, num_uses.tolist(), strict=True):
            if number > num_batches:
                name = next(name for name, module in self.model.named_modules() if module is norm)
                raise ValueError(
                    f"{name} ({type(norm).__name__}) is used {number // num_batches} times in a pass, as the norm of a "
                    "block that is shared, so its statistics cannot be measured: leave out evaluation.num_norm_graphs."
                )

    def synchronise(self, across: Callable[[Tensor], Tensor]) -> None:
        """Let them use statistics of all processes. Refuses those that cannot."""
        others = [type(norm) for norm in self.members if not isinstance(norm, BatchNorm)]
        if others:
            raise ValueError(
                f"training.sync_norms works for crawl.nn.BatchNorm, and the model has a {others[0].__module__}."
                f"{others[0].__name__}: leave it out, or use crawl.nn.BatchNorm."
            )
        for norm in self.members:
            assert isinstance(norm, BatchNorm)
            norm.across = across

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Where norms use statistics of this process alone."""
        own = [norm for norm in self.members if isinstance(norm, BatchNorm)]
        before = [norm.across for norm in own]
        for norm in own:
            norm.across = None
        try:
            yield
        finally:
            for norm, across in zip(own, before, strict=True):
                norm.across = across

    def moments(self) -> Tensor:
        """`[2, C]` mean and mean square of the channels of all norms, as remembered, in float64.

        In float32, the square of a large mean would swallow the variance.
        """
        means, variances = (torch.cat(of_norms).double() for of_norms in self._remembered())
        return torch.stack([means, variances + means.square()])

    def set_moments(self, moments: Tensor) -> None:
        """Remember these, in the form of `moments`."""
        mean, square = moments
        for of_norms, values in zip(self._remembered(), (mean, (square - mean.square()).clamp_min(0)), strict=True):
            for tensor, own in zip(of_norms, values.split([len(tensor) for tensor in of_norms]), strict=True):
                tensor.copy_(own)

    def buffers(self) -> list[Tensor]:
        """What a batch changes."""
        return [buffer for norm in self.members for buffer in norm.buffers()]

    def _remembered(self) -> tuple[list[Tensor], list[Tensor]]:
        """Means and variances of each norm."""
        names = ("running_mean", "running_var")
        means, variances = ([norm.get_buffer(name) for norm in self.members] for name in names)
        return means, variances
