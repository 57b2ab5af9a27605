"""`python -m reproduction TABLE`: a table of the paper, or of searches and what they led to."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from crawl.cli.flags import NO_RAY, Float, FolderPath, Int, RayFlags, Switch, Words, check_positive, compute_with
from crawl.cli.output import check_folder
from reproduction.commands.common import advise_on_overlap, check_minutes, resumable


@dataclass(frozen=True)
class Reproduce:
    """Run the experiments of a table of the paper, and print the table.

    Without a name, lists the tables; with --list, their rows too. The same command resumes: finished runs are read,
    stopped ones continue. Started several times, the processes share the work.
    `python -m reproduction brec` runs BREC, `python -m reproduction links` predicts links of Cora,
    `python -m reproduction uncertainty` says how often intervals hold the truth,
    `python -m reproduction molecules` compares ensembles and forests on four sets of molecules,
    `python -m reproduction pretrained` makes the models in the package,
    `python -m reproduction explain` measures whether explanations are right,
    `python -m reproduction report RUNS` makes tables and plots from records, `python -m reproduction import NAME PATH`
    fills the data root.

    Attributes:
        tables: The tables.
        out: Where the runs are.
        minutes: Stop after this many minutes, at a checkpoint.
        jobs: Runs at a time, in threads of this process.
        seeds: Run only this many seeds of each row.
        rows: Run or list only these rows, by their names in --list.
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
        device: Where to compute.
        threads: How many CPU threads compute in each run; the processor is shared evenly when not given.
        tidy: Keep only the records of finished runs, and weights that another table evaluates.
        progress: Show a progress bar for each run on a terminal; elsewhere there are lines anyway.
        list: Run nothing: list the rows of the tables, or of all, and how many of their runs are finished.
        on_ray: Where to share the runs out.
        records: A folder of collected records, such as results: what is finished there is not run again.
    """

    tables: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TABLE", help_behavior_hint="")] = ()
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/reproduce")
    minutes: Float = None
    jobs: int = 1
    seeds: Int = None
    rows: Words = ()
    data_root: FolderPath = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Int = None
    tidy: Switch = False
    progress: Switch = False
    list: Switch = False
    on_ray: Annotated[RayFlags, tyro.conf.arg(name="")] = NO_RAY
    records: FolderPath = None

    def run(self) -> None:
        """Run what is left, and print."""
        check_positive(jobs=self.jobs, seeds=self.seeds)
        check_minutes(self.minutes)
        ray = self.on_ray.settings(self.threads)
        if ray is not None and self.jobs != 1:
            raise ValueError(f"--jobs {self.jobs} is for threads of one process: use --ray-jobs {self.jobs}.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.reproduce import choose_tables, read_all, recorded_runs, reproduce
        from reproduction.tables import GROUPS, TABLES

        if self.list:
            for table in choose_tables(self.tables or tuple(TABLES), self.rows):
                runs = read_all(self.out, table, recorded_runs(self.records))
                print(f"{table.name}: {table.title}")
                for row in table.rows:
                    is_done = [run.place in runs and runs[run.place].is_finished for run in row.runs()]
                    print(f"  {row.name:26} {sum(is_done):2} of {len(is_done):2} runs finished  {row.label}")
            return
        if not self.tables:
            abouts = {name: (make.__doc__ or "").splitlines()[0] for name, make in TABLES.items()}
            for name, about in (abouts | {name: " and ".join(members) for name, members in GROUPS.items()}).items():
                print(f"{name:18} {about}")
            print(
                f"{'brec':18} Pairs of graphs that walk networks distinguish; a command of its own, with its own flags."
            )
            print(f"{'links':18} Links of Cora, with a GCN autoencoder and common neighbours; the same.")
            print(f"{'uncertainty':18} How often intervals and sets for molecules hold the truth; the same.")
            print(f"{'molecules':18} Ensembles and random forests on four sets of molecules; the same.")
            print(f"{'explain':18} Whether explanations are right, on planted motifs and on ESOL; the same.")
            return
        if ray is None:
            advise_on_overlap(self.device, self.jobs)
        with resumable():
            done = reproduce(
                self.tables,
                self.out,
                minutes=self.minutes,
                jobs=self.jobs,
                device=self.device,
                root=self.data_root,
                num_seeds=self.seeds,
                rows=self.rows,
                tidy=self.tidy,
                threads=self.threads,
                quiet=None if self.progress or not sys.stderr.isatty() else True,
                ray=ray,
                records=self.records,
            )
        print("\n".join(map(str, done)))
        failed = {place for table in done for place in table.problems}
        if failed:
            raise ValueError(f"{len(failed)} {'run' if len(failed) == 1 else 'runs'} failed; the tables say why.")
