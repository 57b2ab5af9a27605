"""Branches of a computation that run side by side on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch


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
