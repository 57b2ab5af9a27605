"""Scores of probabilities against other libraries and by hand, and the temperature that mends them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import brier_score_loss, log_loss
from torch import tensor
from torch.nn import functional as F

from crawl.training.reliability import (
    brier,
    expected_calibration_error,
    fit_temperature,
    gaussian_nll,
    nll,
    with_temperature,
)


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of three classes that are right as often as they say, and the classes."""
    generator = np.random.default_rng(0)
    probabilities = softmax(2 * generator.normal(size=(2000, 3)), axis=1)
    classes = np.array([generator.choice(3, p=row) for row in probabilities])
    return probabilities, classes


def test_scores_are_those_of_scikit_learn(rows):
    probabilities, classes = rows
    assert nll(probabilities, classes) == pytest.approx(log_loss(classes, probabilities))
    second = probabilities[:, 1:2]
    yes = (classes == 1).astype(int)
    assert nll(second, yes) == pytest.approx(log_loss(yes, second[:, 0]))
    assert brier(second, yes) == pytest.approx(brier_score_loss(yes, second[:, 0]))
    assert brier(np.array([[0.5, 0.3, 0.2]]), np.array([0])) == pytest.approx(0.25 + 0.09 + 0.04)


def test_the_calibration_error_by_hand():
    probabilities = np.array([[0.9], [0.9], [0.1], [0.6]])  # of the second class; three are sure to 0.9
    assert expected_calibration_error(probabilities, np.array([1, 0, 0, 1])) == pytest.approx((0.7 + 0.4) / 4)
    assert expected_calibration_error(np.array([[1.0], [0.0]]), np.array([1, 0])) == 0


def test_a_temperature_is_found(rows):
    probabilities, classes = rows
    assert fit_temperature(probabilities, classes) == pytest.approx(1, abs=0.1)
    sharp = with_temperature(probabilities, 1 / 2)
    assert fit_temperature(sharp, classes) == pytest.approx(2, rel=0.1)
    mended = with_temperature(sharp, 2)
    assert mended == pytest.approx(probabilities, abs=1e-6)
    assert expected_calibration_error(mended, classes) < expected_calibration_error(sharp, classes) / 2
    assert (sharp.argmax(axis=1) == probabilities.argmax(axis=1)).all()
    assert with_temperature(np.array([[0.8]]), 2.0) == pytest.approx(2 / 3)  # odds of 4 become odds of 2


@pytest.mark.parametrize("seed", range(20))
def test_a_temperature_never_hurts_where_it_is_fitted(seed):
    generator = np.random.default_rng(seed)
    width = int(generator.integers(1, 5))
    size = int(generator.integers(1, 40))
    if width == 1:
        probabilities = generator.random((size, 1)) ** generator.uniform(0.1, 8)
    else:
        probabilities = softmax(generator.normal(scale=generator.uniform(0, 20), size=(size, width)), axis=1)
    classes = generator.integers(0, max(width, 2), size)
    temperature = fit_temperature(probabilities, classes)
    assert 0.01 <= temperature <= 100
    after = with_temperature(probabilities, temperature)
    assert np.isfinite(after).all()
    assert nll(after, classes) <= nll(with_temperature(probabilities, 1.0), classes)


def test_the_likelihood_of_numbers_is_that_of_torch():
    mean, deviation, targets = np.array([0.0, 1.0, 5.0]), np.array([1.0, 2.0, 0.5]), np.array([0.3, -1.0, 5.5])
    expected = F.gaussian_nll_loss(tensor(mean), tensor(targets), tensor(deviation**2), full=True)
    assert gaussian_nll(mean, deviation, targets) == pytest.approx(float(expected))


def test_one_class_says_nothing_about_a_temperature():
    probabilities = np.array([[0.9], [0.6], [0.2]])
    assert fit_temperature(probabilities, np.array([1, 1, 1])) == 1
    assert fit_temperature(probabilities, np.array([1, 1, 0])) != 1
