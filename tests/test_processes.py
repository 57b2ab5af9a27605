"""Several processes give results in the order of the items, and take no more items than they need."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator

import pytest

from crawl.processes import in_order


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_in_order_and_items_are_taken_as_they_are_needed(jobs: int) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for i in range(50):
            taken += 1
            yield i

    results = in_order(math.factorial, items(), jobs)
    assert next(results) == 1
    assert taken <= 5
    assert list(results) == [math.factorial(i) for i in range(1, 50)]


def test_errors_of_a_process_arrive() -> None:
    with pytest.raises(ValueError, match="not defined for negative"):
        list(in_order(math.factorial, [1, -1, 2], 2))


def test_a_process_that_is_ended_is_named() -> None:
    with pytest.raises(RuntimeError, match="use fewer jobs"):
        list(in_order(signal.raise_signal, [signal.SIGKILL], 2))


def test_numbers_of_jobs_that_are_refused() -> None:
    with pytest.raises(ValueError, match="jobs must be"):
        list(in_order(math.factorial, [1], 0))
