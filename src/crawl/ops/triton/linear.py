"""`linear` on a GPU: its gradient does not wait for the gradient of its weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.ops.precision import current_precision
from crawl.ops.triton.products import product
from crawl.ops.triton.streams import weight_gradient


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, add: Tensor | None) -> Tensor:
    """See `crawl.ops.linear.linear`; there is no `add` where there is a bias."""
    out: Tensor = _Linear.apply(x, weight, bias, add)
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, add: Tensor | None) -> Tensor:
        ctx.precision = current_precision()
        ctx.weight, ctx.bias = weight, bias  # where tensors are recomputed, a saved one is a copy
        ctx.save_for_backward(x, weight)
        addend = bias if add is None else add.contiguous()
        return product(x, weight.t(), ctx.precision, add=addend)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, needs_add = ctx.needs_input_grad
        grad_x = product(grad, weight, ctx.precision) if needs_x else None
        grad_weight = grad_bias = None
        if needs_weight:
            grad_weight = weight_gradient(ctx.weight, lambda: product(grad.t(), x, ctx.precision), grad, x)
        if needs_bias:
            grad_bias = weight_gradient(ctx.bias, lambda: grad.sum(dim=0), grad)
        return grad_x, grad_weight, grad_bias, grad if needs_add else None
