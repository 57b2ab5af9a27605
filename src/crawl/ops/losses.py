"""Losses over the targets that are known."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from crawl.ops.backends import fast_module

Loss = Literal["l1", "mse", "bce"]
LOSSES: tuple[Loss, ...] = get_args(Loss)
_NO_CLASS = -100
LEAST_VARIANCE = 1e-6  # as in torch's Gaussian likelihood; in the unit in which a network sees its targets
_LARGEST = 1e6  # that says a variance: the squares of more would not be finite numbers
_BETA = 0.5


def known_loss(
    kind: Loss, output: Tensor, targets: Tensor, *, is_mean: bool, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The sum or the mean of the losses over the targets that are not NaN, and how many these are. Of none it is 0.

    Args:
        kind: `l1`, `mse`, or `bce` for labels 0 and 1 with logits.
        output: `[n, k]`.
        targets: `[n, k]` in the dtype of `output`.
        is_mean: Divide the sum by the number of targets.
        weights: `[n]` or `[n, k]` what losses are multiplied with; with nothing when None.
    """
    kernels = fast_module("losses", output.device, output.dtype)
    if weights is None and kernels is not None and output.numel() <= kernels.MOST_NUMBERS:
        found: tuple[Tensor, Tensor] = kernels.known_loss(LOSSES.index(kind), output, targets, is_mean)
        return found
    known, targets = ~targets.isnan(), targets.nan_to_num()
    if kind == "bce":
        losses = F.binary_cross_entropy_with_logits(output, targets, reduction="none")
    else:
        losses = (F.l1_loss if kind == "l1" else F.mse_loss)(output, targets, reduction="none")
    return _over_known(losses, known, is_mean, weights)


def variance_of(raw: Tensor) -> Tensor:
    """The variance that a network says by a number, and a little more: never 0.

    It is q(raw) with q(t) = 1 + t + t²/2, and 1 / q(-raw) for negative numbers. Near 0 that is the exponential, but it
    grows slowly: where states are summed, a new network answers with large numbers, and trainings with exponentials of
    them did not settle.
    """
    above, below = raw.clamp(0, _LARGEST), raw.clamp(-_LARGEST, 0)
    grown, shrunk = 1 + above + above.square() / 2, 1 - below + below.square() / 2
    return torch.where(raw < 0, 1 / shrunk, grown) + LEAST_VARIANCE


def beta_nll(output: Tensor, targets: Tensor, *, is_mean: bool, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The β-NLL of normal distributions, summed or averaged as in `known_loss`, and the number of known targets.

    It is the negative log likelihood of each target, without its constant, times the standard deviation, through which
    no gradient goes (β = 0.5). So the mean learns from all targets, where the plain likelihood lets it neglect
    those whose variance it has once found large (Seitzer et al., ICLR 2022).

    Args:
        output: `[n, 2k]` k means, then k numbers that say variances; see `variance_of`.
        targets: `[n, k]` with NaN where missing.
        is_mean: Divide the sum by the number of targets.
        weights: As in `known_loss`.
    """
    mean, raw = output.chunk(2, dim=1)
    variance, known = variance_of(raw), ~targets.isnan()
    nll = (variance.log() + (mean - torch.where(known, targets, 0)).square() / variance) / 2
    return _over_known(nll * variance.detach() ** _BETA, known, is_mean, weights)


def class_loss(
    output: Tensor, targets: Tensor, *, is_mean: bool, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The cross-entropy of known classes, summed or averaged as in `known_loss`, and their number.

    Args:
        output: `[n, k]` logits.
        targets: `[n]` classes, with NaN where missing.
        is_mean: Divide the sum by the number of targets.
        weights: `[n]`, as in `known_loss`.
    """
    known = ~targets.isnan() if targets.is_floating_point() else torch.ones_like(targets, dtype=torch.bool)
    classes = torch.where(known, targets, 0).long()
    if weights is None:
        classes = torch.where(known, classes, _NO_CLASS)
        total, count = F.cross_entropy(output, classes, ignore_index=_NO_CLASS, reduction="sum"), known.sum()
        return total / count.clamp_min(1) if is_mean else total, count
    return _over_known(F.cross_entropy(output, classes, reduction="none"), known, is_mean, weights)


def _over_known(losses: Tensor, known: Tensor, is_mean: bool, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    if weights is not None:
        losses = losses * weights.to(losses.dtype).view(len(losses), *[-1] * (losses.dim() - 1))
    total, count = torch.where(known, losses, 0).sum(), known.sum()
    return total / count.clamp_min(1) if is_mean else total, count
