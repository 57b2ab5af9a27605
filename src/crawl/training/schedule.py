"""Learning rates over steps and epochs, and when to stop."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from crawl.checks import whole_number
from crawl.training.settings import Constant, Cosine, CosinePerStep, Interval, OneCycle, Plateau, Step, Training

_RISE = 0.3  # share of the steps of one cycle in which the rate rises
_FIRST, _LAST = 1 / 25, 1 / 25e4  # rates at the ends of one cycle; the highest is 1


@dataclass
class Schedule:
    """The learning rates of the coming epoch, from the validation scores so far. Its state is a few plain numbers.

    Attributes:
        steps_per_epoch: Steps of the optimiser in an epoch.
        epoch: Epochs finished.
        lr: The learning rate of the coming epoch, without warm-up; of its first step if every step has its own.
        best: The best score so far.
        num_flat: Epochs with a score since the last better score, or since the learning rate last fell.
        num_without_best: Epochs with a score since the last better score.
    """

    settings: Training
    lower_is_better: bool
    steps_per_epoch: int = 1
    epoch: int = 0
    lr: float = 0.0
    best: float | None = None
    num_flat: int = 0
    num_without_best: int = 0

    def __post_init__(self) -> None:
        self.lr = self.lr or (self._rate_of_step(0) if self._changes_per_step else self.settings.lr)

    def rates(self) -> list[float]:
        """The learning rate of each step of the coming epoch."""
        first = self.epoch * self.steps_per_epoch
        steps = range(first, first + self.steps_per_epoch)
        if self._changes_per_step:
            return [self._rate_of_step(step) for step in steps]
        num_warm = self._num_warmup_steps
        return [self.lr * (min(1, (step + 1) / num_warm) if num_warm else 1) for step in steps]

    def update(self, score: float | None) -> None:
        """Take the validation score of an epoch, None if it has none. A NaN is never the best."""
        self.epoch += 1
        if score is not None:
            self._take(score)
        self._set_rate()

    def _take(self, score: float) -> None:
        is_best = not math.isnan(score) and (
            self.best is None or (score < self.best if self.lower_is_better else score > self.best)
        )
        self.best = score if is_best else self.best
        self.num_flat = 0 if is_best else self.num_flat + 1
        self.num_without_best = 0 if is_best else self.num_without_best + 1

    @property
    def is_over(self) -> bool:
        """Whether training ends here."""
        settings = self.settings
        if self.epoch >= settings.num_epochs:
            return True
        if settings.early_stop is not None and self.num_without_best >= settings.early_stop:
            return True
        schedule = settings.schedule
        return isinstance(schedule, Plateau) and self.lr < schedule.min_lr

    def state(self) -> dict[str, float | int | None]:
        """What `restore` needs."""
        state = asdict(self)
        del state["settings"], state["lower_is_better"], state["steps_per_epoch"]
        return state

    def restore(self, state: dict[str, float | int | None]) -> None:
        """Resume from a state; refuses what is not the state of a schedule."""
        if not isinstance(state, dict) or state.keys() != self.state().keys():
            raise ValueError("The schedule has other values than a training has.")
        for name, value in state.items():
            if name in ("epoch", "num_flat", "num_without_best"):
                whole_number(f"schedule.{name}", value, 0)
            elif not (name == "best" and value is None) and not _is_number(value):
                raise ValueError(f"schedule.{name} is {value!r}, not a number.")
        if not 0 <= state["lr"] <= self.settings.lr:  # type: ignore[operator]
            raise ValueError(f"schedule.lr is {state['lr']}, but training.lr is {self.settings.lr}.")
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def _changes_per_step(self) -> bool:
        return isinstance(self.settings.schedule, CosinePerStep | OneCycle)

    @property
    def _num_warmup_steps(self) -> int:
        epochs = self.settings.warmup_epochs
        return max(round(epochs * self.steps_per_epoch), 1) if epochs else 0

    def _set_rate(self) -> None:
        highest, schedule = self.settings.lr, self.settings.schedule
        if isinstance(schedule, Constant):
            return
        if isinstance(schedule, Plateau):
            if self.num_flat > schedule.patience:
                self.lr, self.num_flat = self.lr * schedule.factor, 0
        elif isinstance(schedule, Step):
            self.lr = highest * (schedule.factor if self.epoch >= schedule.step_epoch else 1.0)
        elif isinstance(schedule, Cosine):
            self.lr = _cosine(highest, 0, self.epoch, self.settings.num_epochs)
        elif isinstance(schedule, Interval):
            self.lr = highest * schedule.factor ** (self.epoch // schedule.interval)
        else:
            self.lr = self._rate_of_step(self.epoch * self.steps_per_epoch)

    def _rate_of_step(self, step: int) -> float:
        """The rate of a step, counted from the beginning of training, if every step has its own."""
        highest, num_steps = self.settings.lr, self.settings.num_epochs * self.steps_per_epoch
        last = num_steps - 1
        if isinstance(self.settings.schedule, OneCycle):
            top = _RISE * num_steps - 1
            if step <= top:
                return _cosine(_FIRST * highest, highest, step, top)
            return _cosine(highest, _LAST * highest, min(step, last) - top, last - top)
        top = max(self._num_warmup_steps - 1, 0)
        if step <= top:
            return highest * (step + 1) / (top + 1)
        return _cosine(highest, 0, min(step, last) - top, last - top) if last > top else 0.0


def _cosine(first: float, last: float, done: float, whole: float) -> float:
    """From `first` to `last` along half a period of a cosine, of which `done` parts of `whole` are over."""
    weight = (1 + math.cos(math.pi * done / whole)) / 2
    return first * weight + last * (1 - weight)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
