"""`python -m reproduction uncertainty`: how often intervals hold the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from crawl.cli.flags import check_positive, compute_with
from crawl.cli.output import check_folder, say
from reproduction.commands.common import check_minutes, resumable


@dataclass(frozen=True)
class Uncertainty:
    """Train small networks on molecules, and say how often their intervals and sets hold the truth; prints the tables.

    The same command resumes: what is finished is read. A small file for each row is in one folder, beside the runs.

    Attributes:
        data: The data sets: esol, lipo or bbbp; all when not given.
        models: plain, noise or ensemble; all when not given.
        seeds: How many random splits of each.
        epochs: Train for this many epochs.
        out: Where rows and runs are.
        page: The page to write; uncertainty.md beside the rows when not given.
        minutes: Stop after this many minutes, at a checkpoint.
        molecules: The folder with esol.csv.gz and others; molecules in the data root when not given.
        device: Where to compute.
        threads: How many CPU threads compute.
        report: Run nothing: make the page from the rows in the folder.
    """

    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ()
    models: tuple[str, ...] = ()
    seeds: int = 1
    epochs: int = 15
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/uncertainty")
    page: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    minutes: float | None = None
    molecules: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    report: bool = False

    def run(self) -> None:
        """Run what is left, and print."""
        check_positive(seeds=self.seeds, epochs=self.epochs)
        check_minutes(self.minutes)
        if self.report and self.data:
            raise ValueError("--report is about all rows in the folder: leave out the data sets.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.uncertainty import run_rows, write_uncertainty_report

        if not self.report:
            how: dict[str, Any] = {"data": self.data, "models": self.models, "num_seeds": self.seeds}
            how |= {"epochs": self.epochs, "minutes": self.minutes, "device": self.device, "molecules": self.molecules}
            with resumable():
                run_rows(self.out, **how)
        page = self.page or self.out / "uncertainty.md"
        write_uncertainty_report(self.out, page)
        print(page.read_text(), end="")
        say(f"written: {page}")
