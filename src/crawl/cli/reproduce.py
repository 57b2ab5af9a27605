"""`crawl reproduce` and `crawl report`: the tables of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from crawl.cli.output import say


@dataclass(frozen=True)
class Reproduce:
    """Run the experiments behind a table of the paper, and print the table.

    Without a name, lists the tables. Finished runs are read and stopped ones go on: the same command again continues.

    Attributes:
        tables: The tables.
        out: Where the runs are.
        minutes: Stop after so many minutes, at a checkpoint.
        jobs: Runs at a time, on each GPU if there are any.
        seeds: Run only so many seeds of each row.
        rows: Run only these rows.
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
        device: Where to compute.
        tidy: Keep only the records of finished runs, and weights that another table evaluates.
        progress: Show a progress bar for each run.
    """

    tables: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TABLE")] = ()
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/reproduce")
    minutes: float | None = None
    jobs: int = 1
    seeds: int | None = None
    rows: tuple[str, ...] = ()
    data_root: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    tidy: bool = False
    progress: bool = False

    def run(self) -> None:
        """Run what is left, and print."""
        from crawl.experiments.reproduce import reproduce
        from crawl.experiments.tables import GROUPS, TABLES
        from crawl.training.trainer import choose_device

        if not self.tables:
            for name, make in TABLES.items():
                print(f"{name:18} {(make.__doc__ or '').splitlines()[0]}")
            for name, members in GROUPS.items():
                print(f"{name:18} {' and '.join(members)}")
            return
        choose_device(self.device)
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
            quiet=not self.progress,
        )
        print("\n".join(map(str, done)))


@dataclass(frozen=True)
class Report:
    """Make tables and plots from the records of runs.

    Attributes:
        runs: Folders of `crawl reproduce` or of one of its tables, folders of runs, or the small files that --collect
            wrote.
        out: Where to write tables.md, tables.csv and plots.
        collect: Also write TABLE.json there, one small file for each table from which the same report can be made, and
            runs.json for other runs.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS")]
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")] = Path("report")
    collect: bool = False

    def run(self) -> None:
        """Write the report, and print its tables."""
        from crawl.experiments.report import write_report

        if not self.runs:
            raise ValueError("Say which runs to report: folders of `crawl reproduce`, of runs, or small files.")
        written = write_report(self.runs, self.out, collect=self.collect)
        print(written[0].read_text(), end="")
        say("written: " + ", ".join(map(str, written)))
