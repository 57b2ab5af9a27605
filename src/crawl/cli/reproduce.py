"""`crawl reproduce` and `crawl report`: the tables of the paper."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from crawl.cli.flags import check_positive, compute_with
from crawl.cli.output import STDOUT, check_folder, say

if TYPE_CHECKING:
    from crawl.runs.plan import Table


@dataclass(frozen=True)
class Reproduce:
    """Run the experiments behind a table of the paper, and print the table.

    Without a name, lists the tables; with --list, their rows too. Finished runs are read and stopped ones are
    resumed by the same command.

    Attributes:
        tables: The tables.
        out: Where the runs are.
        minutes: Stop after so many minutes, at a checkpoint.
        jobs: Runs at a time, on each GPU if there are any.
        seeds: Run only so many seeds of each row.
        rows: Run or list only these rows, by their names in --list.
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
        device: Where to compute.
        threads: How many threads compute in each process; as many as the machine has cores when not given.
        tidy: Keep only the records of finished runs, and weights that another table evaluates.
        progress: Show a progress bar for each run on a terminal; elsewhere there are lines anyway.
        list: Run nothing: list the rows of the tables, or of all, and how many of their runs are finished.
    """

    tables: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TABLE")] = ()
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/reproduce")
    minutes: float | None = None
    jobs: int = 1
    seeds: int | None = None
    rows: tuple[str, ...] = ()
    data_root: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    tidy: bool = False
    progress: bool = False
    list: bool = False

    def run(self) -> None:
        """Run what is left, and print."""
        check_positive(jobs=self.jobs, seeds=self.seeds)
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"--minutes must be more than 0, not {self.minutes:g}.")
        check_folder(self.out)
        compute_with(self.threads)
        from crawl.runs.reproduce import choose_rows, reproduce
        from crawl.runs.tables import GROUPS, TABLES
        from crawl.training.trainer import choose_device

        if self.list:
            for table in choose_rows(self.tables or tuple(TABLES), self.rows):
                print(_listed(table, self.out))
            return
        if not self.tables:
            for name, make in TABLES.items():
                print(f"{name:18} {(make.__doc__ or '').splitlines()[0]}")
            for name, members in GROUPS.items():
                print(f"{name:18} {' and '.join(members)}")
            return
        choose_device(self.device)
        try:
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
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the same command resumes where it was stopped") from None
        print("\n".join(map(str, done)))
        failed = {place for table in done for place in table.problems}
        if failed:
            raise ValueError(f"{len(failed)} {'run' if len(failed) == 1 else 'runs'} failed; the tables say why.")


def _listed(table: Table, folder: Path) -> str:
    """A table's title and rows, with how many of their runs are finished in a folder."""
    from crawl.runs.records import read_runs

    finished = {place for place, run in read_runs(folder, table).items() if run.is_finished}
    lines = [f"{table.name}: {table.title}"]
    for row in table.rows:
        places = [run.place for run in row.runs()]
        num_finished = sum(place in finished for place in places)
        lines.append(f"  {row.name:26} {num_finished:2} of {len(places):2} runs finished  {row.label}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """Make tables and plots from the records of runs.

    Attributes:
        runs: Folders of `crawl reproduce` or of one of its tables, folders of runs, or the small files that --collect
            wrote.
        out: Where to write tables.md, tables.csv and plots; - prints the tables and writes nothing.
        collect: Also write TABLE.json there, one small file for each table from which the same report can be made, and
            runs.json for other runs.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS")]
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")] = Path("report")
    collect: bool = False

    def run(self) -> None:
        """Write the report, and print its tables."""
        if not self.runs:
            raise ValueError("Say which runs to report: folders of `crawl reproduce`, of runs, or small files.")
        if self.out == STDOUT and self.collect:
            raise ValueError("--collect writes files: choose a folder for them with -o.")
        from crawl.runs.report import report_text, write_report

        if self.out == STDOUT:
            print(report_text(self.runs), end="")
            return
        written = write_report(self.runs, self.out, collect=self.collect)
        print(written[0].read_text(), end="")
        say("written: " + ", ".join(map(str, written)))
