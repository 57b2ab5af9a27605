"""An experiment as the words of a `crawl train` command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from crawl.runs.experiment import Experiment
from crawl.runs.where import Where


def train_command(recipe: str, base: Experiment, experiment: Experiment, where: Where) -> str:
    """The command that trains an experiment by a recipe, whose own settings are `base`; one line for a shell.

    Refuses what a flag cannot say: another name, a model or data that were given in Python, and a pre-training.
    """
    parts = ("data", "model", "walk", "training", "evaluation", "encodings")
    if experiment.pretraining != base.pretraining or type(experiment.data) is not type(base.data):
        raise ValueError("Only settings of a recipe can be written as a command.")
    words = ["crawl", "train", recipe]
    for place, value in vars(where).items():
        if place != "device" and value is not None:
            words += [f"--data.{place.replace('_', '-')}", str(value)]
    for part in parts:
        words += _flags(part, getattr(base, part), getattr(experiment, part))
    if experiment.seed != base.seed:
        words += ["--seed", str(experiment.seed)]
    if where.device != "auto":
        words += ["--device", where.device]
    return shlex.join(words)


def _flags(group: str, before: Any, now: Any) -> Iterator[str]:
    """The flags for what has changed in a part of an experiment."""
    if now is None or now == before:
        return
    for field in fields(now):
        value = getattr(now, field.name)
        usual = getattr(before, field.name) if type(before) is type(now) else _default(now, field.name)
        if value == usual:
            continue
        name = field.name.replace("_", "-")
        if is_dataclass(value):  # a schedule: its settings are flags of its group
            schedule: Any = value
            if type(schedule) is not type(usual):
                yield from (f"--{group}.{name}", schedule.name)
                usual = type(schedule)()
            yield from _flags(group, usual, schedule)
        elif isinstance(value, bool):
            yield f"--{group}.{name}" if value else f"--{group}.no-{name}"
        elif isinstance(value, tuple | list):
            yield from (f"--{group}.{name}", *map(str, value))
        elif value is not None:
            yield from (f"--{group}.{name}", str(value))


def _default(part: Any, name: str) -> Any:
    return getattr(type(part)(), name)
