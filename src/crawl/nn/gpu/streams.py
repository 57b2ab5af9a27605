"""Work that a GPU does beside the main chain of a computation: its small kernels leave most of the GPU idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import get_ident
from typing import Any, TypeVar

import torch

T = TypeVar("T")

_kept: list[Any] | None = None  # what branches still read; None unless they may be late


def stream_of_thread(device: torch.device, name: str) -> torch.cuda.Stream:
    """The stream of that name that only this thread uses.

    torch has 32 streams, which it hands out in turn: one that is asked for anew each time is soon somebody else's.
    """
    return _stream(device, name, get_ident())


def shared_stream(device: torch.device, name: str) -> torch.cuda.Stream:
    """The stream of that name that all threads use, one at a time."""
    return _stream(device, name, 0)


def in_parallel(device: torch.device, *branches: Callable[[], Any]) -> list[Any]:
    """The results of the branches, which may run at the same time."""
    if device.type != "cuda":
        return [branch() for branch in branches]
    here = torch.cuda.current_stream(device)
    fork = here.record_event()
    sides = [_side_stream(device, i) for i in range(1, len(branches))]
    results = []
    for side, branch in zip(sides, branches[1:], strict=True):
        side.wait_event(fork)
        with torch.cuda.stream(side):
            results.append(branch())
    results.insert(0, branches[0]())
    for side in sides:
        here.wait_event(side.record_event())
    return results


@contextmanager
def late_gradients(device: torch.device) -> Iterator[None]:
    """Here gradients of weights may be late: the backward pass goes on without them, and the end waits for all."""
    global _kept
    _kept = []
    try:
        yield
        catch_up(device)
    finally:
        _kept = None


def later(device: torch.device, branch: Callable[[], T], *inputs: Any) -> T:
    """The result of a branch, which may be late (see `late_gradients`): nothing but the end may look at it.

    Args:
        device: Where it runs.
        branch: What is to be done.
        inputs: The tensors it reads, whose memory must not be used again before it is done.
    """
    if _kept is None or device.type != "cuda":
        return branch()
    side = _side_stream(device, 0)
    side.wait_event(torch.cuda.current_stream(device).record_event())
    _kept.append(inputs)
    with torch.cuda.stream(side):
        return branch()


def catch_up(device: torch.device) -> None:
    """Wait for what is late, and let go of what it read."""
    if _kept and device.type == "cuda":
        torch.cuda.current_stream(device).wait_event(_side_stream(device, 0).record_event())
        _kept.clear()


def _side_stream(device: torch.device, index: int) -> torch.cuda.Stream:
    return shared_stream(device, f"side {index}")


@cache
def _stream(device: torch.device, name: str, thread: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
