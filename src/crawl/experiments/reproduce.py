"""`crawl reproduce`: the runs of a table of the paper, those that are not finished yet, and the table.

Needs neither the command line's packages nor those that data are made with: with a data root that was filled elsewhere,
`reproduce("zinc")` runs wherever torch does.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import torch

from crawl.data.dataset import Dataset
from crawl.data.task import check_choice
from crawl.experiments.build import load_dataset
from crawl.experiments.experiment import Data, Experiment
from crawl.experiments.few_walks import evaluate_share
from crawl.experiments.folder import RunFolder
from crawl.experiments.records import read_runs
from crawl.experiments.run import Stopped, resume_run, run_experiment
from crawl.experiments.summary import Line, summarise, to_markdown
from crawl.experiments.tables import GROUPS, TABLES, PlannedRun, Row, Table
from crawl.nn.gpu.streams import stream_of_thread

FOLDER = Path("runs/reproduce")
_LOADING = threading.Lock()
Change = Callable[[Experiment], Experiment]


@dataclass(frozen=True)
class Reproduced:
    """A table and what is measured of it so far.

    Attributes:
        table: The plan.
        lines: Its lines.
    """

    table: Table
    lines: list[Line]

    def __str__(self) -> str:
        return to_markdown(self.table, self.lines)


def reproduce(
    names: str | Sequence[str],
    folder: Path | str = FOLDER,
    *,
    minutes: float | None = None,
    jobs: int = 1,
    device: str = "auto",
    root: str | Path | None = None,
    num_seeds: int | None = None,
    rows: Sequence[str] = (),
    tidy: bool = False,
    quiet: bool = True,
    change: Change | None = None,
) -> list[Reproduced]:
    """The tables, after running what is not finished yet. Finished runs are read, stopped ones go on.

    A run that fails, as when its data are not there, is reported in the notes of its row; the others go on.

    Args:
        names: One or more of `TABLES`, or `ablation` for those of ZINC and CSL.
        folder: Where the folders of runs are, `TABLE/ROW/RUN`.
        minutes: Stop after so many, at a checkpoint; never when None.
        jobs: Runs at a time, on each GPU if there are any. Those that are run for their time are run alone.
        device: `auto`, `cpu` or `cuda`.
        root: The data root; the variable CRAWL_DATA or ~/.cache/crawl when None.
        num_seeds: Run only so many seeds.
        rows: Run only these rows, named by the last part of their place.
        tidy: Remove from the folders of finished runs all that no table is made from; weights, too, unless another
            table evaluates them.
        quiet: Show no progress of a single run.
        change: What to change in every experiment. The table then says that settings are not those of the paper.

    Raises:
        ValueError: For an unknown table or row.
    """
    deadline = None if minutes is None else time.time() + 60 * minutes
    tables = find_tables(names)
    runs = _ordered([run for table in tables for run in _chosen(table, num_seeds, rows)])
    if change is not None:
        runs = [replace(run, experiment=change(run.experiment)) for run in runs]
    work = _Work(Path(folder), device, deadline, tidy, quiet)
    with _data_root(root):
        problems = _run_all(runs, work, max(1, jobs))
    return [Reproduced(table, summarise(table, read_runs(work.folder, table), problems)) for table in tables]


def find_tables(names: str | Sequence[str]) -> list[Table]:
    """The tables of these names, each after those it needs.

    Raises:
        ValueError: For a name that is none.
    """
    wanted: list[str] = []
    for name in (names,) if isinstance(names, str) else names:
        check_choice("The table", name, (*TABLES, *GROUPS))
        for member in GROUPS.get(name, (name,)):
            wanted += [*TABLES[member]().needs, member]
    return [TABLES[name]() for name in dict.fromkeys(wanted)]


@dataclass(frozen=True)
class _Work:
    """How runs are done.

    Attributes:
        folder: Where the folders of runs are.
        device: Where to compute.
        deadline: When to stop, in seconds as `time.time` counts them.
        tidy: Whether to remove what is not needed any more.
        quiet: Whether to show no progress.
        runs_at_a_time: How many runs share a device.
    """

    folder: Path
    device: str
    deadline: float | None
    tidy: bool
    quiet: bool
    runs_at_a_time: int = 1

    @property
    def is_over(self) -> bool:
        """Whether it is time to stop."""
        return self.deadline is not None and time.time() >= self.deadline

    def do(self, run: PlannedRun) -> str | None:
        """Do a run or what is left of it; why it failed, if it did."""
        try:
            self._do(run)
        except Stopped:
            return None
        except Exception as error:  # other runs do not depend on it
            return " ".join(str(error).split()) or type(error).__name__
        return None

    def _do(self, run: PlannedRun) -> None:
        place = self.folder / run.place
        begun = RunFolder(place)
        if begun.result.is_file():
            return
        if run.trained:
            if not (self.folder / run.trained / "result.json").is_file():
                raise ValueError(f"{run.trained} is not finished")
            evaluate_share(self.folder / run.trained, run.start_share, place, _dataset(run.experiment.data))
            return
        experiment = replace(run.experiment, training=replace(run.experiment.training, device=self.device))
        how: dict[str, Any] = {
            "dataset": _dataset(experiment.data),
            "quiet": self.quiet,
            "stop": lambda: self.is_over,
            "runs_at_a_time": self.runs_at_a_time,
        }
        if begun.config.is_file():
            if not _same(Experiment.from_json(begun.config.read_text()), experiment):
                raise ValueError(f"{place} holds a run with other settings: choose another folder")
            resume_run(place, **how)
        else:
            run_experiment(experiment, place, **how)
        if self.tidy:
            evaluated = {row.trained for make in TABLES.values() for row in make().rows}
            tidy_run(place, keep_weights=run.place.rpartition("/")[0] in evaluated)


def tidy_run(folder: Path, *, keep_weights: bool) -> None:
    """Remove from the folder of a finished run all but its records, and its best weights if they are to be kept."""
    run = RunFolder(folder)
    if run.result.is_file():
        shutil.rmtree(run.events, ignore_errors=True)
        for path in (run.last, run.predictions, run.curves, *(() if keep_weights else (run.best,))):
            path.unlink(missing_ok=True)


def _chosen(table: Table, num_seeds: int | None, rows: Sequence[str]) -> Iterator[PlannedRun]:
    known = {_short(row): row for row in table.rows}
    for name in rows:
        check_choice(f"The row of {table.name}", name, tuple(known))
    for name, row in known.items():
        if not rows or name in rows:
            fewer = row.num_seeds if num_seeds is None else min(row.num_seeds, num_seeds)
            for run in replace(row, num_seeds=fewer).runs():
                yield replace(run, is_timed=table.measure == "seconds")


def _short(row: Row) -> str:
    return row.place.rpartition("/")[2]


def _ordered(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Each run once: first the first seed of all rows, then the second, so that a table fills evenly."""
    once = list({run.place: run for run in runs}.values())
    return sorted(once, key=lambda run: (bool(run.trained), run.experiment.seed))


def _run_all(runs: Sequence[PlannedRun], work: _Work, jobs: int) -> dict[str, str]:
    """Do all runs that are not finished; why some failed, by their place."""
    left = [run for run in runs if not (work.folder / run.place / "result.json").is_file()]
    num_gpus = torch.cuda.device_count() if work.device != "cpu" else 0
    alone = [run for run in left if run.trained or run.is_timed]
    together = [run for run in left if not (run.trained or run.is_timed)]
    if min(jobs * max(1, num_gpus), len(together)) <= 1:
        return _one_by_one(left, work)
    work_together = replace(work, runs_at_a_time=jobs)
    # What is recorded in CUDA graphs shares a GPU best within one process. The rest keeps the processor busy.
    recorded = [run for run in together if num_gpus and run.experiment.model.name == "crawl"]
    others = [run for run in together if run not in recorded]
    problems = _in_processes(recorded, work_together, num_gpus, jobs, num_gpus)
    problems |= _in_processes(others, work_together, jobs * max(1, num_gpus), 1, num_gpus)
    return problems | _one_by_one(alone, work)


def _one_by_one(runs: Sequence[PlannedRun], work: _Work) -> dict[str, str]:
    problems = {}
    for i, run in enumerate(runs):
        if work.is_over:
            break
        _say(f"[{i + 1}/{len(runs)}] {run.place}")
        problem = work.do(run)
        if problem:
            _say(f"{run.place}: {problem}")
            problems[run.place] = problem
    return problems


def _in_processes(
    runs: Sequence[PlannedRun], work: _Work, num_processes: int, num_threads: int, num_gpus: int
) -> dict[str, str]:
    """The same in several processes, each on one GPU and with several threads that do one run after the other."""
    context = multiprocessing.get_context("spawn")
    to_do: SimpleQueue[PlannedRun | None] = context.SimpleQueue()
    done: SimpleQueue[tuple[str, str]] = context.SimpleQueue()
    num_processes = min(num_processes, len(runs))
    workers = []
    for i in range(num_processes):
        with _environment(num_processes, i % num_gpus if num_gpus else None):
            worker = context.Process(target=_work_in_threads, args=(to_do, done, work, num_threads), daemon=True)
            worker.start()
            workers.append(worker)
    for run in (*runs, *(None for _ in range(num_processes * num_threads))):
        to_do.put(run)
    problems: dict[str, str] = {}
    while any(worker.is_alive() for worker in workers) or not done.empty():
        if done.empty():
            time.sleep(0.1)
            continue
        place, problem = done.get()
        is_finished = (work.folder / place / "result.json").is_file()
        _say(f"{place}: {problem or ('done' if is_finished else 'stopped')}")
        if problem:
            problems[place] = problem
    for worker in workers:
        worker.join()
        if worker.exitcode:
            _say(f"a process ended with code {worker.exitcode}; its runs can be resumed")
    return problems


_ToDo = SimpleQueue[PlannedRun | None]
_Done = SimpleQueue[tuple[str, str]]


def _work_in_threads(to_do: _ToDo, done: _Done, work: _Work, num_threads: int) -> None:
    threads = [threading.Thread(target=_work_through, args=(to_do, done, work)) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _work_through(to_do: _ToDo, done: _Done, work: _Work) -> None:
    with _own_stream(work.device):
        while (run := to_do.get()) is not None:
            if not work.is_over:
                done.put((run.place, work.do(run) or ""))


def _own_stream(device: str) -> AbstractContextManager[Any]:
    """On a GPU, a stream that only this thread uses: what threads do then overlaps."""
    if device == "cpu" or not torch.cuda.is_available():
        return nullcontext()
    return torch.cuda.stream(stream_of_thread(torch.device("cuda", torch.cuda.current_device()), "main"))


@contextmanager
def _environment(num_workers: int, gpu: int | None) -> Iterator[None]:
    """What a process that is started now shall see: one GPU, and its share of the processor."""
    before = dict(os.environ)
    num_threads = max(1, (os.cpu_count() or 1) // num_workers)
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


@contextmanager
def _data_root(root: str | Path | None) -> Iterator[None]:
    """Set the variable for this process and those it starts; configurations do not name the folder."""
    before = os.environ.get("CRAWL_DATA")
    if root is not None:
        os.environ["CRAWL_DATA"] = str(Path(root).resolve())
    try:
        yield
    finally:
        if root is not None:
            del os.environ["CRAWL_DATA"]
            if before is not None:
                os.environ["CRAWL_DATA"] = before
        _loaded.cache_clear()


def _dataset(data: Data) -> Dataset:
    with _LOADING:
        return _loaded(data)


@lru_cache(maxsize=4)
def _loaded(data: Data) -> Dataset:
    return load_dataset(data)


def _same(one: Experiment, other: Experiment) -> bool:
    """Whether two experiments differ at most in the device."""
    return one == replace(other, training=replace(other.training, device=one.training.device))


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
