"""Estimators with weights, ensembles, intervals and sets."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone

import crawl

SMALL = {"hidden_channels": 8, "num_layers": 1, "num_steps": 8, "num_eval_steps": 8, "window_size": 4}
QUICK = {"max_epochs": 2, "num_repeats": 2, "device": "cpu", "validation_fraction": 0.5}
GRAPHS = [nx.cycle_graph(3 + i % 10) for i in range(48)]
SIZES = [float(len(graph)) for graph in GRAPHS]
KINDS = ["long" if size > 8 else "short" for size in SIZES]


@pytest.fixture(scope="module")
def regressor():
    return crawl.CRaWlRegressor(**SMALL, **QUICK, ensemble=2, loss="beta_nll").fit(GRAPHS, SIZES)


@pytest.fixture(scope="module")
def classifier():
    return crawl.CRaWlClassifier(**SMALL, **QUICK, class_weights="balanced").fit(GRAPHS, KINDS)


def test_intervals_of_an_ensemble(regressor):
    lower, upper = regressor.predict_interval(GRAPHS, 0.8)
    mean = regressor.predict(GRAPHS)
    assert lower.shape == upper.shape == mean.shape == (48,)
    assert (lower < mean).all()
    assert (mean < upper).all()
    assert 0.6 < np.mean((lower <= SIZES) & (upper >= SIZES)) <= 1
    assert len(regressor.model_.members) == 2
    assert regressor.model_.predict(GRAPHS[:3]).spreads.keys() == {"walk_spread", "model_spread", "noise"}
    again = pickle.loads(pickle.dumps(regressor))
    assert again.predict(GRAPHS[:3]) == pytest.approx(mean[:3])
    assert clone(regressor).get_params()["ensemble"] == 2
    assert clone(regressor).get_params()["loss"] == "beta_nll"


def test_sets_of_classes(classifier):
    sets = classifier.predict_set(GRAPHS, 0.9)
    assert sets.shape == (48, 2)
    held = sets[np.arange(48), [list(classifier.classes_).index(kind) for kind in KINDS]]
    assert held.mean() > 0.75
    assert clone(classifier).get_params()["class_weights"] == "balanced"


def test_weights_of_graphs_count_by_their_ratios():
    once = {**SMALL, **QUICK, "max_epochs": 1}
    losses = []
    for weights in (None, np.full(48, 3.0), np.arange(48)):
        losses.append(crawl.CRaWlRegressor(**once).fit(GRAPHS, SIZES, sample_weight=weights).history_[0]["loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[2] != pytest.approx(losses[0], rel=1e-3)


def test_what_cannot_be_is_refused(regressor):
    model = crawl.CRaWlRegressor(**SMALL, **QUICK)
    for wrong in ([1.0], "heavy", [[1.0]] * 48, {"a": 1}):
        with pytest.raises(ValueError, match="sample_weight must be 48 numbers"):
            model.fit(GRAPHS, SIZES, sample_weight=wrong)
    with pytest.raises(ValueError, match=r"sample_weight has -1\.0 in row 0"):
        model.fit(GRAPHS, SIZES, sample_weight=[-1.0] * 48)
    for wrong in (0, 1.5, "2", None):
        with pytest.raises(ValueError, match="ensemble must be"):
            crawl.CRaWlRegressor(**SMALL, ensemble=wrong).fit(GRAPHS, SIZES)
    with pytest.raises(ValueError, match=r"training\.class_weights must be"):
        crawl.CRaWlClassifier(**SMALL, class_weights="heavy").fit(GRAPHS, KINDS)
    with pytest.raises(ValueError, match=r"training\.loss must be"):
        crawl.CRaWlRegressor(**SMALL, loss="l7").fit(GRAPHS, SIZES)
    few = crawl.CRaWlRegressor(**SMALL, **(QUICK | {"validation_fraction": 0.1})).fit(GRAPHS, SIZES)
    with pytest.raises(ValueError, match=r"There is no calibration, because .* at least 20 are needed: give fit more"):
        few.predict_interval(GRAPHS)
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        regressor.predict_interval(GRAPHS, 90)
