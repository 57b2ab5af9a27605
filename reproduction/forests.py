"""Random forests on fingerprints and on descriptors of molecules, scored and calibrated as networks are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from crawl.data.dataset import Dataset
from crawl.data.descriptors import descriptors_of
from crawl.data.smiles import read_smiles
from crawl.runs.calibration import Calibration
from crawl.runs.environment import environment_record
from crawl.runs.records import scores_of
from crawl.training.evaluation import Predictions, targets_of

Array = NDArray[np.float64]

FORESTS = {"forest-fingerprints": "a forest on Morgan fingerprints", "forest-descriptors": "a forest on descriptors"}
_NUM_TREES = 100  # scikit-learn's own choice
_NUM_BITS, _RADIUS = 2048, 2


def forest_record(kind: str, dataset: Dataset, num_seeds: int) -> dict[str, Any]:
    """Scores and calibration of forests with several seeds, and of their mean, named as in the record of an ensemble.

    A forest of classifiers or regressors with scikit-learn's own settings, for each target; rows in which a target is
    missing do not train its forest.
    """
    began, parts = time.monotonic(), {"val": dataset.split.val, "test": dataset.split.test}
    assert dataset.graph_names is not None
    inputs = _features(kind, dataset.graph_names)
    targets = {part: targets_of(dataset.store, ids) for part, ids in parts.items()}
    train = targets_of(dataset.store, dataset.split.train)
    members = []
    for seed in range(num_seeds):
        trees = _fitted(dataset.task.kind, inputs[dataset.split.train.numpy()], train.reshape(len(train), -1), seed)
        outputs = {part: _answers(trees, inputs[ids.numpy()]) for part, ids in parts.items()}
        members.append({part: Predictions(output[None], dataset.task) for part, output in outputs.items()})
    together = {part: Predictions.of_members([member[part] for member in members]) for part in parts}
    # The spread over seeds of a forest is no measure of anything that matters: intervals are of one width.
    together = {part: replace(found, member_means=None) for part, found in together.items()}
    found = [_scored(member, targets) for member in members]
    record = {"metric": dataset.task.metric, "num_trees": _NUM_TREES, "members": found, **_scored(together, targets)}
    return record | environment_record(torch.device("cpu"), time.monotonic() - began)


def _features(kind: str, smiles: Sequence[str]) -> Array:
    if kind == "forest-descriptors":
        return np.nan_to_num(np.clip(descriptors_of(smiles), -1e10, 1e10))
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=_RADIUS, fpSize=_NUM_BITS)
    return np.stack([generator.GetFingerprintAsNumPy(read_smiles(each)) for each in smiles]).astype(np.float64)


def _fitted(kind: str, inputs: Array, targets: Array, seed: int) -> list[Any]:
    """A forest for each target."""
    forests = []
    for column in targets.T:
        known = ~np.isnan(column)
        forest = RandomForestRegressor if kind == "regression" else RandomForestClassifier
        forests.append(forest(_NUM_TREES, random_state=seed, n_jobs=1).fit(inputs[known], column[known]))
    return forests


def _answers(forests: Sequence[Any], inputs: Array) -> Array:
    """`[n, k]` values, or the probabilities of the second class."""
    columns = [
        each.predict_proba(inputs)[:, 1] if hasattr(each, "classes_") else each.predict(inputs) for each in forests
    ]
    return np.stack(columns, axis=1)


def _scored(predictions: dict[str, Predictions], targets: dict[str, Array]) -> dict[str, Any]:
    found = {part: (each, targets[part]) for part, each in predictions.items()}
    scores = {part: scores_of(*each) for part, each in found.items()}
    return {"scores": scores, "calibration": Calibration.of(*found["val"]).record(found)}
