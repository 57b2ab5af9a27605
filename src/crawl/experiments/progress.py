"""What a person can watch of a run: a bar on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from crawl.training.trainer import Trainer

_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_WITHOUT_LINES = 60.0  # within an epoch, which may take long


class Lines:
    """Plain lines on the error stream, at least ten seconds apart, the first ten seconds after the beginning."""

    def __init__(self) -> None:
        self.shown = time.monotonic()

    def show(self, line: Callable[[], str], seconds: float | None = None) -> None:
        """Print what `line` returns, unless there was a line less than this many seconds ago."""
        if time.monotonic() - self.shown >= (_SECONDS_BETWEEN_LINES if seconds is None else seconds):
            print(line(), file=sys.stderr, flush=True)
            self.shown = time.monotonic()


class Progress:
    """Where nobody watches: it is told about steps and epochs, and shows nothing."""

    def step(self, loss: Callable[[], float]) -> None:
        """One training step is done; `loss` may wait for a GPU, so it is asked seldom."""

    def epoch(self) -> None:
        """One epoch is done."""

    def evaluating(self) -> None:
        """Training is done."""


class _InLines(Progress):
    """Plain lines: after an epoch, and within one that takes minutes."""

    def __init__(self, trainer: Trainer, folder: Path) -> None:
        self.trainer, self.folder, self.lines = trainer, folder, Lines()
        self.began, self.num_steps = time.monotonic(), 0

    def step(self, loss: Callable[[], float]) -> None:
        """One training step is done."""
        self.num_steps += 1
        of_all = f"step {self.num_steps} of {self.trainer.num_batches}"
        self.lines.show(lambda: f"{self._where(1)}, {of_all}, loss {loss():.4g}", _SECONDS_WITHOUT_LINES)

    def epoch(self) -> None:
        """One epoch is done."""
        self.num_steps = 0
        self.lines.show(self._after_epoch)

    def evaluating(self) -> None:
        """Training is done."""
        if time.monotonic() - self.began >= _SECONDS_BETWEEN_LINES:
            best = f"the weights of epoch {self.trainer.best_epoch}"
            self.lines.show(lambda: f"{self._where(0)} was the last; evaluating {best}", 0)

    def _where(self, ahead: int) -> str:
        return f"{self.folder}: epoch {self.trainer.schedule.epoch + ahead} of {self.trainer.training.max_epochs}"

    def _after_epoch(self) -> str:
        trainer, record = self.trainer, self.trainer.history[-1]
        metric = trainer.task.metric
        score = record[f"val_{metric}"]
        validation = "" if score is None or math.isnan(score) else f", validation {metric} {score:.4g}"
        best = "" if trainer.schedule.best is None else f", best {trainer.schedule.best:.4g}"
        return f"{self._where(0)}, loss {record['loss']:.4g}{validation}{best}, {record['seconds']:.2g} s an epoch"


class _InBar(Progress):
    """The progress bar of a run: the current epoch, its loss, the best score so far, the rate and the time left."""

    def __init__(self, trainer: Trainer, bars: Bars) -> None:
        self.trainer, self.bars = trainer, bars
        self.loss, self.shown = math.nan, 0.0
        self.num_steps = 0
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
            description=f"epoch {schedule.epoch + 1}/{schedule.settings.max_epochs}",
            info=f"loss {self.loss:.4g}{best}  lr {schedule.lr:.2g}{self._time_left()}",
        )

    def epoch(self) -> None:
        """One epoch is done."""
        self.num_steps = 0
        self.bars.reset(self.task, start=True, total=self.trainer.num_batches)

    def _time_left(self) -> str:
        history = self.trainer.history[-10:]
        if not history:
            return ""
        seconds = fmean(record["seconds"] for record in history)
        left = seconds * (self.trainer.training.max_epochs - self.trainer.schedule.epoch)
        return f"  {1 / seconds:.2g} epochs/s  at most {left / 60:.0f} min left"


@contextmanager
def watched(trainer: Trainer, folder: Path, quiet: bool | None) -> Iterator[Progress]:
    """What to tell about a run while it lasts.

    Args:
        trainer: The training.
        folder: What lines begin with: several runs may write them.
        quiet: Show nothing; when None, a bar on a terminal and lines elsewhere; when False, the bar.
    """
    if quiet:
        yield Progress()
        return
    if quiet is None and not sys.stderr.isatty():
        yield _InLines(trainer, folder)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[info]}"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _InBar(trainer, bars)
