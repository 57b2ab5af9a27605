"""`crawl reproduce`: the runs of a table of the paper, those that are not finished yet, and the table.

Needs neither the command line's packages nor those that data are made with: with a data root that was filled elsewhere,
`reproduce("zinc")` runs wherever torch does.
"""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch

from crawl.checks import check_choice
from crawl.data.dataset import Dataset
from crawl.runs.build import known_task, load_dataset
from crawl.runs.effect import effective
from crawl.runs.experiment import Data, Experiment
from crawl.runs.few_walks import evaluate_share
from crawl.runs.folder import RunFolder
from crawl.runs.plan import PlannedRun, Table
from crawl.runs.records import is_finished, read_config, read_planned, read_runs
from crawl.runs.run import Stopped, resume_run, run_experiment
from crawl.runs.summary import Line, summarise, to_markdown
from crawl.runs.tables import GROUPS, TABLES
from crawl.runs.workers import Workers, is_fatal, say
from crawl.nn.gpu.streams import stream_of_thread
from crawl.threads import use_threads

FOLDER = Path("runs/reproduce")
_LOADING = threading.Lock()
Change = Callable[[Experiment], Experiment]


@dataclass(frozen=True)
class Reproduced:
    """A table and what is measured of it so far.

    Attributes:
        table: The plan.
        lines: Its lines.
        problems: Why runs of it failed now, by their place.
    """

    table: Table
    lines: list[Line]
    problems: Mapping[str, str]

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
    quiet: bool | None = True,
    change: Change | None = None,
    threads: int | None = None,
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
        rows: Run only the rows of these names; of tables that these rows need, all.
        tidy: Remove from the folders of finished runs all that no table is made from; weights, too, unless another
            table evaluates them.
        quiet: Show no progress of a single run; see `run_experiment`.
        change: What to change in every experiment. The table then says that settings are not those of the paper.
        threads: How many threads compute in each process; the processor is shared evenly when None.

    Raises:
        ValueError: For an unknown table or row.
    """
    deadline = None if minutes is None else time.time() + 60 * minutes
    tables = find_tables(names)
    runs = _ordered(_planned(choose_rows(names, rows), num_seeds))
    if change is not None:
        runs = [replace(run, experiment=_changed(run.experiment, change)) for run in runs]
    work = _Work(Path(folder), device, deadline, tidy, quiet, threads)
    with _data_root(root):
        problems = _run_all(runs, work, max(1, jobs))
    return [_reproduced(table, work.folder, problems) for table in tables]


def find_tables(names: str | Sequence[str]) -> list[Table]:
    """The tables of these names, each after those it needs.

    Raises:
        ValueError: For a name that is none.
    """
    wanted = [name for member in _members(names) for name in (*TABLES[member]().needs, member)]
    return [TABLES[name]() for name in dict.fromkeys(wanted)]


def choose_rows(names: str | Sequence[str], rows: Sequence[str] = ()) -> list[Table]:
    """The same tables with the rows of these names only, all if there are none; those that these need are whole.

    Raises:
        ValueError: For a name that no table or no row has.
    """
    tables, asked = find_tables(names), _members(names)
    known = tuple(dict.fromkeys(row.name for table in tables if table.name in asked for row in table.rows))
    for name in rows:
        check_choice(f"The row of {' or '.join(asked)}", name, known)
    chosen = {
        table.name: tuple(row for row in table.rows if not rows or row.name in rows)
        for table in tables
        if table.name in asked
    }
    needed = {need for table in tables if chosen.get(table.name) for need in table.needs}
    kept = [replace(table, rows=table.rows if table.name in needed else chosen.get(table.name, ())) for table in tables]
    return [table for table in kept if table.rows]


def _members(names: str | Sequence[str]) -> list[str]:
    """The names of the tables that these names mean."""
    members: list[str] = []
    for name in (names,) if isinstance(names, str) else names:
        check_choice("The table", name, (*TABLES, *GROUPS))
        members += GROUPS.get(name, (name,))
    return members


@dataclass(frozen=True)
class _Work:
    """How runs are done.

    Attributes:
        folder: Where the folders of runs are.
        device: Where to compute.
        deadline: When to stop, in seconds as `time.time` counts them.
        tidy: Whether to remove what is not needed any more.
        quiet: Whether to show no progress; see `run_experiment`.
        threads: How many threads compute, if that is given.
        runs_at_a_time: How many runs share a device.
    """

    folder: Path
    device: str
    deadline: float | None
    tidy: bool
    quiet: bool | None
    threads: int | None = None
    runs_at_a_time: int = 1

    @property
    def is_over(self) -> bool:
        """Whether it is time to stop."""
        return self.deadline is not None and time.time() >= self.deadline

    def do(self, run: PlannedRun, is_asked_to_stop: Callable[[], bool] = lambda: False) -> str | None:
        """Do a run or what is left of it; why it failed, if it did."""
        if self.threads is not None:
            use_threads(self.threads)
        try:
            with nullcontext() if self.runs_at_a_time == 1 else _own_stream(self.device):
                self._do(run, lambda: self.is_over or is_asked_to_stop())
        except Stopped:
            return None
        except Exception as error:  # other runs do not depend on it
            return " ".join(str(error).split()) or type(error).__name__
        return None

    def _do(self, run: PlannedRun, stop: Callable[[], bool]) -> None:
        place = self.folder / run.place
        begun = RunFolder(place)
        if self.is_done(run):
            return
        if run.trained:
            if not is_finished(self.folder / run.trained):
                raise ValueError(f"{run.trained} is not finished")
            dataset = _dataset(run.experiment.data)
            evaluate_share(self.folder / run.trained, run.start_share, place, dataset, self.device)
            return
        experiment = replace(run.experiment, training=replace(run.experiment.training, device=self.device))
        how: dict[str, Any] = {
            "dataset": _dataset(experiment.data),
            "quiet": self.quiet,
            "stop": stop,
            "runs_at_a_time": self.runs_at_a_time,
        }
        if begun.config.is_file():
            if not _same(read_config(begun.config), experiment):
                raise ValueError(f"{place} holds a run with other settings: choose another folder")
            resume_run(place, device=self.device, **how)
        else:
            run_experiment(experiment, place, **how)
        self.tidy_up(run)

    def is_done(self, run: PlannedRun) -> bool:
        """Whether a run is finished, and, if it evaluates another one, still of the model that is there."""
        found = read_planned(self.folder, run)
        if found is None or not found.is_finished:
            return False
        return not run.trained or is_finished(self.folder / run.trained)

    def tidy_up(self, run: PlannedRun) -> None:
        """Remove what is not needed of a finished run any more, if that is wanted."""
        if self.tidy:
            tidy_run(self.folder / run.place, keep_weights=run.place.rpartition("/")[0] in _evaluated())


@cache
def _evaluated() -> frozenset[str]:
    """The places of rows whose trained models another table evaluates."""
    return frozenset(row.trained for make in TABLES.values() for row in make().rows)


def tidy_run(folder: Path, *, keep_weights: bool) -> None:
    """Remove from the folder of a finished run all but its records, and its best weights if they are to be kept."""
    run = RunFolder(folder)
    if is_finished(folder):
        shutil.rmtree(run.events, ignore_errors=True)
        for path in (run.last, run.predictions, run.curves, *(() if keep_weights else (run.best,))):
            path.unlink(missing_ok=True)


def _planned(tables: Sequence[Table], num_seeds: int | None) -> Iterator[PlannedRun]:
    for table in tables:
        for row in table.rows:
            fewer = row.num_seeds if num_seeds is None else min(row.num_seeds, num_seeds)
            for run in replace(row, num_seeds=fewer).runs():
                yield replace(run, is_timed=table.measure == "seconds")


def _ordered(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """Each run once: first the first seed of all rows, then the second, so that a table fills evenly."""
    once = list({run.place: run for run in runs}.values())
    return sorted(once, key=lambda run: (bool(run.trained), run.experiment.seed))


def _reproduced(table: Table, folder: Path, problems: Mapping[str, str]) -> Reproduced:
    places = {run.place for row in table.rows for run in row.runs()}
    lines = summarise(table, read_runs(folder, table), problems)
    return Reproduced(table, lines, {place: problem for place, problem in problems.items() if place in places})


def _run_all(runs: Sequence[PlannedRun], work: _Work, jobs: int) -> dict[str, str]:
    """Do all runs that are not finished; why some failed, by their place."""
    left = [run for run in runs if not work.is_done(run)]
    for run in runs:
        work.tidy_up(run)
    num_gpus = torch.cuda.device_count() if work.device != "cpu" else 0
    alone = [run for run in left if run.trained or run.is_timed]
    together = [run for run in left if not (run.trained or run.is_timed)]
    if min(jobs * max(1, num_gpus), len(together)) <= 1:
        return _one_by_one(left, work)
    # What is recorded in CUDA graphs shares a GPU best within one process. The rest keeps the processor busy.
    recorded = [run for run in together if num_gpus and run.experiment.model.name == "crawl"]
    others = [run for run in together if run not in recorded]
    gpus: list[int | None] = [*range(num_gpus)] or [None]
    problems = _in_processes(recorded, work, gpus, jobs)
    problems |= _in_processes(others, work, gpus * jobs, 1)
    crowded = [run for run in together if "out of memory" in problems.get(run.place, "") and not work.is_over]
    for run in crowded:  # alone it may have enough
        del problems[run.place]
    return problems | _one_by_one([*crowded, *alone], work)


def _one_by_one(runs: Sequence[PlannedRun], work: _Work) -> dict[str, str]:
    problems = {}
    for i, run in enumerate(runs):
        if work.is_over:
            break
        say(f"[{i + 1}/{len(runs)}] {run.place}")
        if problem := work.do(run):
            say(f"{run.place}: {problem}")
            problems[run.place] = problem
        if is_fatal(problem):
            say("the GPU cannot be used any more in this process; the same command goes on")
            break
    return problems


def _in_processes(
    runs: Sequence[PlannedRun], work: _Work, gpus: Sequence[int | None], num_threads: int
) -> dict[str, str]:
    """The same in several processes, each on one GPU and with several threads that do one run after the other."""
    problems: dict[str, str] = {}
    num_at_a_time = min(len(gpus) * num_threads, len(runs))
    work = replace(work, runs_at_a_time=math.ceil(num_at_a_time / len(set(gpus))))

    def report(run: PlannedRun, problem: str | None) -> None:
        is_done = is_finished(work.folder / run.place)
        say(f"{run.place}: {'done' if is_done else problem or 'stopped'}")
        if problem and not is_done:
            problems[run.place] = problem

    try:
        Workers(runs, work.do, report, lambda: work.is_over, gpus, num_threads).run()
    except KeyboardInterrupt:
        for begun in (RunFolder(work.folder / run.place) for run in runs):
            if begun.config.is_file():
                with suppress(ValueError), begun.locked():  # removes what a process that was killed did not finish
                    pass
        raise
    return problems


def _own_stream(device: str) -> AbstractContextManager[Any]:
    """On a GPU, a stream that only this thread uses: what threads do then overlaps."""
    if device == "cpu" or not torch.cuda.is_available():
        return nullcontext()
    return torch.cuda.stream(stream_of_thread(torch.device("cuda", torch.cuda.current_device()), "main"))


@contextmanager
def _data_root(root: str | Path | None) -> Iterator[None]:
    """Set the variable for this process and those it starts; configurations do not name the folder."""
    before = os.environ.get("CRAWL_DATA")
    if root is not None:
        os.environ["CRAWL_DATA"] = os.path.realpath(root)
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


def _changed(experiment: Experiment, change: Change) -> Experiment:
    """The experiment with a change that is made to all, without what has no effect in this one."""
    return effective(change(experiment), known_task(experiment.data))


def _same(one: Experiment, other: Experiment) -> bool:
    """Whether two experiments differ at most in the device, and in settings that change nothing."""
    return effective(one) == effective(replace(other, training=replace(other.training, device=one.training.device)))
