"""Estimators for one graph, a networkx graph or PyG data: the nodes whose labels are known in, all others out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import check_choice, shown, truth, whole_number
from crawl.choices import Batches
from crawl.data.dataset import Dataset
from crawl.data.given_graphs import one_graph_of
from crawl.data.nodes import USED, check_classes, check_labels, check_training
from crawl.data.one_graph import OneGraph
from crawl.data.pyg import warn_of_unused
from crawl.data.splits import Split
from crawl.data.task import Task
from crawl.estimators.base import CRaWlEstimator
from crawl.estimators.inputs import Array, categories_in, checked_classes, class_task, classes_of, numbers_of
from crawl.estimators.node_targets import (
    Nodes,
    OneGraphLike,
    check_graph,
    chosen_masks,
    labelled,
    names_of,
    node_ids,
    weights_at,
    without_reverse,
)
from crawl.runs.experiment import Experiment, Model
from crawl.training.evaluation import Predictions
from crawl.training.trainer import choose_device


@dataclass(eq=False, repr=False)
class OneGraphEstimator(CRaWlEstimator):
    """What estimators for one graph share: its parameters, and from a graph and some of its nodes to a store."""

    num_eval_steps: int = 50
    max_epochs: int = 300
    patience: int = 50
    layer: tuple[str, ...] = ("walk", "gated_gcn")
    batches: Batches = "full"
    batch_size: int | None = None
    memory_gb: float | None = None
    num_walks: int | None = None
    num_eval_walks: int | None = None

    def _how(self, seed: int) -> Experiment:
        """What to do; refuses a size of batches where a batch is the full graph."""
        self._check_parameters()
        check_choice("batches", self.batches, get_args(Batches))
        batch_size = self.batch_size
        if batch_size is not None and self.batches == "full":
            raise ValueError(
                f"A batch of the full graph has all targets, so batch_size={shown(batch_size)} cannot change anything: "
                "leave it out, or give batches='closed'."
            )
        if batch_size is not None:
            batch_size = whole_number("batch_size", batch_size, 1, 2**31 - 1)
        layers: Any = {"hidden_channels": self.hidden_channels, "num_layers": self.num_layers, "dropout": self.dropout}
        model, is_closed = Model(self.layer, **layers), self.batches == "closed"
        if is_closed and not model.has_walks:
            raise ValueError(f"Closed batches are walks, and {model.title} does not walk: use batches='full'.")
        num_walks = (2 if is_closed else 1) if self.num_walks is None else whole_number("num_walks", self.num_walks)
        numbers: Any = {"num_walks": num_walks, "num_eval_walks": self.num_eval_walks}
        return self._experiment(seed, model, batch_size, centred=is_closed, **numbers)

    def _store(self, graph: OneGraphLike, nodes: Nodes) -> OneGraph:
        """The graph, with these nodes as targets without `y`; all when None."""
        check_graph(graph)
        store = one_graph_of(graph, self.batches, None if nodes is None else node_ids(graph, nodes))
        if self.batches == "closed" and store.graph.one_way is not None:
            edge, remedy = without_reverse(graph, store.graph.one_way)
            raise ValueError(
                f"Closed batches walk edges in both directions, but the {edge}: {remedy}, or use batches='full'."
            )
        return store

    def _applied(self) -> dict[str, Any]:
        """How the fitted model is applied; refuses one that is not fitted."""
        check_is_fitted(self)
        self.model_.model.to(choose_device(self.device))
        experiment = self.model_.experiment
        num_repeats = 1 if experiment.walk is None else self.num_repeats
        how: dict[str, Any] = {"num_repeats": num_repeats, "seed": experiment.seed}
        return {**how, "memory_gb": self.memory_gb, "handle_unknown": self.handle_unknown}

    def embed(self, X: OneGraphLike, nodes: Nodes = None) -> NDArray[np.float32]:
        """`[n, hidden_channels]` what the head of the network sees of each node, or of those in `nodes`."""
        how = self._applied()
        return self.model_.embed(self._store(X, nodes), **how)

    def transform(self, X: OneGraphLike) -> NDArray[np.float32]:
        """The same as `embed` for all nodes, as scikit-learn calls it."""
        return self.embed(X)


@dataclass(frozen=True)
class _Known:
    """What is known of nodes.

    Attributes:
        owners: `[M]` the numbers of the nodes whose target is known, each once.
        names: `[M]` what they are called: nodes of a networkx graph, or numbers.
        values: `[M]` their targets.
        given: The nodes that were asked for, known or not.
        masks: The masks of PyG data, if they chose the nodes.
    """

    owners: Tensor
    names: list[Any]
    values: NDArray[Any]
    given: Tensor
    masks: dict[str, Tensor] | None


class _NodeEstimator(OneGraphEstimator):
    """What estimators for targets of nodes share."""

    def _known(self, X: OneGraphLike, y: Any, nodes: Nodes, fold: int, parts: tuple[str, ...]) -> _Known:
        """What is known of nodes; where masks hold, of those in these parts."""
        check_graph(X)
        masks = chosen_masks(X, y, nodes, fold)
        if masks is not None:
            nodes = torch.stack([masks[part] for part in parts]).any(dim=0).nonzero().flatten()
        owners, values, given = labelled(X, y, nodes)
        return _Known(owners, names_of(X, owners), values, given, masks)

    def _learn(self, X: OneGraphLike, known: _Known, targets: Tensor, task: Task, weights: Any, loss: Any) -> None:
        """Train on targets of the known nodes."""
        seed = self._seed()
        experiment = self._how(seed)
        experiment = replace(experiment, training=replace(experiment.training, loss=loss))
        owners, masks = known.owners, known.masks
        if masks is not None and bool(masks["val"][owners].any()):
            train, val = (masks[part][owners].nonzero().flatten() for part in ("train", "val"))
            split = Split(train, val, torch.empty(0, dtype=torch.long))
            check_training(split)
        else:
            split = self._split(targets, task, seed, "node")
        if task.kind != "regression":
            check_classes(targets, split, task.class_names)
        store = self._store(X, None)
        found = None if weights is None else weights_at(weights, X, owners, known.given)
        dataset = Dataset(
            name=type(self).__name__,
            store=replace(store, owners=owners, y=targets, sample_weight=found),
            task=task,
            split=split,
            node_categories=categories_in("x", store.x, False),
            edge_categories=categories_in("edge_attr", store.edge_attr, False),
        )
        if isinstance(X, Data):
            warn_of_unused(X, USED)
        self._train(dataset, experiment)

    def _predict(self, graph: OneGraphLike, nodes: Nodes) -> Predictions:
        how = self._applied()
        return self.model_.predict(self._store(graph, nodes), **how)

    def _compared(self, X: OneGraphLike, y: Any, nodes: Nodes, fold: int) -> _Known:
        """What is known of the nodes that `score` compares."""
        check_is_fitted(self)
        known = self._known(X, y, nodes, fold, ("test",))
        if not len(known.owners):
            raise ValueError("No node has a target to compare with: give y, or name nodes whose target is known.")
        return known


class CRaWlNodeClassifier(ClassifierMixin, _NodeEstimator):  # type: ignore[misc]
    """Predicts classes of the nodes of a graph, of the one it has learned from or of another with the same features.

    A graph is a networkx graph or PyG data, with features as for `CRaWlClassifier`.

    Args:
        hidden_channels: The width of the layers.
        num_layers: The number of layers.
        window_size: How far back the structural bits look (s).
        num_steps: Steps of the walks in training.
        num_eval_steps: Steps of the walks in prediction.
        num_repeats: Evaluations, each with its own walks, that a prediction averages.
        dropout: The dropout rate.
        lr: The first learning rate.
        max_epochs: Stop after this many epochs at the latest; with batches of the full graph, an epoch is one step.
        patience: Halve the learning rate after this many epochs without a better validation score.
        validation_fraction: The share of the labelled nodes that choose the best epoch and are not trained on.
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        random_state: The seed of everything random; None draws one.
        handle_unknown: As for `CRaWlRegressor`, as are `encodings` and `pretraining`.
        layer: The blocks of a layer; see `crawl.Network`. A network that does not walk, such as `("gcn",)`, needs
            batches of the full graph, and settings of walks change nothing then.
        batches: Whether a batch is the `full` graph, or `closed` walks around its targets, for graphs of any size.
        batch_size: Nodes per closed batch in training; 50 when None.
        memory_gb: The memory that a closed batch may take in prediction, instead of a batch size; a batch of the full
            graph that would take more is refused.
        num_walks: Walks from each target of closed batches, 2 when None, or from each node of the full graph, 1 when
            None. More see more of a node with many neighbours; time grows with their number.
        num_eval_walks: The same in prediction; as many as in training when None.

    Attributes:
        classes_: The classes in their order.
        model_, history_, n_iter_: As for `CRaWlRegressor`.
    """

    def fit(
        self, X: OneGraphLike, y: Any = None, nodes: Nodes = None, sample_weight: Any = None, fold: int = 0
    ) -> Self:
        """Learn the classes of some nodes of a graph.

        Args:
            X: The graph.
            y: The classes, integers or words: one for each of `nodes`, or for each node of the graph in its order, or a
                dict from nodes, or a Series of pandas with nodes of a networkx graph as its index. None and NaN are
                missing; numbers below 0 are refused, since -1 often stands for a class that is missing. The `y` of PyG
                data, or the attribute `y` of the nodes of a networkx graph, when None. Where `nodes` names all nodes
                in another order than that of the graph, a list is refused: it might be in either order.
            nodes: The nodes to learn from: a mask, or their numbers, or the nodes themselves for a networkx graph. When
                None, those in `train_mask` of PyG data, with those in `val_mask` to validate, also if `y` is given for
                all nodes; without masks, or if `y` names its nodes, all whose class is not missing.
            sample_weight: How much each node counts in training, numbers of 0 or more: one for each of `nodes`, or of
                `y`, or for each node of the graph, or by name, as `y`; all count alike when None.
            fold: The column of masks that have several.

        Raises:
            ValueError: For graphs, classes, weights or nodes that cannot be used; the message says which and why.
        """
        known = self._known(X, y, nodes, fold, ("train", "val"))
        _check_numbers(known)
        _check_enough(known)
        classes, targets = classes_of(known.values, known.names)
        self._learn(X, known, targets, class_task(classes, "node"), sample_weight, "auto")
        self.classes_ = classes
        return self

    def predict_proba(self, X: OneGraphLike, nodes: Nodes = None) -> Array:
        """`[n, num_classes]` probabilities for all nodes, or for those in `nodes`, in the order of `classes_`."""
        return self._predict(X, nodes).for_each_class().mean

    def predict(self, X: OneGraphLike, nodes: Nodes = None) -> NDArray[Any]:
        """`[n]` the most probable class of each node, or of those in `nodes`."""
        codes = self._predict(X, nodes).classes  # which refuses a model that is not fitted
        predicted: NDArray[Any] = self.classes_[codes]
        return predicted

    def score(self, X: OneGraphLike, y: Any = None, nodes: Nodes = None, fold: int = 0) -> float:
        """The accuracy on the nodes with a class; on those in `test_mask` of PyG data, if no nodes are named.

        The arguments are those of `fit`, and what `fit` refuses as classes is refused, as are numbers if the classes of
        the model are words, and the other way round.
        """
        known = self._compared(X, y, nodes, fold)
        _check_numbers(known)
        given, own = (_are_words(labels) for labels in (checked_classes(known.values, known.names), self.classes_))
        if given != own:
            what, others = ("words", "numbers") if given else ("numbers", "words")
            raise ValueError(
                f"y holds {what}, such as {shown(known.values.tolist()[0])}, and the classes of the model are "
                f"{others}, such as {shown(self.classes_.tolist()[0])}: give the classes as fit had them."
            )
        return float(np.mean(self.predict(X, known.names) == known.values))


@dataclass(eq=False, repr=False)
class CRaWlNodeRegressor(RegressorMixin, _NodeEstimator):  # type: ignore[misc]
    """Predicts a number for each node of a graph, of the one it has learned from or of another with the same features.

    The arguments are those of `CRaWlNodeClassifier`.

    Args:
        loss: `l1`, `mse`, or `beta_nll`, with which the network also learns how far targets scatter; `auto` is `l1`.

    Attributes:
        model_, history_, n_iter_: As for `CRaWlRegressor`.
    """

    loss: Literal["auto", "l1", "mse", "beta_nll"] = "auto"

    def fit(
        self, X: OneGraphLike, y: Any = None, nodes: Nodes = None, sample_weight: Any = None, fold: int = 0
    ) -> Self:
        """Learn the numbers of some nodes of a graph. The arguments are those of `CRaWlNodeClassifier.fit`.

        Raises:
            ValueError: For graphs, numbers, weights or nodes that cannot be used; the message says which and why.
        """
        known = self._known(X, y, nodes, fold, ("train", "val"))
        _check_enough(known)
        targets = numbers_of(known.values, known.names).unsqueeze(1)
        self._learn(X, known, targets, Task(kind="regression", level="node", num_outputs=1), sample_weight, self.loss)
        return self

    @overload
    def predict(self, X: OneGraphLike, nodes: Nodes = None, *, return_walk_spread: Literal[False] = False) -> Array: ...
    @overload
    def predict(
        self, X: OneGraphLike, nodes: Nodes = None, *, return_walk_spread: Literal[True]
    ) -> tuple[Array, Array]: ...
    def predict(
        self, X: OneGraphLike, nodes: Nodes = None, *, return_walk_spread: bool = False
    ) -> Array | tuple[Array, Array]:
        """`[n]` the number of each node, or of those in `nodes`.

        Args:
            X: The graph.
            nodes: The nodes; all when None.
            return_walk_spread: As in `CRaWlRegressor.predict`.
        """
        truth("return_walk_spread", return_walk_spread)
        found = self._predict(X, nodes)
        return (found.mean[:, 0], found.walk_spread[:, 0]) if return_walk_spread else found.mean[:, 0]

    def score(self, X: OneGraphLike, y: Any = None, nodes: Nodes = None, fold: int = 0) -> float:
        """R² on the nodes with a number; on those in `test_mask` of PyG data, if no nodes are named.

        The arguments are those of `fit`.
        """
        known = self._compared(X, y, nodes, fold)
        return float(r2_score(numbers_of(known.values, known.names).numpy(), self.predict(X, known.names)))


def _check_numbers(known: _Known) -> None:
    """Refuses numbers below 0 as classes, as `from_graph` does."""
    if known.values.dtype.kind in "if":
        check_labels(torch.from_numpy(known.values), known.names)


def _are_words(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "US"


def _check_enough(known: _Known) -> None:
    if len(known.owners) < 3:
        raise ValueError(f"{len(known.owners)} nodes with a target are too few to learn from: give at least 3.")
