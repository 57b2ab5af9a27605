"""A trained model, or several, in a folder to share: `config.json`, `model.safetensors` and `README.md`, a card.

Nothing in it is executed on loading. The checksum in the weights is also one of the configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked
from crawl.runs.folder import InUse, RunFolder
from crawl.runs.records import read_config
from crawl.training.checkpoint import load_checkpoint, load_weights, save_weights

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
MEMBERS = "members"  # in the description of an ensemble
_FORMAT = "crawl-model-1"


def write_model(
    folder: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any], card: str, overwrite: bool = False
) -> None:
    """Write a model into a folder, which must be new or empty unless a model that is there is to be overwritten.

    Raises:
        InUse: If the folder holds anything else.
    """
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else {"a file"} if folder.exists() else set()
    if names and not (overwrite and names <= {CONFIG, WEIGHTS, CARD}):
        hint = ", or say overwrite=True" if names <= {CONFIG, WEIGHTS, CARD} else ""
        raise InUse(f"{folder} exists already: choose another folder{hint}.")
    folder.mkdir(parents=True, exist_ok=True)
    content = {"format": _FORMAT, **_as_json(description)}
    save_weights(folder / WEIGHTS, tensors, content)
    write_atomically(folder / CONFIG, json.dumps(content, indent=1) + "\n")
    write_atomically(folder / CARD, card)


def is_saved_model(folder: Path) -> bool:
    """Whether a folder holds a model that was saved by `write_model`, and not a run."""
    return (folder / WEIGHTS).is_file()


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], Path]:
    """The weights and the description of a run's folder, a saved model's folder, or a checkpoint, and their file.

    Raises:
        ValueError: If there is none, or it is damaged.
    """
    if path.is_dir() and is_saved_model(path):
        description = read_checked(path / CONFIG, _description, "save the model again, or load it from its run")
        return load_weights(path / WEIGHTS, description), description, path / WEIGHTS
    if path.is_dir():
        run = RunFolder.open(path)
        if not run.best.is_file() and run.result.is_file():
            raise ValueError(f"The weights of the run {path} were removed: remove its folder and train it again.")
        if not run.best.is_file():
            how = read_config(run.config).how_to_resume(path)
            raise ValueError(f"The run {path} is not finished: resume it with {how}.")
        path = run.best
    if path.name == WEIGHTS and (path.parent / CONFIG).is_file():
        raise ValueError(f"{path} is a part of a saved model: give its folder, {path.parent}.")
    return *load_checkpoint(path), path


def _description(text: str) -> dict[str, Any]:
    content = parse_json(text)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError("it does not describe a model that was saved")
    return content


def _as_json(description: Mapping[str, Any]) -> dict[str, Any]:
    """The description as it is read again: with lists for tuples."""
    plain: dict[str, Any] = parse_json(json.dumps(description))
    return plain
