"""Where results go: a file that appears whole or not at all, a device, a pipe, or the standard output."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crawl.files import is_regular, named_if_full, whole_file

if TYPE_CHECKING:
    from rich.table import Table

STDOUT = Path("-")
STDOUT_NAME = "the standard output"


class _Nowhere(io.TextIOWrapper):
    """In the place of a standard stream that was closed before the program began, as by `>&-`."""


def replace_closed_streams() -> None:
    """Let what is printed to a closed stream go nowhere: Python has None there, and a file that is opened later would
    get the descriptor, and what libraries print with it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, _Nowhere(open(os.devnull, "wb"), encoding="utf-8"))  # noqa: SIM115


@contextmanager
def open_output(path: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """A file to write, as `whole_file` does; the standard output for `-`, refused if it is closed."""
    if path == STDOUT:
        if isinstance(sys.stdout, _Nowhere):
            raise ValueError("The standard output is closed: name a file to write to.")
        with named_if_full(STDOUT_NAME):
            yield sys.stdout.buffer if binary else sys.stdout
            sys.stdout.flush()
        return
    with whole_file(path, binary) as file:
        yield file


def check_apart(output: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that would replace an input, itself or through links."""
    if output == STDOUT or not (output.is_file() or output.is_dir()):  # a terminal is input and output at once
        return
    for path in inputs:
        if path.exists() and path.samefile(output):
            raise ValueError(f"The output would replace the input {path}: choose another name.")


def is_stream(path: Path) -> bool:
    """Whether output goes to a device, a pipe or the standard output, whose name says nothing about a format."""
    return path == STDOUT or not is_regular(path)


def check_folder(path: Path) -> None:
    """Refuse `-` where output is a folder of files."""
    if path == STDOUT:
        raise ValueError("--out - is not possible: a run is a folder of files; choose a name for it.")


def say(message: str) -> None:
    """A remark for the person at the terminal; on the error stream, so that output can be piped."""
    print(printable(message), file=sys.stderr)


def printable(text: str) -> str:
    """The text with control characters written out, since a terminal would obey them; lines stay."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], text)


def print_table(table: Table, *, to_stderr: bool = False) -> None:
    """A table on the standard output or the error stream, as wide as it needs to be where that is not a terminal."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    console = Console(markup=False, highlight=False, stderr=to_stderr)
    if not console.is_terminal:
        console.width = 10_000  # more than any table needs; it takes no more than that
    parts = (Segment(printable(part.text), part.style, part.control) for part in console.render(table))
    with named_if_full("the error stream" if to_stderr else STDOUT_NAME):
        console.print(Segments(parts), end="")
