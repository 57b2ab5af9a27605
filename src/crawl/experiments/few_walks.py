"""Trained models evaluated with fewer walks (paper, section 5.1, the second figure)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from crawl.data.dataset import Dataset
from crawl.experiments.folder import RunFolder
from crawl.experiments.run import Result
from crawl.experiments.trained import TrainedModel
from crawl.files import write_atomically
from crawl.models import CRaWl
from crawl.training.evaluation import targets_of


def evaluate_share(trained_run: Path, start_share: float, folder: Path, dataset: Dataset) -> Result:
    """The test score of a trained run with walks from a share of the nodes, written to a folder of its own.

    Raises:
        ValueError: If the run is not finished, or has no walks.
    """
    trained = TrainedModel.load(trained_run)
    if not isinstance(trained.model, CRaWl):
        raise ValueError(f"The model of {trained_run} does not walk.")
    trained.model.eval_start_share = start_share
    predictions = trained.predict(dataset.store.subset(dataset.split.test), seed=trained.experiment.seed)
    values = predictions.scores(targets_of(dataset.store, dataset.split.test))
    scores = {
        "mean": float(np.mean(values)),
        "internal_deviation": float(np.std(values)),
        "of_mean_prediction": predictions.score_of_mean(targets_of(dataset.store, dataset.split.test)),
        "evaluations": values,
    }
    record = {**trained.record, "eval_start_share": start_share, "scores": {"test": scores}}
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder)
    experiment = replace(trained.experiment, name=f"{trained.experiment.name}-walks")
    write_atomically(run.config, experiment.to_json())
    write_atomically(run.result, json.dumps(record, indent=2) + "\n")
    return Result(folder, record)
