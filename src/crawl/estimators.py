"""CRaWl as scikit-learn estimators: lists of networkx graphs, PyG data or SMILES strings in, predictions out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, get_args, overload

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data as PyGData

from crawl.checks import as_list, check_choice, positive_number, real_number, shown, truth, whole_number
from crawl.choices import Pool
from crawl.data.dataset import Dataset
from crawl.data.encoded import with_encodings
from crawl.data.features import ATOM_CATEGORIES, BOND_CATEGORIES, sizes_of_categories
from crawl.data.splits import Split
from crawl.data.store import GraphStore
from crawl.data.targets import as_numbers
from crawl.data.task import Task
from crawl.edge_lists import weights_differ
from crawl.encodings.settings import Encodings
from crawl.runs.build import build_model
from crawl.runs.experiment import Experiment, Model
from crawl.runs.features import Features, HandleUnknown, refuse_graph
from crawl.runs.sources import GivenData
from crawl.runs.trained import TrainedModel
from crawl.training.evaluation import Predictions
from crawl.training.pretraining import Pretrainer
from crawl.training.settings import Evaluation, Plateau, Pretraining, Training
from crawl.training.trainer import Trainer, choose_device
from crawl.walks.plan import WalkPlan

GraphLike: TypeAlias = "nx.Graph | PyGData | str"
Graphs: TypeAlias = "Sequence[GraphLike] | NDArray[Any]"
Array: TypeAlias = NDArray[np.float64]

_MOST_CATEGORIES = 1000  # in one column of integers; more are taken for a mistake
_COUNTS = ("num_layers", "num_steps", "num_eval_steps", "num_repeats", "batch_size", "max_epochs", "patience")


@dataclass(eq=False, repr=False)
class _CRaWlEstimator(BaseEstimator):  # type: ignore[misc]
    """What regressor and classifier share: the parameters, from graphs to a store, fitting and predicting."""

    hidden_channels: int = 64
    num_layers: int = 3
    window_size: int = 8
    num_steps: int = 50
    num_eval_steps: int = 150
    num_repeats: int = 5
    virtual_node: bool = False
    pool: Pool = "sum"
    dropout: float = 0.0
    lr: float = 1e-3
    batch_size: int = 50
    max_epochs: int = 100
    patience: int = 10
    validation_fraction: float = 0.1
    device: str = "auto"
    random_state: int | np.random.RandomState | None = 0
    handle_unknown: HandleUnknown = "warn"
    encodings: Encodings | None = None
    pretraining: Pretraining | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = True, False, True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, with the network on the CPU: it can be loaded where there is no GPU."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "model_" in state and next(self.model_.model.parameters()).is_cuda:
            state["model_"] = copy.copy(self.model_)
            state["model_"].model = copy.deepcopy(self.model_.model).cpu()
        return state

    def _fit(self, graphs: Graphs, targets: Tensor, task: Task) -> Self:
        for name in _COUNTS:
            whole_number(name, getattr(self, name), 1, 2**31 - 1)
        check_choice("handle_unknown", self.handle_unknown, get_args(HandleUnknown))
        graphs = _as_list(graphs)
        if len(graphs) != len(targets):
            raise ValueError(f"There are {len(graphs)} graphs but {len(targets)} targets.")
        if len(graphs) < 3:
            raise ValueError(f"{len(graphs)} graphs are too few to learn from: give at least 3.")
        store = _as_store(graphs)
        try:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        except (TypeError, ValueError):
            raise ValueError(
                f"random_state must be None, a RandomState, or a whole number from 0 to {2**32 - 1}, "
                f"not {shown(self.random_state)}."
            ) from None
        experiment = self._experiment(seed)
        dataset = Dataset(
            name=type(self).__name__,
            store=replace(store, y=targets),
            task=task,
            split=self._split(targets, task, seed),
            node_categories=_categories("x", store.x, _takes_smiles(graphs)),
            edge_categories=_categories("edge_attr", store.edge_attr, _takes_smiles(graphs)),
        )
        features = Features.of(dataset)
        model = build_model(experiment, features)
        dataset = replace(dataset, store=with_encodings(dataset.store, experiment.encodings))
        if experiment.pretraining is not None:
            how = (experiment.pretraining, experiment.training)
            for _ in Pretrainer(model, dataset, *how, seed=seed, device=self.device).epochs():
                pass
        trainer = Trainer(model, dataset, experiment.training, experiment.evaluation, seed=seed, device=self.device)
        self.history_ = list(trainer.epochs())
        self.n_iter_ = len(self.history_)
        trainer.use_best_weights()
        self.model_ = TrainedModel(trainer.model, experiment, features, trainer.scaling, record={})
        return self

    def _experiment(self, seed: int) -> Experiment:
        check_choice("pool", self.pool, get_args(Pool))
        return Experiment(
            name=type(self).__name__,
            data=GivenData(),
            walk=WalkPlan(num_steps=self.num_steps, num_eval_steps=self.num_eval_steps, window_size=self.window_size),
            model=Model(
                ("walk", "virtual_node") if truth("virtual_node", self.virtual_node) else ("walk",),
                hidden_channels=self.hidden_channels,
                num_layers=self.num_layers,
                pool=self.pool,
                dropout=self.dropout,
            ),
            training=Training(
                lr=positive_number("lr", self.lr),
                batch_size=whole_number("batch_size", self.batch_size),
                max_epochs=whole_number("max_epochs", self.max_epochs),
                schedule=Plateau(patience=whole_number("patience", self.patience)),
                normalise_targets=True,
            ),
            evaluation=Evaluation(num_test_repeats=self.num_repeats),
            seed=seed,
            encodings=Encodings() if self.encodings is None else self.encodings,
            pretraining=self.pretraining,
        )

    def _split(self, targets: Tensor, task: Task, seed: int) -> Split:
        """Training and validation part. There is no test part: the caller keeps test graphs to themselves."""
        if not 0 < real_number("validation_fraction", self.validation_fraction) < 1:
            raise ValueError(f"validation_fraction must be between 0 and 1, not {self.validation_fraction}.")
        everything, num_graphs = np.arange(len(targets)), len(targets)
        num_val = min(max(round(self.validation_fraction * num_graphs), 1), num_graphs - 2)
        classes = None if task.kind == "regression" else targets.numpy()
        try:
            train, val = train_test_split(everything, test_size=num_val, stratify=classes, random_state=seed)
        except ValueError:  # too few of a class for a share in both parts: a graph of each class is for training
            order = np.random.default_rng(seed).permutation(num_graphs)
            _, first = np.unique(targets.numpy()[order], return_index=True)
            val = np.delete(order, first)[:num_val]
            if not len(val):
                raise ValueError("Every class has a single graph: give at least two of one class.") from None
            train = np.setdiff1d(everything, val)
        return Split(*(torch.from_numpy(np.sort(part)) for part in (train, val, everything[:0])))

    def _predict(self, graphs: Graphs) -> Predictions:
        check_is_fitted(self)
        store = _as_store(_as_list(graphs))
        self.model_.model.to(choose_device(self.device))
        return self.model_.predict(
            store, num_repeats=self.num_repeats, seed=self.model_.experiment.seed, handle_unknown=self.handle_unknown
        )


class CRaWlRegressor(RegressorMixin, _CRaWlEstimator):  # type: ignore[misc]
    """Predicts numbers from graphs: a regressor that takes lists of networkx graphs, PyG data or SMILES strings.

    `docs/estimators.md` says which features are used. SMILES strings need rdkit.

    Args:
        hidden_channels: The width of the layers.
        num_layers: The number of layers.
        window_size: How far back the structural bits look (s).
        num_steps: Steps of the walks in training.
        num_eval_steps: Steps of the walks in prediction.
        num_repeats: Evaluations, each with its own walks, that a prediction averages.
        virtual_node: Put a virtual node between the layers.
        pool: `sum` or `mean` over the nodes of a graph.
        dropout: The dropout rate.
        lr: The first learning rate.
        batch_size: Graphs per step.
        max_epochs: Stop after this many epochs at the latest.
        patience: Halve the learning rate after this many epochs without a better validation score.
        validation_fraction: The share of the graphs given to `fit` that choose the best epoch and are not trained on.
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        random_state: The seed of everything random; None draws one.
        handle_unknown: What `predict` does about categories that did not occur in `fit`: `warn` encodes them as zeros
            and warns, `error` refuses them.
        encodings: Structural encodings that the network gets besides the features, as `Encodings(return_steps=20)`.
        pretraining: Let the network predict hidden bits of walks before it learns targets, as `Pretraining(epochs=50)`.

    Attributes:
        model_: The trained model.
        history_: A record for each epoch: loss, learning rate, validation score.
        n_iter_: The number of epochs.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Graphs, y: Any) -> Self:
        """Learn to predict `y`, `[n]` or `[n, k]` numbers, from `n` graphs.

        Raises:
            ValueError: For graphs or targets that cannot be used; the message says which and why.
        """
        targets = _as_numbers(y)
        is_flat = targets.dim() == 1
        targets = targets.unsqueeze(1) if is_flat else targets
        self._fit(X, targets, Task(kind="regression", num_outputs=targets.shape[1]))
        self._is_flat = is_flat
        return self

    @overload
    def predict(self, X: Graphs, return_walk_spread: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: Graphs, return_walk_spread: Literal[True]) -> tuple[Array, Array]: ...
    def predict(self, X: Graphs, return_walk_spread: bool = False) -> Array | tuple[Array, Array]:
        """`[n]` or `[n, k]` numbers, in the shape of the targets learned from.

        Args:
            X: `[n]` graphs with the features of those in `fit`.
            return_walk_spread: Also return, in the same shape, the standard deviation over evaluations with different
                walks. It is not an uncertainty of the prediction, which is why it is not called `return_std`.
        """
        truth("return_walk_spread", return_walk_spread)
        predictions = self._predict(X)
        mean, spread = (part[:, 0] if self._is_flat else part for part in (predictions.mean, predictions.walk_spread))
        return (mean, spread) if return_walk_spread else mean


class CRaWlClassifier(ClassifierMixin, _CRaWlEstimator):  # type: ignore[misc]
    """Predicts classes of graphs: a classifier that takes lists of networkx graphs, PyG data or SMILES strings.

    Its parameters and attributes are those of `CRaWlRegressor`, and besides

    Attributes:
        classes_: The classes in their order.
    """

    def fit(self, X: Graphs, y: Any) -> Self:
        """Learn to predict the class `y`, `[n]` integers or strings, of `n` graphs.

        Raises:
            ValueError: For graphs or targets that cannot be used; the message says which and why.
        """
        classes, targets = _as_classes(y)
        is_binary = len(classes) == 2
        task = Task(
            kind="binary" if is_binary else "multiclass",
            num_outputs=1 if is_binary else len(classes),
            metric="accuracy",
            class_names=tuple(map(str, classes)),
        )
        self._fit(X, targets, task)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Graphs) -> Array:
        """`[n, num_classes]` probabilities, in the order of `classes_`."""
        return self._predict(X).for_each_class().mean

    def predict(self, X: Graphs) -> NDArray[Any]:
        """`[n]` the most probable class of each graph."""
        codes = self._predict(X).classes  # which refuses a model that is not fitted
        predicted: NDArray[Any] = self.classes_[codes]
        return predicted


def _as_numbers(y: Any) -> Tensor:
    """`[n]` or `[n, k]` finite numbers: float32, or float64 where float32 would not tell them apart."""
    if y is None:
        raise ValueError("A regressor requires y to be passed, but the target y is None.")
    try:
        given = np.array(y)
        targets = torch.from_numpy(given if given.dtype == np.int64 else np.array(y, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise ValueError("y must hold real numbers, one or a row of them for each graph.") from None
    if targets.dim() not in (1, 2) or targets.shape[1:] == (0,):
        raise ValueError(f"y must have one number or a row of numbers for each graph, not shape {list(targets.shape)}.")
    wrong = (~targets.float().isfinite()).nonzero()
    if wrong.numel():
        raise ValueError(f"y[{int(wrong[0, 0])}] is NaN or infinite: leave out this graph.")
    return as_numbers(targets)


def _as_classes(y: Any) -> tuple[NDArray[Any], Tensor]:
    """The classes in their order, and `[n]` the number of each graph's class."""
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None.")
    try:
        labels = column_or_1d(y, warn=True)
    except (TypeError, RuntimeError):  # not what scikit-learn says of a wrong shape
        raise ValueError(f"y must hold one class for each graph, a word or a number, not {shown(y)}.") from None
    for i, label in enumerate(labels):
        if label is None or label != label or label in (np.inf, -np.inf):
            raise ValueError(f"y[{i}] is {label}, which is not a class: leave out this graph.")
    try:
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:  # as of 1 and 'a', which have no order
        raise ValueError("y mixes classes of different kinds: give words, or give numbers.") from None
    if len(classes) < 2:
        raise ValueError(f"y holds one class only ({', '.join(map(str, classes))}): there is nothing to tell apart.")
    return classes, torch.from_numpy(codes.astype(np.int64))


def _as_list(graphs: Graphs) -> list[GraphLike]:
    if isinstance(graphs, str | nx.Graph | PyGData):
        raise ValueError("Give a list of graphs, not a single one.")
    return as_list("X", graphs, "graphs")


def _takes_smiles(graphs: Sequence[GraphLike]) -> bool:
    return any(isinstance(graph, str) for graph in graphs)


def _as_store(graphs: Sequence[GraphLike]) -> GraphStore:
    """The graphs, without targets; features have two dimensions, or are None where there are none."""
    takes_smiles = _takes_smiles(graphs)
    found = [_as_data(i, graph, takes_smiles) for i, graph in enumerate(graphs)]
    like = next((data.edge_attr for data in found if data.edge_attr is not None), None)
    for data in found:  # a graph without edges needs no edge features
        if like is not None and data.edge_attr is None and data.num_edges == 0:
            data.edge_attr = like.new_empty(0, *like.shape[1:])
    store = GraphStore.from_graphs(found)
    num_left, num_entered = (torch.bincount(ends, minlength=store.num_nodes) for ends in store.joined_edge_index)
    refuse_graph(
        (num_entered > 0) & (num_left == 0),
        store.node_ptr,
        "a node can be entered but not left, so a walk would end there; list its edges both ways",
    )
    return replace(store, x=_as_features("x", store.x), edge_attr=_as_features("edge_attr", store.edge_attr))


def _as_data(position: int, graph: Any, takes_smiles: bool) -> PyGData:
    """One graph without its targets."""
    if takes_smiles and isinstance(graph, str):
        from crawl.data.smiles import molecule_graph

        try:
            return molecule_graph(graph)
        except ValueError as error:
            raise ValueError(f"Graph {position}: {error}.") from None
    if takes_smiles or not isinstance(graph, nx.Graph | PyGData):
        wanted = "a SMILES string like the others" if takes_smiles else "a networkx graph, PyG Data or a SMILES string"
        raise ValueError(f"Graph {position} must be {wanted}, not {type(graph).__name__}.")
    if isinstance(graph, nx.Graph):
        return _from_networkx(position, graph)
    _refuse_weights(position, "edge_weight", weights_differ(graph.edge_weight))
    data = copy.copy(graph)
    data.y = None
    return data


def _from_networkx(position: int, graph: nx.Graph) -> PyGData:
    """The graph with the attributes `x` of its nodes and `edge_attr` of its edges, if it has them."""
    weights = [weight for *_, weight in graph.edges(data="weight")]
    _refuse_weights(position, "weight", any(weight != weights[0] for weight in weights))
    index = {node: i for i, node in enumerate(graph.nodes)}
    arcs = [(index[u], index[v], value) for u, v, value in graph.edges(data="edge_attr")]
    if not graph.is_directed():
        arcs += [(v, u, value) for u, v, value in arcs if u != v]
    return PyGData(
        x=_attribute(position, "x", [value for _, value in graph.nodes(data="x")]),
        edge_index=torch.tensor([arc[:2] for arc in arcs], dtype=torch.long).reshape(-1, 2).t(),
        edge_attr=_attribute(position, "edge_attr", [arc[2] for arc in arcs]),
        num_nodes=len(index),
    )


def _refuse_weights(position: int, name: str, differ: bool) -> None:
    """Refuse weights of edges, which are not used; if all are equal, nothing is lost."""
    if differ:
        raise ValueError(
            f"Graph {position}: its edges have different weights ({name}), which are not used; make them a feature "
            "(edge_attr), or take them away."
        )


def _attribute(position: int, name: str, values: list[Any]) -> Tensor | None:
    """`[rows, C]` the values, which are numbers or lists of numbers; None if there are none."""
    if all(value is None for value in values):
        return None
    try:
        rows = np.array(values)
        if rows.dtype.kind not in "biuf" or rows.ndim > 2:
            raise TypeError
    except (TypeError, ValueError):
        owner = "node" if name == "x" else "edge"
        raise ValueError(
            f"Graph {position}: attribute {name!r} must be a number, or a list of as many numbers, at every {owner}."
        ) from None
    return torch.from_numpy(rows.reshape(len(rows), -1))


def _as_features(name: str, features: Tensor | None) -> Tensor | None:
    """`[rows, C]` numbers; None where there are none."""
    if features is None or features.numel() == 0:
        return None
    if features.dim() > 2:
        raise ValueError(f"{name} must have a row of numbers for each node or edge, not shape {list(features.shape)}.")
    features = features.unsqueeze(1) if features.dim() == 1 else features
    return features.float() if features.dtype == torch.bool else features


def _categories(name: str, features: Tensor | None, is_smiles: bool) -> tuple[int, ...]:
    """How many values each column takes if they are categories: integers from 0 on."""
    if is_smiles:
        return ATOM_CATEGORIES if name == "x" else BOND_CATEGORIES
    if features is None or features.is_floating_point() or bool((features < 0).any()):
        return ()
    return sizes_of_categories(name, features, _MOST_CATEGORIES)
