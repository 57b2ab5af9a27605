from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as sk

from crawl.data.task import Task
from crawl.training.metrics import LOWER_IS_BETTER, score, why_no_score

RNG = np.random.default_rng(0)
ONE_BY_ONE = {
    "mae": sk.mean_absolute_error,
    "rmse": sk.root_mean_squared_error,
    "r2": sk.r2_score,
    "ap": sk.average_precision_score,
    "roc_auc": sk.roc_auc_score,
    "accuracy": lambda y, p: sk.accuracy_score(y, p > 0.5),
    "macro_f1": lambda y, p: sk.f1_score(y, p > 0.5, average="macro"),
}
VALUES, LABELS = ("mae", "rmse", "r2"), ("accuracy", "macro_f1", "ap", "roc_auc")


def some(metric: str, num_rows: int, num_columns: int) -> tuple[np.ndarray, np.ndarray]:
    predictions = RNG.random((num_rows, num_columns))
    targets = RNG.normal(size=(num_rows, num_columns))
    return predictions, targets if metric in VALUES else (targets > 0).astype(float)


@pytest.mark.parametrize("metric", ONE_BY_ONE)
def test_one_target(metric):
    predictions, targets = some(metric, 40, 1)
    expected = pytest.approx(ONE_BY_ONE[metric](targets[:, 0], predictions[:, 0]))
    assert score(metric, predictions, targets) == expected
    assert score(metric, predictions, targets[:, 0]) == expected  # binary classes come without a second dimension
    assert isinstance(score(metric, predictions, targets), float)


@pytest.mark.parametrize("metric", ONE_BY_ONE)
def test_missing_targets_are_left_out(metric):
    predictions, targets = some(metric, 60, 3)
    targets[RNG.random(targets.shape) < 0.3] = np.nan
    targets[:, 1] = np.nan  # and so is a target nobody knows
    columns = []
    for k in (0, 2):
        known = ~np.isnan(targets[:, k])
        columns.append(ONE_BY_ONE[metric](targets[known, k], predictions[known, k]))
    assert score(metric, predictions, targets) == pytest.approx(np.mean(columns))


@pytest.mark.parametrize("metric", ["ap", "roc_auc"])
def test_one_class_only_has_no_rank_score(metric):
    predictions, targets = some(metric, 20, 2)
    for label in (0.0, 1.0):
        assert math.isnan(score(metric, predictions[:, :1], np.full(20, label)))
        targets[:, 0] = label
        expected = ONE_BY_ONE[metric](targets[:, 1], predictions[:, 1])
        assert score(metric, predictions, targets) == pytest.approx(expected)


@pytest.mark.parametrize("metric", LABELS)
def test_classes(metric):
    probabilities = RNG.dirichlet(np.ones(4), size=50)
    classes = RNG.integers(0, 4, size=50).astype(float)
    guesses = probabilities.argmax(axis=1)
    expected = {
        "accuracy": lambda: sk.accuracy_score(classes, guesses),
        "macro_f1": lambda: sk.f1_score(classes, guesses, average="macro"),
        "ap": lambda: sk.average_precision_score(np.eye(4)[classes.astype(int)], probabilities, average="macro"),
        "roc_auc": lambda: sk.roc_auc_score(classes, probabilities, multi_class="ovr", average="macro"),
    }[metric]()
    assert score(metric, probabilities, classes) == pytest.approx(expected)


def test_classes_that_do_not_occur_are_left_out_of_rank_scores():
    probabilities = RNG.dirichlet(np.ones(3), size=30)
    classes = RNG.integers(0, 2, size=30).astype(float)
    expected = np.mean([sk.roc_auc_score(classes == k, probabilities[:, k]) for k in (0, 1)])
    assert score("roc_auc", probabilities, classes) == pytest.approx(expected)


@pytest.mark.parametrize("metric", ONE_BY_ONE)
def test_nothing_to_score(metric):
    assert math.isnan(score(metric, np.empty((0, 2)), np.empty((0, 2))))
    assert math.isnan(score(metric, np.zeros((3, 2)), np.full((3, 2), np.nan)))


@pytest.mark.parametrize(
    ("metric", "targets", "reason"),
    [
        ("roc_auc", [1, 1], "it has one class only, and roc_auc needs two"),
        ("ap", [[0, 1], [0, np.nan]], "it has one class only, and ap needs two"),
        ("roc_auc", [[0, 1], [1, np.nan]], ""),
        ("accuracy", [1, 1], ""),
        ("r2", [1], "r2 needs two targets"),
        ("mae", [], "it has no graphs"),
        ("mae", [np.nan], "it has no targets"),
    ],
)
def test_why_there_is_no_score(metric, targets, reason):
    targets = np.array(targets, dtype=np.float64)
    assert why_no_score(metric, targets) == reason
    columns = targets[:, None] if targets.ndim == 1 else targets
    assert np.isnan(score(metric, np.full(columns.shape, 0.5), targets)) == bool(reason)


def test_r2_needs_two_targets():
    assert math.isnan(score("r2", np.zeros((1, 1)), np.ones((1, 1))))


def test_a_prediction_that_is_not_a_number_has_no_score():
    assert math.isnan(score("mae", np.array([[np.nan], [1.0]]), np.ones((2, 1))))


def test_every_metric_of_a_task_has_a_direction_and_a_score():
    for kind, metrics in {"regression": VALUES, "binary": LABELS}.items():
        for metric in metrics:
            task = Task(kind=kind, num_outputs=1, metric=metric)
            assert task.lower_is_better == LOWER_IS_BETTER[metric]


def hits_by_hand(k: int, targets: np.ndarray, predictions: np.ndarray) -> float:
    negatives = sorted(predictions[targets == 0], reverse=True)
    if len(negatives) < k:
        return 1.0
    return float(np.mean([each > negatives[k - 1] for each in predictions[targets == 1]]))


def mrr_by_hand(targets: np.ndarray, predictions: np.ndarray) -> float:
    reciprocal = []
    for each in predictions[targets == 1]:
        best = 1 + sum(other > each for other in predictions[targets == 0])
        worst = 1 + sum(other >= each for other in predictions[targets == 0])
        reciprocal.append(2 / (best + worst))
    return float(np.mean(reciprocal))


@pytest.mark.parametrize("num_values", [3, 1000])  # with many equal scores, and with few
def test_links_against_brute_force(num_values):
    rng = np.random.default_rng(num_values)
    for num_rows in (2, 5, 40, 200):
        targets = rng.integers(2, size=num_rows)
        targets[:2] = (0, 1)
        predictions = rng.integers(num_values, size=num_rows) / num_values
        for k in (1, 2, 20, 100):
            expected = hits_by_hand(k, targets, predictions)
            assert score(f"hits@{k}", predictions[:, None], targets) == pytest.approx(expected)
        assert score("mrr", predictions[:, None], targets) == pytest.approx(mrr_by_hand(targets, predictions))


@pytest.mark.parametrize("metric", ["mrr", "hits@2"])
def test_links_of_one_class_have_no_score(metric):
    targets = np.ones(3)
    assert math.isnan(score(metric, np.array([[0.1], [0.2], [0.3]]), targets))
    assert why_no_score(metric, targets) == f"it has one class only, and {metric} needs two"
    assert why_no_score(metric, np.array([0.0, 1.0])) == ""
