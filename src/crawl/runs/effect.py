"""Which settings of an experiment change its result: a record of one that does not would not be true.

Nothing here needs torch, so that the command line can refuse a mistake at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawl.runs.experiment import Data, Experiment, Model, Walk
from crawl.runs.recipes import RECIPES
from crawl.training.settings import Training

if TYPE_CHECKING:
    from crawl.data.task import Task

OWN_FILES = ("csv", "tu", "folder")
_IN_CODE = ("given", "csl", "counting")
_WITH_FOLDS_IN_FILES = ("collab", "imdb_multi", "reddit_binary")
_USED_BY: dict[str, tuple[str, ...]] = {
    **{"target": ("counting",), "laplacian": ("csl",), "smiles": ("csv",), "has_positions": ("mnist", "cifar10")},
    **{"targets": ("csv", "folder"), "task": ("csv", "folder"), "bad_rows": ("csv", "folder")},
    **{"path": OWN_FILES, "metric": OWN_FILES, "split": OWN_FILES, "fractions": OWN_FILES},
    **{"fold": ("csl", *_WITH_FOLDS_IN_FILES), "has_validation": _WITH_FOLDS_IN_FILES},
}
WAYS_TO_SPLIT = ("random", "stratified", "scaffold")  # splits that `fractions` has an effect on
_OF_SCHEDULES = {
    **{"patience": ("plateau",), "min_lr": ("plateau",), "step_epoch": ("step",), "interval": ("interval",)},
    "factor": ("plateau", "step", "interval"),
}
_OF_WALKS = ("kernel_size", "identity", "adjacency", "virtual_node", "precision")


def effective(experiment: Experiment, task: Task | None = None) -> Experiment:
    """The same experiment with every setting that changes nothing at its default.

    Args:
        experiment: The experiment.
        task: What is predicted, where it is known: some settings are for some tasks only.
    """
    for _, group, setting in _without_effect(experiment, task):
        value = _usual(experiment, group, setting)
        experiment = replace(experiment, **{group: replace(getattr(experiment, group), **{setting: value})})
    return experiment


def settle(
    experiment: Experiment, task: Task | None = None, *, device: str = "", is_from_recipe: bool = False
) -> Experiment:
    """`effective`, for an experiment whose settings a person chose: those without effect are refused.

    What the recipe of the data says, and what is the default, was not chosen.

    Args:
        experiment: The experiment.
        task: What is predicted, where it is known.
        device: The kind of device that computes, where it is known.
        is_from_recipe: Whether the experiment began as the recipe of its data, so that a default was chosen, too.

    Raises:
        ValueError: With the flag that sets it, and why it has no effect.
    """
    data = experiment.data
    bases = [RECIPES.get(data.name, Experiment)(), *(() if is_from_recipe else (Experiment(),))]
    unused = list(_without_effect(experiment, task))
    if device == "cpu" and experiment.model.precision != Model.precision:
        unused.append(("A computation on the CPU", "model", "precision"))
    for what, group, setting in unused:
        value = getattr(getattr(experiment, group), setting)
        not_chosen = [getattr(getattr(base, group), setting) for base in bases]
        if value not in (_usual(experiment, group, setting), *not_chosen):
            no = "no-" if value is False else ""
            raise ValueError(f"{what} cannot be changed by --{group}.{no}{setting.replace('_', '-')}: leave it out.")
    walk = experiment.walk
    if experiment.model.name == "crawl" and walk.strategy == "node2vec" and (walk.p is None or walk.q is None):
        raise ValueError("node2vec walks need --walk.p and --walk.q; with 1 and 1 they are uniform walks.")
    return effective(experiment, task)


def settle_data(data: Data) -> Data:
    """The same for the data of an experiment alone.

    Raises:
        ValueError: With the flag that sets it, and why it has no effect.
    """
    return settle(Experiment(data=data)).data


def existing_path(data: Data) -> Path:
    """The file or folder of data that are read from one of the user's own.

    Raises:
        ValueError: If it is not given, or not there.
    """
    if data.path is None:
        raise ValueError(f"Data of the kind {data.name!r} need --data.path, the file or folder to read.")
    path = Path(data.path)
    if not path.exists():
        raise ValueError(f"There is no file or folder {path}.")
    return path


def plain(data: Data) -> dict[str, Any]:
    """The settings of data that have an effect, as plain values."""
    return asdict(effective(Experiment(data=data)).data)


def _usual(experiment: Experiment, group: str, setting: str) -> Any:
    """What a setting without effect is recorded as."""
    if (group, setting) == ("data", "split"):
        return "given"
    if group == "evaluation" and experiment.model.name != "crawl":
        return 1  # without walks, all evaluations are equal
    return getattr(type(getattr(experiment, group)), setting)


def _without_effect(experiment: Experiment, task: Task | None) -> Iterator[tuple[str, str, str]]:
    """For each setting that changes nothing: what it cannot change, and the group and the name of the setting."""
    yield from _of_data(experiment.data)
    yield from _of_model(experiment, task)
    yield from _of_training(experiment.training, task)
    if not experiment.data.has_validation:
        yield "A training without validation", "evaluation", "num_val_repeats"


def _of_data(data: Data) -> Iterator[tuple[str, str, str]]:
    for setting, names in _USED_BY.items():
        if data.name not in names:
            yield data.name, "data", setting
    if data.name in (*OWN_FILES, *_IN_CODE):
        yield data.name, "data", "root"
    if data.name in OWN_FILES and data.split not in WAYS_TO_SPLIT:
        yield "A split that is given", "data", "fractions"


def _of_model(experiment: Experiment, task: Task | None) -> Iterator[tuple[str, str, str]]:
    model, walk = experiment.model, experiment.walk
    if model.name != "crawl":
        yield from ((model.name, "walk", field.name) for field in fields(Walk))
        yield from ((model.name, "model", setting) for setting in _OF_WALKS)
        yield from ((model.name, "evaluation", setting) for setting in ("num_val_repeats", "num_test_repeats"))
    else:
        if walk.strategy != "node2vec":
            yield from ((f"{walk.strategy} walks", "walk", setting) for setting in ("p", "q"))
        if not (model.identity or model.adjacency) and model.kernel_size is not None:
            yield "A model without bits", "walk", "window_size"
        if model.num_layers == 1:
            yield "A model of one layer", "model", "virtual_node"
    if task is not None and task.level == "node":
        yield "An answer for each node", "model", "pool"


def _of_training(training: Training, task: Task | None) -> Iterator[tuple[str, str, str]]:
    for setting, schedules in _OF_SCHEDULES.items():
        if training.schedule not in schedules:
            yield f"The schedule {training.schedule}", "training", setting
    if task is not None and task.kind != "regression":
        yield from ((f"A {task.kind} task", "training", setting) for setting in ("loss", "normalise_targets"))
