"""An estimator for the links of one graph, a networkx graph or PyG data: a graph in, probabilities of pairs out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, get_args

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data as PyGData

from crawl.checks import between, check_choice, shown
from crawl.choices import PairScore
from crawl.data.given_graphs import as_links, one_graph_of
from crawl.data.given_pairs import Pairs, of_two_nodes, pair_ids, rows_of_two
from crawl.data.link_list import LinkList
from crawl.data.links import FEWEST_LINKS, USED, dataset_of_links
from crawl.data.one_graph import OneGraph
from crawl.data.pyg import warn_of_unused
from crawl.estimators.inputs import Array
from crawl.estimators.node_targets import Nodes, OneGraphLike, check_graph, node_ids, without_reverse
from crawl.estimators.nodes import OneGraphEstimator
from crawl.runs.experiment import Experiment, Model
from crawl.training.evaluation import Predictions


@dataclass(eq=False, repr=False)
class CRaWlLinkPredictor(ClassifierMixin, OneGraphEstimator):  # type: ignore[misc]
    """Predicts which nodes of a graph are linked, of the one it has learned from or of another with the same features.

    A graph is a networkx graph or PyG data, with features as for `CRaWlClassifier`. A link has no direction: PyG data
    list both directions of an edge. Self-loops are not links, and parallel edges are one. Pairs are `[n, 2]`: numbers
    of nodes, or the nodes themselves for a networkx graph.

    A prediction sees all links of the graph: a pair that is linked there is seen to be linked, unless `hide=True` hides
    the link of each pair while it is predicted, as `TrainedModel.predict` does.

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
        validation_fraction: The share of the links that choose the best epoch and are not trained on.
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        random_state: The seed of everything random; None draws one.
        handle_unknown: As for `CRaWlRegressor`, as are `encodings` and `pretraining`.
        layer: The blocks of a layer; see `crawl.Network`. A network that does not walk, such as `("gcn",)`, needs
            batches of the full graph, and settings of walks change nothing then.
        batches: Whether a batch is the `full` graph, or `closed` walks around its pairs, for graphs of any size.
        batch_size: Pairs per closed batch in training; 50 when None.
        memory_gb: As for `CRaWlNodeClassifier`.
        num_walks: Walks from each node of a pair in closed batches, 2 when None, or from each node of the full graph, 1
            when None. More see more of a node with many neighbours; time grows with their number.
        num_eval_walks: The same in prediction; as many as in training when None.
        pair: How the states of two nodes are compared: `mlp`, `bilinear` or `dot`.
        num_negatives: How many pairs that are not linked an epoch predicts for each that is.
        supervised_share: The share of the training links that an epoch hides and predicts.
        metric: The score: `roc_auc`, `ap`, `accuracy`, `macro_f1`, `mrr`, or `hits@k` with a number k.

    Attributes:
        classes_: 0 (not linked) and 1 (linked).
        model_, history_, n_iter_: As for `CRaWlRegressor`.
    """

    num_layers: int = 2
    window_size: int = 4
    num_steps: int = 12
    num_eval_steps: int = 24
    dropout: float = 0.3
    lr: float = 1e-2
    max_epochs: int = 150
    layer: tuple[str, ...] = ("gcn", "walk")
    pair: PairScore = "mlp"
    num_negatives: int = 1
    supervised_share: float = 0.3
    metric: str = "roc_auc"

    def fit(self, X: OneGraphLike, y: None = None) -> Self:
        """Learn which nodes of a graph are linked.

        Args:
            X: The graph.
            y: Not used: what is learned are the links of the graph.

        Raises:
            ValueError: For a graph that cannot be used; the message says why.
        """
        if y is not None:
            raise ValueError("What is learned are the links of the graph: leave out y.")
        seed = self._seed()
        experiment = self._how(seed)
        share = between("validation_fraction", self.validation_fraction, 0, 1)
        store = self._links_of(X)
        data = PyGData(edge_index=store.edge_index, edge_attr=store.edge_attr, num_nodes=store.num_nodes)
        links = LinkList.of(data, undirected=False)
        num_links = len(links.numbers)
        if num_links < FEWEST_LINKS:
            raise ValueError(f"The graph has {num_links} links, too few to learn from: {FEWEST_LINKS} are needed.")
        order = torch.from_numpy(np.random.default_rng(seed).permutation(num_links))
        num_val = min(max(round(share * num_links), 1), num_links - 2)
        val, train = (part.sort().values for part in (order[:num_val], order[num_val:]))
        dataset = dataset_of_links(
            links.only(train),
            store.x,
            [(links.numbers[val], None), (links.numbers[:0], None)],
            seed=seed,
            num_negatives=self.num_negatives,
            supervised_share=self.supervised_share,
            metric=self.metric,
            batches=self.batches,
            name=type(self).__name__,
        )
        if isinstance(X, PyGData):
            warn_of_unused(X, USED)
        self._train(dataset, experiment)
        self.classes_ = np.array([0, 1])
        self._graph, self._nodes = store, _without_edges(X)
        return self

    def predict_proba(self, X: Pairs, graph: OneGraphLike | None = None, *, hide: bool = False) -> Array:
        """`[n, 2]` the probabilities that pairs are not linked, and that they are.

        Args:
            X: The pairs.
            graph: Their graph; the one of `fit` when None.
            hide: Hide the link of a pair, if there is one, while the pair is predicted; takes ten times as long.
        """
        return self._predict(X, graph, hide).for_each_class().mean

    def predict(self, X: Pairs, graph: OneGraphLike | None = None, *, hide: bool = False) -> NDArray[Any]:
        """`[n]` 1 for pairs that are more probably linked than not, 0 for others. The arguments are as above."""
        codes = self._predict(X, graph, hide).classes  # which refuses a model that is not fitted
        predicted: NDArray[Any] = self.classes_[codes]
        return predicted

    def score(self, X: Pairs, y: Any, graph: OneGraphLike | None = None, *, hide: bool = False) -> float:
        """The `metric` on pairs of which `y` says whether they are linked, 0 or 1 for each.

        Links that the graph has are seen: give links that are not in it, or `hide=True`.
        """
        found = self._predict(X, graph, hide)
        try:
            labels = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
            is_right = labels.shape == (len(found.mean),) and bool(np.isin(labels, (0, 1)).all())
        except (TypeError, ValueError, RuntimeError, OverflowError):
            is_right = False
        if not is_right:
            raise ValueError(f"y must be 0 or 1 for each of {len(found.mean)} pairs, not {shown(y)}.")
        if len(np.unique(labels)) < 2:
            raise ValueError("y says the same of all pairs: give some that are linked, and some that are not.")
        return float(found.score_of_mean(labels.astype(np.int64)))

    def embed(self, X: OneGraphLike | None = None, nodes: Nodes = None) -> NDArray[np.float32]:
        """`[n, hidden_channels]` what pairs are compared by, of each node of a graph, or of those in `nodes`.

        The graph is the one of `fit` when None.
        """
        how = self._applied()
        store, named = (self._graph, self._nodes) if X is None else (self._links_of(X), X)
        owners = torch.arange(store.num_nodes) if nodes is None else node_ids(named, nodes)
        return self.model_.embed(store.with_owners(owners), **how)

    def _how(self, seed: int) -> Experiment:
        check_choice("pair", self.pair, get_args(PairScore))
        experiment = super()._how(seed)
        assert isinstance(experiment.model, Model)
        return replace(experiment, model=replace(experiment.model, pair=self.pair))

    def _links_of(self, graph: OneGraphLike) -> OneGraph:
        """The graph without self-loops. Refuses an edge without a reverse."""
        check_graph(graph)
        store = one_graph_of(graph, self.batches)
        if store.graph.one_way is not None:
            edge, remedy = without_reverse(graph, store.graph.one_way)
            raise ValueError(f"The {edge}, and links have no direction: {remedy}.")
        return as_links(store)

    def _predict(self, pairs: Pairs, graph: OneGraphLike | None, hide: bool) -> Predictions:
        check_is_fitted(self)
        how = self._applied()
        store, named = (self._graph, self._nodes) if graph is None else (self._links_of(graph), graph)
        return self.model_.predict(store.with_owners(_pair_ids(named, pairs)), **how, hide=hide)


def _pair_ids(graph: OneGraphLike, pairs: Pairs) -> Tensor:
    """`[n, 2]` the numbers of the nodes of each pair. Refuses a node that is not there, and a node with itself."""
    if isinstance(graph, nx.Graph):
        return of_two_nodes(node_ids(graph, [end for row in rows_of_two(pairs) for end in row]).view(-1, 2))
    return node_ids(graph, pair_ids(pairs).flatten()).view(-1, 2)


def _without_edges(graph: OneGraphLike) -> OneGraphLike:
    """What the nodes of a graph are called."""
    if not isinstance(graph, nx.Graph):
        return PyGData(num_nodes=graph.num_nodes)
    nodes = nx.Graph()
    nodes.add_nodes_from(graph.nodes)
    return nodes
