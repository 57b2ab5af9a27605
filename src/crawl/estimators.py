"""CRaWl as scikit-learn estimators: lists of networkx graphs, PyG data or SMILES strings in, predictions out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data as PyGData

from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.data.store import GraphStore
from crawl.data.task import Task
from crawl.experiments.experiment import Experiment, Model, Walk
from crawl.experiments.run import run_experiment
from crawl.experiments.trained import TrainedModel
from crawl.training.settings import Evaluation, Training

GraphLike: TypeAlias = "nx.Graph | PyGData | str"


class _CRaWlEstimator(BaseEstimator):  # type: ignore[misc]
    """What the two estimators share.

    Args:
        hidden_channels: The width of the layers.
        num_layers: The number of layers.
        window_size: How far back the structural bits look.
        num_steps: Steps of the walks in training.
        num_eval_steps: Steps of the walks in prediction.
        num_repeats: Evaluations that a prediction averages.
        virtual_node: Put a virtual node between the layers.
        pool: `sum` or `mean` over the nodes of a graph.
        dropout: The dropout rate.
        lr: The first learning rate.
        batch_size: Graphs per step.
        max_epochs: Stop after so many epochs at the latest.
        patience: Halve the learning rate after so many epochs without a better validation score.
        validation_fraction: The share of the training graphs that choose the best epoch.
        device: `auto`, `cpu` or `cuda`.
        random_state: The seed of everything random.
    """

    def __init__(
        self,
        hidden_channels: int = 64,
        num_layers: int = 3,
        window_size: int = 8,
        num_steps: int = 50,
        num_eval_steps: int = 150,
        num_repeats: int = 5,
        virtual_node: bool = False,
        pool: str = "sum",
        dropout: float = 0.0,
        lr: float = 1e-3,
        batch_size: int = 50,
        max_epochs: int = 100,
        patience: int = 10,
        validation_fraction: float = 0.1,
        device: str = "auto",
        random_state: int = 0,
    ) -> None:
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.window_size = window_size
        self.num_steps = num_steps
        self.num_eval_steps = num_eval_steps
        self.num_repeats = num_repeats
        self.virtual_node = virtual_node
        self.pool = pool
        self.dropout = dropout
        self.lr = lr
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state

    def _fit(self, graphs: Sequence[GraphLike], targets: Tensor, task: Task) -> Self:
        if len(graphs) != len(targets):
            raise ValueError(f"There are {len(graphs)} graphs but {len(targets)} targets.")
        if len(graphs) < 3:
            raise ValueError(f"{len(graphs)} graphs are too few to learn from: give at least 3.")
        store, node_categories, edge_categories = _as_store(graphs)
        store = GraphStore(store.node_ptr, store.edge_ptr, store.edge_index, store.x, store.edge_attr, y=targets)
        dataset = Dataset(
            name=type(self).__name__,
            store=store,
            task=task,
            split=self._split(targets, task),
            node_categories=node_categories,
            edge_categories=edge_categories,
        )
        with tempfile.TemporaryDirectory() as folder:
            result = run_experiment(self._experiment(), Path(folder) / "run", dataset=dataset, quiet=True)
            self.model_ = TrainedModel.load(result.folder, device=self.device)
        self.n_features_in_ = 1
        return self

    def _experiment(self) -> Experiment:
        return Experiment(
            name="estimator",
            walk=Walk(num_steps=self.num_steps, num_eval_steps=self.num_eval_steps, window_size=self.window_size),
            model=Model(
                hidden_channels=self.hidden_channels,
                num_layers=self.num_layers,
                virtual_node=self.virtual_node,
                pool=self.pool,  # type: ignore[arg-type]
                dropout=self.dropout,
            ),
            training=Training(
                lr=self.lr,
                batch_size=self.batch_size,
                max_epochs=self.max_epochs,
                patience=self.patience,
                normalise_targets=True,
                device=self.device,
            ),
            evaluation=Evaluation(num_test_repeats=self.num_repeats),
            seed=self.random_state,
        )

    def _split(self, targets: Tensor, task: Task) -> Split:
        """Training and validation part. There is no test part: the caller keeps test graphs to themselves."""
        generator = np.random.default_rng(self.random_state)
        order = torch.from_numpy(generator.permutation(len(targets)))
        num_val = min(max(round(self.validation_fraction * len(targets)), 1), len(targets) - 2)
        return Split(order[num_val:].sort().values, order[:num_val].sort().values, torch.empty(0, dtype=torch.long))

    def _predict(self, graphs: Sequence[GraphLike]) -> NDArray[np.float64]:
        check_is_fitted(self)
        store, _, _ = _as_store(graphs)
        return self.model_.predict(store, num_repeats=self.num_repeats, seed=self.random_state).mean


class CRaWlRegressor(RegressorMixin, _CRaWlEstimator):  # type: ignore[misc]
    __doc__ = f"Predicts numbers from graphs.\n{(_CRaWlEstimator.__doc__ or '').partition('share.')[2]}"

    def fit(self, X: Sequence[GraphLike], y: Any) -> Self:
        """Learn to predict `y`, `[n]` or `[n, k]` numbers, from `n` graphs."""
        targets = torch.as_tensor(np.asarray(y, dtype=np.float32))
        if not bool(targets.isfinite().all()):
            raise ValueError("y holds NaN or infinite numbers: leave out these graphs.")
        self._is_flat = targets.dim() == 1
        targets = targets.reshape(len(targets), -1)
        return self._fit(X, targets, Task(kind="regression", num_outputs=targets.shape[1]))

    def predict(self, X: Sequence[GraphLike]) -> NDArray[np.float64]:
        """`[n]` or `[n, k]` numbers, in the shape of the targets learned from."""
        values = self._predict(X)
        return values[:, 0] if self._is_flat else values


class CRaWlClassifier(ClassifierMixin, _CRaWlEstimator):  # type: ignore[misc]
    __doc__ = f"Predicts classes of graphs.\n{(_CRaWlEstimator.__doc__ or '').partition('share.')[2]}"

    def fit(self, X: Sequence[GraphLike], y: Any) -> Self:
        """Learn to predict the class `y`, `[n]` integers or strings, of `n` graphs."""
        self.classes_, classes = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only ({self.classes_[:1]}): there is nothing to tell apart.")
        is_binary = len(self.classes_) == 2
        task = Task(
            kind="binary" if is_binary else "multiclass",
            num_outputs=1 if is_binary else len(self.classes_),
            metric="accuracy",
        )
        return self._fit(X, torch.from_numpy(classes.astype(np.int64)), task)

    def predict_proba(self, X: Sequence[GraphLike]) -> NDArray[np.float64]:
        """`[n, num_classes]` probabilities, in the order of `classes_`."""
        probabilities = self._predict(X)
        return np.hstack([1 - probabilities, probabilities]) if len(self.classes_) == 2 else probabilities

    def predict(self, X: Sequence[GraphLike]) -> NDArray[Any]:
        """`[n]` the most probable class of each graph."""
        predicted: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return predicted


def _as_store(graphs: Sequence[GraphLike]) -> tuple[GraphStore, tuple[int, ...], tuple[int, ...]]:
    """The graphs as a store, and the sizes of the categories of its node and edge features."""
    if isinstance(graphs, str | nx.Graph | PyGData):
        raise ValueError("Give a list of graphs, not a single one.")
    graphs = list(graphs)
    if graphs and all(isinstance(graph, str) for graph in graphs):
        from crawl.data.smiles import ATOM_CATEGORIES, BOND_CATEGORIES, molecule_graph

        return GraphStore.from_graphs(molecule_graph(smiles) for smiles in graphs), ATOM_CATEGORIES, BOND_CATEGORIES
    return GraphStore.from_graphs(_as_data(graph) for graph in graphs), (), ()


def _as_data(graph: Any) -> PyGData:
    if isinstance(graph, PyGData):
        return PyGData(x=graph.x, edge_index=graph.edge_index, edge_attr=graph.edge_attr, num_nodes=graph.num_nodes)
    if not isinstance(graph, nx.Graph):
        raise ValueError(f"A graph must be a networkx graph, PyG data or a SMILES string, not {type(graph).__name__}.")
    index = {node: i for i, node in enumerate(graph.nodes)}
    edges = [(index[u], index[v]) for u, v in graph.edges()]
    if not graph.is_directed():
        edges += [(v, u) for u, v in edges if u != v]
    return PyGData(edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), num_nodes=len(index))
