"""`python -m reproduction report`: tables and plots from records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from crawl.cli.flags import Switch
from crawl.cli.output import STDOUT, say


@dataclass(frozen=True)
class Report:
    """Make the paper's tables and plots from the records of runs.

    Attributes:
        runs: Folders of `python -m reproduction` or of one of its tables, folders of runs, or the small files that
            --collect wrote.
        out: Where to write tables.md, tables.csv, report.html and plots; - prints the tables and writes nothing.
        collect: Also write TABLE.json there, one small file for each table from which the same report can be made, and
            runs.json for other runs.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS", help_behavior_hint="")]
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")] = Path("report")
    collect: Switch = False

    def run(self) -> None:
        """Write the report, and print its tables."""
        if not self.runs:
            raise ValueError("Say which runs to report: folders of runs, or small files.")
        if self.out == STDOUT and self.collect:
            raise ValueError("--collect writes files: choose a folder for them with -o.")
        from reproduction.report import report_text, write_report

        written = [] if self.out == STDOUT else write_report(self.runs, self.out, collect=self.collect)
        print(written[0].read_text() if written else report_text(self.runs), end="")
        if written:
            say("written: " + ", ".join(map(str, written)))
