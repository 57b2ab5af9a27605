"""Work that several processes share, with results in the order of the items, and few of either in memory."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from crawl.checks import whole_number

Item = TypeVar("Item")
Found = TypeVar("Found")

_SECONDS_BETWEEN_LOOKS = 1.0
_AHEAD = 2  # items for each process that are under way or wait for their turn


def in_order(
    function: Callable[[Item], Found],
    items: Iterable[Item],
    jobs: int,
    *,
    prepare: Callable[..., None] | None = None,
    given: tuple[Any, ...] = (),
) -> Iterator[Found]:
    """The result of the function for each item, in their order.

    Items are taken as results are asked for, so that at most a few are in memory at a time. One job works in this
    process. Function and `prepare`, which each process calls first with what is `given`, must be importable. The
    processes end when this one does, also if it is killed.

    Raises:
        ChildProcessError: If a process died, as when the system ended it because memory was short.
    """
    jobs = whole_number("jobs", jobs, 1, 1024)
    if jobs == 1:
        if prepare is not None:
            prepare(*given)
        yield from map(function, items)
        return
    from joblib.externals.loky import ProcessPoolExecutor  # type: ignore[import-untyped]
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # type: ignore[import-untyped]

    executor: Any = ProcessPoolExecutor(jobs, initializer=_begin, initargs=(os.getpid(), prepare, given))
    waiting: deque[Any] = deque()
    try:
        for item in items:
            waiting.append(executor.submit(function, item))
            if len(waiting) >= _AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except TerminatedWorkerError:
        raise ChildProcessError(
            f"One of the {jobs} processes was ended from outside, perhaps because memory was short: use fewer jobs."
        ) from None
    except BaseException:
        executor.shutdown(wait=True, kill_workers=True)
        raise
    finally:
        executor.shutdown(wait=True)


def _begin(parent: int, prepare: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    """What a process calls first."""
    threading.Thread(target=_end_with, args=(parent,), name="parent", daemon=True).start()
    if prepare is not None:
        prepare(*given)


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: after `kill -9`, nobody else would end it.

    It is a thread because Linux's signal of a parent's death comes when the thread ends that started a process.
    """
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)
