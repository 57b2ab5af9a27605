"""How far probabilities and spreads can be relied on: their scores, and the temperature that mends probabilities.

Probabilities are `[n, k]`: of k classes, which sum to 1, or of the second of two classes, k = 1. Targets are `[n]`
classes, all of them known.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from crawl.training.metrics import Array

_LEAST = 1e-12  # of a probability: the logarithm of 0 would be infinite
_LARGEST_LOGARITHM = math.log(100)  # of a temperature; beyond it, probabilities do not change any more
_NUM_BINS = 15


def of_all_classes(probabilities: Array) -> Array:
    """`[n, k]` the probabilities of all classes, also of two."""
    return np.concatenate([1 - probabilities, probabilities], axis=1) if probabilities.shape[1] == 1 else probabilities


def with_temperature(probabilities: Array, temperature: float) -> Array:
    """Probabilities, in their form, whose logarithms are divided by the temperature: above 1 they are less sure.

    The order of classes stays: so do the predicted class, accuracy and ROC-AUC of two classes.
    """
    logits = np.log(np.clip(of_all_classes(probabilities), _LEAST, 1)) / temperature
    scaled: Array = np.exp(logits - logits.max(axis=1, keepdims=True))
    scaled /= scaled.sum(axis=1, keepdims=True)
    return scaled[:, 1:] if probabilities.shape[1] == 1 else scaled


def fit_temperature(probabilities: Array, classes: NDArray[np.int64]) -> float:
    """The temperature with the least negative log likelihood; 1 where no other has a smaller one (Guo et al., 2017).

    It is also 1 where all rows have the same class: of these, nothing can be learned about how sure to be of others.
    """
    if len(np.unique(classes)) < 2:
        return 1.0

    def loss(logarithm: float) -> float:
        return nll(with_temperature(probabilities, math.exp(logarithm)), classes)

    from scipy.optimize import minimize_scalar  # which takes long to import

    found = minimize_scalar(loss, bounds=(-_LARGEST_LOGARITHM, _LARGEST_LOGARITHM), method="bounded")
    return math.exp(float(found.x)) if found.fun < loss(0.0) else 1.0


def nll(probabilities: Array, classes: NDArray[np.int64]) -> float:
    """The mean negative log likelihood of the classes."""
    chosen = of_all_classes(probabilities)[np.arange(len(classes)), classes]
    return float(-np.log(np.clip(chosen, _LEAST, 1)).mean())


def brier(probabilities: Array, classes: NDArray[np.int64]) -> float:
    """The Brier score: the mean squared distance to the truth, of the second of two classes, or summed over several."""
    if probabilities.shape[1] == 1:
        return float(np.square(probabilities[:, 0] - classes).mean())
    truth = classes[:, None] == np.arange(probabilities.shape[1])
    return float(np.square(probabilities - truth).sum(axis=1).mean())


def expected_calibration_error(probabilities: Array, classes: NDArray[np.int64]) -> float:
    """How far accuracy is from the probability of the predicted class, as a mean over rows in 15 equal bins of it."""
    every = of_all_classes(probabilities)
    sure, hit = every.max(axis=1), every.argmax(axis=1) == classes
    bins = np.minimum((sure * _NUM_BINS).astype(int), _NUM_BINS - 1)
    gaps = np.bincount(bins, weights=hit - sure, minlength=_NUM_BINS)
    return float(np.abs(gaps).sum() / len(classes))


def gaussian_nll(mean: Array, deviation: Array, targets: Array) -> float:
    """The mean negative log likelihood of numbers under normal distributions."""
    from scipy.stats import norm  # which takes long to import

    return float(-norm.logpdf(targets, mean, deviation).mean())
