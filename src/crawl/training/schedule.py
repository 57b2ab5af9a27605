"""Learning rates over epochs, and when to stop."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from crawl.checks import whole_number
from crawl.training.settings import Training


@dataclass
class Schedule:
    """The learning rate of the coming epoch, from the validation scores so far. Its state is a few plain numbers.

    Attributes:
        settings: What to do.
        lower_is_better: Whether a smaller score is better.
        epoch: Epochs finished.
        lr: The learning rate of the coming epoch.
        best: The best score so far.
        num_flat: Epochs with a score since the last better score, or since the learning rate last fell.
        num_without_best: Epochs with a score since the last better score.
    """

    settings: Training
    lower_is_better: bool
    epoch: int = 0
    lr: float = 0.0
    best: float | None = None
    num_flat: int = 0
    num_without_best: int = 0

    def __post_init__(self) -> None:
        self.lr = self.lr or self.settings.lr

    def update(self, score: float | None) -> None:
        """Take the validation score of an epoch, None if it has none. A NaN is never the best."""
        self.epoch += 1
        if score is not None:
            self._take(score)
        self._lower()

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
        if self.epoch >= settings.max_epochs:
            return True
        if settings.early_stop is not None and self.num_without_best >= settings.early_stop:
            return True
        return settings.schedule == "plateau" and self.lr < settings.min_lr

    def state(self) -> dict[str, float | int | None]:
        """What `restore` needs."""
        state = asdict(self)
        del state["settings"], state["lower_is_better"]
        return state

    def restore(self, state: dict[str, float | int | None]) -> None:
        """Resume from a state.

        Raises:
            ValueError: If it is not the state of a schedule.
        """
        if not isinstance(state, dict) or state.keys() != self.state().keys():
            raise ValueError("The schedule has other values than those of a training.")
        for name, value in state.items():
            if name in ("epoch", "num_flat", "num_without_best"):
                whole_number(f"schedule.{name}", value, 0)
            elif not (name == "best" and value is None) and not _is_number(value):
                raise ValueError(f"schedule.{name} is {value!r}, not a number.")
        if not 0 <= state["lr"] <= self.settings.lr:  # type: ignore[operator]
            raise ValueError(f"schedule.lr is {state['lr']}, but training begins with {self.settings.lr}.")
        for name, value in state.items():
            setattr(self, name, value)

    def _lower(self) -> None:
        settings = self.settings
        if settings.schedule == "plateau":
            if self.num_flat > settings.patience:
                self.lr, self.num_flat = self.lr * settings.factor, 0
        elif settings.schedule == "step":
            self.lr = settings.lr * (settings.factor if self.epoch >= settings.step_epoch else 1.0)
        elif settings.schedule == "cosine":
            self.lr = settings.lr * (1 + math.cos(math.pi * self.epoch / settings.max_epochs)) / 2
        else:
            self.lr = settings.lr * settings.factor ** (self.epoch // settings.interval)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
