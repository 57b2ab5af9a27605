"""Estimators for sets of graphs: lists of networkx graphs, PyG data or SMILES strings in, predictions out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from crawl.checks import check_choice, shown, truth, whole_number
from crawl.choices import Pool
from crawl.data.dataset import Dataset
from crawl.data.given_graphs import GraphLike, Graphs, are_molecules, list_of, store_of
from crawl.data.splits import Split
from crawl.data.task import Task
from crawl.estimators.base import CRaWlEstimator
from crawl.estimators.inputs import Array, categories_in, class_task, classes_of, labels_of, numbers_of, weights_of
from crawl.runs.calibration import CONFIDENCE, Calibration
from crawl.runs.experiment import Experiment, Model
from crawl.runs.stored import MOST_MEMBERS
from crawl.runs.trained import HowToApply, TrainedModel
from crawl.training.evaluation import Predictions, targets_of
from crawl.training.seeds import derive_seed
from crawl.training.trainer import choose_device

EvalSet: TypeAlias = "tuple[Graphs, Any] | list[tuple[Graphs, Any]]"


@dataclass(eq=False, repr=False)
class _GraphEstimator(TransformerMixin, CRaWlEstimator):  # type: ignore[misc]
    """What regressor and classifier share."""

    virtual_node: bool = False
    pool: Pool = "sum"
    batch_size: int = 50
    ensemble: int = 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # embeddings are float32, whatever the features are
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = True, False, True
        return tags

    def _fit(
        self,
        graphs: Graphs,
        targets: Tensor,
        task: Task,
        validation: tuple[Graphs, Tensor] | None,
        weights: Any,
        **training: Any,
    ) -> Self:
        self._check_parameters()
        whole_number("ensemble", self.ensemble, 1, MOST_MEMBERS)
        check_choice("pool", self.pool, get_args(Pool))
        batch_size = whole_number("batch_size", self.batch_size, 1, 2**31 - 1)
        graphs = list_of(graphs)
        if len(graphs) != len(targets):
            raise ValueError(f"There are {len(graphs)} graphs but {len(targets)} targets.")
        if len(graphs) < 3:
            raise ValueError(f"{len(graphs)} graphs are too few to learn from: give at least 3.")
        seed = self._seed()
        sample_weight = None if weights is None else weights_of(weights, len(graphs))
        if validation is None:
            split = self._split(targets, task, seed)
        else:
            graphs, targets, split = _with_validation(graphs, targets, *validation)
            if sample_weight is not None:
                sample_weight = torch.cat([sample_weight, sample_weight.new_ones(len(graphs) - len(sample_weight))])
        store = store_of(graphs)
        model = Model(
            ("walk", "virtual_node") if truth("virtual_node", self.virtual_node) else ("walk",),
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            pool=self.pool,
            dropout=self.dropout,
        )
        experiment = self._experiment(seed, model, batch_size)
        experiment = replace(experiment, training=replace(experiment.training, **training))
        dataset = Dataset(
            name=type(self).__name__,
            store=replace(store, y=targets, sample_weight=sample_weight),
            task=task,
            split=split,
            node_categories=categories_in("x", store.x, are_molecules(graphs)),
            edge_categories=categories_in("edge_attr", store.edge_attr, are_molecules(graphs)),
        )
        return self._train(dataset, experiment)

    def _trained(self, dataset: Dataset, experiment: Experiment) -> TrainedModel:
        """The model, or several that predict together, with a calibration by the validation part if that suffices."""
        seeds = [experiment.seed]
        if self.ensemble > 1:
            seeds = [derive_seed(experiment.seed, "member", i) % 2**31 for i in range(self.ensemble)]
        members = [super(_GraphEstimator, self)._trained(dataset, replace(experiment, seed=seed)) for seed in seeds]
        trained = members[0] if len(members) == 1 else TrainedModel.of_members(members)
        val = dataset.split.val
        predictions = trained.predict(dataset.store.subset(val), seed=trained.experiment.seed)
        try:
            trained.calibration = Calibration.of(predictions, targets_of(dataset.store, val))
        except ValueError as error:
            self._reason = str(error)
        return trained

    def _predicted_with(self, function: Callable[[Predictions], Any], graphs: Graphs) -> Any:
        """What a function says about predictions; refused before anything is computed if there is no calibration."""
        check_is_fitted(self)
        if self.model_.calibration is None:
            remedy = "give fit more graphs, or choose a larger validation_fraction"
            raise ValueError(f"There is no calibration, because {self._reason}: {remedy}.")
        return function(self._predict(graphs))

    def _predict(self, graphs: Graphs) -> Predictions:
        how = self._how()
        return self.model_.predict(store_of(list_of(graphs)), **how)

    def _how(self) -> HowToApply:
        """How the fitted model is applied; refuses one that is not fitted."""
        check_is_fitted(self)
        self.model_.to(choose_device(self.device))
        seed = self.model_.experiment.seed
        return {"num_repeats": self.num_repeats, "seed": seed, "handle_unknown": self.handle_unknown}

    def transform(self, X: Graphs) -> NDArray[np.float32]:
        """`[n, hidden_channels]` embeddings: what the head of the network sees of each graph."""
        how = self._how()
        return self.model_.embed(store_of(list_of(X)), **how)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """`[hidden_channels]` names of the columns of `transform`; graphs have no names of features, so give none."""
        check_is_fitted(self)
        if input_features is not None:
            raise ValueError("Graphs are not columns with names: leave out input_features.")
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}{i}" for i in range(self.hidden_channels)], dtype=object)


def _with_validation(
    graphs: list[GraphLike], targets: Tensor, others: Graphs, their_targets: Tensor
) -> tuple[list[GraphLike], Tensor, Split]:
    """All graphs and targets, those for validation last, and the split that says so."""
    others = list_of(others)
    if len(others) != len(their_targets) or not others:
        raise ValueError(f"eval_set has {len(others)} graphs and {len(their_targets)} targets: give one for each.")
    if targets.shape[1:] != their_targets.shape[1:]:
        shapes = f"{list(their_targets.shape[1:])} a graph, not {list(targets.shape[1:])}"
        raise ValueError(f"eval_set has targets of shape {shapes} as in y: give the same targets.")
    ids = torch.arange(len(graphs) + len(others))
    split = Split(ids[: len(graphs)], ids[len(graphs) :], ids[:0])
    dtype = torch.promote_types(targets.dtype, their_targets.dtype)
    return [*graphs, *others], torch.cat([targets.to(dtype), their_targets.to(dtype)]), split


def _pair(eval_set: Any) -> tuple[Any, Any]:
    """The graphs and targets for validation: a pair, or a list of one pair, as other libraries take it."""
    if isinstance(eval_set, list) and len(eval_set) == 1 and isinstance(eval_set[0], tuple | list):
        (eval_set,) = eval_set
    if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
        wanted = "a pair (graphs, targets), or a list of one such pair"
        raise ValueError(f"eval_set must be {wanted}, not {shown(eval_set)}.")
    return eval_set[0], eval_set[1]


@dataclass(eq=False, repr=False)
class CRaWlRegressor(RegressorMixin, _GraphEstimator):  # type: ignore[misc]
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
        ensemble: Train this many models, which predict together.
        loss: `l1`, `mse`, or `beta_nll`, with which the network also learns how far targets scatter; `auto` is `l1`.

    Attributes:
        model_: The trained model; an ensemble has its models in `model_.members`.
        history_: A record for each epoch: loss, learning rate, validation score; of the last model of an ensemble.
        n_iter_: The number of epochs.
    """

    loss: Literal["auto", "l1", "mse", "beta_nll"] = "auto"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Graphs, y: Any, eval_set: EvalSet | None = None, sample_weight: Any = None) -> Self:
        """Learn to predict `y`, `[n]` or `[n, k]` numbers, from `n` graphs.

        Args:
            X: The graphs.
            y: The numbers. With several for each graph, NaN is a missing one.
            eval_set: Graphs and targets that choose the best epoch, or a list of one such pair; then all of `X` is
                trained on. When None, `validation_fraction` of `X` chooses.
            sample_weight: `[n]` how much each graph of `X` counts in training, numbers of 0 or more; all count alike
                when None. Validation is not weighted.

        Raises:
            ValueError: For graphs or targets that cannot be used; the message says which and why.
        """
        targets, validation = numbers_of(y), None
        is_flat = targets.dim() == 1
        targets = targets.unsqueeze(1) if is_flat else targets
        if eval_set is not None:
            others, their_y = _pair(eval_set)
            their_targets = numbers_of(their_y)
            validation = others, their_targets.unsqueeze(1) if their_targets.dim() == 1 else their_targets
        task = Task(kind="regression", num_outputs=targets.shape[1])
        self._fit(X, targets, task, validation, sample_weight, loss=self.loss)
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

    def predict_interval(self, X: Graphs, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
        """The lower and the upper ends of intervals, in the shape of the targets, that hold the truth this often for
        graphs like those of the validation part of `fit`.

        Raises:
            ValueError: If the validation part is too small.
        """
        lower, upper = self._predicted_with(lambda found: self.model_.interval(found, confidence), X)
        return (lower[:, 0], upper[:, 0]) if self._is_flat else (lower, upper)


@dataclass(eq=False, repr=False)
class CRaWlClassifier(ClassifierMixin, _GraphEstimator):  # type: ignore[misc]
    """Predicts classes of graphs: a classifier that takes lists of networkx graphs, PyG data or SMILES strings.

    Its parameters and attributes are those of `CRaWlRegressor`, except `loss`, and besides

    Args:
        class_weights: `balanced` lets all classes count alike in training, however rare they are.

    Attributes:
        classes_: The classes in their order; the numbers of the labels, if graphs have several.
    """

    class_weights: Literal["none", "balanced"] = "none"

    def fit(self, X: Graphs, y: Any, eval_set: EvalSet | None = None, sample_weight: Any = None) -> Self:
        """Learn to predict the class `y`, `[n]` integers or strings, or `[n, k]` labels, of `n` graphs.

        Args:
            X: The graphs.
            y: The classes, or several labels for each graph, 0, 1 or NaN, which is a missing one.
            eval_set: Graphs and targets that choose the best epoch, or a list of one such pair; then all of `X` is
                trained on. When None, `validation_fraction` of `X` chooses.
            sample_weight: `[n]` how much each graph of `X` counts in training, numbers of 0 or more; all count alike
                when None. Validation is not weighted.

        Raises:
            ValueError: For graphs or targets that cannot be used; the message says which and why.
        """
        labels, validation = labels_of(y), None
        if labels is None:
            classes, targets = classes_of(y)
            task = class_task(classes)
        else:
            classes, targets = np.arange(labels.shape[1]), labels
            task = Task(kind="multilabel", num_outputs=labels.shape[1])
        if eval_set is not None:
            others, their_y = _pair(eval_set)
            validation = others, _codes(their_y, classes) if labels is None else _known_labels(their_y)
        self._fit(X, targets, task, validation, sample_weight, class_weights=self.class_weights)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Graphs) -> Array:
        """`[n, num_classes]` probabilities, in the order of `classes_`; of several labels, that of each."""
        return self._predict(X).for_each_class().mean

    def predict(self, X: Graphs) -> NDArray[Any]:
        """`[n]` the most probable class of each graph, or `[n, k]` labels, 0 or 1."""
        found = self._predict(X)  # which refuses a model that is not fitted
        if found.task.kind == "multilabel":
            return (found.mean > 0.5).astype(np.int64)
        predicted: NDArray[Any] = self.classes_[found.classes]
        return predicted

    def predict_set(self, X: Graphs, confidence: float = CONFIDENCE) -> NDArray[np.bool_]:
        """`[n, num_classes]` bool: sets of classes, in the order of `classes_`, that hold the truth this often for
        graphs like those of the validation part of `fit`. For several labels `[n, k, 2]`: no and yes for each.

        Raises:
            ValueError: If the validation part is too small.
        """
        sets: NDArray[np.bool_] = self._predicted_with(lambda found: self.model_.sets(found, confidence), X)
        return sets if self.model_.features.task.kind == "multilabel" else sets[:, 0]


def _codes(y: Any, classes: NDArray[Any]) -> Tensor:
    """`[n]` the numbers of classes. Refuses one that is not known."""
    numbers = {name: i for i, name in enumerate(classes.tolist())}
    given = np.asarray(y).tolist()
    unknown = [name for name in given if name not in numbers]
    if unknown:
        raise ValueError(f"eval_set has the class {shown(unknown[0])}, which is not in y: leave it out.")
    return torch.tensor([numbers[name] for name in given], dtype=torch.long)


def _known_labels(y: Any) -> Tensor:
    labels = labels_of(y)
    if labels is None:
        raise ValueError("eval_set must have several labels for each graph, 0, 1 or NaN, as y has.")
    return labels
