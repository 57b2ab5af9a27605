"""What goes wrong in all of several processes alike: the first one says it, and the others need not."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from typing import Any

from crawl.training.launched import launched

_PATIENCE = timedelta(seconds=10)  # some processes read data faster than others
_FIRST = "crawl/failed"


def is_said_by_first(problem: str) -> bool:
    """Whether the first of several processes of `torchrun` fails with the same words, so that this one need not.

    Every process that fails asks. Those after the first wait some seconds for its words, which are in the store of
    `torchrun`. Processes that something else has started speak for themselves.
    """
    rank, store = _met()
    if store is None:
        return False
    try:
        if rank == 0:
            store.set(_FIRST, problem)
            return False
        store.wait([_FIRST], _PATIENCE)
        return bool(store.get(_FIRST).decode() == problem)
    except (RuntimeError, ValueError):  # the first one does not fail
        return False


def has_first_failed() -> bool:
    """Whether the first of several processes of `torchrun` has said why it ends."""
    _, store = _met()
    with suppress(RuntimeError, ValueError):
        return store is not None and bool(store.check([_FIRST]))
    return False


def _met() -> tuple[int, Any]:
    """The rank of this process, and the store in the process of `torchrun`; None without it."""
    try:
        rank, size, _ = launched()
        if size == 1 or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            return rank, None
        from torch import distributed

        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        return rank, distributed.TCPStore(address, port, size, is_master=False, timeout=_PATIENCE)  # type: ignore[attr-defined]
    except (KeyError, RuntimeError, ValueError):
        return 0, None
