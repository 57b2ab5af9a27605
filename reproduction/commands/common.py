"""What several commands need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from crawl.cli.output import say


@contextmanager
def resumable() -> Iterator[None]:
    """Work that says, when it is interrupted, how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command resumes where it was stopped") from None


def check_minutes(minutes: float | None) -> None:
    """Refuse a time that is no time."""
    if minutes is not None and not minutes > 0:
        raise ValueError(f"--minutes must be more than 0, not {minutes:g}.")


def advise_on_overlap(device: str, jobs: int) -> None:
    """Say how runs overlap better on a GPU."""
    from crawl.training.trainer import choose_device

    on_gpu = choose_device(device).type == "cuda"
    if on_gpu and jobs > 1 and "CUDA_DEVICE_MAX_CONNECTIONS" not in os.environ:
        say("runs overlap better on a GPU with the variable CUDA_DEVICE_MAX_CONNECTIONS=32")
