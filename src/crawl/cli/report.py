"""`crawl report`: a table of runs, their learning curves, and a page for each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from crawl.cli.output import STDOUT, say


@dataclass(frozen=True)
class Report:
    """Make a table and plots from the records of runs: data, model, scores, epochs and time of each.

    The page of each run, report.html in its folder, is made again.

    Attributes:
        runs: Folders of runs, or folders with such folders in them.
        out: Where to write tables.md, tables.csv and curves.png; - prints the table and writes nothing at all.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS", help_behavior_hint="")]
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")] = Path("report")

    def run(self) -> None:
        """Write the report, and print its table."""
        if not self.runs:
            raise ValueError("Say which runs to report: name their folders, or a folder that has them.")
        from crawl.runs.progress import lines
        from crawl.runs.report import report_text, run_folders, write_report
        from crawl.runs.reports.run_page import write_run_page

        written = [] if self.out == STDOUT else write_report(self.runs, self.out)
        print(written[0].read_text() if written else report_text(self.runs), end="")
        if written:
            folders = dict.fromkeys(folder for path in self.runs for folder in run_folders(path))
            with lines("making pages"):
                pages = [write_run_page(folder) for folder in folders]
            written += [page for page in pages if page is not None]
            say("written: " + ", ".join(map(str, written)))
