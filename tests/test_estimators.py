"""The estimators do what scikit-learn expects of estimators, on graphs of every kind they take."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data
from torch_geometric.data import Data

import crawl
from crawl import CRaWlClassifier, CRaWlRegressor
from crawl.encodings import Encodings
from crawl.training import Pretraining

TINY = {
    "hidden_channels": 8,
    "num_layers": 1,
    "window_size": 4,
    "num_steps": 6,
    "num_eval_steps": 6,
    "num_repeats": 2,
    "max_epochs": 2,
    "device": "cpu",
}

LEARNING = TINY | {
    "hidden_channels": 16,
    "num_steps": 16,
    "num_eval_steps": 16,
    "lr": 0.01,
    "patience": 30,
    "max_epochs": 60,
    "validation_fraction": 0.25,
}

regressor, classifier = CRaWlRegressor(**TINY), CRaWlClassifier(**TINY)


def cycles_and_paths(num_graphs: int = 12) -> tuple[list[nx.Graph], list[str]]:
    """Cycles and paths of growing size in turn, and which of them is which."""
    graphs = [nx.cycle_graph(4 + i // 2) if i % 2 else nx.path_graph(4 + i // 2) for i in range(num_graphs)]
    return graphs, ["path", "cycle"] * (num_graphs // 2)


def as_data(graph: nx.Graph, **features: torch.Tensor) -> Data:
    edges = torch.tensor(list(graph.edges)).t()
    return Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=len(graph), **features)


def sizes(graphs: list[nx.Graph]) -> np.ndarray:
    return np.array([len(graph) for graph in graphs], dtype=float)


# What is learned


def test_classifier_tells_cycles_from_paths():
    graphs, kinds = cycles_and_paths(24)
    model = CRaWlClassifier(**LEARNING, pool="mean").fit(graphs, kinds)
    assert model.classes_.tolist() == ["cycle", "path"]
    assert model.score(graphs, kinds) > 0.9
    probabilities = model.predict_proba(graphs)
    assert probabilities.shape == (24, 2)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(graphs)).all()
    assert model.n_iter_ == len(model.history_) == 60


def test_regressor_counts_nodes():
    graphs, _ = cycles_and_paths(24)
    model = CRaWlRegressor(**LEARNING).fit(graphs, sizes(graphs))
    assert model.score(graphs, sizes(graphs)) > 0.5  # 0 is that of the mean
    mean, spread = model.predict(graphs, return_walk_spread=True)
    assert mean.shape == spread.shape == (24,)
    assert (mean == model.predict(graphs)).all()
    assert (spread >= 0).all()


def test_several_classes_and_several_targets():
    graphs, _ = cycles_and_paths()
    three = clone(classifier).fit(graphs, [7, 8, 9] * 4)
    assert three.predict_proba(graphs).shape == (12, 3)
    assert set(three.predict(graphs)) <= {7, 8, 9}
    targets = np.stack([sizes(graphs), -sizes(graphs)], axis=1)
    assert clone(regressor).fit(graphs, targets).predict(graphs).shape == (12, 2)
    assert clone(regressor).fit(graphs, targets[:, :1]).predict(graphs).shape == (12, 1)


# What graphs may be


def test_all_kinds_of_sequences_give_the_same():
    graphs, kinds = cycles_and_paths()
    expected = clone(classifier).fit(graphs, kinds).predict_proba(graphs)
    array = np.empty(len(graphs), dtype=object)
    array[:] = graphs
    for X, y in ((array, np.array(kinds)), (tuple(graphs), tuple(kinds))):
        assert (clone(classifier).fit(X, y).predict_proba(X) == expected).all()


def test_features_of_graphs_are_learned_from():
    conditions = np.linspace(200, 400, 20)
    ring = nx.cycle_graph(4)
    graphs = [as_data(ring, u=torch.tensor([[value]])) for value in conditions]
    found = CRaWlRegressor(**LEARNING).fit(graphs, conditions / 100).predict(graphs)
    assert np.corrcoef(found, conditions)[0, 1] > 0.9  # nothing else differs
    with pytest.raises(ValueError, match="u has 0 columns here, but had 1 in training"):
        CRaWlRegressor(**TINY).fit(graphs, conditions).predict([as_data(ring)])


def test_pyg_data_with_features_is_only_read():
    graphs, kinds = cycles_and_paths()
    data = [as_data(graph, x=torch.rand(len(graph), 3), edge_attr=torch.rand(2 * graph.size())) for graph in graphs]
    data[0].y = torch.tensor([1.0, 2.0, 3.0])  # nobody asked for it
    before = copy.deepcopy(data)
    model = clone(classifier).fit(data, kinds)
    assert model.model_.features.num_node_features == 3
    assert model.model_.features.num_edge_features == 1
    model.predict(data)
    for new, old in zip(data, before, strict=True):
        assert new.keys() == old.keys()
        assert all(
            torch.equal(torch.as_tensor(new[key]), torch.as_tensor(value)) for key, value in old.to_dict().items()
        )


def test_networkx_attributes_x_and_edge_attr_are_features():
    graphs, kinds = cycles_and_paths()
    for graph in graphs:
        nx.set_node_attributes(graph, {node: [0.5, float(node)] for node in graph}, "x")
        nx.set_node_attributes(graph, "ignored", "name")
        nx.set_edge_attributes(graph, 1, "edge_attr")
    graphs[0] = nx.empty_graph(1)
    graphs[0].nodes[0]["x"] = [0.5, 1.0]  # a graph without edges has no edge features
    features = clone(classifier).fit(graphs, kinds).model_.features
    assert (features.num_node_features, features.node_categories) == (2, ())
    assert (features.num_edge_features, features.edge_categories) == (0, (2,))


def test_integers_are_categories():
    graphs, kinds = cycles_and_paths()
    data = [as_data(graph, x=torch.arange(len(graph)) % 3) for graph in graphs]
    model = clone(classifier).fit(data, kinds)
    assert model.model_.features.node_categories == (3,)
    data[1].x = data[1].x + 5000
    with pytest.raises(ValueError, match="too many for categories: make it float"):
        clone(classifier).fit(data, kinds)


def with_labels(labels: list[int]) -> tuple[list[Data], list[int]]:
    """A graph and its class for each label: all nodes but one have label 0."""
    graphs, _ = cycles_and_paths(len(labels))
    data = [as_data(graph, x=torch.zeros(len(graph), dtype=torch.long)) for graph in graphs]
    for one, label in zip(data, labels, strict=True):
        one.x[0] = label
    return data, [i % 2 for i in range(len(labels))]


def test_unknown_categories_are_zeros_with_one_warning():
    data, kinds = with_labels([1, 2] * 6)
    model = clone(classifier).fit(data, kinds)
    new, _ = with_labels([7, 1, 7, -1])
    with pytest.warns(UserWarning, match=r"encoded as zeros: -1, 7 in x\[:, 0\] \(3 nodes\)\.$") as caught:
        probabilities = model.predict_proba(new)
    assert len(caught) == 1
    assert np.isfinite(probabilities).all()
    assert model.model_.features.node_categories == (3,)
    alone = model.predict_proba(new[1:2])  # nothing unknown here, and nothing to warn about
    assert alone == pytest.approx(probabilities[1:2], abs=1e-6)
    other, _ = with_labels([9, 1, 9, -5])  # all unknown categories are encoded alike
    with pytest.warns(UserWarning, match="zeros"):
        assert (model.predict_proba(other) == probabilities).all()


def test_a_category_below_the_largest_is_unknown_too_if_it_did_not_occur():
    data, kinds = with_labels([2] * 12)
    model = clone(classifier).fit(data, kinds)
    assert model.model_.features.node_gaps == ((1,),)
    with pytest.warns(UserWarning, match=r"1 in x\[:, 0\] \(1 node\)"):
        model.predict(with_labels([1, 2])[0])


def test_unknown_categories_are_an_error_on_request():
    data, kinds = with_labels([1, 2] * 6)
    model = CRaWlClassifier(**TINY, handle_unknown="error").fit(data, kinds)
    model.predict(data)
    with pytest.raises(ValueError, match=r"were not there in training: 5 in x\[:, 0\] \(1 node\)\.$"):
        model.predict(with_labels([1, 5])[0])
    with pytest.raises(ValueError, match="handle_unknown must be one of warn, error, not 'ignore'"):
        CRaWlClassifier(**TINY, handle_unknown="ignore").fit(data, kinds)


def test_cross_validation_meets_categories_that_fit_has_not_seen():
    """As with the rare atoms of MUTAG, each of which is in some folds only."""
    data, kinds = with_labels([1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6])
    with pytest.warns(UserWarning, match="encoded as zeros"):
        scores = cross_val_score(classifier, data, kinds, cv=3)
    assert np.isfinite(scores).all()
    with pytest.warns(UserWarning, match="encoded as zeros"):
        search = GridSearchCV(classifier, {"window_size": [2, 4]}, cv=3).fit(data, kinds)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_smiles():
    pytest.importorskip("rdkit")
    molecules = ["C", "CC", "CCO", "CCN", "CCCl", "c1ccccc1", "CC(=O)O", "CCCC"]
    model = clone(regressor).fit(molecules, range(8))
    with pytest.warns(UserWarning, match=r"encoded as zeros: 35 in atomic number \(1 node\)\.$"):
        assert model.predict(np.array(["O", "CCBr"])).shape == (2,)
    with pytest.raises(ValueError, match=r"Graph 1: 'C1CC' is not a molecule"):
        model.predict(["O", "C1CC"])
    with pytest.raises(ValueError, match="Graph 2: there is no SMILES"):
        clone(regressor).fit(["C", "CC", " "], range(3))
    with pytest.raises(
        ValueError, match="Graph 1 must be a SMILES string or a molecule of rdkit, like the others, not float"
    ):
        clone(regressor).fit(["C", float("nan"), "CC"], range(3))
    with pytest.raises(ValueError, match="x has 0 columns here, but had 9 in training"):
        model.predict([nx.path_graph(3)])


# What is refused


@pytest.mark.parametrize(
    ("graphs", "reason"),
    [
        (nx.path_graph(3), "a list of graphs, not a single one"),
        ("CCO", "a list of graphs, not a single one"),
        (
            [nx.path_graph(3), None, nx.path_graph(3)],
            "Graph 1 must be a networkx graph, PyG Data, a SMILES string or a molecule of rdkit",
        ),
        (
            np.ones((3, 2)),
            "Graph 0 must be a networkx graph, PyG Data, a SMILES string or a molecule of rdkit, not ndarray",
        ),
        ([nx.path_graph(3)] * 2, "2 graphs but 3 targets"),
        ([], "0 graphs but 3 targets"),
        (
            [nx.path_graph(3), nx.path_graph(3, nx.DiGraph), nx.path_graph(3)],
            "Graph 1: a node can be entered but not left",
        ),
        ([as_data(nx.path_graph(2), x=torch.tensor([[1.0], [torch.nan]]))] * 3, "Graph 0 has nan in x"),
        ([as_data(nx.path_graph(2), edge_attr=torch.tensor([[1.0], [torch.inf]]))] * 3, "Graph 0 has inf in edge_attr"),
        (
            [as_data(nx.path_graph(2), edge_weight=torch.tensor([1.0, 2.0]))] * 3,
            r"Graph 0: its edges have different weights \(edge_weight\), which are not used; make them a feature",
        ),
        (
            [nx.path_graph(3), nx.karate_club_graph(), nx.path_graph(3)],
            r"Graph 1: its edges have different weights \(weight\), which are not used; make them a feature",
        ),
        ([as_data(nx.path_graph(2), x=torch.ones(2, i)) for i in (1, 2, 1)], "Graph 1 has x of shape"),
    ],
)
def test_wrong_graphs(graphs, reason):
    with pytest.raises(ValueError, match=reason):
        clone(regressor).fit(graphs, [1.0, 2.0, 3.0])


def test_weights_that_are_all_equal_change_nothing():
    graphs = [nx.from_numpy_array(np.ones((n, n)) - np.eye(n)) for n in (3, 4, 5, 6)]  # which sets every weight to 1
    fitted = clone(regressor).fit(graphs, [1.0, 2.0, 3.0, 4.0])
    bare = [nx.complete_graph(n) for n in (3, 4, 5, 6)]
    assert (fitted.predict(graphs) == fitted.predict(bare)).all()


def test_targets_that_differ_late_in_their_digits_are_learned():
    graphs = [nx.path_graph(3 + i) for i in range(12)]
    y = sizes(graphs)
    settings = LEARNING | {"max_epochs": 15}
    near, far = (CRaWlRegressor(**settings).fit(graphs, offset + y).predict(graphs) for offset in (0, 1e9))
    assert far - 1e9 == pytest.approx(near, abs=1e-3)
    assert np.corrcoef(far - 1e9, y)[0, 1] > 0.9


def test_networkx_attributes_that_are_no_numbers():
    graphs, kinds = cycles_and_paths()
    graphs[2].nodes[1]["x"] = 1.0  # and nothing at the others
    with pytest.raises(ValueError, match="Graph 2: attribute 'x' must be a number"):
        clone(classifier).fit(graphs, kinds)
    nx.set_node_attributes(graphs[2], "red", "x")
    with pytest.raises(ValueError, match="Graph 2: attribute 'x' must be a number"):
        clone(classifier).fit(graphs, kinds)


@pytest.mark.parametrize(
    ("model", "y", "reason"),
    [
        (regressor, [1.0, np.nan, 2.0], r"y\[1\] is NaN or infinite"),
        (regressor, [1.0, 2.0, np.inf], r"y\[2\] is NaN or infinite"),
        (regressor, ["a", "b", "c"], "y must hold real numbers"),
        (regressor, np.ones((3, 1, 1)), "y must have one number or a row of numbers"),
        (regressor, None, "requires y to be passed"),
        (classifier, None, "requires y to be passed"),
        (classifier, [0, 0, 0], r"one class only \(0\)"),
        (classifier, ["a", None, "b"], r"y\[1\] is None, which is not a class"),
        (classifier, [0.0, 1.0, np.nan], r"y\[2\] is nan, which is not a class"),
        (classifier, [0.1, 0.2, 0.3], "Unknown label type"),
        (classifier, ["a", "b", "c"], "Every class has a single graph"),
    ],
)
def test_wrong_targets(model, y, reason):
    with pytest.raises(ValueError, match=reason):
        clone(model).fit([nx.path_graph(3)] * 3, y)


def test_graphs_without_edges_or_nodes():
    for graph in (nx.empty_graph(1), nx.empty_graph(0)):
        assert np.isfinite(clone(regressor).fit([graph] * 3, [1.0, 2.0, 3.0]).predict([graph])).all()


def test_too_few_graphs():
    with pytest.raises(ValueError, match="2 graphs are too few to learn from: give at least 3"):
        clone(regressor).fit([nx.path_graph(3)] * 2, [1.0, 2.0])


@pytest.mark.parametrize(
    "parameters",
    [{"num_repeats": 0}, {"max_epochs": 1.5}, {"validation_fraction": 1.0}, {"pool": "max"}, {"device": "tpu!"}],
    ids=lambda parameters: next(iter(parameters)),
)
def test_wrong_parameters_are_told_in_fit(parameters):
    model = clone(regressor).set_params(**parameters)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        model.fit([nx.path_graph(3)] * 4, [1.0, 2.0, 3.0, 4.0])


def test_features_must_be_those_of_fit():
    graphs, kinds = cycles_and_paths()
    wide = [as_data(graph, x=torch.rand(len(graph), 3)) for graph in graphs]
    with pytest.raises(ValueError, match="x has 3 columns here, but had 0 in training: leave it out"):
        clone(classifier).fit(graphs, kinds).predict(wide)
    model = clone(classifier).fit(wide, kinds)
    with pytest.raises(ValueError, match="x has 0 columns here, but had 3 in training"):
        model.predict(graphs)
    with pytest.raises(ValueError, match="edge_attr has 1 columns here, but had 0 in training"):
        model.predict(
            [as_data(graph, x=torch.rand(len(graph), 3), edge_attr=torch.ones(2 * graph.size())) for graph in graphs]
        )
    with pytest.raises(ValueError, match="There are no graphs"):
        model.predict([])


# Repeatable, and usable by scikit-learn


def test_repeatable_by_random_state():
    graphs, _ = cycles_and_paths()
    fitted = [clone(regressor).set_params(random_state=seed).fit(graphs, sizes(graphs)) for seed in (5, 5, 6)]
    same, again, other = (model.predict(graphs) for model in fitted)
    assert (same == again).all()
    assert (same != other).any()
    assert (fitted[0].predict(graphs) == same).all()
    fresh = [clone(regressor).set_params(random_state=None).fit(graphs, sizes(graphs)).predict(graphs) for _ in "ab"]
    assert (fresh[0] != fresh[1]).any()
    drawn = clone(regressor).set_params(random_state=np.random.RandomState(0)).fit(graphs, sizes(graphs))
    assert drawn.predict(graphs).shape == (12,)


def test_a_prediction_does_not_depend_on_the_others():
    graphs, _ = cycles_and_paths()
    model = clone(regressor).fit(graphs, sizes(graphs))
    whole = model.predict(graphs)
    assert model.predict(graphs[::-1])[::-1] == pytest.approx(whole, abs=1e-5)
    assert model.predict(graphs[3:4]) == pytest.approx(whole[3:4], abs=1e-5)


def test_validation_graphs_are_stratified():
    targets = torch.tensor([0] * 30 + [1] * 10)
    task = crawl.data.Task(kind="binary", num_outputs=1)
    split = clone(classifier).set_params(validation_fraction=0.2)._split(targets, task, seed=1)
    assert len(split.train) == 32
    assert targets[split.val].bincount().tolist() == [6, 2]
    rare = torch.tensor([0] * 9 + [1])  # the only one of its class is learned from
    assert all(9 in clone(classifier)._split(rare, task, seed=seed).train for seed in range(20))


def test_pickle():
    graphs, kinds = cycles_and_paths()
    model = clone(classifier).fit(graphs, kinds)
    loaded = pickle.loads(pickle.dumps(model))
    assert (loaded.predict_proba(graphs) == model.predict_proba(graphs)).all()
    assert (copy.deepcopy(model).predict_proba(graphs) == model.predict_proba(graphs)).all()


def test_cross_validation_and_grid_search():
    graphs, kinds = cycles_and_paths()
    assert cross_val_score(classifier, graphs, kinds, cv=3, error_score="raise").shape == (3,)
    assert cross_val_predict(regressor, graphs, sizes(graphs), cv=2).shape == (12,)
    search = GridSearchCV(classifier, {"window_size": [2, 4]}, cv=2, error_score="raise").fit(graphs, kinds)
    assert search.best_params_["window_size"] in (2, 4)
    assert search.predict(graphs).shape == (12,)


@pytest.mark.slow
def test_cross_validation_in_two_processes():
    graphs, kinds = cycles_and_paths()
    alone = cross_val_score(classifier, graphs, kinds, cv=2, error_score="raise")
    assert (cross_val_score(classifier, graphs, kinds, cv=2, n_jobs=2, error_score="raise") == alone).all()


def test_not_fitted():
    for method in (regressor.predict, classifier.predict, classifier.predict_proba):
        with pytest.raises(NotFittedError):
            method([nx.path_graph(3)])


def test_an_estimator_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'CRaWlTransformer'"):
        crawl.CRaWlTransformer  # noqa: B018


# The checks of scikit-learn. Those that look at the estimator alone run on the estimators themselves.

ON_THE_ESTIMATOR = (
    checks.check_estimator_cloneable,
    checks.check_estimator_tags_renamed,
    checks.check_valid_tag_types,
    checks.check_estimator_repr,
    checks.check_no_attributes_set_in_init,
    checks.check_parameters_default_constructible,
    checks.check_get_params_invariance,
    checks.check_set_params,
    checks.check_do_not_raise_errors_in_init_or_set_params,
    checks.check_mixin_order,
    checks.check_estimators_unfitted,
    checks.check_requires_y_none,
)


@pytest.mark.parametrize("check", ON_THE_ESTIMATOR, ids=lambda check: check.__name__)
@pytest.mark.parametrize("model", [regressor, classifier], ids=lambda model: type(model).__name__)
def test_checks_of_scikit_learn_without_data(model, check):
    check(type(model).__name__, model)


# The others feed matrices of numbers, which are no graphs. Here a row becomes a graph: two nodes with it as features.
# What is left out by scikit-learn itself does not apply: sample weights and class weights (`fit` takes none), sparse
# matrices, transformers, clusters, outliers, feature names; array API input is skipped unless SCIPY_ARRAY_API is set.


class _OfRows:
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = False, True, False
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True  # two epochs are too few for the scores that scikit-learn wants
        return tags

    def _as_graphs(self, X, **options):
        rows = torch.tensor(validate_data(self, X, dtype=np.float32, **options))
        edges = torch.tensor([[0, 1], [1, 0]])
        return [Data(x=row.expand(2, -1), edge_index=edges) for row in rows]

    def fit(self, X, y):
        return super().fit(self._as_graphs(X, ensure_min_samples=3), y)

    def predict(self, X):
        check_is_fitted(self)
        return super().predict(self._as_graphs(X, reset=False))

    def transform(self, X):
        check_is_fitted(self)
        return super().transform(self._as_graphs(X, reset=False))


class RegressorOfRows(_OfRows, CRaWlRegressor):
    pass


class ClassifierOfRows(_OfRows, CRaWlClassifier):
    def predict_proba(self, X):
        check_is_fitted(self)
        return super().predict_proba(self._as_graphs(X, reset=False))


@parametrize_with_checks([RegressorOfRows(**TINY), ClassifierOfRows(**TINY)])
def test_checks_of_scikit_learn_with_data(estimator, check):
    check(estimator)


# Numbers that the network cannot hold


def _with_x(num_nodes: int, value: float) -> nx.Graph:
    graph = nx.cycle_graph(num_nodes)
    nx.set_node_attributes(graph, value, "x")
    return graph


def test_features_beyond_float32_are_refused() -> None:
    model = clone(regressor).fit([_with_x(n, float(n)) for n in range(4, 14)], range(10))
    with pytest.raises(ValueError, match=r"Graph 0 has 1e\+39 in x"):
        model.predict([_with_x(5, 1e39)])


def test_answers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match=r"The model answers with NaN or infinity|The loss became"):
        clone(regressor).set_params(lr=1e12, max_epochs=1).fit([nx.cycle_graph(n) for n in range(4, 14)], range(10))


def test_targets_of_more_digits_than_float64_has_are_refused() -> None:
    graphs = [nx.cycle_graph(n) for n in range(4, 14)]
    with pytest.raises(ValueError, match="such as 1152921504606846976, are so close together"):
        clone(regressor).fit(graphs, [2**60 + i for i in range(10)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"validation_fraction": "a"}, "validation_fraction must be a number, not 'a'"),
        ({"random_state": 10**18}, "random_state must be None, a RandomState, or a whole number from 0"),
        ({"lr": "fast"}, "lr must be a positive number, not 'fast'"),
        ({"pool": None}, "pool must be one of sum, mean, not None"),
    ],
)
def test_settings_of_wrong_types(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        clone(regressor).set_params(**settings).fit([nx.cycle_graph(n) for n in range(4, 14)], range(10))


def test_threads_that_fit_at_the_same_time_find_what_each_finds_alone() -> None:
    graphs = [nx.cycle_graph(n) for n in range(4, 14)]

    def fitted(seed: int) -> np.ndarray:
        return clone(regressor).set_params(random_state=seed, max_epochs=3).fit(graphs, range(10)).predict(graphs)

    alone = [fitted(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for found, expected in zip(pool.map(fitted, range(4)), alone, strict=True):
                assert np.array_equal(found, expected)


def test_encodings_are_given_to_the_network_in_fit_and_predict():
    graphs, kinds = cycles_and_paths()
    encodings = Encodings(return_steps=4, longest_cycle=4)
    model = clone(CRaWlClassifier(**TINY, encodings=encodings)).fit(graphs, kinds)
    assert model.model_.model.node_encoder.width == encodings.node_width
    assert model.model_.model.edge_encoder.width == encodings.edge_width
    assert np.allclose(model.predict_proba(graphs[3:4]), model.predict_proba(graphs)[3:4], atol=1e-5)
    with pytest.raises(ValueError, match=r"encodings must be a Encodings, not 20"):
        CRaWlClassifier(**TINY, encodings=20).fit(graphs, kinds)


def test_pretraining_changes_what_is_fitted_and_repeats():
    graphs, kinds = cycles_and_paths()
    found = [
        CRaWlClassifier(**TINY, pretraining=pretraining).fit(graphs, kinds).predict_proba(graphs)
        for pretraining in (None, Pretraining(epochs=1), Pretraining(epochs=1))
    ]
    assert np.array_equal(found[1], found[2])
    assert not np.allclose(found[0], found[1])
