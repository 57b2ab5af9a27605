"""A linear map."""

from __future__ import annotations

from torch import Tensor, nn

from crawl.ops.linear import linear


class Linear(nn.Linear):
    """`torch.nn.Linear`, without bias unless asked for.

    Args:
        in_features: The width of the input.
        out_features: The width of the output.
        bias: Add a learned vector to the output.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = False) -> None:
        super().__init__(in_features, out_features, bias=bias)

    def forward(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """`[N, out_features]`, with `add` added to it."""
        return linear(x, self.weight, self.bias, add)
