"""Settings of runs as names and values, and how they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawl.data.task import Task
from crawl.plain import unstructure
from crawl.runs.experiment import Experiment, settled
from crawl.runs.recipes import RECIPES

NOT_SET = "–"


def flat_settings(experiment: Experiment) -> dict[str, str]:
    """Every setting by its full name, `training.lr`, with its value as people write it."""
    return dict(_flat(unstructure(experiment), ""))


def _flat(values: Mapping[str, Any], place: str) -> Sequence[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{place}{key}.")
        elif key not in ("path", "root"):
            found.append((f"{place}{key}", shown_value(value)))
    return found


def shown_value(value: Any) -> str:
    """A value as people write it."""
    if value is None or value in ([], ()):
        return NOT_SET
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(map(shown_value, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def recipe_of(experiment: Experiment, task: Task | None, device: str) -> tuple[str, Experiment]:
    """The recipe that an experiment is a variant of, with its name: by its own name, or by that of its data. The
    defaults of the library where there is none.

    What has no effect for the task is at its default in both.
    """
    names = [name for name in (experiment.name, experiment.data.name) if name in RECIPES]
    name = names[0] if names else ""
    base = RECIPES[name]() if names else Experiment(data=experiment.data)
    if task is not None:
        kind = "cpu" if device.startswith("cpu") else "cuda"
        base = settled(base, task, kind, base, getattr(experiment.data, "batches", None))
    return name, base


def differences(settings: Sequence[Mapping[str, str]]) -> list[tuple[str, ...]]:
    """Names of settings that are not equal everywhere, each with its value in each experiment."""
    names = dict.fromkeys(name for each in settings for name in each)
    rows = [(name, *(each.get(name, NOT_SET) for each in settings)) for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]
