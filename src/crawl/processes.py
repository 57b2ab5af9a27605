"""Work that several processes share, with results in the order of the items, and few of either in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from crawl.checks import whole_number

Item = TypeVar("Item")
Found = TypeVar("Found")

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
    process. Function and `prepare`, which each process calls first with what is `given`, must be importable.

    Raises:
        RuntimeError: If a process died, as when the system ended it because memory was short.
    """
    jobs = whole_number("jobs", jobs, 1, 1024)
    if jobs == 1:
        if prepare is not None:
            prepare(*given)
        yield from map(function, items)
        return
    from joblib.externals.loky import ProcessPoolExecutor  # type: ignore[import-untyped]
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # type: ignore[import-untyped]

    executor: Any = ProcessPoolExecutor(jobs, initializer=prepare, initargs=given)
    waiting: deque[Any] = deque()
    try:
        for item in items:
            waiting.append(executor.submit(function, item))
            if len(waiting) >= _AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except TerminatedWorkerError:
        raise RuntimeError(
            f"One of the {jobs} processes was ended from outside, perhaps because memory was short: use fewer jobs."
        ) from None
    except BaseException:
        executor.shutdown(wait=True, kill_workers=True)
        raise
    finally:
        executor.shutdown(wait=True)
