"""`python -m reproduction`: run a table of the paper, BREC or links and print it, report results, import data."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tyro

from crawl.cli.app import Command, run_command
from crawl.training.launched import started_together
from reproduction.commands.brec import Brec
from reproduction.commands.explain import Explain
from reproduction.commands.imports import Import
from reproduction.commands.links import Links
from reproduction.commands.molecules import Molecules
from reproduction.commands.pretrained import Pretrained
from reproduction.commands.report import Report
from reproduction.commands.tables import Reproduce
from reproduction.commands.uncertainty import Uncertainty

_PROGRAM = "python -m reproduction"
_OTHERS: dict[str, type[Command]] = {
    "brec": Brec,
    "links": Links,
    "uncertainty": Uncertainty,
    "molecules": Molecules,
    "pretrained": Pretrained,
    "explain": Explain,
    "report": Report,
    "import": Import,
}


def parse(arguments: Sequence[str]) -> Command:
    """The command the arguments ask for. Prints help or what is wrong, and raises `SystemExit`, as tyro does."""
    num_processes = started_together()
    if num_processes > 1:
        raise ValueError(
            f"Tables are made in one process, not {num_processes}: call this without torchrun and srun; --ray shares "
            "the runs of a table out."
        )
    word = arguments[0] if arguments and arguments[0] in _OTHERS else ""
    command: Command = tyro.cli(
        _OTHERS.get(word, Reproduce),
        prog=f"{_PROGRAM} {word}".strip(),
        args=arguments[1:] if word else arguments,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code, as of `crawl`."""
    return run_command(argv, parse, _PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
