"""How far many runs are, in one table on a terminal, and in one line elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table

from crawl.runs.progress import lines

_MOST_ROWS = 30  # of a table on a terminal
_MOST_RUNS = 4  # named in a line


@dataclass
class ProgressTable:
    """What is known about runs that are under way.

    Attributes:
        num_runs: How many there will be; None if nobody knows.
    """

    num_runs: int | None = None
    num_done: int = 0
    num_failed: int = 0
    rows: dict[str, tuple[str, str]] = field(default_factory=dict)  # the machine and the last news of each
    lock: threading.Lock = field(default_factory=threading.Lock)  # another thread draws it

    def tell(self, name: str, news: str, machine: str | None = None) -> None:
        """Keep the last news of a run, and where it is."""
        with self.lock:
            before = self.rows.get(name, ("", ""))[0]
            self.rows[name] = (before if machine is None else machine, news)

    def end(self, name: str, is_done: bool) -> None:
        """A run has ended."""
        with self.lock:
            self.rows.pop(name, None)
            self.num_done += is_done
            self.num_failed += not is_done

    def line(self) -> str:
        """Everything in one line."""
        with self.lock:
            named = [f"{name}: {news}" for name, (_, news) in list(self.rows.items())[:_MOST_RUNS]]
            more = len(self.rows) - len(named)
            return "; ".join([self._count(), *named, *([f"and {more} more"] if more else [])])

    def _count(self) -> str:
        of = "" if self.num_runs is None else f" of {self.num_runs}"
        failed = f", {self.num_failed} not finished" if self.num_failed else ""
        return f"{self.num_done}{of} runs done{failed}, {len(self.rows)} under way"

    def __rich__(self) -> Table:
        with self.lock:
            table = Table("run", "machine", "progress", title=self._count(), title_justify="left")
            for name, (machine, news) in list(self.rows.items())[:_MOST_ROWS]:
                table.add_row(name, machine, news)
            if (more := len(self.rows) - _MOST_ROWS) > 0:
                table.add_row(f"and {more} more", "", "")
            return table

    @contextmanager
    def shown(self, quiet: bool | None) -> Iterator[None]:
        """Within, the table is on the terminal, or a line every ten seconds on another error stream; none if quiet."""
        if quiet:
            yield
        elif sys.stderr is not None and sys.stderr.isatty():
            console = Console(stderr=True, markup=False, highlight=False)
            with Live(self, console=console, refresh_per_second=2, transient=True):
                yield
        else:
            with lines(self.line):
                yield
