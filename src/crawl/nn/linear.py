"""A linear map without bias, whose two gradients are worked out side by side on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from crawl.nn.gpu.streams import in_parallel
from crawl.nn.norm import can_use_triton


class Linear(nn.Linear):
    """`torch.nn.Linear` without bias."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, out_features]`."""
        if can_use_triton(x.device) and not torch.is_autocast_enabled(x.device.type):
            product: Tensor = _Product.apply(x, self.weight)
            return product
        return super().forward(x)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        x, weight = ctx.saved_tensors
        grad_x, grad_weight = in_parallel(
            grad.device,
            lambda: grad @ weight if ctx.needs_input_grad[0] else None,
            lambda: grad.t() @ x,
        )
        return grad_x, grad_weight
