"""What goes wrong in all of several processes alike: the first one says it, and the others need not."""

from __future__ import annotations

import atexit
import os
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from crawl.training.launched import launched

_PATIENCE = timedelta(seconds=10)  # some processes read data faster than others
_FIRST, _HEARD = "crawl/failed", "crawl/heard/{}"


def is_said_by_first(problem: str) -> bool:
    """Whether the first of several processes fails with the same words, so that this one need not say them.

    Every process that fails asks. Those after the first wait some seconds for its words, which are where the processes
    have met, or are to meet if `torchrun` has started them; elsewhere each process speaks for itself.
    """
    rank, store = _met()
    if store is None:
        return False
    try:
        if rank == 0:
            store.set(_FIRST, problem)
            if not _is_with_torchrun():  # the words are with this process
                atexit.register(_wait_for_others, store)
            return False
        store.wait([_FIRST], _PATIENCE)
        is_same = store.get(_FIRST).decode() == problem
        store.set(_HEARD.format(rank), "1")
        return bool(is_same)
    except (RuntimeError, ValueError):  # the first one does not fail
        return False


def has_first_failed() -> bool:
    """Whether the first of several processes has said why it ends."""
    _, store = _met()
    with suppress(RuntimeError, ValueError):  # the words were with the first
        return store is not None and bool(store.check([_FIRST]))
    return False


def _met() -> tuple[int, Any]:
    """The rank of this process, and the store of torch.distributed that all of them see; None if there is none."""
    try:
        rank, size, _ = launched()
        if size > 1 and _is_with_torchrun():
            from torch.distributed import TCPStore  # type: ignore[attr-defined]

            port = int(os.environ["MASTER_PORT"])
            return rank, TCPStore(os.environ["MASTER_ADDR"], port, size, is_master=False, timeout=_PATIENCE)
        if size > 1:
            from torch import distributed

            if distributed.is_initialized():
                return rank, distributed.distributed_c10d._get_default_store()
    except (KeyError, RuntimeError, ValueError):
        return 0, None
    return 0, None


def _is_with_torchrun() -> bool:
    """Whether the store is in the process of `torchrun`, so that it is there before processes meet, and after them."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _wait_for_others(store: Any) -> None:
    """Stay until the others have heard, or some seconds."""
    until = time.monotonic() + _PATIENCE.total_seconds()
    with suppress(RuntimeError, ValueError):
        words = [_HEARD.format(rank) for rank in range(1, launched()[1])]
        while not store.check(words) and time.monotonic() < until:
            time.sleep(0.05)
