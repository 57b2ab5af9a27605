"""Adam and AdamW for all parameters of a model in one kernel."""

# mypy: allow-untyped-decorators

from __future__ import annotations

import math

import torch
import triton.language as tl
from torch import Tensor

from crawl.ops.triton.kernel import kernel

_BLOCK = 1024


def blocks_of(sizes: list[int], first_moments: list[int], device: torch.device) -> Tensor:
    """`[B, 4]` int32: the parameter of each block of numbers, and where the block begins in it, in the gradients of all
    parameters, and in the moments of all, where those of a parameter begin at the given places.
    """
    blocks, first = [], 0
    for parameter, (size, moment) in enumerate(zip(sizes, first_moments, strict=True)):
        blocks += [(parameter, start, first + start, moment + start) for start in range(0, size, _BLOCK)]
        first += size
    return torch.tensor(blocks, dtype=torch.int32, device=device).view(-1, 4)


def adam_step(
    addresses: Tensor,
    sizes: Tensor,
    decays: Tensor,
    blocks: Tensor,
    grads: Tensor,
    moments: Tensor,
    lr: Tensor,
    steps: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Change the parameters, whose addresses are given, and the moments.

    Args:
        addresses: `[P]` int64; where each parameter, contiguous float32, is in memory.
        sizes: `[P]` int32; the numbers in each.
        decays: `[P]` float32; the decoupled weight decay of each.
        blocks: `[B, 4]`; see `blocks_of`.
        grads: `[n]` the gradients, one parameter after the other.
        moments: `[2, m]` the means of gradients and of their squares.
        lr: The learning rate, one number.
        steps: `[P]` the number of this step for each parameter, from 1.
        betas: How much of the moments is kept.
        eps: What is added to the root of the second moment.
    """
    with torch.cuda.device(grads.get_device()):
        _adam[(len(blocks),)](
            addresses, sizes, decays, blocks, grads, moments, moments[1], lr, steps,
            BETA1=betas[0], BETA2=betas[1], LOG1=math.log(betas[0]), LOG2=math.log(betas[1]), EPS=eps, BLOCK=_BLOCK,
        )  # fmt: skip


@kernel()
def _adam(
    addresses: tl.tensor,
    sizes: tl.tensor,
    decays: tl.tensor,
    blocks: tl.tensor,
    grads: tl.tensor,
    means: tl.tensor,
    squares: tl.tensor,
    lr: tl.tensor,
    steps: tl.tensor,
    BETA1: tl.constexpr,
    BETA2: tl.constexpr,
    LOG1: tl.constexpr,
    LOG2: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    blocks += tl.program_id(0) * 4
    parameter, start = tl.load(blocks), tl.load(blocks + 1)
    grads += tl.load(blocks + 2).to(tl.int64)
    first = tl.load(blocks + 3).to(tl.int64)
    size, decay, rate = tl.load(sizes + parameter), tl.load(decays + parameter), tl.load(lr).to(tl.float32)
    weights = tl.load(addresses + parameter).to(tl.pointer_type(tl.float32))
    inside = start + tl.arange(0, BLOCK) < size
    place = first + tl.arange(0, BLOCK)
    weight = tl.load(weights + start + tl.arange(0, BLOCK), mask=inside)
    grad = tl.load(grads + tl.arange(0, BLOCK), mask=inside)
    mean, square = tl.load(means + place, mask=inside), tl.load(squares + place, mask=inside)
    mean += (1 - BETA1) * (grad - mean)
    square += (1 - BETA2) * (grad * grad - square)
    # In float64: in float32, 1 - 0.999 has lost four of its digits.
    count = tl.load(steps + parameter).to(tl.float64)
    unbias_mean = (1 / (1 - tl.exp(count * LOG1))).to(tl.float32)
    unbias_root = tl.sqrt(1 / (1 - tl.exp(count * LOG2))).to(tl.float32)
    change = mean * unbias_mean / (tl.sqrt(square) * unbias_root + EPS)
    weight = weight * (1 - rate * decay) - rate * change
    tl.store(weights + start + tl.arange(0, BLOCK), weight, mask=inside)
    tl.store(means + place, mean, mask=inside)
    tl.store(squares + place, square, mask=inside)
