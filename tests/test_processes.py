"""Several processes give results in the order of the items, and take no more items than they need."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl.processes import in_order
from crawl.training.ranks import Process

# A parent that says the numbers of its workers, and is killed.
KILLED = """
import os, signal
from crawl.processes import in_order

results = in_order(eval, ["__import__('os').getpid()"] * 9, 2)
print(*{next(results) for _ in range(6)}, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


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
    with pytest.raises(ChildProcessError, match="use fewer jobs"):
        list(in_order(signal.raise_signal, [signal.SIGKILL], 2))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux, to see which processes run")
def test_processes_end_with_one_that_was_killed(tmp_path: Path) -> None:
    with (tmp_path / "numbers").open("w+") as said:  # not a pipe, which would be open as long as a worker is there
        killed = subprocess.run([sys.executable, "-c", KILLED], stdout=said)
        assert killed.returncode == -signal.SIGKILL
        said.seek(0)
        workers, until = [Process("", int(number)) for number in said.read().split()], time.monotonic() + 10
    assert workers
    while any(worker.is_running for worker in workers) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(worker.is_running for worker in workers)


def test_numbers_of_jobs_that_are_refused() -> None:
    with pytest.raises(ValueError, match="jobs must be"):
        list(in_order(math.factorial, [1], 0))
