"""`python -m reproduction brec`: BREC."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from crawl.cli.flags import Float, FolderPath, Int, Switch, Words, check_positive, compute_with
from crawl.cli.output import check_folder, say
from reproduction.commands.common import advise_on_overlap, check_minutes, resumable


@dataclass(frozen=True)
class Brec:
    """Count the pairs of graphs of BREC that walk networks distinguish; prints the table.

    The same command resumes: pairs that were tested are read. The rows (a network and a seed), brec.md and brec.png are
    written into one folder.

    Attributes:
        networks: The networks: crawl-8, crawl-16, crawl-32 (by the window) or hybrid; all when not given.
        pairs: Pairs such as 0-59 or 110, or categories: basic, regular, strongly_regular, extension, cfi, 4_vertex,
            distance_regular; all when not given.
        seeds: How many seeds of each network.
        num_evaluations: Evaluations of each graph at most, with walks of their own, whose mean is tested; fewer where
            these decide.
        hidden_channels: The width of the layers.
        num_layers: The number of layers.
        num_steps: Steps of a walk in training.
        num_eval_steps: Steps of a walk in evaluation.
        out: Where rows, table and plot are.
        minutes: Stop after this many minutes, when the pairs under way are tested.
        jobs: Rows at a time, in threads of this process.
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
        device: Where to compute.
        threads: How many CPU threads compute in each row; the processor is shared evenly when not given.
        report: Run nothing: make table and plot from the rows in the folder.
    """

    networks: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NETWORK", help_behavior_hint="")
    ] = ()
    pairs: Words = ()
    seeds: int = 3
    num_evaluations: int = 64
    hidden_channels: int = 32
    num_layers: int = 2
    num_steps: int = 60
    num_eval_steps: int = 240
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/brec")
    minutes: Float = None
    jobs: int = 1
    data_root: FolderPath = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Int = None
    report: Switch = False

    def run(self) -> None:
        """Test the pairs that are left, and print."""
        check_positive(jobs=self.jobs, seeds=self.seeds)
        check_minutes(self.minutes)
        if self.report and (self.networks or self.pairs):
            raise ValueError("--report is about all rows in the folder: leave out the networks and --pairs.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.brec import Settings, chosen_pairs
        from reproduction.brec_report import write_brec_report
        from reproduction.brec_runs import run_rows

        if not self.report:
            settings = Settings(**{name.name: getattr(self, name.name) for name in fields(Settings)})
            how: dict[str, Any] = {"networks": self.networks, "num_seeds": self.seeds, "jobs": self.jobs}
            how |= {"minutes": self.minutes, "device": self.device, "root": self.data_root, "threads": self.threads}
            advise_on_overlap(self.device, self.jobs)
            with resumable():
                run_rows(self.out, chosen_pairs(self.pairs), settings, **how)
        written = write_brec_report(self.out)
        print(written[0].read_text(), end="")
        say("written: " + ", ".join(map(str, written)))
