"""Which back end serves which operation, and the one place that imports Triton and numba.

Plain torch serves every operation on every device; the table below lists what is faster.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Literal, NamedTuple

import torch

Operation = Literal["adam", "batch_norm", "linear", "losses", "messages", "segments", "walk_conv"]

_DEVICES = {"cuda"} if importlib.util.find_spec("triton") is not None and torch.version.hip is None else set()


class _Backend(NamedTuple):
    """A module with an operation, and the numbers it computes with."""

    is_triton: bool
    module: str
    dtypes: tuple[torch.dtype, ...]


_BACKENDS: dict[Operation, tuple[_Backend, ...]] = {
    "adam": (_Backend(True, "crawl.ops.triton.adam", (torch.float32,)),),
    "batch_norm": (_Backend(True, "crawl.ops.triton.norm", (torch.float32,)),),
    "linear": (_Backend(True, "crawl.ops.triton.linear", (torch.float32,)),),
    "losses": (_Backend(True, "crawl.ops.triton.losses", (torch.float32,)),),
    "messages": (_Backend(True, "crawl.ops.triton.messages", (torch.float32,)),),
    "segments": (_Backend(True, "crawl.ops.triton.segments", (torch.float32,)),),
    "walk_conv": (
        _Backend(True, "crawl.ops.triton.walk_conv", (torch.float32,)),
        _Backend(False, "crawl.ops.cpu", (torch.float32, torch.float64)),
    ),
}


def can_use_triton(device: torch.device) -> bool:
    """Whether the Triton kernels can work there: it is an NVIDIA GPU, and Triton is installed."""
    return device.type in _DEVICES


def fast_module(operation: Operation, device: torch.device, dtype: torch.dtype) -> Any | None:
    """The module that serves an operation on such tensors; None where plain torch does.

    It is imported when it is first needed: Triton need not be installed, and numba takes a second to import.
    """
    for backend in _BACKENDS[operation]:
        serves_device = can_use_triton(device) if backend.is_triton else device.type == "cpu"
        if serves_device and dtype in backend.dtypes:
            return importlib.import_module(backend.module)
    return None
