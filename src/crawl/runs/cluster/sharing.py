"""Runs shared out over the workers of Ray: begun, watched, begun again where a worker died, and stopped.

A run can be repeated, resumes from its checkpoint and locks its folder. So nothing is lost with a worker: another one
resumes its run.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from crawl.files import write_atomically
from crawl.runs.cluster.box import Box, News
from crawl.runs.cluster.connection import Cluster
from crawl.runs.cluster.table import ProgressTable
from crawl.runs.cluster.worker import Do, Order, files_of, keep_files, mark_file, work
from crawl.runs.folder import InUse, RunFolder
from crawl.runs.progress import say

DEATHS = 3  # of workers at one run, before it is given up
_SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(frozen=True)
class Job:
    """One run to be done.

    Attributes:
        name: What it is called.
        folder: Where its files are.
        task: What to do, in plain values.
    """

    name: str
    folder: Path
    task: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        state: `done`, `stopped` (it can be resumed), `in use` by another process, `failed`, or `lost` with too many
            workers.
        value: What the function returned, if it is done.
        problem: Why it is not.
    """

    state: Literal["done", "stopped", "in use", "failed", "lost"]
    value: Any = None
    problem: str = ""


def share_out(
    do: Do,
    next_job: Callable[[], Job | None],
    cluster: Cluster,
    *,
    num_jobs: int | None = None,
    heard: Callable[[str, News], bool] | None = None,
    ended: Callable[[str, Outcome], None] | None = None,
    is_over: Callable[[], bool] | None = None,
    quiet: bool | None = None,
) -> dict[str, Outcome]:
    """How all runs ended, by their names.

    After Ctrl-C no run is begun, those under way stop after their epoch, and `KeyboardInterrupt` is raised; a second
    one stops them at once. Their folders can be resumed.

    Args:
        do: What a worker calls with the folder, the task, and a function that tells the head some news and returns
            whether to stop. A function of a module, which the workers import.
        next_job: The next run to begin; None if there is no other one now. It is asked again until none is under way.
        cluster: Where to run.
        num_jobs: How many runs there will be, if that is known.
        heard: Called with the news of a run; whether it shall stop.
        ended: Called when a run has ended.
        is_over: Whether all runs shall stop after their epoch.
        quiet: Show nothing. When None, there is a table on a terminal, and elsewhere a line every ten seconds.
    """
    table = ProgressTable(num_jobs)
    with table.shown(quiet), redirect_stdout(sys.stderr):  # Ray prints, for example, that a worker died
        return _Sharing(do, next_job, cluster, heard, ended, is_over, table, quiet).run()


@dataclass
class _UnderWay:
    job: Job
    ref: Any = None
    deaths: int = 0
    is_begun: bool = False
    lock: ExitStack = field(default_factory=ExitStack)


@dataclass
class _Sharing:
    """Runs that are being shared out."""

    do: Do
    next_job: Callable[[], Job | None]
    cluster: Cluster
    heard: Callable[[str, News], bool] | None
    ended: Callable[[str, Outcome], None] | None
    is_over: Callable[[], bool] | None
    table: ProgressTable
    quiet: bool | None
    under_way: dict[str, _UnderWay] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    inbox: deque[tuple[str, int, News, dict[str, bytes]]] = field(default_factory=deque)
    is_stopping: bool = False

    def run(self) -> dict[str, Outcome]:
        """Do all of them."""
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        resources = {"num_cpus": self.cluster.how.cpus, "num_gpus": self.cluster.gpus}
        self.work = ray.remote(**resources, max_retries=0)(work)
        self.mark = secrets.token_hex(8)
        try:
            self.box = ray.remote(Box).options(num_cpus=0, scheduling_strategy=here).remote()
            ray.get(self.box.take.remote())
        except (RayError, ImportError) as error:
            last = str(error).strip().splitlines()[-1]
            raise ValueError(
                f"The cluster cannot import this library, install it there as it is here: {last}"
            ) from None
        try:
            try:
                self._until_all_ended()
            except KeyboardInterrupt:
                say("stopping at the end of the epoch; Ctrl-C again stops at once", self.quiet)
                self._stop()
                self._until_all_ended()
                raise
        finally:
            for each in list(self.under_way.values()):
                with suppress(Exception):  # the cluster may be gone
                    ray.cancel(each.ref, force=True)
                self._leave(each)
            with suppress(Exception):
                ray.kill(self.box)
        return self.outcomes

    def _until_all_ended(self) -> None:
        while True:
            if not self.is_stopping and self.is_over is not None and self.is_over():
                self._stop()
            room, limit = self.cluster.room(), self.cluster.how.at_a_time
            room = room if limit is None else min(room, limit)
            is_idle = False
            while not self.is_stopping and len(self.under_way) < room and not is_idle:
                job = self.next_job()
                is_idle = job is None
                if job is not None:
                    self._begin(job)
            if not self.under_way and (self.is_stopping or is_idle):
                return
            self._look()

    def _begin(self, job: Job) -> None:
        """Hand a run to a worker, unless another process has its folder."""
        each = _UnderWay(job)
        job.folder.mkdir(parents=True, exist_ok=True)
        if self.cluster.how.collect:
            try:
                each.lock.enter_context(RunFolder(job.folder).locked())
            except InUse as reason:
                return self._end(each, Outcome("in use", problem=str(reason)))
        else:
            write_atomically(mark_file(job.folder, self.mark), "")
        self.under_way[job.name] = each
        self._submit(each)

    def _submit(self, each: _UnderWay) -> None:
        job, cpus = each.job, self.cluster.how.cpus
        files = files_of(job.folder) if self.cluster.how.collect else None
        order = Order(job.name, str(job.folder.resolve()), each.deaths, cpus, self.mark, files)
        each.is_begun = False
        self.table.tell(job.name, "waits for a worker")
        each.ref = self.work.remote(self.do, job.task, order, self.box)

    def _look(self) -> None:
        """Wait a little for runs to end; hear the news of all."""
        import ray

        refs = {each.ref: each for each in self.under_way.values()}
        if refs:
            done, _ = ray.wait(list(refs), num_returns=len(refs), timeout=_SECONDS_BETWEEN_LOOKS)
        else:  # there is no machine
            done = []
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        self._hear_all()
        for ref in done:
            self._take(refs[ref])

    def _hear_all(self) -> None:
        import ray

        self.inbox.extend(ray.get(self.box.take.remote()))
        while self.inbox:  # an interrupt loses at most the news that is being heard
            name, attempt, news, files = self.inbox.popleft()
            each = self.under_way.get(name)
            if each is None or attempt != each.deaths:  # of a worker that was believed dead
                continue
            keep_files(each.job.folder, files)
            self._hear(each, news)

    def _hear(self, each: _UnderWay, news: News) -> None:
        name = each.job.name
        each.is_begun = True
        if "machine" in news:  # its first news
            how = "resumes" if each.deaths else "begins"
            say(f"{name}: {how} on {news['machine']}, process {news['process']}", self.quiet)
            self.table.tell(name, "begins", news["machine"])
            return
        self.table.tell(name, described(news))
        if self.heard is not None and self.heard(name, news):
            self.box.stop.remote(name)

    def _take(self, each: _UnderWay) -> None:
        """What came of a run; if its worker died, it is begun again."""
        import ray
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        name = each.job.name
        try:
            end = ray.get(each.ref)
        except TaskCancelledError:
            return self._end(each, Outcome("stopped", problem="it was stopped before its first epoch"))
        except RayTaskError as error:  # the worker cannot even import what to do
            last = str(error).strip().splitlines()[-1]
            problem = f"a worker cannot run it, install the same packages there: {last}"
            return self._end(each, Outcome("failed", problem=problem))
        except RayError as error:
            each.deaths += 1
            reason = type(error).__name__
            if self.is_stopping:
                return self._end(each, Outcome("stopped", problem=f"its worker died ({reason})"))
            if each.deaths > DEATHS:
                problem = f"{each.deaths} workers died of it, the last with {reason}; the same command resumes it"
                return self._end(each, Outcome("lost", problem=problem))
            say(f"{name}: its worker died ({reason}); another one resumes it", self.quiet)
            return self._submit(each)
        keep_files(each.job.folder, end["files"])
        self._end(each, Outcome(end["state"], end.get("value"), end.get("problem", "")))

    def _end(self, each: _UnderWay, outcome: Outcome) -> None:
        name = each.job.name
        self.under_way.pop(name, None)
        self._leave(each)
        self.outcomes[name] = outcome
        text = {"stopped": "left for now", "in use": "left for now"}.get(outcome.state, outcome.state)
        self.table.end(name, outcome.state == "done")
        say(f"{name}: {text}" + (f": {outcome.problem}" if outcome.problem else ""), self.quiet)
        if self.ended is not None:
            self.ended(name, outcome)

    def _leave(self, each: _UnderWay) -> None:
        """Let others have the folder; one in which nothing was written is removed."""
        each.lock.close()
        mark_file(each.job.folder, self.mark).unlink(missing_ok=True)
        with suppress(OSError):  # it has files
            each.job.folder.rmdir()

    def _stop(self) -> None:
        import ray

        self.is_stopping = True
        ray.get(self.box.stop.remote())
        self._hear_all()
        for each in self.under_way.values():
            if not each.is_begun:  # those that have stop by themselves
                ray.cancel(each.ref)


def described(news: News) -> str:
    """The news of a run in words: `epoch 3, loss 0.51, val_mae 0.4`."""
    shown = {key: value for key, value in news.items() if key not in ("lr", "seconds")}
    words = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in shown.items())
    return ", ".join(words)
