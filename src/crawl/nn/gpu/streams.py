"""What surrounds the kernels: branches that run side by side, and the precision of matrix products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from crawl.nn.conv import Precision


def in_parallel(device: torch.device, *branches: Callable[[], Any]) -> list[Any]:
    """The results of the branches, which may run at the same time: the small kernels of one do not fill a GPU."""
    if device.type != "cuda":
        return [branch() for branch in branches]
    here = torch.cuda.current_stream(device)
    fork = here.record_event()
    sides = _side_streams(device, len(branches) - 1)
    results = []
    for side, branch in zip(sides, branches[1:], strict=True):
        side.wait_event(fork)
        with torch.cuda.stream(side):
            results.append(branch())
    results.insert(0, branches[0]())
    for side in sides:
        here.wait_event(side.record_event())
    return results


@cache
def _side_streams(device: torch.device, number: int) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(device) for _ in range(number)]


@contextmanager
def products(precision: Precision) -> Iterator[None]:
    """Here float32 matrices are multiplied with products of ten bits (TF32), unless the precision is `float32`."""
    settings = torch.backends.cuda.matmul
    name, value = ("fp32_precision", "ieee" if precision == "float32" else "tf32")
    if not hasattr(settings, name):  # before torch 2.9
        name, value = "allow_tf32", precision != "float32"  # type: ignore[assignment]
    before = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, before)
