"""Seconds of calls: on a GPU without waiting for it, and of several calls in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise

import torch
from measure import Spread, error_line, progress

from gpu.steps import Step


def seconds_of(call: Step, num_calls: int, device: torch.device) -> list[float]:
    """Seconds of each of so many calls in a row.

    On a GPU an event is recorded between two calls and nothing waits before the end. Where the host is slower than the
    GPU, these are the host's times; where it runs ahead, the GPU's. The first call, before which the GPU idles, is left
    out.
    """
    if device.type == "cpu":
        marks = [time.perf_counter()]
        for _ in range(num_calls):
            call()
            marks.append(time.perf_counter())
        return [end - begin for begin, end in pairwise(marks)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(num_calls + 2)]
    torch.cuda.synchronize()
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) / 1e3 for begin, end in pairwise(events)][1:]


def in_turns(
    builds: Mapping[str, Callable[[], Step]], device: torch.device, *, seconds_each: float = 1.5, num_rounds: int = 3
) -> dict[str, dict[str, float] | str]:
    """The spread of the seconds of each call that the functions build, or the last line of its error.

    Each call is warmed up. Then they take turns, and in each turn a call runs as often as its share of the time allows.
    """
    found: dict[str, list[float] | str] = {}
    calls: dict[str, Step] = {}
    num_calls: dict[str, int] = {}
    for name, build in builds.items():
        progress(f"  warm-up: {name}")
        try:
            calls[name] = build()
            num_calls[name] = _warm_up(calls[name], device, seconds_each / num_rounds)
            found[name] = []
        except Exception as error:
            found[name] = error_line(error)
    for _ in range(num_rounds):
        for name, call in calls.items():
            values = found[name]
            if isinstance(values, str):
                continue
            try:
                values += seconds_of(call, num_calls[name], device)
            except Exception as error:
                found[name] = error_line(error)
    return {name: v if isinstance(v, str) else {**asdict(Spread.of(v)), "num": len(v)} for name, v in found.items()}


def _warm_up(call: Step, device: torch.device, seconds: float) -> int:
    """Calls until compilation and capture should be over; how many calls fit into the given time."""
    is_cpu = device.type == "cpu"
    began, num_calls = time.perf_counter(), 0
    while num_calls < (1 if is_cpu else 3) or (num_calls < 250 and time.perf_counter() - began < 0.7 and not is_cpu):
        call()
        num_calls += 1
        synchronize(device)
    each = min(seconds_of(call, 1 if is_cpu else 3, device))
    return 1 if is_cpu else max(3, min(200, round(seconds / each)))


def allow_tf32(allowed: bool = True) -> None:
    """Let torch use TF32 for products of float32 matrices, or not."""
    settings = torch.backends.cuda.matmul
    if hasattr(settings, "fp32_precision"):
        settings.fp32_precision = "tf32" if allowed else "ieee"
    else:  # before torch 2.9
        settings.allow_tf32 = allowed


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
