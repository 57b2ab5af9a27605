"""SIGTERM and SIGHUP do what Ctrl-C does, so that a run on a cluster or after a lost connection ends as cleanly."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")  # there is no SIGHUP on Windows
_SECONDS_OF_ONE_STOP = 1.0  # a shell that ends may send a signal twice
_caught: list[signal.Signals] = []  # those that `as_interrupts` has turned into interrupts


@contextmanager
def as_interrupts() -> Iterator[list[signal.Signals]]:
    """Within, these signals raise `KeyboardInterrupt`; what comes back is filled with those that came.

    A signal that was ignored before, as SIGHUP is after `nohup`, stays ignored. What was there before is put back in
    the end. Threads other than the main one cannot set this, so nothing is changed there.
    """
    came: list[signal.Signals] = []
    first = 0.0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if came and time.monotonic() - first < _SECONDS_OF_ONE_STOP:
            return  # files are being closed and removed
        first = time.monotonic()
        came.append(signal.Signals(number))
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    known = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in known}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, interrupt)
    _caught[:] = before
    try:
        yield came
    finally:
        _caught.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore() -> None:
    """Within `as_interrupts`, from now on ignore these signals: the process is ending, and must be able to say why."""
    if threading.current_thread() is threading.main_thread():
        for number in _caught:
            signal.signal(number, signal.SIG_IGN)
