"""Estimators for sets of graphs: lists of networkx graphs, PyG data or SMILES strings in, predictions out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args, overload

from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from crawl.checks import check_choice, truth, whole_number
from crawl.choices import Pool
from crawl.data.dataset import Dataset
from crawl.data.given_graphs import Graphs, are_molecules, list_of, store_of
from crawl.data.task import Task
from crawl.estimators.base import CRaWlEstimator
from crawl.estimators.inputs import Array, categories_in, class_task, classes_of, numbers_of
from crawl.runs.experiment import Model
from crawl.training.evaluation import Predictions
from crawl.training.trainer import choose_device


@dataclass(eq=False, repr=False)
class _GraphEstimator(CRaWlEstimator):
    """What regressor and classifier share."""

    virtual_node: bool = False
    pool: Pool = "sum"
    batch_size: int = 50

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = True, False, True
        return tags

    def _fit(self, graphs: Graphs, targets: Tensor, task: Task) -> Self:
        self._check_parameters()
        check_choice("pool", self.pool, get_args(Pool))
        batch_size = whole_number("batch_size", self.batch_size, 1, 2**31 - 1)
        graphs = list_of(graphs)
        if len(graphs) != len(targets):
            raise ValueError(f"There are {len(graphs)} graphs but {len(targets)} targets.")
        if len(graphs) < 3:
            raise ValueError(f"{len(graphs)} graphs are too few to learn from: give at least 3.")
        store, seed = store_of(graphs), self._seed()
        model = Model(
            ("walk", "virtual_node") if truth("virtual_node", self.virtual_node) else ("walk",),
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            pool=self.pool,
            dropout=self.dropout,
        )
        experiment = self._experiment(seed, model, batch_size)
        dataset = Dataset(
            name=type(self).__name__,
            store=replace(store, y=targets),
            task=task,
            split=self._split(targets, task, seed),
            node_categories=categories_in("x", store.x, are_molecules(graphs)),
            edge_categories=categories_in("edge_attr", store.edge_attr, are_molecules(graphs)),
        )
        return self._train(dataset, experiment)

    def _predict(self, graphs: Graphs) -> Predictions:
        check_is_fitted(self)
        store = store_of(list_of(graphs))
        self.model_.model.to(choose_device(self.device))
        return self.model_.predict(
            store, num_repeats=self.num_repeats, seed=self.model_.experiment.seed, handle_unknown=self.handle_unknown
        )


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
        targets = numbers_of(y)
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


class CRaWlClassifier(ClassifierMixin, _GraphEstimator):  # type: ignore[misc]
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
        classes, targets = classes_of(y)
        self._fit(X, targets, class_task(classes))
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
