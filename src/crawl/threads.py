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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch

_held_count: ContextVar[int | None] = ContextVar("held_count", default=None)


def use_threads(count: int) -> None:
    """Compute with this many threads, torch as well."""
    torch.set_num_threads(count)


def num_threads() -> int:
    """How many threads share the work: as many as torch uses, which is what users set."""
    held = _held_count.get()
    return torch.get_num_threads() if held is None else held


def share_out(work: Callable[[int], None], num_pieces: int) -> None:
    """Call `work` with every number below `num_pieces`, on several threads. What one piece writes, no other may touch.

    The pieces and not the threads decide what is computed in which order, so that results do not depend on the threads.
    This thread works, too, and waits in the end only for those that have begun: on a busy machine it may be alone.
    """
    pieces = iter(range(num_pieces))
    is_inference = torch.is_inference_mode_enabled()

    def work_on() -> None:
        with torch.inference_mode(is_inference), torch.no_grad():  # each thread has modes of its own
            for piece in pieces:
                work(piece)

    num_helpers = min(num_threads(), num_pieces) - 1
    if num_helpers < 1:
        return work_on()
    helpers = [_pool(os.getpid(), num_threads() - 1).submit(work_on) for _ in range(num_helpers)]
    with torch_on_one_thread():
        work_on()
    for helper in helpers:
        if not helper.cancel():
            helper.result()


@cache
def _pool(process_id: int, count: int) -> ThreadPoolExecutor:
    """Threads on which torch does not start others. A forked process has none of its parent's, so it gets its own."""
    pool = ThreadPoolExecutor(count, thread_name_prefix="crawl")
    all_here = threading.Barrier(count)

    def set_up(_: int) -> None:
        torch.get_num_threads()  # the first call on a thread sets the number; only after it can it be changed
        torch.set_num_threads(1)
        all_here.wait()

    own = torch.get_num_threads()
    list(pool.map(set_up, range(count)))
    torch.set_num_threads(own)  # `set_up` also changed what new threads begin with
    return pool


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Keep torch's operations on this thread, for networks whose large operations call `share_out`."""
    before, token = torch.get_num_threads(), _held_count.set(num_threads())
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _held_count.reset(token)
