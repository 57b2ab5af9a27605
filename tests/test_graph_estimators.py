"""What estimators of graphs do besides fitting one target: embeddings, validation data, missing targets."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from crawl import CRaWlClassifier, CRaWlRegressor

TINY = {"hidden_channels": 8, "num_layers": 1, "window_size": 4, "num_steps": 6, "num_eval_steps": 6, "num_repeats": 1}
TINY |= {"max_epochs": 2, "device": "cpu"}
GRAPHS = [nx.cycle_graph(4 + i // 2) if i % 2 else nx.path_graph(4 + i // 2) for i in range(12)]
SIZES = np.array([len(graph) for graph in GRAPHS], dtype=float)
NAN = np.nan


def test_embeddings_and_the_names_of_their_columns():
    model = CRaWlRegressor(**TINY).fit(GRAPHS, SIZES)
    found = model.transform(GRAPHS)
    assert (found.shape, found.dtype) == ((12, 8), np.float32)
    assert np.array_equal(found, model.model_.embed(GRAPHS, num_repeats=1, seed=model.model_.experiment.seed))
    assert model.get_feature_names_out().tolist() == [f"crawlregressor{i}" for i in range(8)]
    with pytest.raises(ValueError, match="leave out input_features"):
        model.get_feature_names_out(["a"])
    for call in (lambda: clone(model).transform(GRAPHS), clone(model).get_feature_names_out):
        with pytest.raises(NotFittedError):
            call()


def test_pipelines():
    pipeline = make_pipeline(CRaWlRegressor(**TINY), LinearRegression())
    assert pipeline.fit(GRAPHS, SIZES).score(GRAPHS, SIZES) > 0.9  # sizes are a sum over nodes
    kinds = ["path", "cycle"] * 6
    scores = cross_val_score(make_pipeline(CRaWlClassifier(**TINY), LogisticRegression()), GRAPHS, kinds, cv=2)
    assert np.isfinite(scores).all()
    assert pipeline[:-1].get_feature_names_out().shape == (8,)


def test_validation_data_are_used_and_nothing_else():
    """All graphs are trained on, and the score of an epoch is that on the data that are given."""
    val = GRAPHS[:3], SIZES[:3] + 100
    model = CRaWlRegressor(**TINY).fit(GRAPHS, SIZES, eval_set=val)
    assert model.history_[-1]["val_mae"] > 80
    near = CRaWlRegressor(**TINY).fit(GRAPHS, SIZES, eval_set=(GRAPHS[:3], SIZES[:3]))
    assert near.history_[-1]["val_mae"] < 20
    assert [epoch["loss"] for epoch in near.history_] == [epoch["loss"] for epoch in model.history_]
    kinds = np.array(["path", "cycle"] * 6)
    listed = CRaWlRegressor(**TINY).fit(GRAPHS, SIZES, eval_set=[val])  # as XGBoost and LightGBM take it
    assert [epoch["val_mae"] for epoch in listed.history_] == [epoch["val_mae"] for epoch in model.history_]
    fitted = CRaWlClassifier(**TINY).fit(GRAPHS, kinds, eval_set=(GRAPHS[1:2], ["cycle"]))
    assert fitted.history_[-1]["val_accuracy"] in (0.0, 1.0)


@pytest.mark.parametrize(
    ("eval_set", "message"),
    [
        (GRAPHS, r"eval_set must be a pair \(graphs, targets\), or a list of one such pair"),
        ([], r"eval_set must be a pair \(graphs, targets\)"),
        ([(GRAPHS, SIZES), (GRAPHS, SIZES), (GRAPHS, SIZES)], r"eval_set must be a pair \(graphs, targets\)"),
        ((GRAPHS[:2], SIZES[:3]), "eval_set has 2 graphs and 3 targets"),
        (([], []), "eval_set has 0 graphs and 0 targets"),
        ((GRAPHS[:2], np.ones((2, 2))), r"targets of shape \[2\] a graph, not \[1\] as in y"),
        ((GRAPHS[:1], [NAN]), r"y\[0\] is NaN or infinite"),
    ],
)
def test_wrong_validation_data(eval_set, message):
    with pytest.raises(ValueError, match=message):
        CRaWlRegressor(**TINY).fit(GRAPHS, SIZES, eval_set=eval_set)


def test_a_class_that_only_validation_data_have():
    with pytest.raises(ValueError, match="eval_set has the class 'star', which is not in y"):
        CRaWlClassifier(**TINY).fit(GRAPHS, ["path", "cycle"] * 6, eval_set=(GRAPHS[:1], ["star"]))


def test_missing_numbers_do_not_change_what_is_learned_of_the_others():
    y = np.stack([SIZES, -SIZES], axis=1)
    y[::3, 0], y[1, 1] = NAN, NAN
    found = CRaWlRegressor(**TINY).fit(GRAPHS, y).predict(GRAPHS)
    assert found.shape == (12, 2)
    assert np.isfinite(found).all()
    other = np.where(np.isnan(y), 1e3, y)  # a number in their place is learned
    assert not np.allclose(CRaWlRegressor(**TINY).fit(GRAPHS, other).predict(GRAPHS), found, atol=1.0)


def test_several_labels():
    y = np.stack([np.arange(12) % 2, np.arange(12) < 6, SIZES > 7], axis=1).astype(float)
    y[0, 1] = NAN
    model = CRaWlClassifier(**TINY).fit(GRAPHS, y, eval_set=(GRAPHS[:4], y[:4]))
    probabilities = model.predict_proba(GRAPHS)
    assert probabilities.shape == (12, 3)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert np.array_equal(model.predict(GRAPHS), (probabilities > 0.5).astype(int))
    assert model.classes_.tolist() == [0, 1, 2]
    assert np.isfinite(CRaWlClassifier(**TINY).fit(GRAPHS, y).predict_proba(GRAPHS)).all()


@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        (CRaWlRegressor, [[1, 2], [NAN, NAN], [3, 4]], r"y\[1\] has no target that is known: leave out this graph"),
        (CRaWlRegressor, [[1, NAN], [2, NAN], [3, NAN]], r"y\[:, 1\] has no target that is known"),
        (CRaWlRegressor, [[1, NAN], [np.inf, 1], [3, 2]], r"y\[1\] is infinite"),
        (CRaWlRegressor, [[1], [NAN], [3]], r"y\[1\] is NaN or infinite"),
        (CRaWlClassifier, [[0, 1], [1, 2], [0, 0]], r"y\[1, 1\] is 2: several labels of a graph must be 0, 1 or NaN"),
        (CRaWlClassifier, [[0, NAN], [1, NAN], [0, NAN]], r"y\[:, 1\] has no target that is known"),
    ],
)
def test_targets_that_cannot_be_used(model, rows, message):
    with pytest.raises(ValueError, match=message):
        model(**TINY).fit(GRAPHS[:3], rows)
