"""Losses over the targets that are known."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from crawl.ops.backends import fast_module

Loss = Literal["l1", "mse", "bce"]
LOSSES: tuple[Loss, ...] = get_args(Loss)


def known_loss(kind: Loss, output: Tensor, targets: Tensor, *, is_mean: bool) -> tuple[Tensor, Tensor]:
    """The sum or the mean of the losses over the targets that are not NaN, and how many these are. Of none it is 0.

    Args:
        kind: `l1`, `mse`, or `bce` for labels 0 and 1 with logits.
        output: `[n, k]`.
        targets: `[n, k]` in the dtype of `output`.
        is_mean: Divide the sum by the number of targets.
    """
    kernels = fast_module("losses", output.device, output.dtype)
    if kernels is not None and output.numel() <= kernels.MOST_NUMBERS:
        found: tuple[Tensor, Tensor] = kernels.known_loss(LOSSES.index(kind), output, targets, is_mean)
        return found
    known, targets = ~targets.isnan(), targets.nan_to_num()
    if kind == "bce":
        losses = F.binary_cross_entropy_with_logits(output, targets, reduction="none")
    else:
        losses = (F.l1_loss if kind == "l1" else F.mse_loss)(output, targets, reduction="none")
    total, count = torch.where(known, losses, 0).sum(), known.sum()
    return total / count.clamp_min(1) if is_mean else total, count
