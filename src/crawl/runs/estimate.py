"""How long a training will take at most, as its first epochs tell."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from crawl.training.settings import Plateau, Training

_LONG = 30.0  # seconds of an epoch beside which compiling in the first one hardly counts
_WORTH_SAYING = 20.0  # seconds of a training


class Estimate:
    """Says once how long a training will take.

    The first epoch compiles, so that the second and those after it are measured, up to one that is validated; a long
    first epoch is enough, if it is validated.

    Args:
        training: How it trains.
        val_every: After how many epochs it is validated.
        num_before: Epochs that were done before, if it was resumed.
    """

    def __init__(self, training: Training, val_every: int, num_before: int = 0) -> None:
        self.training, self.val_every, self.num_before = training, val_every, num_before
        self.is_said = False

    def line(self, history: Sequence[dict[str, Any]]) -> str:
        """The sentence, after the epoch from which it can be told; "" after all others, and if it is soon over."""
        seconds = [record["seconds"] for record in history[self.num_before :]]
        is_long = len(seconds) == 1 and seconds[0] > _LONG and self.val_every == 1
        if self.is_said or not (is_long or len(seconds) >= max(2, self.val_every + 1)):
            return ""
        self.is_said = True
        measured = seconds if is_long else seconds[1:]
        each, num_left = fmean(measured), self.training.num_epochs - len(history)
        if each * num_left < _WORTH_SAYING:
            return ""
        return f"about {_said(each * num_left)} at most, {each:.2g} s an epoch{self._sooner()}"

    def _sooner(self) -> str:
        """What may end it before."""
        if self.training.early_stop is not None:
            return f"; sooner, if {self.training.early_stop} epochs bring no better validation score"
        if isinstance(self.training.schedule, Plateau):
            return f"; sooner, if the learning rate falls below {self.training.schedule.min_lr:g}"
        return ""


def _said(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
