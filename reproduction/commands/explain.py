"""`python -m reproduction explain`: whether explanations are right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from crawl.cli.flags import FilePath, Int, Switch, check_positive, compute_with
from crawl.cli.output import check_folder, say
from reproduction.commands.common import resumable


@dataclass(frozen=True)
class Explain:
    """Measure whether explanations are right, on planted motifs and on ESOL; prints the tables.

    The same command resumes: what was trained or measured is read. explain.json, explain.md and a file for each part
    are in one folder, beside the folders of the runs.

    Attributes:
        parts: motifs or esol; both when not given.
        esol: ESOL as a CSV file with the columns smiles, logS and split.
        num_repeats: Evaluations of each graph.
        num_points: Points of each integral.
        num_graphs: Explain at most this many test graphs of each part.
        epochs: Train for this many epochs; as many as the parts say when not given.
        out: Where records, tables and runs are.
        threads: How many CPU threads compute.
        report: Measure nothing: make the tables from the records in the folder.
    """

    parts: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PART")] = ()
    esol: FilePath = None
    num_repeats: int = 3
    num_points: int = 16
    num_graphs: Int = None
    epochs: Int = None
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/explain")
    threads: Int = None
    report: Switch = False

    def run(self) -> None:
        """Measure what is left, and print."""
        numbers = {name: getattr(self, name) for name in ("num_repeats", "num_points", "num_graphs", "epochs")}
        check_positive(**numbers)
        if self.report and (self.parts or self.esol is not None):
            raise ValueError("--report is about all records in the folder: leave out the parts and --esol.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.explain import Settings, run_parts, write_explain_report

        if self.report:
            written = write_explain_report(self.out)
        else:
            with resumable():
                written = run_parts(self.out, self.parts, Settings(**numbers), esol=self.esol)
        print(written[0].read_text(), end="")
        say("written: " + ", ".join(map(str, written)))
