"""`python -m reproduction links`: links of Cora."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from crawl.cli.flags import check_positive, compute_with
from crawl.cli.output import check_folder, say
from reproduction.commands.common import check_minutes, resumable


@dataclass(frozen=True)
class Links:
    """Predict links of Cora with walk networks, a GCN autoencoder and scores of common neighbours; prints the table.

    The same command resumes: what is finished is read. A small file for each row and links.md are in one folder, beside
    the folders of the runs.

    Attributes:
        networks: The rows: walk, hybrid, gcn, gcn_autoencoder, common_neighbours or adamic_adar; all when not given.
        seeds: How many seeds of each network.
        epochs: Train for this many epochs; 150 when not given.
        out: Where rows, runs and table are.
        minutes: Stop after this many minutes, at a checkpoint.
        data_root: Where cora.npz is; CRAWL_DATA or ~/.cache/crawl when not given.
        device: Where to compute.
        threads: How many CPU threads compute.
        report: Run nothing: make the table from the rows in the folder.
    """

    networks: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ROW")] = ()
    seeds: int = 3
    epochs: int | None = None
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/links")
    minutes: float | None = None
    data_root: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    report: bool = False

    def run(self) -> None:
        """Run what is left, and print."""
        check_positive(seeds=self.seeds, epochs=self.epochs)
        check_minutes(self.minutes)
        if self.report and self.networks:
            raise ValueError("--report is about all rows in the folder: leave out the networks.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.links import run_rows, write_links_report

        if not self.report:
            how: dict[str, Any] = {"networks": self.networks, "num_seeds": self.seeds, "epochs": self.epochs}
            how |= {"minutes": self.minutes, "device": self.device, "root": self.data_root}
            with resumable():
                run_rows(self.out, **how)
        written = write_links_report(self.out)
        print(written[0].read_text(), end="")
        say("written: " + ", ".join(map(str, written)))
