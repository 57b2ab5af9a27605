"""`python -m reproduction pretrained`: the models in the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from crawl.cli.flags import Float, FolderPath, Int, compute_with
from crawl.cli.output import check_folder
from reproduction.commands.common import check_minutes, resumable


@dataclass(frozen=True)
class Pretrained:
    """Train the models that come with the package, and save them there: weights, configuration and card.

    The same command resumes: what is finished is only saved again.

    Attributes:
        names: The models: csl, esol, lipo or zinc; all when not given.
        data: The folder with esol.csv.gz, lipo.csv.gz and zinc12k.csv.gz: columns smiles, logS, lipo or y, and split.
        out: Where the runs are.
        package: Where the models are saved.
        minutes: Stop after this many minutes, at a checkpoint.
        device: Where to compute.
        threads: How many CPU threads compute.
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = ()
    data: FolderPath = None
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/pretrained")
    package: FolderPath = None
    minutes: Float = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Int = None

    def run(self) -> None:
        """Train what is left, and save."""
        check_minutes(self.minutes)
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.pretrained import PACKAGE, make_pretrained

        how: dict[str, Any] = {"data": self.data, "minutes": self.minutes, "device": self.device}
        with resumable():
            saved = make_pretrained(self.names, self.out, package=self.package or PACKAGE, **how)
        print("\n".join(map(str, saved)))
