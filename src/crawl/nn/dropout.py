"""Dropout with a random generator of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from crawl.checks import real_number


class Dropout(nn.Dropout):
    """torch's `Dropout`, which may draw from a generator that nobody else draws from.

    Models that are trained at the same time in one process then do not change each other's random numbers.

    Attributes:
        generator: Where random numbers come from. When None, and for inputs on another device, as after a model was
            moved, it is torch's own.
    """

    def __init__(self, rate: float) -> None:
        super().__init__(real_number("dropout", rate, 0, 1))
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Values of the shape of `x`."""
        share = 1 - self.p
        if not self.training or share == 1:
            return x
        is_here = self.generator is not None and self.generator.device.type == x.device.type
        kept, generator = torch.empty_like(x), self.generator if is_here else None
        if x.device.type == "cpu":  # there bernoulli_ takes four times as long
            kept.uniform_(generator=generator).lt_(share)
        else:
            kept.bernoulli_(share, generator=generator)
        return x * (kept.div_(share) if share > 0 else kept)

    def __getstate__(self) -> dict[str, Any]:
        """All but the generator, which cannot be copied."""
        return {**self.__dict__, "generator": None}
