"""Work is shared out among threads that sleep while they wait, and results do not depend on how many there are."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from crawl.threads import num_threads, share_out, torch_on_one_thread


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("num_pieces", [0, 1, 2, 7, 100])
def test_every_piece_is_done_once(count: int, num_pieces: int) -> None:
    torch.set_num_threads(count)
    done: list[int] = []
    share_out(done.append, num_pieces)
    assert sorted(done) == list(range(num_pieces))


def test_several_threads_work_and_torch_starts_none_on_them() -> None:
    torch.set_num_threads(3)
    together = threading.Barrier(3, timeout=60)
    seen: list[tuple[int, int]] = []

    def work(_: int) -> None:
        together.wait()  # passes only if three threads work at the same time
        seen.append((threading.get_ident(), torch.get_num_threads()))

    share_out(work, 3)
    assert len({name for name, _ in seen}) == 3
    assert {number for _, number in seen} == {1}
    assert torch.get_num_threads() == num_threads() == 3


def test_threads_begin_with_as_many_as_before() -> None:
    torch.set_num_threads(2)
    share_out(lambda _: None, 2)
    found: list[int] = []
    fresh = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    fresh.start()
    fresh.join()
    assert found == [2]


def test_helper_that_has_not_begun_is_not_waited_for() -> None:
    torch.set_num_threads(2)
    hold, held = threading.Event(), threading.Event()

    def occupy(piece: int) -> None:
        if threading.current_thread() is not caller:
            held.set()
            hold.wait(60)
        elif piece == 0:
            held.wait(60)  # until the only helper has a piece

    caller = threading.Thread(target=lambda: share_out(occupy, 2))
    caller.start()
    assert held.wait(60)
    done: list[int] = []
    share_out(done.append, 5)  # the helper is busy for as long as we like
    assert done == [0, 1, 2, 3, 4]
    hold.set()
    caller.join(60)
    assert not caller.is_alive()


PROGRAMS = """
import gc, os, sys, torch
import crawl.threads

gc.freeze()
for program in sys.argv[1:]:  # no thread has been started yet
    if not (child := os.fork()):
        exec(program)
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
"""


def run(*programs: str) -> str:
    """What programs print, which run one after the other in processes that have imported torch only once."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAMS, *programs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


INTERRUPTED = """
import os, signal, sys, torch
from crawl import threads

for seconds in (0.0002, 0.0003, 0.0005):
    if not (child := os.fork()):  # no thread has been started yet
        torch.set_num_threads(4)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            threads.share_out(lambda _: None, 8)
            signal.pause()
        except KeyboardInterrupt:
            print("interrupted")
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
"""


AFTER_MAIN = """
import threading, time, torch
from crawl.threads import share_out
torch.set_num_threads(2)

def work():
    time.sleep(0.5)  # the main thread has ended by now
    done = []
    share_out(done.append, 50)
    print(sorted(done) == list(range(50)))

threading.Thread(target=work).start()
"""
FORKED = """
import multiprocessing, torch
from crawl.threads import share_out

def work(queue):
    done = []
    share_out(done.append, 50)
    queue.put(sorted(done))

torch.set_num_threads(2)
share_out(lambda _: None, 50)
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=work, args=(queue,))
process.start()
assert queue.get(timeout=60) == list(range(50))
process.join(60)
assert process.exitcode == 0
"""


def test_an_interrupt_while_threads_start_an_end_of_the_main_thread_and_a_fork_hang_no_process() -> None:
    """A forked process has threads of its own, and helpers work after the main thread has ended."""
    assert run(INTERRUPTED, AFTER_MAIN, FORKED) == 3 * "interrupted\n" + "True\n"


def test_fewer_threads_than_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, count = threading.Thread.start, 0

    def start(thread: threading.Thread) -> None:
        nonlocal count
        count += thread.name == "crawl"
        if thread.name == "crawl" and count > 2:
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    torch.set_num_threads(7)
    done: list[int] = []
    share_out(done.append, 50)
    assert count == 3
    assert sorted(done) == list(range(50))


@pytest.mark.parametrize("is_own", [True, False])
def test_no_piece_is_begun_after_an_error(is_own: bool) -> None:
    torch.set_num_threads(2)
    caller, begun, together = threading.get_ident(), [], threading.Barrier(2, timeout=60)

    def work(piece: int) -> None:
        begun.append(piece)
        if piece < 2:
            together.wait()
            if (threading.get_ident() == caller) == is_own:
                raise ValueError("this one")
            time.sleep(0.2)

    with pytest.raises(ValueError, match="this one"):
        share_out(work, 50)
    number = len(begun)
    time.sleep(0.1)
    assert len(begun) == number < 50


def test_error_in_a_piece_reaches_the_caller() -> None:
    torch.set_num_threads(2)

    def work(piece: int) -> None:
        time.sleep(0.001)
        if piece == 7:
            raise ValueError("piece 7")

    with pytest.raises(ValueError, match="piece 7"):
        share_out(work, 20)
    done: list[int] = []
    share_out(done.append, 3)
    assert sorted(done) == [0, 1, 2]


@pytest.mark.parametrize("is_inference", [True, False])
def test_pieces_run_in_the_modes_of_the_caller(is_inference: bool) -> None:
    torch.set_num_threads(2)
    weight = torch.ones(3, 3, requires_grad=True)
    with torch.inference_mode(is_inference), torch.no_grad():
        out = torch.zeros(8, 3, 3)
        share_out(lambda piece: torch.mm(weight, weight, out=out[piece]), 8)
    assert out.is_inference() == is_inference
    assert bool((out == 3).all())


def test_torch_on_one_thread_keeps_the_number_for_shared_work() -> None:
    torch.set_num_threads(3)
    with torch_on_one_thread():
        assert (torch.get_num_threads(), num_threads()) == (1, 3)
        with torch_on_one_thread():
            assert (torch.get_num_threads(), num_threads()) == (1, 3)
        assert (torch.get_num_threads(), num_threads()) == (1, 3)
    assert (torch.get_num_threads(), num_threads()) == (3, 3)


IMPORTED_FIRST = """
import {first}, {second}
import torch
before = torch.get_num_threads()
from crawl import CRaWlConv, Graph, sample_walks
node = torch.arange(2000)
walks = sample_walks(Graph.from_edge_index(torch.stack([node, (node + 1) % 2000]), undirected=True), seed=0)
CRaWlConv(1, 16)(torch.ones(2000, 1), walks).sum().backward()
assert torch.get_num_threads() == before == 2
import numba.np.ufunc.parallel as parallel
assert not parallel._is_initialized, "numba has started threads of its own"
"""


@pytest.mark.parametrize(("first", "second"), [("torch", "crawl"), ("crawl", "torch")])
def test_one_pool_whichever_is_imported_first(first: str, second: str) -> None:
    program = IMPORTED_FIRST.format(first=first, second=second)
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
