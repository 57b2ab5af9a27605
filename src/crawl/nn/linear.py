"""A linear map without bias, whose gradient on a GPU does not wait for that of its weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from crawl.choices import Precision
from crawl.nn.gpu import can_use_triton


class Linear(nn.Linear):
    """`torch.nn.Linear` without bias.

    Args:
        in_features: The width of the input.
        out_features: The width of the output.
        precision: On a GPU `float32` is exact, the others use products of ten bits.
    """

    def __init__(self, in_features: int, out_features: int, precision: Precision = "tf32") -> None:
        super().__init__(in_features, out_features, bias=False)
        self.precision = precision

    def forward(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """`[N, out_features]`, with `add` added to it."""
        is_plain = x.dtype == self.weight.dtype == torch.float32 and not torch.is_autocast_enabled(x.device.type)
        if can_use_triton(x.device) and is_plain:
            product: Tensor = _Product.apply(x, self.weight, add, self.precision)  # type: ignore[no-untyped-call]
            return product
        out = super().forward(x)
        return out if add is None else add + out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, add: Tensor | None, precision: Precision) -> Tensor:
        from crawl.nn.gpu.products import product

        ctx.precision = precision
        ctx.save_for_backward(x, weight)
        return product(x, weight.t(), precision, add=None if add is None else add.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from crawl.nn.gpu.products import product
        from crawl.nn.gpu.streams import later

        x, weight = ctx.saved_tensors
        grad_x = product(grad, weight, ctx.precision) if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = later(grad.device, lambda: product(grad.t(), x, ctx.precision), grad, x)
        return grad_x, grad_weight, grad if ctx.needs_input_grad[2] else None, None
