"""First weights of a run, taken from another run or a saved model: fine-tuning."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from crawl.plain import structure
from crawl.runs.folder import RunFolder
from crawl.runs.former import renamed
from crawl.runs.packaged import local_model
from crawl.runs.saved import MEMBERS, read_weights
from crawl.training.checkpoint import load_checkpoint, save_checkpoint

_MOST_SHOWN = 6


@dataclass(frozen=True)
class InitialWeights:
    """Which parts of a model began with the weights of another run, and which did not.

    Attributes:
        run: The folder of the other run or saved model, or the file, or the name of a model in the package; of an
            ensemble it says that it is the first model.
        taken: The modules that have its weights.
        fresh: The modules that have weights of their own.
    """

    run: str
    taken: list[str]
    fresh: list[str]

    @classmethod
    def take(cls, model: nn.Module, path: Path) -> InitialWeights:
        """Put into a model the weights of another that fit it by names and shapes.

        The other is a finished run, a checkpoint of one, a saved model, or the name of one in the package; of a saved
        ensemble, its first model. A module gets all its weights and statistics, or none.

        Raises:
            ValueError: If none fits, or there are none.
        """
        tensors, description, _ = read_weights(local_model(path))
        name_of_source = str(path)
        if MEMBERS in description:
            tensors = {name[2:]: tensor for name, tensor in tensors.items() if name.startswith("0.")}
            name_of_source += f", the first of its {len(description[MEMBERS])} models"
        given, own = renamed(tensors, ()), model.state_dict()
        parts: dict[str, list[str]] = {}
        for name in own:
            parts.setdefault(name.rpartition(".")[0], []).append(name)
        fits = {name for name in own if name in given and _alike(own[name], given[name])}
        taken = [part for part, names in parts.items() if fits.issuperset(names)]
        if not taken:
            raise ValueError(f"No weights of {path} fit the model in name and shape: give it the settings of that run.")
        model.load_state_dict({name: given[name] for part in taken for name in parts[part]}, strict=False)
        return cls(name_of_source, taken, [part for part in parts if part not in taken])

    def __str__(self) -> str:
        """One line."""
        fresh = ", ".join(self.fresh[:_MOST_SHOWN]) + (", …" if len(self.fresh) > _MOST_SHOWN else "")
        number = f"{len(self.taken)} of {len(self.taken) + len(self.fresh)} modules begin with weights of {self.run}"
        return f"{number}; fresh: {fresh}." if fresh else f"{number}."

    def keep(self, run: RunFolder, model: nn.Module) -> None:
        """Keep the weights in the folder of the new run, which then does not need the other any more."""
        save_checkpoint(run.initial, model.state_dict(), asdict(self))

    @classmethod
    def restore(cls, run: RunFolder, model: nn.Module) -> dict[str, Any]:
        """Put the weights that a run began with into its model; what a record says about them."""
        tensors, about = load_checkpoint(run.initial)
        model.load_state_dict(tensors)
        return asdict(structure(cls, about, str(run.initial)))


def _alike(own: Any, given: Any) -> bool:
    return bool(own.shape == given.shape and own.dtype == given.dtype and given.isfinite().all())
