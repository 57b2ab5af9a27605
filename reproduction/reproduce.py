"""The runs of a table of the paper, those that are not finished yet, and the table.

A run can be repeated, resumes where it was stopped, and locks its folder. So the same command may be started several
times, on one machine or on several that share a disk: each takes the next run that is neither finished nor locked.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch

from crawl.checks import check_choice
from crawl.data.benchmarks import BENCHMARKS
from crawl.data.dataset import Dataset
from crawl.ops.triton.streams import stream_of_thread
from crawl.runs.build import load_dataset
from crawl.runs.cluster.connection import OnRay, connect
from crawl.runs.cluster.sharing import Job, Outcome
from crawl.runs.cluster.worker import Tell
from crawl.runs.experiment import Experiment, settled
from crawl.runs.folder import InUse, RunFolder
from crawl.runs.records import RunRecord, is_finished, read_config
from crawl.runs.run import Stopped, resume_run, run_experiment
from crawl.runs.several import share_jobs, tell_last
from crawl.runs.sources import Data, InRoot
from crawl.training.trainer import choose_device
from reproduction.few_walks import evaluate_share
from reproduction.plan import PlannedRun, Table
from reproduction.records import read_collected, read_planned, read_runs, small_files
from reproduction.summary import Line, differences, summarise, to_markdown
from reproduction.synthetic import synthetic
from reproduction.tables import GROUPS, TABLES

FOLDER = Path("runs/reproduce")
_LOADING = threading.Lock()
Change = Callable[[Experiment], Experiment]
Runs = Mapping[str, RunRecord]


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
    ray: OnRay | None = None,
    records: Path | str | None = None,
) -> list[Reproduced]:
    """The tables, after running what is not finished yet. Finished runs are read, stopped ones are resumed.

    A run that fails, as when its data are not there, is reported in the notes of its row; the others are still run.

    Args:
        names: One or more of `TABLES`, or `ablation` for those of ZINC and CSL.
        folder: Where the folders of runs are, `TABLE/ROW/RUN`.
        minutes: Stop after this many, at a checkpoint; never when None.
        jobs: Runs at a time, in threads of this process. Evaluations and runs that are timed are run alone.
        device: `auto`, `cpu` or `cuda`.
        root: The data root; the variable CRAWL_DATA or ~/.cache/crawl when None.
        num_seeds: Run only this many seeds.
        rows: Run only the rows of these names; of tables that these rows need, all.
        tidy: Remove from the folders of finished runs all that no table is made from; weights, too, unless another
            table evaluates them.
        quiet: Show no progress of a single run; see `run_experiment`.
        change: What to change in every experiment. The table then says that settings are not those of the paper.
        threads: How many CPU threads compute in each run; the processor is shared evenly when None.
        ray: Share the runs out with Ray, instead of threads of this process. Evaluations of runs come after them, here.
        records: A folder of small files that `python -m reproduction report --collect` wrote. Runs that are finished
            there, with the planned settings, are not run again, and count in the tables.

    Raises:
        ValueError: For an unknown table or row, runs that are timed, with Ray, or damaged records.
    """
    deadline = None if minutes is None else time.time() + 60 * minutes
    runs = _ordered(choose_tables(names, rows), num_seeds)
    if change is not None:
        runs = [replace(run, experiment=change(run.experiment)) for run in runs]
    recorded = recorded_runs(records)
    left = [run for run in runs if not _is_recorded(run, recorded)]
    evaluated = {run.trained for run in left}  # their weights are needed, which no record has
    work = _Work(Path(folder), device, None if root is None else os.path.realpath(root), deadline, tidy, quiet)
    problems = work.run_all([run for run in runs if run in left or run.place in evaluated], jobs, threads, ray)
    return [
        Reproduced(
            table,
            summarise(table, read_all(work.folder, table, recorded), problems),
            {place: problems[place] for place in table.places() if place in problems},
        )
        for table in choose_tables(names)
    ]


def read_all(folder: Path, table: Table, recorded: Runs) -> Runs:
    """The runs of a table in a folder; where they are not finished there, those that are recorded."""
    found = read_runs(folder, table)
    places = {place for place in table.places() if place in recorded}
    return {
        **found,
        **{place: recorded[place] for place in places if place not in found or not found[place].is_finished},
    }


def recorded_runs(folder: Path | str | None) -> Runs:
    """The finished runs in the small files of a folder, by their place; none without a folder.

    Raises:
        ValueError: If there are no small files, or one is damaged.
    """
    files = [] if folder is None else small_files(Path(folder))
    if folder is not None and not files:
        raise ValueError(
            f"There are no small files of tables in {folder}: name a folder such as results, or leave it out."
        )
    return {place: run for path in files for place, run in read_collected(path)[1].items() if run.is_finished}


def _is_recorded(planned: PlannedRun, recorded: Runs) -> bool:
    """Whether a run is finished there, with the planned settings."""
    record = recorded[planned.place].record if planned.place in recorded else None
    return record is not None and not differences(planned.experiment, record["config"])


def choose_tables(names: str | Sequence[str], rows: Sequence[str] = ()) -> list[Table]:
    """The tables of these names, each after those it needs, with the rows of these names only, all if there are none.

    Tables that the rows need are whole.

    Raises:
        ValueError: For a name that no table or no row has.
    """
    asked: dict[str, Table] = {}
    for name in (names,) if isinstance(names, str) else names:
        check_choice("The table", name, (*TABLES, *GROUPS))
        asked |= {member: TABLES[member]() for member in GROUPS.get(name, (name,))}
    known = dict.fromkeys(row.name for table in asked.values() for row in table.rows)
    for row_name in rows:
        check_choice(f"The row of {' or '.join(asked)}", row_name, known)
    chosen: dict[str, Table] = {}
    needed: set[str] = set()
    for name, table in asked.items():
        some = tuple(row for row in table.rows if not rows or row.name in rows)
        if some:
            needed |= set(table.needs)
            chosen |= {need: TABLES[need]() for need in table.needs}
            chosen[name] = table if name in needed else replace(table, rows=some)
    return list(chosen.values())


def _ordered(tables: Iterable[Table], num_seeds: int | None) -> list[PlannedRun]:
    """Each run once: first the first seed and fold of all rows, then the second fold, so that a table fills evenly."""
    once: dict[str, PlannedRun] = {}
    for table in tables:
        for row in table.rows:
            fewer = row.num_seeds if num_seeds is None else min(row.num_seeds, num_seeds)
            for run in replace(row, num_seeds=fewer).runs():
                once[run.place] = replace(run, is_timed=table.measure == "seconds")
    fold = {place: getattr(run.experiment.data, "fold", 0) or 0 for place, run in once.items()}
    return sorted(once.values(), key=lambda run: (bool(run.trained), run.experiment.seed, fold[run.place]))


@dataclass
class _Work:
    """How runs are done, and what came of them.

    Attributes:
        folder: Where the folders of runs are.
        device: Where to compute.
        root: The data root; None for the usual one.
        deadline: When to stop, in seconds as `time.time` counts them.
        tidy: Whether to remove what is not needed any more.
        quiet: Whether to show no progress; see `run_experiment`.
        is_stopped: Set when no other run shall be begun, and those under way shall stop after their epoch.
        problems: Why runs failed, by their place.
    """

    folder: Path
    device: str
    root: str | None
    deadline: float | None
    tidy: bool
    quiet: bool | None
    is_stopped: threading.Event = field(default_factory=threading.Event)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether it is time to stop."""
        return self.is_stopped.is_set() or (self.deadline is not None and time.time() >= self.deadline)

    def run_all(
        self, runs: Sequence[PlannedRun], jobs: int, threads: int | None, ray: OnRay | None = None
    ) -> dict[str, str]:
        """Do all runs that are not finished; why some failed, by their place."""
        for run in runs:
            self.tidy_up(run)
        left = [run for run in runs if not self.is_done(run)]
        if ray is not None:
            self._run_on_ray([run for run in left if not run.trained], ray)
            left = [run for run in left if run.trained]
        together = [run for run in left if self._may_share(run)]
        jobs = min(jobs, len(together))
        before = torch.get_num_threads()
        torch.set_num_threads(threads or max(1, before // max(1, jobs)))
        try:
            if jobs > 1:
                self._run_in_threads(together, jobs)
                crowded = [run for run in together if "out of memory" in self.problems.get(run.place, "")]
                for run in [] if self.is_over else crowded:  # alone it may have enough
                    del self.problems[run.place]
                torch.set_num_threads(threads or before)
                left = [run for run in left if run in crowded or run not in together]
            for run in left:
                if run.place not in self.problems:
                    self.do(run)
        finally:
            torch.set_num_threads(before)
            _loaded.cache_clear()
        return self.problems

    def _run_on_ray(self, runs: Sequence[PlannedRun], ray: OnRay) -> None:
        """Do the runs at workers of Ray. A worker knows a run by its folder alone, which may be elsewhere."""
        if timed := [run.place for run in runs if run.is_timed]:
            raise ValueError(f"{timed[0]} is timed, so nothing may run beside it: leave out --ray.")
        if not runs:
            return
        by_place = {run.place: run for run in runs}

        def keep(place: str, outcome: Outcome) -> None:
            if outcome.state == "done":
                self.tidy_up(by_place[place])
            elif outcome.state in ("failed", "lost"):
                self.problems[place] = outcome.problem

        with connect(ray, self.device) as cluster:
            same = {"device": cluster.device, "root": self.root, "runs_at_a_time": cluster.runs_at_a_time(len(runs))}
            jobs = [
                Job(
                    run.place,
                    self.folder / run.place,
                    {**same, "experiment": run.experiment.to_json(), "synthetic": run.synthetic},
                )
                for run in runs
            ]
            share_jobs(do_planned, jobs, cluster, ended=keep, is_over=lambda: self.is_over)

    def _may_share(self, run: PlannedRun) -> bool:
        """Whether other runs may be under way in this process; the networks of all tables are captured on a GPU."""
        return not (run.trained or run.is_timed)

    def _run_in_threads(self, runs: Sequence[PlannedRun], jobs: int) -> None:
        """Do the runs, some at a time. Kernels of one process overlap on a GPU, those of several do not."""
        num_threads = torch.get_num_threads()
        is_ready = threading.Event()  # an interrupt while threads are started would let the pool forget one of them

        def prepare() -> None:
            is_ready.wait()
            torch.set_num_threads(num_threads)
            if self.device != "cpu" and torch.cuda.is_available():
                device = torch.device("cuda", torch.cuda.current_device())
                torch.cuda.set_stream(stream_of_thread(device, "main"))  # so that threads overlap

        with ThreadPoolExecutor(jobs, initializer=prepare) as pool:
            try:
                futures = [pool.submit(self.do, run, jobs) for run in runs]
                is_ready.set()
                for future in futures:
                    future.result()
            except KeyboardInterrupt:
                try:
                    self.is_stopped.set()
                    is_ready.set()
                    say("stopping at the end of the epoch; Ctrl-C again stops at once")
                    pool.shutdown(cancel_futures=True)
                except KeyboardInterrupt:  # all files are whole at any time, and locks end with the process
                    os._exit(130)
                raise

    def do(self, run: PlannedRun, runs_at_a_time: int = 1) -> None:
        """Do a run or what is left of it, unless another process is at it; keep why it failed, if it did."""
        if self.is_over or self.is_done(run):
            return
        say(f"{run.place}: begins")
        try:
            self._do(run, runs_at_a_time)
        except (Stopped, InUse) as reason:
            return say(f"{run.place}: left for now: {reason}")
        except Exception as error:  # other runs do not depend on it
            problem = " ".join(str(error).split()) or type(error).__name__
            self.problems[run.place] = problem
            say(f"{run.place}: {problem}")
            if any(sign in problem for sign in ("CUDA error", "Triton Error [CUDA]")):
                self.is_stopped.set()
                say("the GPU cannot be used any more in this process; start the same command again to resume")
            return
        say(f"{run.place}: done")

    def _do(self, run: PlannedRun, runs_at_a_time: int, stop: Callable[[], bool] | None = None) -> None:
        place = self.folder / run.place
        dataset = self._dataset(run)
        if run.trained:
            evaluate_share(self.folder / run.trained, run.start_share, place, dataset, self.device)
            return
        how: dict[str, Any] = {"dataset": dataset, "quiet": self.quiet, "stop": stop or (lambda: self.is_over)}
        how |= {"runs_at_a_time": runs_at_a_time, "device": self.device, "root": self.root}
        config, experiment = RunFolder(place).config, self._settled(run.experiment, dataset)
        if not config.is_file():
            run_experiment(experiment, place, **how)
        elif self._settled(read_config(config), dataset) == experiment:
            resume_run(place, **how)
        else:
            raise ValueError(f"{place} holds a run with other settings: choose another folder")
        self.tidy_up(run)

    def _settled(self, experiment: Experiment, dataset: Dataset) -> Experiment:
        """The experiment without settings that change nothing for this data set here."""
        return settled(experiment, dataset.task, choose_device(self.device).type, experiment)

    def _dataset(self, run: PlannedRun) -> Dataset:
        with _LOADING:
            return _loaded(run.experiment.data, self.root, run.synthetic)

    def is_done(self, run: PlannedRun) -> bool:
        """Whether a run is finished, and, if it evaluates another one, still of the model that is there."""
        found = read_planned(self.folder, run)
        if found is None or not found.is_finished:
            return False
        return not run.trained or is_finished(self.folder / run.trained)

    def tidy_up(self, run: PlannedRun) -> None:
        """Remove from a finished run all but its records, and weights that another table evaluates, if wanted."""
        files = RunFolder(self.folder / run.place)
        if not self.tidy or not is_finished(files.path):
            return
        is_evaluated = any(run.place.startswith(f"{place}/") for place in _evaluated())
        shutil.rmtree(files.events, ignore_errors=True)
        for path in (files.last, files.predictions, files.curves, *(() if is_evaluated else (files.best,))):
            path.unlink(missing_ok=True)


def do_planned(folder: Path, task: dict[str, Any], tell: Tell) -> None:
    """Do a run of a table at a worker of Ray."""
    run = PlannedRun(folder.name, Experiment.from_json(task["experiment"]), synthetic=task["synthetic"])
    work = _Work(folder.parent, task["device"], task["root"], deadline=None, tidy=False, quiet=True)
    work._do(run, task["runs_at_a_time"], stop=lambda: tell_last(folder, tell))


@cache
def _evaluated() -> set[str]:
    """The places of rows whose trained models another table evaluates."""
    return {row.trained for make in TABLES.values() for row in make().rows if row.trained}


@lru_cache(maxsize=4)
def _loaded(data: Data, root: str | None, like: str) -> Dataset:
    """The data of a run, or random graphs like a benchmark. Configurations do not name the data root."""
    if like:
        return synthetic(BENCHMARKS[like])
    return load_dataset(data, root=root if isinstance(data, InRoot) else None)


_SAYING = threading.Lock()  # streams lose what several threads write at a time


def say(message: str) -> None:
    """A remark for the person at the terminal."""
    with _SAYING:
        sys.stderr.write(f"{message}\n")  # at once: the runs themselves may write there, too
        sys.stderr.flush()
