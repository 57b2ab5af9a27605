"""Trained models evaluated with fewer walks (paper, section 5.1, the second figure)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor, nn
from torch_geometric.data import Data

from crawl.data.dataset import Dataset
from crawl.experiments.folder import RunFolder
from crawl.experiments.run import Result
from crawl.experiments.trained import TrainedModel
from crawl.graph import Graph
from crawl.models import CRaWl
from crawl.training.checkpoint import write_atomically
from crawl.training.evaluation import targets_of
from crawl.walks import sample_walks


class FewWalks(nn.Module):
    """A model whose walks start at a share of the nodes, in evaluation, too.

    Args:
        model: The model.
        start_share: The share of nodes.
    """

    def __init__(self, model: CRaWl, start_share: float) -> None:
        super().__init__()
        self.model, self.start_share = model, start_share

    def forward(self, data: Data, num_steps: int | None = None, seed: int | None = None) -> Tensor:
        """As the model's own."""
        model = self.model
        if self.start_share >= 1:
            out: Tensor = model(data, num_steps=num_steps, seed=seed)
            return out
        graph = Graph.from_data(data)
        walks = sample_walks(
            graph,
            num_steps=model.num_eval_steps if num_steps is None else num_steps,
            strategy=model.strategy,
            start=self.start_share,
            window_size=model.window_size,
            seed=0 if seed is None else seed,
            p=model.p,
            q=model.q,
            keys=graph.node_keys(data.graph_keys) if "graph_keys" in data else None,
        )
        out = model(data, walks=walks)
        return out


def evaluate_share(trained_run: Path, start_share: float, folder: Path, dataset: Dataset) -> Result:
    """The test score of a trained run with walks from a share of the nodes, written to a folder of its own.

    Raises:
        ValueError: If the run is not finished, or has no walks.
    """
    trained = TrainedModel.load(trained_run)
    if not isinstance(trained.model, CRaWl):
        raise ValueError(f"The model of {trained_run} does not walk.")
    trained.model = FewWalks(trained.model, start_share).eval()
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
