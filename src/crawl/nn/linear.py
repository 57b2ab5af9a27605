"""A linear map without bias."""

from __future__ import annotations

from torch import Tensor, nn

from crawl.ops.linear import linear


class Linear(nn.Linear):
    """`torch.nn.Linear` without bias.

    Args:
        in_features: The width of the input.
        out_features: The width of the output.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)

    def forward(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """`[N, out_features]`, with `add` added to it."""
        return linear(x, self.weight, add)
