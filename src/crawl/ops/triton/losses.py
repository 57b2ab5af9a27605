"""`known_loss` on a GPU: the loss of a batch and its gradient in one small kernel."""

# mypy: allow-untyped-decorators

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.ops.triton.kernel import kernel

MOST_NUMBERS = 2**14  # one program computes them all
_L1, _MSE = tl.constexpr(0), tl.constexpr(1)  # places in `crawl.ops.losses.LOSSES`


def known_loss(kind: int, output: Tensor, targets: Tensor, is_mean: bool) -> tuple[Tensor, Tensor]:
    """See `crawl.ops.losses.known_loss`; `kind` is a place in `LOSSES`."""
    found: tuple[Tensor, Tensor] = _KnownLoss.apply(output, targets, kind, is_mean)
    return found


class _KnownLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, targets: Tensor, kind: int, is_mean: bool) -> tuple[Tensor, Tensor]:
        output, targets = output.contiguous(), targets.contiguous()
        loss, grad = output.new_empty(()), torch.empty_like(output)
        count = output.new_empty((), dtype=torch.int64)
        with torch.cuda.device(output.get_device()):
            _loss[(1,)](
                output, targets, loss, count, grad, output.numel(), KIND=kind, IS_MEAN=is_mean, BLOCK=1024, num_warps=4
            )
        ctx.mark_non_differentiable(count)
        ctx.set_materialize_grads(False)  # zeros for `count` would take a kernel
        ctx.save_for_backward(grad)
        return loss, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = ctx.saved_tensors
        return grad * grad_loss, None, None, None


@kernel("size")
def _loss(
    output: tl.tensor,
    targets: tl.tensor,
    loss: tl.tensor,
    count: tl.tensor,
    grad: tl.tensor,
    size: tl.int32,
    KIND: tl.constexpr,
    IS_MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    number = tl.zeros([BLOCK], tl.int32)
    for first in range(0, size, BLOCK):
        place = first + tl.arange(0, BLOCK)
        target = tl.load(targets + place, mask=place < size, other=float("nan"))
        number += (target == target).to(tl.int32)
    num_known = tl.sum(number, axis=0)
    divisor = 1.0
    if IS_MEAN:
        divisor = tl.maximum(num_known, 1).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, size, BLOCK):
        place = first + tl.arange(0, BLOCK)
        inside = place < size
        target = tl.load(targets + place, mask=inside, other=float("nan"))
        value = tl.load(output + place, mask=inside, other=0)
        is_known = target == target  # NaN is not equal to itself
        distance = value - tl.where(is_known, target, 0)
        if KIND == _L1:
            one, slope = tl.abs(distance), tl.where(distance > 0, 1.0, tl.where(distance < 0, -1.0, distance))
        elif KIND == _MSE:
            one, slope = distance * distance, 2 * distance
        else:
            small = tl.exp(-tl.abs(value))  # at most 1
            one = tl.maximum(value, 0) - value * target + tl.log(1 + small)
            # sigmoid(value) - target loses its digits where both are near 1
            slope = (tl.where(value >= 0, 1, small) * (1 - target) - tl.where(value >= 0, small, 1) * target) / (
                1 + small
            )
        total += tl.where(is_known, one, 0)
        tl.store(grad + place, tl.where(is_known, slope / divisor, 0), mask=inside)
    tl.store(loss, tl.sum(total, axis=0) / divisor)
    tl.store(count, num_known.to(tl.int64))
