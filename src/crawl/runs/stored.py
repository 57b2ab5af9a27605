"""A trained model, or several together, as they are stored: in the folder of a run, or in one to share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from crawl.checks import as_path, check_type, truth, whole_number
from crawl.data.fingerprint import Fingerprint
from crawl.files import parse_json
from crawl.plain import read_checked, structure, unstructure
from crawl.runs.build import build_model, check_given
from crawl.runs.calibration import Calibration
from crawl.runs.cards import model_card
from crawl.runs.description import damage_named, described
from crawl.runs.domain import Domain
from crawl.runs.experiment import Experiment
from crawl.runs.features import Features
from crawl.runs.folder import RunFolder
from crawl.runs.former import renamed
from crawl.runs.records import check_record
from crawl.runs.saved import MEMBERS, is_saved_model, read_weights, write_model
from crawl.runs.uncertainty import WithUncertainty, read_uncertainty
from crawl.runs.where import Where
from crawl.training.checkpoint import check_weights
from crawl.training.evaluation import Scaling
from crawl.training.trainer import choose_device

_NOWHERE = Where()
MOST_MEMBERS = 1000  # of an ensemble


@dataclass(frozen=True)
class _SavedEnsemble:
    members: list[dict[str, Any]]
    record: dict[str, Any]
    calibration: dict[str, Any] | None = None


class StoredModel(WithUncertainty):
    """The best weights of a run with all that belongs to them; the attributes are those of `TrainedModel`."""

    def __init__(
        self,
        model: nn.Module,
        experiment: Experiment,
        features: Features,
        scaling: Scaling,
        record: dict[str, Any],
        data: Fingerprint | None = None,
        where: Where = _NOWHERE,
        calibration: Calibration | None = None,
        domain: Domain | None = None,
        members: Sequence[Self] = (),
    ) -> None:
        self.model, self.experiment, self.features = model.eval(), experiment, features
        self.scaling, self.record, self.data, self.where = scaling, record, data, where
        self.calibration, self.domain, self.members = calibration, domain, tuple(members)

    @classmethod
    def of_members(
        cls, members: Sequence[Self], record: dict[str, Any] | None = None, calibration: Calibration | None = None
    ) -> Self:
        """Several models that were trained alike, as one that predicts their mean."""
        first = members[0]
        shared = (first.model, first.experiment, first.features, first.scaling, record or {}, first.data, first.where)
        return cls(*shared, calibration, None, members)

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: str = "auto",
        *,
        model: nn.Module | None = None,
        eval_start_share: float | None = None,
    ) -> Self:
        """The model of a run's folder, of a folder that `save_pretrained` wrote, or of a checkpoint file.

        Of the folder of an ensemble, its models together.

        Args:
            path: The folder or the file.
            device: Where to compute.
            model: The model, for a run that was given one in Python; it gets the weights.
            eval_start_share: The share of nodes that start a walk in evaluation; that of the run when None.

        Raises:
            ValueError: If there is none, it is damaged, it belongs to another architecture, its calibration is of
                another model, or the share is not above 0 and at most 1.
        """
        path = as_path("path", path)
        if path.is_dir() and RunFolder(path).ensemble.is_file():
            _refuse_given(path, model)
            return cls._of_run(RunFolder(path), device, eval_start_share)
        run = RunFolder(path) if path.is_dir() and not is_saved_model(path) else None
        tensors, description, path = read_weights(path)
        if MEMBERS in description:
            _refuse_given(path, model)
            return cls._of_saved(tensors, description, path, device, eval_start_share)
        if "features" not in description:
            raise ValueError(
                f"{path} is a checkpoint of a training: load best.safetensors, which is there when it is finished."
            )
        loaded = cls._described(tensors, description, path, model, eval_start_share)
        if run is not None:
            features = loaded.features
            found = read_uncertainty(run, loaded.experiment, features.task, features.num_graph_features)
            loaded.calibration, loaded.domain = found
            loaded.check_calibration(run.calibration)
        loaded.model.to(choose_device(device))
        return loaded

    @classmethod
    def _described(
        cls,
        tensors: Mapping[str, Tensor],
        description: Mapping[str, Any],
        path: Path,
        model: nn.Module | None,
        eval_start_share: float | None,
    ) -> Self:
        """The model that these weights and their description make, on the CPU."""
        with damage_named(path):
            experiment, features, scaling, record, data, where = described(description)
        check_given(experiment.model, model, path)
        if eval_start_share is not None:
            if model is not None:
                raise ValueError("A given model walks by its own walk_plan: set it there, not by eval_start_share.")
            if experiment.walk is None:
                raise ValueError(f"{experiment.model.title} does not walk: leave out eval_start_share.")
            experiment = replace(experiment, walk=replace(experiment.walk, eval_start_share=eval_start_share))
        with damage_named(path):
            weights, is_given = renamed(dict(tensors), ()), model is not None
            if model is None:
                with torch.device("meta"), _TablesInMemory():  # takes no memory, however large it claims to be
                    model = build_model(experiment, features)
            check_weights(weights, model.state_dict())
            model.load_state_dict({name: tensor.clone() for name, tensor in weights.items()}, assign=not is_given)
            calibration = None
            if (kept := description.get("calibration")) is not None:
                calibration = Calibration.from_plain(kept, features.task)
        loaded = cls(model, experiment, features, scaling, record, data, where, calibration)
        loaded.check_calibration(path)
        return loaded

    @classmethod
    def _of_run(cls, run: RunFolder, device: str, eval_start_share: float | None) -> Self:
        """The models of a finished ensemble."""
        if not run.result.is_file():
            raise ValueError(
                f"The ensemble {run.path} is not finished: resume it with crawl train --resume {run.path}."
            )
        record = read_checked(run.result, lambda text: check_record(parse_json(text)), "train it again")
        about = record.get("ensemble", {})
        number = whole_number("ensemble.num_members", about.get("num_members"), 2, MOST_MEMBERS)
        places = [run.path / f"member-{i}" for i in range(1, number + 1)]
        members = [cls.load(place, device, eval_start_share=eval_start_share) for place in places]
        for place, member, said in zip(places, members, about.get("members", ()), strict=True):
            if (seed := said.get("seed")) != member.experiment.seed:
                raise ValueError(
                    f"{place} holds a model of seed {member.experiment.seed}, but the ensemble has one of seed {seed} "
                    "there: put its folder back, or train the ensemble again."
                )
        together = cls._together(members, places, record)
        together.calibration, _ = read_uncertainty(run, members[0].experiment, members[0].features.task)
        together.check_calibration(run.calibration)
        return together

    @classmethod
    def _of_saved(
        cls,
        tensors: Mapping[str, Tensor],
        description: dict[str, Any],
        path: Path,
        device: str,
        eval_start_share: float | None,
    ) -> Self:
        """The models of an ensemble that was saved."""
        with damage_named(path):
            known = {key: value for key, value in description.items() if key != "format"}
            found = structure(_SavedEnsemble, known, "The description")
            whole_number("The number of members", len(found.members), 2, MOST_MEMBERS)
            names = {f"{i}.{name}": (i, name) for i in range(len(found.members)) for name in _names(tensors, i)}
            if tensors.keys() != names.keys():
                raise ValueError("the weights are not those of its members")
            record = check_record(found.record) if found.record else {}
        members, places = [], []
        for i, each in enumerate(found.members):
            own = {name: tensors[f"{i}.{name}"] for name in _names(tensors, i)}
            members.append(cls._described(own, each, path, None, eval_start_share))
            places.append(f"Member {i + 1} of {path}")
        together = cls._together(members, places, record)
        if found.calibration is not None:
            with damage_named(path):
                together.calibration = Calibration.from_plain(found.calibration, members[0].features.task)
        together.check_calibration(path)
        for member in members:
            member.model.to(choose_device(device))
        return together

    @classmethod
    def _together(cls, members: Sequence[Self], places: Sequence[Any], record: dict[str, Any]) -> Self:
        """The members of an ensemble as one. Refuses those of other data."""
        for place, member in zip(places, members, strict=True):
            if member.features != members[0].features:
                raise ValueError(f"{place} was trained on other data than the first member of its ensemble.")
        return cls.of_members(members, record)

    def check_calibration(self, place: Path) -> None:
        """Refuse a calibration that was made with other weights; one of an older version does not say."""
        if self.calibration is not None and self.calibration.weights not in ("", self.digest):
            raise ValueError(
                f"{place}: the calibration is of another model, whose intervals would not be those of this one: put "
                "the right one there, or remove it to predict without intervals."
            )

    def save_pretrained(self, folder: Path | str, *, about: str = "", overwrite: bool = False) -> Path:
        """Write the model into a folder to share, which `crawl.from_pretrained` reads; returns the folder.

        It holds `model.safetensors`, `config.json` (with the record of the run, without paths, and its calibration, if
        there is one), and `README.md`, a card that says what the model is, how it scored and how to use it. An ensemble
        is saved in the same files, with all members. Embeddings of the training data are not saved, so `distances` has
        no percentiles then.

        Args:
            folder: A new or empty folder.
            about: Paragraphs for the card: where the data are from, what the model is for, what it is not for.
            overwrite: Replace a model that was saved there.

        Raises:
            ValueError: If the folder holds anything else.
        """
        path, record = as_path("folder", folder), check_record(self.record) if self.record else {}
        check_type("about", about, str)
        members = self.members or (self,)
        if self.members:
            description: dict[str, Any] = {MEMBERS: [member._description() for member in members], "record": record}
            tensors = {
                f"{i}.{name}": tensor
                for i, each in enumerate(members)
                for name, tensor in each.model.state_dict().items()
            }
            description |= {} if self.calibration is None else {"calibration": asdict(self.calibration)}
        else:
            description, tensors = self._description(), self.model.state_dict()
        num_parameters = sum(parameter.numel() for member in members for parameter in member.model.parameters())
        what = (self.experiment, self.features, record, num_parameters)
        card = model_card(path.name, *what, about, len(self.members), self.calibration is not None)
        write_model(path, tensors, description, card, truth("overwrite", overwrite))
        return path

    def _description(self) -> dict[str, Any]:
        """What is saved of one model besides its weights."""
        record = check_record(self.record) if self.record else {}
        experiment = unstructure(self.experiment)
        description: dict[str, Any] = {"experiment": experiment, "features": asdict(self.features), "record": record}
        description |= {"scaling": [self.scaling.mean, self.scaling.deviation]}
        description |= {} if self.data is None else {"data": self.data.to_dict()}
        described(description)  # what would be refused on loading is not written
        return description | ({} if self.calibration is None else {"calibration": asdict(self.calibration)})


def _names(tensors: Mapping[str, Tensor], member: int) -> list[str]:
    """The names that the weights of a member of a saved ensemble have in its own model."""
    return [name.partition(".")[2] for name in tensors if name.partition(".")[0] == str(member)]


def _refuse_given(path: Path, model: nn.Module | None) -> None:
    if model is not None:
        raise ValueError(f"{path} says how to build its models: leave out model.")


class _TablesInMemory(TorchFunctionMode):
    """Within `torch.device("meta")`, tensors made of Python's numbers have them: no checkpoint keeps them."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return function(*args, **({"device": "cpu"} | kwargs if function is torch.tensor else kwargs))
