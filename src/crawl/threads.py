"""One pool of threads for the work along walks on a CPU. Its threads sleep while they wait.

The threads of OpenMP, which torch uses, spin at barriers. Alone on a machine that saves a few microseconds each time;
beside other work it burns the time that a thread at the same barrier is waiting for, many times a step. Here a step
has few barriers, pieces of work are handed out one by one, so that a thread which is held up does not hold up the
others, and nobody spins.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from queue import SimpleQueue

import torch

_SECONDS_TO_START = 10.0

_held_count: ContextVar[int | None] = ContextVar("held_count", default=None)
_starting = threading.Lock()


def num_threads() -> int:
    """How many threads share the work: as many as torch uses, which is what users set."""
    held = _held_count.get()
    return torch.get_num_threads() if held is None else held


def share_out(work: Callable[[int], None], num_pieces: int) -> None:
    """Call `work` with every number below `num_pieces`, on several threads. What one piece writes, no other may touch.

    The pieces and not the threads decide what is computed in which order, so that results do not depend on the threads.
    This thread works, too, and waits in the end only for those that have begun: on a busy machine it may be alone.
    After an error no further piece is begun.
    """
    job = _Job(work, num_pieces)
    num_helpers = min(num_threads(), num_pieces) - 1
    if num_helpers < 1:
        return job.run()
    with _starting:
        jobs = _jobs(os.getpid(), num_threads() - 1)
    for _ in range(num_helpers):
        jobs.put(job)
    try:
        with torch_on_one_thread():
            job.run()
    finally:
        job.finish()
    if job.error is not None:
        raise job.error


class _Job:
    """Pieces of work, and how many helpers are at it."""

    def __init__(self, work: Callable[[int], None], num_pieces: int) -> None:
        self.work, self.pieces = work, iter(range(num_pieces))
        self.is_inference = torch.is_inference_mode_enabled()
        self.changed = threading.Condition()
        self.num_helping, self.is_over = 0, False
        self.error: BaseException | None = None

    def run(self) -> None:
        """Work on pieces until there are none; each thread has modes of its own."""
        with torch.inference_mode(self.is_inference), torch.no_grad():
            for piece in self.pieces:
                self.work(piece)

    def help(self) -> None:
        """The same on another thread, unless all is done already."""
        with self.changed:
            if self.is_over:
                return
            self.num_helping += 1
        try:
            self.run()
        except BaseException as error:  # the caller raises it
            self.error = error
            self._drop_the_rest()
        finally:
            with self.changed:
                self.num_helping -= 1
                self.changed.notify_all()

    def finish(self) -> None:
        """Wait for the helpers that have begun."""
        self._drop_the_rest()
        with self.changed:
            self.is_over = True
            self.changed.wait_for(lambda: self.num_helping == 0)

    def _drop_the_rest(self) -> None:
        for _ in self.pieces:
            pass


@cache
def _jobs(process_id: int, count: int) -> SimpleQueue[_Job]:
    """Where this many threads wait for work. A forked process has none of its parent's, so it gets its own.

    If the system does not give that many, there are fewer. They end with the process.
    """
    jobs: SimpleQueue[_Job] = SimpleQueue()
    usual = torch.get_num_threads()

    def help_for_ever(is_ready: threading.Event) -> None:
        torch.get_num_threads()  # the first call on a thread sets the number; only after it can it be changed
        torch.set_num_threads(1)
        with suppress(RuntimeError):  # the line above also changed what new threads begin with
            restore = threading.Thread(target=torch.set_num_threads, args=(usual,), daemon=True)
            restore.start()
            restore.join()
        is_ready.set()
        while True:
            jobs.get().help()

    started = []
    with suppress(RuntimeError):  # the system gives no more threads
        for _ in range(count):
            is_ready = threading.Event()
            threading.Thread(target=help_for_ever, args=(is_ready,), name="crawl", daemon=True).start()
            started.append(is_ready)
    for is_ready in started:
        is_ready.wait(_SECONDS_TO_START)
    return jobs


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Keep torch's operations on this thread, for networks whose large operations call `share_out`."""
    before, token = torch.get_num_threads(), _held_count.set(num_threads())
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
        _held_count.reset(token)
