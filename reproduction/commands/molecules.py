"""`python -m reproduction molecules`: ensembles and forests on molecules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from crawl.cli.flags import compute_with
from crawl.cli.output import check_folder, say
from reproduction.commands.common import check_minutes, resumable


@dataclass(frozen=True)
class Molecules:
    """Train ensembles on four sets of molecules, and random forests beside them; prints the tables.

    The same command resumes: what is finished is read. A small file for each row is in one folder, beside the runs.

    Attributes:
        data: The data sets: esol, bbbp, lipo or tox21; all when not given.
        models: crawl, hybrid, both also with -descriptors after them, forest-fingerprints or forest-descriptors; all
            when not given. Trials have names of their own, such as trial-crawl-mean.
        out: Where rows and runs are.
        page: The page to write; molecules.md beside the rows when not given.
        minutes: Stop after this many minutes, at a checkpoint.
        molecules: The folder with esol.csv.gz and others; molecules in the data root when not given.
        device: Where to compute.
        threads: How many CPU threads compute.
        report: Run nothing: make the page from the rows in the folder.
    """

    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ()
    models: tuple[str, ...] = ()
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/molecules")
    page: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    minutes: float | None = None
    molecules: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    report: bool = False

    def run(self) -> None:
        """Run what is left, and print."""
        check_minutes(self.minutes)
        if self.report and (self.data or self.models):
            raise ValueError("--report is about all rows in the folder: leave out the data sets and --models.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.molecules import run_rows, write_molecules_report

        if not self.report:
            how: dict[str, Any] = {"data": self.data, "models": self.models, "minutes": self.minutes}
            with resumable():
                run_rows(self.out, **how, device=self.device, molecules=self.molecules)
        page = self.page or self.out / "molecules.md"
        write_molecules_report(self.out, page)
        print(page.read_text(), end="")
        say(f"written: {page}")
