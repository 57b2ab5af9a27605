"""The memory a step takes at most."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch
from measure import error_line, peak_memory_mb

from gpu.steps import Step
from gpu.timing import synchronize


def peak_mb(build: Callable[[], Step], device: torch.device, num_calls: int = 5) -> float:
    """MB of the GPU taken at most by running a step, beyond the data set and the model.

    It is built and run once in advance: a compiler that tries variants takes memory that is not the step's.
    """
    build()()
    step = build()
    gc.collect()
    if device.type == "cpu":
        before = peak_memory_mb()
    else:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() / 1e6
    for _ in range(num_calls):
        step()
    synchronize(device)
    return (peak_memory_mb() if device.type == "cpu" else torch.cuda.max_memory_allocated() / 1e6) - before


def peak_or_error(build: Callable[[], Step], device: torch.device) -> float | str:
    """The same, or the error in one line."""
    try:
        return peak_mb(build, device)
    except Exception as error:
        return error_line(error)
