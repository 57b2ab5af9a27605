"""Where to search: the settings of an experiment that a search may change, and their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from crawl.runs.experiment import Experiment, Model
from crawl.runs.features import Features
from crawl.training.settings import Training
from crawl.walks.plan import WalkPlan

_WIDTHS = (16, 256, 16)  # of layers: least, most, step; four heads of attention divide it
_LAYERS = ("walk", "walk virtual_node", "walk gine", "walk gine virtual_node", "walk gated_gcn virtual_node")


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`: of a logarithmic scale, in steps, or all."""

    low: float
    high: float
    step: float | None = None
    is_log: bool = False

    def suggest(self, trial: Any, name: str) -> float | int:
        """A value that Optuna chooses."""
        if isinstance(self.low, int):
            return int(trial.suggest_int(name, self.low, int(self.high), step=int(self.step or 1)))
        return float(trial.suggest_float(name, self.low, self.high, step=self.step, log=self.is_log))

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        is_number = isinstance(value, int | float) and self.low <= value <= self.high
        return is_number and (self.step is None or abs((value - self.low) / self.step % 1) < 1e-9)


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]

    def suggest(self, trial: Any, name: str) -> Any:
        """A value that Optuna chooses."""
        return trial.suggest_categorical(name, list(self.values))

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return value in self.values


Space = dict[str, Range | Choice]

_DECAYS = (0.0, 0.01, 0.05, 0.1, 0.3)  # of AdamW and Lion
_PENALTIES = (0.0, 0.0005, 0.001, 0.005, 0.01)  # of Adam


def search_space(base: Experiment, recipe: Experiment) -> Space:
    """What to search for an experiment: what has an effect in it and is as in its recipe, since what a person has
    changed is settled.

    The values of the experiment itself are always among those that are searched.
    """
    model, training, walk = base.model, base.training, base.walk
    if not isinstance(model, Model):
        raise ValueError("Only networks of blocks are tuned: leave out model.")
    factor = 0.3 if training.optimiser == "lion" else 1.0
    space: Space = {
        "training.lr": Range(1e-4 * factor, 1e-2 * factor, is_log=True),
        "training.weight_decay": Choice(_PENALTIES if _has_penalty(training) else _DECAYS),
        "model.hidden_channels": Range(*_WIDTHS),
        "model.num_layers": Range(1, 6),
        "model.dropout": Range(0.0, 0.5, 0.05),
    }
    if walk is not None and model.has_walks:
        space["walk.num_steps"] = Choice((16, 25, 50, 100))
        if model.identity or model.adjacency:
            space["walk.window_size"] = Choice((4, 8, 12, 16))
        if getattr(base.data, "batches", None) != "closed":
            space["model.layer"] = Choice(_LAYERS)
    given = [name for name in space if _value(base, name) != _value(recipe, name)]
    kept = {name: _with(part, _value(base, name)) for name, part in space.items() if name not in given}
    if not kept:
        raise ValueError("All settings that could be searched are given: leave out some of them.")
    return kept


def _with(part: Range | Choice, value: Any) -> Range | Choice:
    """The same with one more value, if it lacks it."""
    if part.holds(value) or value is None:
        return part
    if isinstance(part, Choice):
        known = [*part.values, value]
        return Choice(tuple(known if isinstance(value, str) else sorted(known)))
    if part.step is not None and part.low <= value <= part.high:
        return Choice(tuple(sorted({value, *_steps(part)})))
    return replace(part, low=min(part.low, value), high=max(part.high, value), step=None if part.step else part.step)


def _steps(part: Range) -> list[float]:
    assert part.step is not None
    number = round((part.high - part.low) / part.step)
    values = [part.low + i * part.step for i in range(number + 1)]
    return [int(value) for value in values] if isinstance(part.low, int) else [round(value, 9) for value in values]


def _value(experiment: Experiment, name: str) -> Any:
    group, _, setting = name.partition(".")
    value = getattr(getattr(experiment, group, None), setting, None)
    return " ".join(value) if isinstance(value, tuple) else value


def _has_penalty(training: Training) -> bool:
    return training.optimiser == "adam" and training.weight_decay > 0


def values_of(experiment: Experiment, space: Space) -> dict[str, Any]:
    """The values that an experiment has, by name."""
    return {name: _value(experiment, name) for name in space}


def variant(base: Experiment, values: Mapping[str, Any]) -> Experiment:
    """The experiment with these values, and what follows from them: Adam becomes AdamW with weight decay, unless it had
    an L2 penalty before, and walks in evaluation keep their proportion to those in
    training and are never shorter than a window."""
    groups: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        group, _, setting = name.partition(".")
        groups.setdefault(group, {})[setting] = value
    training, model, walk = (groups.get(group, {}) for group in ("training", "model", "walk"))
    if training.get("weight_decay") and base.training.optimiser == "adam" and not _has_penalty(base.training):
        training["optimiser"] = "adamw"
    if "layer" in model:
        model["layer"] = tuple(model["layer"].split())
    changes: dict[str, Any] = {"training": replace(base.training, **training), "model": replace(base.model, **model)}
    if walk:
        before = base.walk or WalkPlan()
        if "num_steps" in walk:
            walk["num_eval_steps"] = max(1, round(walk["num_steps"] * before.num_eval_steps / before.num_steps))
        changes["walk"] = replace(before, **walk)
    return replace(base, **changes)


def within(
    experiment: Experiment, features: Features, most: int | None, count: Callable[[Experiment, Features], int]
) -> Experiment:
    """The experiment with layers as wide as the number of parameters allows, and no wider than they are.

    Raises:
        ValueError: If even the narrowest layers have more parameters.
    """
    model = experiment.model
    assert isinstance(model, Model)
    if most is None or count(experiment, features) <= most:
        return experiment
    least, _, step = _WIDTHS
    for width in reversed(range(least, model.hidden_channels, step)):
        narrow = replace(experiment, model=replace(model, hidden_channels=width))
        if count(narrow, features) <= most:
            return narrow
    raise ValueError(f"{model.num_layers} layers of {' '.join(model.layer)} have more than {most:,} parameters.")
