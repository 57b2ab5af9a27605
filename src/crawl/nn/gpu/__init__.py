"""The layers on an NVIDIA GPU: Triton kernels, forward and backward, beside the plain torch that specifies them.

No kernel adds floats in an order that may change, so two runs give the same bits. Row counts are read on the device:
a CUDA graph made for a padded batch serves every batch that fits into it.
"""

from __future__ import annotations

import importlib.util

import torch

_DEVICES = {"cuda"} if importlib.util.find_spec("triton") is not None and torch.version.hip is None else set()


def can_use_triton(device: torch.device) -> bool:
    """Whether the Triton kernels can work there: it is an NVIDIA GPU, and Triton is installed."""
    return device.type in _DEVICES
