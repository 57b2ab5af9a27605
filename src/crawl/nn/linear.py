"""A linear map without bias, whose gradient on a GPU does not wait for that of its weight, and products on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from crawl.choices import Precision
from crawl.nn.gpu import can_use_triton
from crawl.threads import share_out

_MOST_PARTS, _FEWEST_ROWS = 8, 32  # of a product that is shared out
_SMALL = 10_000_000  # multiplications that are not worth sharing out


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
        out = shared_product(x, self.weight.t()) if x.dim() == 2 else super().forward(x)
        return out if add is None else add + out


@torch.compiler.disable  # type: ignore[untyped-decorator]
def shared_product(a: Tensor, b: Tensor) -> Tensor:
    """`a @ b` for matrices; large ones on a CPU are shared out. It can be differentiated any number of times."""
    is_large = a.shape[0] * a.shape[1] * b.shape[1] >= _SMALL
    if not is_large or a.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return a @ b
    out: Tensor = _SharedProduct.apply(a, b)  # type: ignore[no-untyped-call]
    return out


class _SharedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        out = a.new_empty(a.shape[0], b.shape[1])
        num_parts = min(max(a.shape[0] // _FEWEST_ROWS, 1), _MOST_PARTS)
        parts = list(zip(a.tensor_split(num_parts), out.tensor_split(num_parts), strict=True))

        def multiply(i: int) -> None:
            torch.mm(parts[i][0], b, out=parts[i][1])

        share_out(multiply, len(parts))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        needs_a, needs_b = ctx.needs_input_grad
        grad_a = shared_product(grad, b.t()) if needs_a else None
        return grad_a, shared_product(a.t(), grad) if needs_b else None


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
