"""What older versions wrote: configurations with a setting for everything, and weights by other names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from crawl.runs.sources import KINDS, WAYS_TO_SPLIT
from crawl.training.settings import SCHEDULES

if TYPE_CHECKING:
    from torch import Tensor

_MODELS = ("crawl", "gcn", "gin", "gine", "gat", "sage", "gated_gcn", "pna")
_DATA = (
    *("path", "root", "targets", "smiles", "task", "metric", "split", "fractions", "fold", "has_validation"),
    *("has_positions", "laplacian", "target", "bad_rows"),
)
_SCHEDULE = ("patience", "factor", "min_lr", "step_epoch", "interval")
_OF_WALKS = ("kernel_size", "identity", "adjacency", "virtual_node")
_GROUPS = ("data", "walk", "model", "training", "evaluation")


def as_now(values: Any) -> Any:
    """A configuration of an older version in today's form, without settings that had no effect; others as they are.

    What is not a configuration at all is returned as it is, to be refused by who reads it.
    """
    if not isinstance(values, dict) or not all(isinstance(values.get(part, {}), dict) for part in _GROUPS):
        return values
    data = values.get("data", {})
    if "smiles" in data and (data["smiles"] is None or isinstance(data["smiles"], str)):  # one column, or none
        values = {**values, "data": {**data, "smiles": [data["smiles"]] if data["smiles"] else []}}
    model = values.get("model", {})
    if "layer" in model or model.get("name") in ("network", "given"):
        return values
    if not {"data", "model", "training", "walk"} & values.keys():
        return values
    name = model.get("name", "crawl")
    now = {**values, "data": _data(values.get("data", {})), "training": _training(values.get("training", {}))}
    now["model"] = _model(model, name)
    if name not in _MODELS[1:]:
        return {**now, "walk": _walk(values.get("walk", {}), model)}
    now.pop("walk", None)
    return {**now, "evaluation": {**values.get("evaluation", {}), "num_val_repeats": 1, "num_test_repeats": 1}}


def former_where(values: Any) -> dict[str, str]:
    """Where a run was, by a configuration of an older version: `device`, `path` and `root`, as far as it says so."""
    found: dict[str, str] = {}
    for group, key in (("data", "path"), ("data", "root"), ("training", "device")):
        part = values.get(group) if isinstance(values, dict) else None
        value = part.get(key) if isinstance(part, dict) else None
        found |= {key: value} if isinstance(value, str) else {}
    return found


def _data(data: Mapping[str, Any]) -> dict[str, Any]:
    name = data.get("name", "csl")
    kind = KINDS.get(name) if isinstance(name, str) else None
    kept = () if kind is None else [field.name for field in fields(kind)]
    now = {key: value for key, value in data.items() if key in kept or key not in _DATA}
    if now.get("is_synthetic") is False:  # a key of even older versions
        del now["is_synthetic"]
    if "split" in kept and now.get("split", "random") not in WAYS_TO_SPLIT:
        now.pop("fractions", None)
    return {**now, "name": name}


def _walk(walk: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, Any]:
    is_second_order = walk.get("strategy") == "node2vec"
    now = {
        key: value for key, value in walk.items() if key not in ("p", "q") or (is_second_order and value is not None)
    }
    has_bits = model.get("identity", True) or model.get("adjacency", True)
    if not has_bits and model.get("kernel_size") is not None:
        now.pop("window_size", None)
    return now


def _model(model: Mapping[str, Any], name: Any) -> dict[str, Any]:
    layer, unused = [name], ["name", "virtual_node"]
    if name == "crawl":
        has_node = model.get("virtual_node", False) is True and model.get("num_layers", 3) != 1
        layer = ["walk", "virtual_node"] if has_node else ["walk"]
    elif name in _MODELS:
        unused = ["name", "precision", *_OF_WALKS]
    return {"name": "network", "layer": layer, **{key: model[key] for key in model if key not in unused}}


def _training(training: Mapping[str, Any]) -> dict[str, Any]:
    schedule = training.get("schedule", "plateau")
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        return dict(training)
    options = [field.name for field in fields(SCHEDULES[schedule])]
    now = {key: value for key, value in training.items() if key not in (*_SCHEDULE, "device")}
    return {**now, "schedule": {"name": schedule, **{key: training[key] for key in options if key in training}}}


# ---- weights


def renamed(tensors: Mapping[str, Tensor], parameters: Sequence[str]) -> dict[str, Tensor]:
    """The tensors of a checkpoint of any version by the names that the blocks of a network have now.

    The layers of CRaWl were `convs.K`, its virtual nodes `virtual_nodes.K`; parameters came in this order.

    Args:
        tensors: The weights of a model, or what a training resumes from, with `model.` and so on before the names.
        parameters: The names of the model's parameters in their order, by which an optimiser numbers them.
    """
    if not any("convs.0." in name for name in tensors):
        return dict(tensors)
    spacing = 2 if any("virtual_nodes.0." in name for name in tensors) else 1

    def new_name(name: str) -> str:
        name = re.sub(r"\bconvs\.(\d+)", lambda found: f"blocks.{spacing * int(found[1])}.conv", name)
        return re.sub(r"\bvirtual_nodes\.(\d+)", lambda found: f"blocks.{spacing * int(found[1]) + 1}.node", name)

    def former_order(i: int) -> int:
        return 0 if ".conv." in parameters[i] else 1 if ".node." in parameters[i] else 2

    in_former_order = sorted(range(len(parameters)), key=former_order)  # sorting is stable
    now: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        first, _, rest = name.partition(".")
        number, _, moment = rest.partition(".")
        if first == "optimiser" and number.isdecimal() and int(number) < len(in_former_order):
            now[f"optimiser.{in_former_order[int(number)]}.{moment}"] = tensor
        else:
            now[new_name(name)] = tensor
    return now
