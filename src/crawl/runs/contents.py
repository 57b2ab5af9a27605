"""What the description in a model's checkpoint must hold: a valid checksum says nothing about who wrote it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from crawl.checks import whole_number
from crawl.data.fingerprint import Fingerprint, task_changes
from crawl.data.task import Task
from crawl.runs.build import build_model
from crawl.runs.experiment import Experiment
from crawl.runs.features import Features
from crawl.runs.records import check_kinds, check_record
from crawl.training.checkpoint import check_weights
from crawl.training.evaluation import Scaling

_NUMBER = int | float


def described(
    tensors: Mapping[str, Tensor], description: Mapping[str, Any]
) -> tuple[Experiment, Features, Scaling, dict[str, Any], Fingerprint | None]:
    """The experiment, the features, the scaling, the record and the data of a model, all checked.

    Models of older versions do not say what their data were.

    Raises:
        ValueError: If something is missing, of a wrong kind, or does not fit the tensors.
    """
    check_kinds(description, {"experiment": dict, "features": dict, "scaling": list, "record": dict})
    try:
        experiment = Experiment.from_json(json.dumps(description["experiment"]))
        features = _features(description["features"])
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    with torch.device("meta"):  # takes no memory, however large it claims to be
        wanted = build_model(experiment, features).state_dict()
    check_weights(tensors, wanted)
    if description["record"]:
        _check_facts(description["record"])
    data = None if description.get("data") is None else Fingerprint.from_dict(description["data"])
    if data is not None and (changes := task_changes(data.task, features.task)):
        raise ValueError(f"its features and its data name different tasks: {'; '.join(changes)}")
    return experiment, features, _scaling(description["scaling"], features.task), description["record"], data


def _features(values: dict[str, Any]) -> Features:
    categories = ("node_categories", "edge_categories")
    widths = ("num_node_features", "num_edge_features")
    check_kinds(values, {"task": dict, **dict.fromkeys(categories, list)}, "features.")
    for name in widths:
        whole_number(f"features.{name}", values.get(name), 0)
    for name in categories:
        for size in values[name]:
            whole_number(f"features.{name}", size)
    degree = values.get("mean_log_degree", 1.0)
    if not isinstance(degree, _NUMBER) or not 0 < degree < math.inf:
        raise ValueError(f"features.mean_log_degree is {degree!r}")
    task = values["task"]
    whole_number("features.task.num_outputs", task.get("num_outputs"))
    for name in ("target_names", "class_names"):
        if not all(isinstance(word, str) for word in _list(task.get(name, []), f"features.task.{name}")):
            raise ValueError(f"features.task.{name} are not words")
    return Features.from_dict(values)


def _scaling(parts: list[Any], task: Task) -> Scaling:
    if len(parts) != 2:
        raise ValueError("scaling is not a mean and a deviation")
    if task.kind != "regression" and parts != [[], []]:
        raise ValueError(f"scaling is for numbers, and the task is {task.kind}")
    mean, deviation = (tuple(_list(part, "scaling")) for part in parts)
    are_numbers = all(isinstance(value, _NUMBER) and math.isfinite(value) for value in (*mean, *deviation))
    if not are_numbers or len(mean) != len(deviation) or len(mean) not in (0, task.num_outputs):
        raise ValueError("scaling does not hold a number for each target")
    if not all(value > 0 for value in deviation):
        raise ValueError("scaling has a deviation that is not positive")
    return Scaling(mean, deviation)


def _check_facts(record: dict[str, Any]) -> None:
    """Refuse a record that nothing can be told from."""
    check_record(record)
    check_kinds(record, {}, "record.", {"best_epoch": int, "versions": dict})
    for part, score in record["scores"].items():
        place = f"record.scores.{part}."
        check_kinds(score, {"evaluations": list}, place)
        for i, value in enumerate(score["evaluations"]):
            check_kinds({f"evaluations[{i}]": value}, {f"evaluations[{i}]": _NUMBER | None}, place)


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    return value
