"""What a person can watch of a run: a bar on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from crawl.runs.estimate import Estimate

if TYPE_CHECKING:
    from crawl.training.trainer import Trainer

_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_BETWEEN_LINES = 10.0
_of_thread = threading.local()  # its `lines`: several runs may be under way in one process


class _Lines(threading.Thread):
    """Prints the last of its texts every ten seconds, however long a single step takes."""

    def __init__(self) -> None:
        super().__init__(name="progress", daemon=True)
        self.texts: list[Callable[[], str]] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        """Print until it is over."""
        while not self.is_over.wait(_SECONDS_BETWEEN_LINES):
            line = self.texts[-1]()
            if line and sys.stderr is not None:
                with suppress(OSError, ValueError):  # nobody reads any more, which the run need not mind
                    sys.stderr.write(f"{line}\n")
                    sys.stderr.flush()


@contextmanager
def lines(text: str | Callable[[], str], quiet: bool | None = False) -> Iterator[None]:
    """Within, unless `quiet`, a plain line on the error stream every ten seconds says what is being done.

    `text` is the line, or a function that another thread calls for it; there is no line for an empty one. Within
    `lines` that are shown already, it takes the place of their text.
    """
    if quiet:
        yield
        return
    outer: _Lines | None = getattr(_of_thread, "lines", None)
    shown = _of_thread.lines = outer or _Lines()
    shown.texts.append(text if callable(text) else lambda: text)
    if outer is None:
        shown.start()
    try:
        yield
    finally:
        _of_thread.lines = outer
        if outer is None:
            shown.is_over.set()
            shown.join()
        shown.texts.pop()


def say(text: str, quiet: bool | None) -> None:
    """A line on the error stream, unless `quiet`."""
    if not quiet and sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{text}\n")  # at once, so that lines of several threads do not mix
            sys.stderr.flush()


class Progress:
    """Where nobody watches: it is told about steps and epochs, and shows nothing."""

    def step(self, loss: Callable[[], float]) -> None:
        """One training step is done; `loss` may wait for a GPU, so it is asked seldom."""

    def epoch(self) -> None:
        """One epoch is done."""


class _InLines(Progress):
    """The text of plain lines: the current step, and what the last epoch brought."""

    def __init__(self, trainer: Trainer, folder: Path) -> None:
        self.trainer, self.folder = trainer, folder
        self.num_epochs, self.num_steps = trainer.schedule.epoch, 0
        self.loss, self.looked = math.nan, time.monotonic()
        self.estimate = Estimate(trainer.training, trainer.evaluation.val_every, trainer.schedule.epoch)

    def step(self, loss: Callable[[], float]) -> None:
        """One training step is done; its loss is looked at once in a while, by the thread that trains."""
        self.num_steps += 1
        if time.monotonic() - self.looked >= _SECONDS_BETWEEN_LINES / 4:
            self.loss, self.looked = loss(), time.monotonic()

    def epoch(self) -> None:
        """One epoch is done."""
        self.num_epochs, self.num_steps, self.loss = self.num_epochs + 1, 0, math.nan
        if estimate := self.estimate.line(self.trainer.records):
            say(f"{self.folder}: {estimate}", quiet=False)

    def line(self) -> str:
        """How far the training is."""
        trainer, num_batches = self.trainer, self.trainer.num_batches
        where = f"{self.folder}: {trainer.epoch_title} {self.num_epochs + 1} of {trainer.training.num_epochs}"
        doing = f"step {self.num_steps} of {num_batches}" if self.num_steps < num_batches else "validating"
        loss = "" if math.isnan(self.loss) else f", loss {self.loss:.4g}"
        return f"{where}, {doing}{loss}{self._last_epoch()}"

    def _last_epoch(self) -> str:
        trainer = self.trainer
        if not self.num_epochs:
            return ""
        record, metric = trainer.history[self.num_epochs - 1], trainer.task.metric
        score = record[f"val_{metric}"]
        validation = "" if score is None or math.isnan(score) else f", validation {metric} {score:.4g}"
        best = "" if trainer.schedule.best is None else f", best {trainer.schedule.best:.4g}"
        loss, seconds = f"loss {record['loss']:.4g}", f"{record['seconds']:.2g} s"
        return f"; epoch {self.num_epochs}: {loss}{validation}{best}, {seconds}"


class _InBar(Progress):
    """The progress bar of a run: the current epoch, its loss, the best score so far, the rate and the time left."""

    def __init__(self, trainer: Trainer, bars: Bars) -> None:
        self.trainer, self.bars = trainer, bars
        self.loss, self.shown = math.nan, 0.0
        self.num_steps = 0
        self.estimate = Estimate(trainer.training, trainer.evaluation.val_every, trainer.schedule.epoch)
        self.task = bars.add_task("", total=trainer.num_batches, info="")

    def step(self, loss: Callable[[], float]) -> None:
        """One training step is done; its loss is looked at a few times a second."""
        self.num_steps += 1
        if time.monotonic() - self.shown < _SECONDS_BETWEEN_LOOKS:
            return
        self.shown = time.monotonic()
        self.loss = loss() if math.isnan(self.loss) else 0.7 * self.loss + 0.3 * loss()
        schedule = self.trainer.schedule
        best = "" if schedule.best is None else f"  best {schedule.best:.4g}"
        self.bars.update(
            self.task,
            completed=self.num_steps,
            description=f"{self.trainer.epoch_title} {schedule.epoch + 1}/{schedule.settings.num_epochs}",
            info=f"loss {self.loss:.4g}{best}  lr {schedule.lr:.2g}{self._time_left()}",
        )

    def epoch(self) -> None:
        """One epoch is done."""
        self.num_steps = 0
        self.bars.reset(self.task, start=True, total=self.trainer.num_batches)
        if estimate := self.estimate.line(self.trainer.records):
            self.bars.console.print(estimate, markup=False, highlight=False, soft_wrap=True)

    def _time_left(self) -> str:
        history = self.trainer.history[-10:]
        if not history:
            return ""
        seconds = fmean(record["seconds"] for record in history)
        left = seconds * (self.trainer.training.num_epochs - self.trainer.schedule.epoch)
        return f"  {1 / seconds:.2g} epochs/s  at most {left / 60:.0f} min left"


@contextmanager
def watched(trainer: Trainer, folder: Path, quiet: bool | None) -> Iterator[Progress]:
    """What to tell about a run while it lasts; `quiet` as in `run_experiment`. Lines begin with the folder, since
    several runs may write them."""
    if quiet:
        yield Progress()
        return
    if quiet is None and (sys.stderr is None or not sys.stderr.isatty()):
        in_lines = _InLines(trainer, folder)
        with lines(in_lines.line):
            yield in_lines
        return
    words, info = TextColumn("{task.description}"), TextColumn("{task.fields[info]}")
    columns = (words, BarColumn(bar_width=20), info, TimeElapsedColumn())
    with lines(""), Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _InBar(trainer, bars)
