"""A trained model, loaded from a run: predict with it, ask what it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from crawl.checks import MAX_COUNT, MAX_SEED, as_path, check_choice, check_type, shown, suggestion, truth, whole_number
from crawl.data.dataset import Dataset
from crawl.data.encoded import with_encodings
from crawl.data.features import Columns
from crawl.data.fingerprint import Fingerprint, task_changes
from crawl.data.given_graphs import GraphLike, Graphs, are_molecules, is_one_graph, list_of, store_of, store_of_readable
from crawl.data.hidden_links import hidden_parts
from crawl.data.link_graph import LinkGraph
from crawl.data.one_graph import OneGraph, Store
from crawl.data.store import GraphStore
from crawl.files import parse_json
from crawl.nn.encoders import UNKNOWN
from crawl.plain import read_checked, unstructure
from crawl.runs.build import build_model, check_given
from crawl.runs.calibration import Calibration
from crawl.runs.cards import model_card
from crawl.runs.description import damage_named, described
from crawl.runs.domain import Distances, Domain, has_unknown
from crawl.runs.experiment import Experiment, Model
from crawl.runs.features import Features, HandleUnknown
from crawl.runs.folder import RunFolder
from crawl.runs.former import renamed
from crawl.runs.records import check_record
from crawl.runs.saved import read_weights, write_model
from crawl.runs.uncertainty import WithUncertainty, read_uncertainty
from crawl.runs.where import Where
from crawl.training.checkpoint import check_weights
from crawl.training.evaluation import Predictions, Scaling, embed_with, predict_with, runner_for, with_gaps
from crawl.training.memory_bound import check_full_graph, targets_within
from crawl.training.runner import Runner
from crawl.training.seeds import derive_seed
from crawl.training.trainer import choose_device

HandleUnreadable = Literal["error", "nan"]

_NOWHERE = Where()
MOST_MEMBERS = 1000  # of an ensemble
_PIECE = 100_000  # targets of closed batches whose answers are in memory at a time
_NOT_COMPARED = (
    "The data cannot be compared with those of the training, because the run is of an older version that kept only "
    "their split and names."
)


class HowToApply(TypedDict, total=False):
    """How a trained model is applied to graphs; what is left out or None is as in its run.

    Attributes:
        num_repeats: Evaluations to average.
        num_steps: Steps of the walks.
        seed: Of the walks; 0 when left out. A graph gets the same prediction, up to rounding, whatever else is in the
            store, unless the model draws from torch's generator itself, or makes walks on a `Graph` without
            `graph_keys`.
        batch_size: Graphs per step, or targets of closed batches. Changes no result, with the same exceptions.
        memory_gb: Instead, the memory that a closed batch may take besides the graph; what a target takes is measured
            on a few. A batch of the full graph that would take more is refused.
        on_batch: Called after every step.
        handle_unknown: What to do about categories that did not occur in training: `warn` encodes them as zeros, or
            gives a model of one's own a large negative number for them, and warns once; `error` refuses them.
        hide: For predictions of pairs of nodes: hide the link of a pair, if there is one, while the pair is predicted.
            All pairs, linked or not, are predicted on the graph without a tenth of its links, in ten evaluations
            instead of one; see `crawl.data.hidden_links`.
    """

    num_repeats: int | None
    num_steps: int | None
    seed: int
    batch_size: int | None
    memory_gb: float | None
    on_batch: Callable[[], None] | None
    handle_unknown: HandleUnknown
    hide: bool


class TrainedModel(WithUncertainty):
    """The best weights of a run, ready to predict.

    Attributes:
        model: The network, in evaluation mode.
        experiment: What it was trained with.
        features: What it expects of graphs, and what it answers.
        record: The content of the run's `result.json`.
        data: The fingerprint of the data it was trained on; None in checkpoints of older versions.
        where: Where it was trained, and where its data were.
        calibration: What the validation part says about predictions; None if the run has none.
        domain: What is near to its training graphs; None if the run does not tell.
        members: The models of an ensemble, which predict together; `model` is the first of them. () for a single one.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        experiment: Experiment,
        features: Features,
        scaling: Scaling,
        record: dict[str, Any],
        data: Fingerprint | None = None,
        where: Where = _NOWHERE,
        calibration: Calibration | None = None,
        domain: Domain | None = None,
        members: Sequence[TrainedModel] = (),
    ) -> None:
        self.model, self.experiment, self.features = model.eval(), experiment, features
        self.scaling, self.record, self.data, self.where = scaling, record, data, where
        self.calibration, self.domain, self.members = calibration, domain, tuple(members)

    @classmethod
    def of_members(
        cls,
        members: Sequence[TrainedModel],
        record: dict[str, Any] | None = None,
        calibration: Calibration | None = None,
    ) -> TrainedModel:
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
    ) -> TrainedModel:
        """The model of a run's folder, of a folder that `save_pretrained` wrote, or of a checkpoint file.

        Of the folder of an ensemble, its models together.

        Args:
            path: The folder or the file.
            device: Where to compute.
            model: The model, for a run that was given one in Python; it gets the weights.
            eval_start_share: The share of nodes that start a walk in evaluation; that of the run when None.

        Raises:
            ValueError: If there is none, it is damaged, it belongs to another architecture, or the share is not above 0
                and at most 1.
        """
        path = as_path("path", path)
        if path.is_dir() and RunFolder(path).ensemble.is_file():
            if model is not None:
                raise ValueError(f"{path} says how to build its models: leave out model.")
            return cls._load_members(RunFolder(path), device, eval_start_share)
        run = RunFolder(path) if path.is_dir() else None
        tensors, description, path = read_weights(path)
        if "features" not in description:
            raise ValueError(
                f"{path} is a checkpoint of a training: load best.safetensors, which is there when it is finished."
            )
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
            weights, is_given = renamed(tensors, ()), model is not None
            if model is None:
                with torch.device("meta"), _TablesInMemory():  # takes no memory, however large it claims to be
                    model = build_model(experiment, features)
            check_weights(weights, model.state_dict())
            model.load_state_dict({name: tensor.clone() for name, tensor in weights.items()}, assign=not is_given)
        calibration = domain = None
        if run is not None:
            number = features.num_graph_features
            calibration, domain = read_uncertainty(run, experiment, features.task, number)
        model = model.to(choose_device(device))
        return cls(model, experiment, features, scaling, record, data, where, calibration, domain)

    @classmethod
    def _load_members(cls, run: RunFolder, device: str, eval_start_share: float | None) -> TrainedModel:
        """The models of a finished ensemble."""
        if not run.result.is_file():
            raise ValueError(
                f"The ensemble {run.path} is not finished: resume it with crawl train --resume {run.path}."
            )
        record = read_checked(run.result, lambda text: check_record(parse_json(text)), "train it again")
        number = whole_number("ensemble.num_members", record.get("ensemble", {}).get("num_members"), 2, MOST_MEMBERS)
        places = [run.path / f"member-{i}" for i in range(1, number + 1)]
        members = [cls.load(place, device, eval_start_share=eval_start_share) for place in places]
        for place, member in zip(places, members, strict=True):
            if member.features != members[0].features:
                raise ValueError(f"{place} was trained on other data than the first member of its ensemble.")
        calibration, _ = read_uncertainty(run, members[0].experiment, members[0].features.task)
        return cls.of_members(members, record, calibration)

    def to(self, device: torch.device | str) -> TrainedModel:
        """The same model, on another device from now on."""
        for member in self.members or (self,):
            member.model.to(device)
        return self

    def save_pretrained(self, folder: Path | str, *, about: str = "", overwrite: bool = False) -> Path:
        """Write the model into a folder to share, which `crawl.from_pretrained` reads; returns the folder.

        It holds `model.safetensors`, `config.json` (with the record of the run, without paths), and `README.md`, a card
        that says what the model is, how it scored and how to use it.

        Args:
            folder: A new or empty folder.
            about: Paragraphs for the card: where the data are from, what the model is for, what it is not for.
            overwrite: Replace a model that was saved there.

        Raises:
            ValueError: If the folder holds anything else, or this is an ensemble.
        """
        if self.members:
            raise ValueError(
                f"An ensemble of {len(self.members)} models is not saved as one: save each of its members."
            )
        record = check_record(self.record) if self.record else {}
        experiment = unstructure(self.experiment)
        description: dict[str, Any] = {"experiment": experiment, "features": asdict(self.features), "record": record}
        description |= {"scaling": [self.scaling.mean, self.scaling.deviation]}
        description |= {} if self.data is None else {"data": self.data.to_dict()}
        described(description)  # what would be refused on loading is not written
        tensors, path = self.model.state_dict(), as_path("folder", folder)
        num_parameters = sum(parameter.numel() for parameter in self.model.parameters())
        check_type("about", about, str)
        card = model_card(path.name, self.experiment, self.features, record, num_parameters, about)
        write_model(path, tensors, description, card, truth("overwrite", overwrite))
        return path

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def check_data(self, dataset: Dataset) -> None:
        """Refuse other data than those the model was trained on; warns if a checkpoint cannot tell.

        Raises:
            ValueError: With everything that is different, classes and targets by name.
        """
        if self.data is None:  # of an older version
            changes = task_changes(self.features.task, dataset.task)
            warnings.warn(_NOT_COMPARED, UserWarning, stacklevel=2)
        else:
            changes = self.data.changes_to(Fingerprint.of(dataset))
        if changes:
            raise ValueError(
                f"The data have changed since the model was trained: {'; '.join(changes)}. "
                "Give those it was trained on, or train again."
            )

    def predict(
        self,
        graphs: Store | GraphLike | Graphs,
        *,
        unreadable: HandleUnreadable = "error",
        **how: Unpack[HowToApply],
    ) -> Predictions:
        """Predictions for all graphs, or for all targets of one graph, in their order.

        A pair of nodes is predicted on the graph as it is, with all of its links: a pair that is linked there is seen
        to be linked while it is predicted, unless `hide` says otherwise.

        Args:
            graphs: A graph or a list of them, with the features of the training data: SMILES strings or molecules of
                rdkit for a model of molecules, PyG data, networkx graphs. Or a store, also of one graph with its
                targets. A model of nodes answers for each node. Encodings are computed here, as in the training.
            unreadable: What to do about SMILES strings that are not molecules, and molecules that are None or NaN:
                `error` refuses the first of them by name, `nan` gives NaN as their prediction.
            how: As in `HowToApply`: the number of evaluations, the steps and the seed of the walks, sizes of batches.

        Raises:
            ValueError: If the graphs have other features than the model was trained with, or features that are not
                finite.
        """
        store, is_read = self._store(graphs, unreadable)
        if store is None:
            raise ValueError("None of the molecules can be read, so there is nothing to predict.")
        found = Predictions.joined(list(self.predictions_in_pieces(store, **how)))
        return found if is_read is None else found.with_gaps(is_read)

    def embed(
        self,
        graphs: Store | GraphLike | Graphs,
        *,
        unreadable: HandleUnreadable = "error",
        **how: Unpack[HowToApply],
    ) -> NDArray[np.float32]:
        """`[n, d]` embeddings: what the head of the network sees of each graph, pooled, or of each node.

        They are means over evaluations with the walks of `predict`, whose arguments these are.
        """
        store, is_read = self._store(graphs, unreadable)
        if store is None:
            raise ValueError("None of the molecules can be read, so there is nothing to embed.")
        found = np.concatenate(list(self.embeddings_in_pieces(store, **how)))
        return found if is_read is None else with_gaps(found, is_read)

    def _store(
        self, graphs: Store | GraphLike | Graphs, unreadable: HandleUnreadable
    ) -> tuple[Store | None, NDArray[np.bool_] | None]:
        """What can be read of graphs, None if that is nothing, and which are read, None if all are.

        Refuses molecules if the model was trained on something else, and graphs where pairs of nodes are asked for.
        """
        check_choice("unreadable", unreadable, get_args(HandleUnreadable))
        if isinstance(graphs, GraphStore | OneGraph):
            if unreadable != "error":
                raise ValueError(f"All graphs of a store are read already: leave out unreadable={unreadable!r}.")
            return graphs, None
        if self.features.task.level == "pair":
            raise ValueError("The model answers for pairs of nodes: give a store that names them, as from_links does.")
        given: Any = [graphs] if is_one_graph(graphs) else list_of(graphs, "graphs")
        if are_molecules(given) and (number := self.features.num_parts) > 1:
            raise ValueError(
                f"The model reads {number} molecules side by side: use crawl predict with a table, or read_molecules."
            )
        if are_molecules(given) and not self.features.are_molecules:
            raise ValueError("The model was not trained on molecules: give PyG data or networkx graphs, not molecules.")
        if unreadable == "error":
            return self.with_descriptors(store_of(given), given), None
        if self.features.task.level != "graph":
            raise ValueError(
                f"The model answers for nodes, and unreadable={unreadable!r} is about graphs: leave it out."
            )
        store, is_read = store_of_readable(given)
        readable = [graph for graph, can_be in zip(given, is_read, strict=True) if can_be]
        return None if store is None else self.with_descriptors(store, readable), is_read

    def with_descriptors(self, store: GraphStore, graphs: Sequence[Any]) -> GraphStore:
        """Molecules with the descriptors that the model was trained with; other graphs as they are.

        Refuses molecules if the model also needs what was in columns of a table.
        """
        columns = self.features.columns or Columns()
        if not are_molecules(graphs) or not (columns.graphs or columns.descriptors):
            return store
        if columns.graphs:
            names = ", ".join(column.name for column in columns.graphs)
            raise ValueError(
                f"The model also needs the columns {names}, which a molecule alone does not have: use crawl predict "
                "with a table, or read_molecules."
            )
        from crawl.data.descriptors import descriptors_of

        return replace(store, u=torch.from_numpy(descriptors_of(graphs, columns.descriptors)))

    def distances(self, graphs: GraphStore | GraphLike | Graphs, **how: Unpack[HowToApply]) -> Distances:
        """How far graphs are from the training data, by one evaluation; the arguments are those of `predict`.

        Raises:
            ValueError: If the run does not tell, and as `predict` does.
        """
        store, _ = self._store(graphs, "error")
        check_type("graphs", store, GraphStore, "give a set of graphs")
        assert isinstance(store, GraphStore)
        if not self.members:
            self.known_domain()
        store = self.features.prepared(store, how.pop("handle_unknown", "warn"))
        if self.members:
            found = [member.distances(store, **how) for member in self.members]
            return Distances(np.mean([each.percentile for each in found], axis=0), found[0].has_unknown)
        if how.get("num_repeats") is not None:
            raise ValueError("Distances are of one evaluation: leave out num_repeats.")
        how["num_repeats"] = 1
        percentile = self.known_domain().percentile(self.embed(store, **how)) if len(store) else np.empty(0)
        columns = () if self.features.columns is None else self.features.columns.graphs
        return Distances(percentile, has_unknown(store, columns))

    def predictions_in_pieces(self, store: Store, **how: Unpack[HowToApply]) -> Iterator[Predictions]:
        """Predictions of many targets of closed batches at a time, in their order; everything else comes in one piece.

        The arguments are those of `predict`.
        """
        if self.members:
            store = self.features.prepared(store, how.pop("handle_unknown", "warn"))
            pieces = (member.predictions_in_pieces(store, **how) for member in self.members)
            yield from map(Predictions.of_members, zip(*pieces, strict=True))
            return
        if truth("hide", how.get("hide", False)):
            yield self._hidden(store, how)
            return
        for runner, ids, settings in self._pieces(store, how):
            yield predict_with(runner, ids, **settings, scaling=self.scaling)

    def embeddings_in_pieces(self, store: Store, **how: Unpack[HowToApply]) -> Iterator[NDArray[np.float32]]:
        """`[n, d]` embeddings, in pieces as `predictions_in_pieces`. The arguments are those of `embed`."""
        if self.members:
            raise ValueError("The models of an ensemble have embeddings of their own: load one of them, as member-1.")
        if truth("hide", how.get("hide", False)):
            raise ValueError("hide=True hides links while pairs of nodes are predicted: leave it out.")
        for runner, ids, settings in self._pieces(store, how):
            yield embed_with(runner, ids, **settings)

    def _hidden(self, store: Store, how: HowToApply) -> Predictions:
        """Predictions for pairs of nodes, each on the graph without the links of its part."""
        check_type("store", store, OneGraph, "hide=True is for pairs of nodes of one graph")
        seed = whole_number("seed", how.get("seed", 0), -MAX_SEED, MAX_SEED)
        store = _asked(self.features.prepared(store, how.get("handle_unknown", "warn"), self._fate))
        assert isinstance(store, OneGraph)
        parts = list(hidden_parts(store, derive_seed(seed, "hide")))
        seen: HowToApply = {**how, "hide": False}
        if not parts:
            return self.predict(store, **seen)
        found = Predictions.joined([self.predict(part, **seen) for _, part in parts])
        assert found.noise is None
        assert found.model_spread is None
        return replace(found, repeats=found.repeats[:, torch.cat([ids for ids, _ in parts]).argsort().numpy()])

    @property
    def _fate(self) -> str:
        """What is done about categories that did not occur in training."""
        if isinstance(self.experiment.model, Model):
            return "encoded as zeros"
        return f"{UNKNOWN} in what {self.experiment.model.title} gets"

    def _pieces(self, store: Store, how: HowToApply) -> Iterator[tuple[Runner, Tensor, dict[str, Any]]]:
        """What runs the model, the targets of each piece, and how to run it on them."""
        check_type("store", store, (GraphStore, OneGraph), "build one with GraphStore.from_graphs(graphs)")
        for name in how.keys() - HowToApply.__annotations__.keys():
            hint = suggestion(name, HowToApply.__annotations__)
            raise TypeError(f"A trained model has no setting {name!r}.{hint}")
        is_network, evaluation = isinstance(self.experiment.model, Model), self.experiment.evaluation
        num_steps, batch_size, memory_gb = how.get("num_steps"), how.get("batch_size"), how.get("memory_gb")
        if num_steps is not None and is_network and self.experiment.walk is None:
            raise ValueError(f"{self.experiment.model.title} does not walk: leave out num_steps.")
        num_steps = None if num_steps is None else whole_number("num_steps", num_steps, 1, MAX_COUNT - 1)
        num_repeats = how.get("num_repeats")
        num_repeats = evaluation.num_test_repeats if num_repeats is None else num_repeats
        num_repeats = whole_number("num_repeats", num_repeats, 1, MAX_COUNT)
        if memory_gb is not None and (batch_size is not None or isinstance(store, GraphStore)):
            other = "batch_size says it, too" if batch_size is not None else "for a set of graphs, use batch_size"
            raise ValueError(f"memory_gb={shown(memory_gb)} chooses the targets in a batch: leave it out; {other}.")
        seed = derive_seed(whole_number("seed", how.get("seed", 0), -MAX_SEED, MAX_SEED), "predict")
        store = _asked(self.features.prepared(store, how.get("handle_unknown", "warn"), self._fate))
        store = with_encodings(store, self.experiment.encodings)
        is_full = isinstance(store, OneGraph) and store.batches == "full"
        if not is_full and batch_size is None:
            batch_size = evaluation.batch_size
        has_noise = self.experiment.training.has_noise
        runner, batch_size = runner_for(self.model, self.features.task, store, num_repeats, batch_size, has_noise)
        if is_full:
            check_full_graph(runner, memory_gb, num_steps=num_steps)
        elif memory_gb is not None:
            batch_size = targets_within(runner, memory_gb, num_steps=num_steps)
        settled: Any = {"num_repeats": num_repeats, "num_steps": num_steps, "seed": seed, "batch_size": batch_size}
        settled |= {"on_batch": how.get("on_batch")}
        is_one_piece = is_full or isinstance(store, GraphStore)
        for ids in torch.split(torch.arange(len(store)), max(len(store), 1) if is_one_piece else _PIECE):
            yield runner, ids, settled


def _asked(store: Store) -> Store:
    """The same targets, of which none is drawn anew."""
    return store.subset(torch.arange(len(store))) if isinstance(store, LinkGraph) else store


class _TablesInMemory(TorchFunctionMode):
    """Within `torch.device("meta")`, tensors made of Python's numbers have them: no checkpoint keeps them."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return function(*args, **({"device": "cpu"} | kwargs if function is torch.tensor else kwargs))
