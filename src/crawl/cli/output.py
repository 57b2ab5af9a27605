"""Where results go: a file that appears whole or not at all, or the standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crawl.files import whole_file

if TYPE_CHECKING:
    from rich.table import Table

STDOUT = Path("-")


@contextmanager
def open_output(path: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """A file to write, moved to `path` when all went well; the standard output for `-`.

    Raises:
        OSError: If it cannot be written. A file that was at `path` before is still there then.
    """
    if path == STDOUT:
        yield sys.stdout.buffer if binary else sys.stdout
        return
    with whole_file(path, binary) as file:
        yield file


def say(message: str) -> None:
    """A remark for the person at the terminal; on the error stream, so that output can be piped."""
    print(message, file=sys.stderr)


def print_table(table: Table) -> None:
    """A table on the standard output, as wide as it needs to be where that is not a terminal."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 10_000  # more than any table needs; it takes no more than that
    console.print(table)
