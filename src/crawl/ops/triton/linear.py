"""`linear` on a GPU: its gradient does not wait for the gradient of its weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.ops.precision import current_precision
from crawl.ops.triton.products import product
from crawl.ops.triton.streams import weight_gradient


def linear(x: Tensor, weight: Tensor, add: Tensor | None) -> Tensor:
    """See `crawl.ops.linear.linear`."""
    out: Tensor = _Linear.apply(x, weight, add)
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, add: Tensor | None) -> Tensor:
        ctx.precision, ctx.weight = current_precision(), weight  # where tensors are recomputed, a saved one is a copy
        ctx.save_for_backward(x, weight)
        return product(x, weight.t(), ctx.precision, add=None if add is None else add.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_x = product(grad, weight, ctx.precision) if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = weight_gradient(ctx.weight, lambda: product(grad.t(), x, ctx.precision), grad, x)
        return grad_x, grad_weight, grad if ctx.needs_input_grad[2] else None
