"""A trained model, loaded from a run: predict with it, ask what it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crawl.checks import MAX_COUNT, MAX_SEED, check_choice, check_type, shown, suggestion, truth, whole_number
from crawl.choices import Batches
from crawl.data.dataset import Dataset
from crawl.data.encoded import with_encodings
from crawl.data.features import Columns
from crawl.data.fingerprint import Fingerprint, task_changes
from crawl.data.given_graphs import (
    GraphLike,
    Graphs,
    are_molecules,
    as_links,
    is_one_graph,
    list_of,
    one_graph_of,
    store_of,
    store_of_readable,
)
from crawl.data.given_pairs import Pairs, pair_ids
from crawl.data.hidden_links import hidden_parts
from crawl.data.link_graph import LinkGraph
from crawl.data.molecules import bonds_of
from crawl.data.one_graph import OneGraph, Store
from crawl.data.packed import PackedStore
from crawl.data.store import GraphStore
from crawl.nn.encoders import UNKNOWN
from crawl.runs.domain import Distances, has_unknown, outside
from crawl.runs.experiment import Model
from crawl.runs.features import HandleUnknown
from crawl.runs.stored import StoredModel
from crawl.training.evaluation import Predictions, embed_with, predict_with, runner_for, with_gaps
from crawl.training.memory_bound import check_full_graph, targets_within
from crawl.training.runner import Runner
from crawl.training.seeds import derive_seed

HandleUnreadable = Literal["error", "nan"]

_PIECE = 4096  # targets of closed batches whose answers are in memory at a time
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


class TrainedModel(StoredModel):
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

    def to(self, device: torch.device | str) -> TrainedModel:
        """The same model, on another device from now on."""
        for member in self.members or (self,):
            member.model.to(device)
        return self

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @property
    def batches(self) -> Batches | None:
        """What a batch of targets of one graph was in training; None for a model of a set of graphs, and where a model
        of an older version does not say."""
        return self.features.batches or getattr(self.experiment.data, "batches", None)

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
        pairs: Pairs | None = None,
        unreadable: HandleUnreadable = "error",
        **how: Unpack[HowToApply],
    ) -> Predictions:
        """Predictions for all graphs, or for all targets of one graph, in their order.

        A pair of nodes is predicted on the graph as it is, with all of its links: a pair that is linked there is seen
        to be linked while it is predicted, unless `hide` says otherwise. The store of `from_links` has the training
        links only.

        Args:
            graphs: A graph or a list of them, with the features of the training data: SMILES strings or molecules of
                rdkit for a model of molecules, PyG data, networkx graphs. Or a store, also of one graph with its
                targets. A model of nodes answers for each node; one that was trained on one graph in closed batches
                takes one graph at a time, as does a model of links. Encodings are computed here, as in the training,
                and edges get a reverse if they did there (`undirected=True`).
            pairs: `[n, 2]` the numbers of the nodes of each pair, for a model of links that is given a graph; of a
                networkx graph, nodes count in its order from 0 on.
            unreadable: What to do about SMILES strings that are not molecules, and molecules that are None or NaN:
                `error` refuses the first of them by name, `nan` gives NaN as their prediction.
            how: As in `HowToApply`: the number of evaluations, the steps and the seed of the walks, sizes of batches.

        Raises:
            ValueError: If the graphs have other features than the model was trained with, or features that are not
                finite.
        """
        if pairs is not None:
            graphs = self._links_of(graphs).with_owners(pair_ids(pairs))
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

        They are means over evaluations with the walks of `predict`, whose arguments these are. Those of an ensemble are
        those of its models, side by side. A model of links compares pairs of nodes by these embeddings of all nodes.
        """
        if self._is_of_links and not isinstance(graphs, GraphStore | OneGraph):
            graphs = self._links_of(graphs)
        store, is_read = self._store(graphs, unreadable)
        if store is None:
            raise ValueError("None of the molecules can be read, so there is nothing to embed.")
        found = np.concatenate(list(self.embeddings_in_pieces(store, **how)))
        return found if is_read is None else with_gaps(found, is_read)

    @property
    def _is_of_links(self) -> bool:
        """Whether the model answers for pairs of nodes of one graph, and not for bonds of molecules."""
        return self.features.task.level == "pair" and not self.features.are_molecules

    def _links_of(self, graphs: Any) -> OneGraph:
        """One graph as a model of links reads it, to be asked about all of its nodes."""
        if isinstance(graphs, GraphStore | OneGraph):
            raise ValueError("A store names its pairs: leave out pairs, or give store.with_owners(pairs).")
        if not self._is_of_links:
            what = {"graph": "graphs", "node": "nodes", "pair": "bonds"}[self.features.task.level]
            raise ValueError(f"The model answers for {what}, not for pairs of nodes: leave out pairs.")
        if self.batches is None:
            raise ValueError("The model, of an older version, does not say what its batches were: give a OneGraph.")
        given = [graphs] if is_one_graph(graphs) else list_of(graphs, "graphs")
        if len(given) != 1 or are_molecules(given):
            raise ValueError(f"The model answers for links of one graph: give it alone, not {shown(graphs)}.")
        return as_links(one_graph_of(given[0], self.batches, undirected=self.features.undirected))

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
            if self.batches == "closed" and isinstance(graphs, GraphStore):
                raise ValueError(
                    "The model was trained with closed batches, which are of one graph, not of a GraphStore: give the "
                    "graph itself, or a OneGraph."
                )
            return graphs, None
        given: Any = [graphs] if is_one_graph(graphs) else list_of(graphs, "graphs")
        has_bonds = self.features.task.level == "pair" and self.features.are_molecules
        if self.features.task.level == "pair" and not (has_bonds and are_molecules(given)):
            raise ValueError("The model answers for pairs of nodes: name them, predict(graph, pairs=[(0, 1)]) say.")
        if are_molecules(given) and (number := self.features.num_parts) > 1:
            raise ValueError(
                f"The model reads {number} molecules side by side: use crawl predict with a table, or read_molecules."
            )
        if are_molecules(given) and not self.features.are_molecules:
            raise ValueError("The model was not trained on molecules: give PyG data or networkx graphs, not molecules.")
        if unreadable == "error" and self.batches is not None and (len(given) == 1 or self.batches == "closed"):
            if len(given) != 1:
                raise ValueError(
                    f"The model was trained with closed batches, which are of one graph: give one at a time, not "
                    f"{len(given)}."
                )
            return one_graph_of(given[0], self.batches, undirected=self.features.undirected), None
        if unreadable == "error":
            store = self.with_descriptors(store_of(given, undirected=self.features.undirected), given)
            return replace(store, **bonds_of(store)) if has_bonds else store, None
        if (level := self.features.task.level) != "graph":
            raise ValueError(
                f"The model answers for {level}s, and unreadable={unreadable!r} is about graphs: leave it out."
            )
        found, is_read = store_of_readable(given)
        readable = [graph for graph, can_be in zip(given, is_read, strict=True) if can_be]
        return None if found is None else self.with_descriptors(found, readable), is_read

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
        """How far graphs are from the training data, by one evaluation.

        A model that was saved to share knows no distances, and tells unknown categories and features outside the range
        of training alone.

        Args:
            graphs: As in `predict`, but all of them must be read.
            how: As in `HowToApply`, without `num_repeats`.

        Raises:
            ValueError: If the model does not tell, and as `predict` does.
        """
        _check_settings(how, "distances")
        if how.get("num_repeats") is not None:
            raise ValueError("Distances are of one evaluation: leave out num_repeats.")
        if not self.knows_far:
            self.known_domain()
        store, _ = self._store(graphs, "error")
        check_type("graphs", store, GraphStore, "give a set of graphs")
        assert isinstance(store, GraphStore)
        if store.is_mapped:
            raise ValueError("Distances of a packed store are asked for piece by piece: give store.subset(ids).")
        store = self.features.prepared(store, how.pop("handle_unknown", "warn"))
        columns = () if self.features.columns is None else self.features.columns.graphs
        told = (has_unknown(store, columns), outside(store, self.features))
        if not self.knows_distances:
            return Distances(None, *told)
        how["num_repeats"] = 1
        percentiles = [member._percentile(store, how) for member in self.members or (self,)]
        return Distances(np.mean(percentiles, axis=0), *told)

    def _percentile(self, store: GraphStore, how: HowToApply) -> NDArray[np.float64]:
        """Which share of the validation graphs is nearer to the training graphs than each graph of a prepared store."""
        return self.known_domain().percentile(self.embed(store, **how)) if len(store) else np.empty(0)

    def predictions_in_pieces(self, store: Store, **how: Unpack[HowToApply]) -> Iterator[Predictions]:
        """Predictions of many targets of closed batches at a time, in their order; everything else comes in one piece.

        The arguments are those of `predict`. A packed store is cut into pieces, too.
        """
        if isinstance(store, PackedStore):
            for part in store.chunks():
                yield from self.predictions_in_pieces(part, **how)
            return
        if self.members:
            store = self.features.prepared(store, how.pop("handle_unknown", "warn"))
            digest = self.digest
            pieces = (member.predictions_in_pieces(store, **how) for member in self.members)
            for each in zip(*pieces, strict=True):
                yield replace(Predictions.of_members(each), weights=digest)
            return
        if truth("hide", how.get("hide", False)):
            yield self._hidden(store, how)
            return
        digest = self.digest
        for runner, ids, settings in self._pieces(store, how):
            yield replace(predict_with(runner, ids, **settings, scaling=self.scaling), weights=digest)

    def embeddings_in_pieces(self, store: Store, **how: Unpack[HowToApply]) -> Iterator[NDArray[np.float32]]:
        """`[n, d]` embeddings, in pieces as `predictions_in_pieces`. The arguments are those of `embed`."""
        if isinstance(store, PackedStore):
            for part in store.chunks():
                yield from self.embeddings_in_pieces(part, **how)
            return
        if self.members:
            store = self.features.prepared(store, how.pop("handle_unknown", "warn"))
            pieces = (member.embeddings_in_pieces(store, **how) for member in self.members)
            yield from (np.concatenate(piece, axis=1) for piece in zip(*pieces, strict=True))
            return
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
        seen: HowToApply = {**how, "hide": False}
        order, answers = [], []
        for ids, part in hidden_parts(store, derive_seed(seed, "hide")):  # one at a time: each has a graph of its own
            order.append(ids)
            answers.append(self.predict(part, **seen))
        if not answers:
            return self.predict(store, **seen)
        found = Predictions.joined(answers)
        assert found.noise is None
        assert found.model_spread is None
        return replace(found, repeats=found.repeats[:, torch.cat(order).argsort().numpy()])

    @property
    def _fate(self) -> str:
        """What is done about categories that did not occur in training."""
        if isinstance(self.experiment.model, Model):
            return "encoded as zeros"
        return f"{UNKNOWN} in what {self.experiment.model.title} gets"

    def _pieces(self, store: Store, how: HowToApply) -> Iterator[tuple[Runner, Tensor, dict[str, Any]]]:
        """What runs the model, the targets of each piece, and how to run it on them."""
        check_type("store", store, (GraphStore, OneGraph), "build one with GraphStore.from_graphs(graphs)")
        _check_settings(how)
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


def _check_settings(how: HowToApply, function: str = "") -> None:
    """Refuse a setting that there is not."""
    for name in how.keys() - HowToApply.__annotations__.keys():
        hint = suggestion(name, HowToApply.__annotations__)
        raise TypeError(f"A trained model has no setting {name!r}{function and f' of {function}'}.{hint}")


def _asked(store: Store) -> Store:
    """The same targets, of which none is drawn anew."""
    return store.subset(torch.arange(len(store))) if isinstance(store, LinkGraph) else store
