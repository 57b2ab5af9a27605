"""Products of rows with a weight, shared out among the threads of a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from crawl.checks import shown
from crawl.ops.backends import fast_module
from crawl.threads import share_out

_MOST_PARTS, _FEWEST_ROWS = 8, 32  # of a product that is shared out
_SMALL = 10_000_000  # multiplications that are not worth sharing out


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, add: Tensor | None = None) -> Tensor:
    """`x @ weight.t()` with `bias` and `add` added to it. On a GPU, `crawl.ops.precision` says how to multiply.

    Raises:
        ValueError: If rows are not as wide as the weight, or `add` is not of the shape of the product.
    """
    if x.shape[-1:] != weight.shape[1:]:  # a kernel would read what is beside them
        width = x.shape[-1] if x.dim() else 0
        raise ValueError(f"Rows of width {width} do not fit a weight for {weight.shape[1]}: make it for {width}.")
    if add is not None and add.shape != (*x.shape[:-1], len(weight)):
        raise ValueError(f"add must be of shape {[*x.shape[:-1], len(weight)]}, not {shown(add)}.")
    if bias is not None and add is not None:
        return linear(x, weight, bias) + add
    is_plain = x.dim() == 2 and x.dtype == weight.dtype and not torch.is_autocast_enabled(x.device.type)
    fast = fast_module("linear", x.device, x.dtype) if is_plain else None
    if fast is not None:
        product: Tensor = fast.linear(x, weight, bias, add)
        return product
    if bias is not None:
        return F.linear(x, weight, bias)
    out = shared_product(x, weight.t()) if x.dim() == 2 else F.linear(x, weight)
    return out if add is None else add + out


@torch.compiler.disable  # type: ignore[untyped-decorator]
def shared_product(a: Tensor, b: Tensor) -> Tensor:
    """`a @ b` for matrices; large ones on a CPU are shared out. It can be differentiated any number of times."""
    if torch.compiler.is_exporting():  # sizes are symbols
        return a @ b
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
