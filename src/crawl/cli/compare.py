"""`crawl compare`: a page that shows several runs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from crawl.cli.output import STDOUT, open_output, say


@dataclass(frozen=True)
class Compare:
    """Compare runs of one task on a page: scores, curves, settings that differ, differences on the same test graphs.

    The other runs are compared with the first one. A folder of runs on all folds, or with several seeds, is one of
    them.

    Attributes:
        runs: Folders of two to eight runs.
        output: The page, an .html file; - prints it.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS", help_behavior_hint="")]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = Path("compare.html")

    def run(self) -> None:
        """Write the page."""
        if self.output.suffix not in (".html", ".htm") and self.output != STDOUT:
            raise ValueError(f"{self.output}: a page is written as .html, or with - to the standard output.")
        from crawl.runs.progress import lines
        from crawl.runs.reports.compare import compare_page

        with lines("comparing runs"):
            text = compare_page(self.runs)
        with open_output(self.output) as file:
            file.write(text)
        if self.output != STDOUT:
            say(f"written: {self.output}")
