"""Which form of the walks a device has: the reference, numba or Triton."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor


def backend_for(device: torch.device, backend: str = "auto") -> ModuleType:
    """The module whose `sample` and `encode` work there; their arguments are those of `crawl.walks.reference`."""
    if backend == "auto":
        has_triton = device.type == "cuda" and importlib.util.find_spec("triton") is not None
        backend = "triton" if has_triton else "numba" if device.type == "cpu" else "reference"
    if backend == "triton" and importlib.util.find_spec("triton") is None:
        raise ValueError("backend='triton' needs the package triton: install it, or use backend='auto'.")
    # numba and triton take a second to import, and one device needs one of them
    module = {"reference": "crawl.walks.reference", "numba": "crawl.walks.cpu", "triton": "crawl.walks.gpu"}[backend]
    return importlib.import_module(module)


def sampler_for(device: torch.device, backend: str = "auto") -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """The function that samples there; its arguments are those of `reference.sample`."""
    sampler: Callable[..., tuple[Tensor, Tensor, Tensor]] = backend_for(device, backend).sample
    return sampler
