"""Checkpoints: one safetensors file with its description inside, written whole or not at all.

Nothing in it is executed on loading. A checksum over the tensors and the description finds damage. A description may
also stand in a file of its own beside the weights: `save_weights`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from crawl.files import parse_json, write_atomically

_FORMAT = "crawl-checkpoint-1"
_WEIGHTS = "crawl-weights-1"  # without the description


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """Write a checkpoint. Whatever happens meanwhile, `path` is the whole old checkpoint or the whole new one.

    Raises:
        OSError: If it cannot be written (the disk is full, say); the old checkpoint is still there.
    """
    on_cpu, text = _on_cpu(tensors), json.dumps(description)
    metadata = {"format": _FORMAT, "description": text, "checksum": _checksum(on_cpu, text)}
    write_atomically(path, save(on_cpu, metadata))


def save_weights(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """The same with a checksum of the description instead of the description, which the caller keeps beside it."""
    on_cpu = _on_cpu(tensors)
    checksum = _checksum(on_cpu, json.dumps(description))
    write_atomically(path, save(on_cpu, {_WEIGHTS: checksum}))  # one entry: several come in any order


def digest_of(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """A hash of tensors, by their names, types, shapes and values, and of a text; the same on every device."""
    return _checksum(_on_cpu(tensors), text)


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    on_cpu: dict[str, Tensor] = {}
    stored: set[int] = set()
    for name, tensor in tensors.items():
        copy = tensor.detach().to("cpu").contiguous()
        place = copy.untyped_storage().data_ptr()
        on_cpu[name] = copy.clone() if place in stored else copy  # safetensors refuse weights that share their memory
        stored.add(place)
    return on_cpu


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the description of a checkpoint.

    Raises:
        ValueError: If the file is missing, damaged, or not a checkpoint of CRaWl.
    """
    if not path.is_file():
        raise ValueError(f"There is no checkpoint at {path}.")
    tensors, metadata = _read(path)
    if metadata.get("format") != _FORMAT:
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of CRaWl.")
    text = metadata.get("description", "")
    if metadata.get("checksum") != _checksum(tensors, text):
        raise ValueError(f"The checkpoint {path} does not match its checksum: it was changed or damaged.")
    try:
        description = parse_json(text)
        if not isinstance(description, dict):
            raise ValueError("it is not a dictionary")
    except ValueError as error:
        raise ValueError(f"The description in the checkpoint {path} cannot be read ({error}).") from None
    return tensors, description


def load_weights(path: Path, description: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors that `save_weights` wrote for a description.

    Raises:
        ValueError: If the file is missing, damaged or something else, or was written for another description.
    """
    if not path.is_file():
        raise ValueError(f"There are no weights at {path}.")
    tensors, metadata = _read(path)
    if _WEIGHTS not in metadata:
        raise ValueError(f"{path} is a safetensors file, but not one of a model that CRaWl saved.")
    if metadata[_WEIGHTS] != _checksum(tensors, json.dumps(description)):
        raise ValueError(f"{path} and its description do not match their checksum: one was changed or damaged.")
    return tensors


def _read(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"The checkpoint {path} cannot be read ({error}): it is truncated or damaged.") from error


def check_state(model: nn.Module) -> None:
    """Refuse a model whose state a checkpoint cannot hold."""
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{type(model).__name__} has {name}, which is not a tensor, so a checkpoint would lose it: make it a "
                "buffer (register_buffer), or let get_extra_state return a tensor."
            )
        if is_lazy(value):
            raise ValueError(
                f"{type(model).__name__} has a weight without a size, {name}, as lazy layers have until they are "
                "called: give the number of input channels, or call the model once on some of the data."
            )


def check_weights(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuse weights that do not belong to a model, or that are NaN or infinite where those of the model are not."""
    if tensors.keys() != wanted.keys():
        raise ValueError("The weights belong to another architecture than the model.")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape or tensor.dtype != wanted[name].dtype:
            raise ValueError(f"The weights belong to another architecture than the model: {name}.")
        wrong = ~tensor.isfinite()
        if bool(wrong.any()) and not wanted[name].is_meta:  # a mask may be infinite
            wrong &= wanted[name].to(tensor.device).isfinite()
        if bool(wrong.any()):
            raise ValueError(f"The weights {name} are NaN or infinite.")


def check_moments(moments: Mapping[int, Mapping[str, Tensor]], wanted: Sequence[Mapping[str, Tensor]]) -> None:
    """Refuse what an optimiser cannot remember of its parameters; `wanted` has the names, shapes and dtypes."""
    for i, of_one in moments.items():
        if not 0 <= i < len(wanted):
            raise ValueError(f"optimiser.{i} belongs to no parameter: there are {len(wanted)}.")
        check_weights(
            {f"optimiser.{i}.{name}": moment for name, moment in of_one.items()},
            {f"optimiser.{i}.{name}": moment for name, moment in wanted[i].items()},
        )
        if any(bool((of_one[name] < 0).any()) for name in ("exp_avg_sq", "step") if name in of_one):
            raise ValueError(f"optimiser.{i} has a negative mean of squares, or a negative step.")


def check_history(history: Any, num_epochs: int, score: str) -> None:
    """Refuse a history that does not have one record for each epoch."""
    if not isinstance(history, list) or len(history) != num_epochs:
        raise ValueError(f"The history is not a list of {num_epochs} epochs.")
    for i, record in enumerate(history):
        is_whole = isinstance(record, dict) and record.keys() >= {"epoch", "lr", "loss", "seconds", score}
        numbers = [value for key, value in record.items() if value is not None or key == "loss"] if is_whole else [None]
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers):
            raise ValueError(f"The history of epoch {i + 1} is not a record of numbers.")
        if record["epoch"] != i + 1 or not math.isfinite(record["loss"]) or not 0 <= record["seconds"] < math.inf:
            raise ValueError(f"The history of epoch {i + 1} makes no sense: {record}.")


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
