"""Trained models evaluated with fewer walks (paper, section 5.1, the second figure)."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from crawl.data.dataset import Dataset
from crawl.files import write_atomically
from crawl.runs.environment import environment_record, reset_peak_memory
from crawl.runs.folder import RunFolder
from crawl.runs.records import scores_of
from crawl.runs.run import Result
from crawl.runs.trained import TrainedModel
from crawl.training.evaluation import targets_of


def evaluate_share(
    trained_run: Path, start_share: float, folder: Path, dataset: Dataset, device: str = "auto"
) -> Result:
    """The test score of a trained run with walks from a share of the nodes, written to a folder of its own.

    The record is that of the training with these scores. Time, device and the like are those of the evaluation; those
    of the training are under `trained`.

    Raises:
        InUse: If another process is at one of the two folders.
        ValueError: If the run is not finished, has no walks, or was trained on other data.
    """
    began = time.perf_counter()
    reset_peak_memory()
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder)
    with run.locked(), RunFolder.open(trained_run).locked():
        trained = TrainedModel.load(trained_run, device, eval_start_share=start_share)
        trained.check_data(dataset)
        predictions = trained.predict(dataset.store.subset(dataset.split.test), seed=trained.experiment.seed)
        scores = scores_of(predictions, targets_of(dataset.store, dataset.split.test))
        here = environment_record(trained.device, time.perf_counter() - began)
        record = {
            **trained.record,
            **here,
            "trained": {key: trained.record.get(key) for key in here},
            "eval_start_share": start_share,
            "scores": {"test": scores},
        }
        experiment = replace(trained.experiment, name=f"{trained.experiment.name}-walks")
        write_atomically(run.config, experiment.to_json())
        write_atomically(run.result, json.dumps(record, indent=2) + "\n")
    return Result(folder, record)
