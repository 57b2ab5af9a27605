"""Which back end serves which operation, and the one place that imports Triton and numba.

Plain torch serves every operation on every device; the tables below list what is faster.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Literal

import torch

Operation = Literal[
    "adam", "batch_norm", "layout", "linear", "losses", "messages", "neighbours", "segments", "walk_conv"
]

_DEVICES = {"cuda"} if importlib.util.find_spec("triton") is not None and torch.version.hip is None else set()


_TRITON: dict[Operation, str] = {  # for float32, and for integers
    "adam": "crawl.ops.triton.adam",
    "batch_norm": "crawl.ops.triton.norm",
    "layout": "crawl.ops.triton.layout",
    "linear": "crawl.ops.triton.linear",
    "losses": "crawl.ops.triton.losses",
    "messages": "crawl.ops.triton.messages",
    "segments": "crawl.ops.triton.segments",
    "walk_conv": "crawl.ops.triton.walk_conv",
}
_NUMBA: dict[Operation, str] = {  # for float32 and float64
    "neighbours": "crawl.ops.cpu_neighbours",
    "walk_conv": "crawl.ops.cpu",
}


def can_use_triton(device: torch.device) -> bool:
    """Whether the Triton kernels can work there: it is an NVIDIA GPU, and Triton is installed."""
    return device.type in _DEVICES


def fast_module(operation: Operation, device: torch.device, dtype: torch.dtype = torch.float32) -> Any | None:
    """The module that serves an operation on such tensors; None where plain torch does.

    It is imported when it is first needed: Triton need not be installed, and numba takes a second to import. Programs
    that `torch.export` makes consist of torch's own operations.
    """
    if torch.compiler.is_exporting():
        return None
    if can_use_triton(device) and dtype == torch.float32:
        return importlib.import_module(_TRITON[operation]) if operation in _TRITON else None
    if device.type == "cpu" and operation in _NUMBA and dtype in (torch.float32, torch.float64):
        return importlib.import_module(_NUMBA[operation])
    return None
