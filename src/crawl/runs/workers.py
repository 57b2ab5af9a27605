"""Runs in several processes: a process that dies takes with it only the runs that it had open.

Every thread of a process has a pipe of its own, through which it gets one run after the other. Processes share nothing
that one of them could hold when it dies.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait

from crawl.runs.plan import PlannedRun

Do = Callable[[PlannedRun, Callable[[], bool]], str | None]
_CONTEXT = multiprocessing.get_context("spawn")
_SECONDS_TO_STOP = 10.0  # for the end of an epoch, after Ctrl-C
_BROKEN = 3  # how a process ends after a CUDA error
_LAST_WORD = threading.Lock()


def is_fatal(problem: str | None) -> bool:
    """Whether nothing else can be computed on the GPU in the process that met this problem."""
    return problem is not None and any(sign in problem for sign in ("CUDA error", "Triton Error [CUDA]"))


def say(message: str) -> None:
    """A remark for the person at the terminal."""
    print(message, file=sys.stderr, flush=True)


class Workers:
    """Processes that do runs.

    A run that was open when its process died has failed, and a new process does what is left. A process that meets a
    CUDA error reports it and ends; what else it had open is tried once more.

    Args:
        runs: What to do.
        do: Does a run and returns why it failed, if it did. Its second argument tells it whether to stop. Must be
            something that can be pickled.
        report: Called with each run that is over, and why it failed, if it did.
        is_over: Whether to begin no other run.
        gpus: For each process, the GPU it sees; None for all.
        num_threads: Runs at a time in each process.
    """

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        do: Do,
        report: Callable[[PlannedRun, str | None], None],
        is_over: Callable[[], bool],
        gpus: Sequence[int | None],
        num_threads: int = 1,
    ) -> None:
        self.left, self.do, self.report, self.is_over = deque(runs), do, report, is_over
        self.gpus, self.num_threads = gpus[: len(runs)], num_threads
        self.num_at_a_time = min(len(self.gpus) * num_threads, len(runs))
        self.workers: list[_Worker] = []
        self.tried_again: set[PlannedRun] = set()

    def run(self) -> None:
        """Do all runs. After Ctrl-C, processes get some time to stop at the end of an epoch."""
        try:
            for i, gpu in enumerate(self.gpus):
                self._start(gpu, len(range(i, self.num_at_a_time, len(self.gpus))))
            while self.workers:
                owner = {connection: worker for worker in self.workers for connection in worker.open}
                for connection in wait(list(owner)):
                    assert isinstance(connection, Connection)
                    if owner[connection] in self.workers:
                        self._listen(owner[connection], connection)
        except KeyboardInterrupt:
            self._stop()
            raise
        finally:
            for worker in self.workers:
                worker.process.kill()
                worker.process.join()

    def _start(self, gpu: int | None, num_threads: int) -> None:
        worker = _Worker(self.do, gpu, num_threads, self.num_at_a_time)
        self.workers.append(worker)
        for connection in worker.open:
            self._hand_out(worker, connection)

    def _hand_out(self, worker: _Worker, connection: Connection) -> None:
        """Give a thread its next run, or tell it that there is none."""
        run = self.left.popleft() if self.left and not self.is_over() else None
        worker.open[connection] = run
        with suppress(OSError):  # the process has died, which the connection tells next
            connection.send(run)

    def _listen(self, worker: _Worker, connection: Connection) -> None:
        try:
            problem = connection.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        self._report(worker, connection, problem)
        if not worker.is_broken:
            self._hand_out(worker, connection)

    def _report(self, worker: _Worker, connection: Connection, problem: str | None) -> None:
        run, worker.open[connection] = worker.open[connection], None
        worker.is_broken |= is_fatal(problem)
        assert run is not None
        self.report(run, problem)

    def _bury(self, worker: _Worker) -> None:
        """See what became of the runs of a process that has ended, and start another if there is more to do."""
        worker.process.join()
        self.workers.remove(worker)
        for connection in [connection for connection, run in worker.open.items() if run is not None]:
            with suppress(EOFError, OSError):  # what it said before it ended
                self._report(worker, connection, connection.recv())
        for run in [run for run in worker.open.values() if run is not None]:
            if worker.is_broken and run not in self.tried_again:
                self.tried_again.add(run)
                self.left.appendleft(run)
            else:
                self.report(run, f"its process ended with code {worker.process.exitcode}")
        if self.left and not self.is_over():
            self._start(worker.gpu, min(self.num_threads, len(self.left)))

    def _stop(self) -> None:
        say(f"stopping at the end of the epoch, in {_SECONDS_TO_STOP:.0f} s at the latest; Ctrl-C again stops at once")
        for worker in self.workers:
            for connection in worker.open:
                with suppress(OSError):
                    connection.send(None)
        deadline = time.monotonic() + _SECONDS_TO_STOP
        for worker in self.workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))


class _Worker:
    """A process that does runs in threads.

    Attributes:
        gpu: The GPU it sees; None for all.
        open: What each of its threads does, by the connection with it; None if it has nothing to do any more.
        is_broken: Whether it met a CUDA error.
    """

    def __init__(self, do: Do, gpu: int | None, num_threads: int, num_runs: int) -> None:
        pipes = [_CONTEXT.Pipe() for _ in range(num_threads)]
        theirs = [end for _, end in pipes]
        self.gpu, self.is_broken = gpu, False
        self.open: dict[Connection, PlannedRun | None] = {end: None for end, _ in pipes}
        self.process = _CONTEXT.Process(target=_work_in_threads, args=(theirs, do), daemon=True)
        with _environment(num_runs, gpu), _without_interrupts():
            self.process.start()
        for end in theirs:
            end.close()  # so that ours says so when the process ends


def _work_in_threads(connections: Sequence[Connection], do: Do) -> None:
    threads = [threading.Thread(target=_work_through, args=(connection, do)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _work_through(connection: Connection, do: Do) -> None:
    """Do runs until there are no more; stop within one if anything comes meanwhile, or if the other end is gone."""
    with suppress(EOFError, OSError):
        while (run := connection.recv()) is not None:
            if connection.poll():
                continue
            problem = do(run, connection.poll)
            if is_fatal(problem):
                with _LAST_WORD:  # what happens to other threads now is only a consequence
                    connection.send(problem)
                    os._exit(_BROKEN)
            connection.send(problem)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process that is started here does not see Ctrl-C and the like: the one that started it tells it to stop.

    Terminals and clusters send such signals to all processes of a command.
    """
    if threading.current_thread() is not threading.main_thread():  # where Python does not allow to set it
        yield
        return
    stopping = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in stopping}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _environment(num_runs: int, gpu: int | None) -> Iterator[None]:
    """What a process that is started now shall see: one GPU, and for each of the runs its share of the processor."""
    before = dict(os.environ)
    num_threads = max(1, (os.cpu_count() or 1) // num_runs)
    os.environ.setdefault("OMP_NUM_THREADS", str(num_threads))
    os.environ.setdefault("NUMBA_NUM_THREADS", str(num_threads))
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # with fewer, streams would wait for each other
    if gpu is not None:
        visible = before.get("CUDA_VISIBLE_DEVICES", "")
        names = [name for name in visible.split(",") if name]
        os.environ["CUDA_VISIBLE_DEVICES"] = names[gpu] if names else str(gpu)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
