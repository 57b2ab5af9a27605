"""A trained model, loaded from a run: predict with it, ask what it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from crawl.checks import MAX_COUNT, MAX_SEED, as_path, check_type, whole_number
from crawl.data.dataset import Dataset
from crawl.data.fingerprint import Fingerprint, task_changes
from crawl.data.store import GraphStore
from crawl.runs.build import build_model
from crawl.runs.contents import described
from crawl.runs.experiment import Experiment
from crawl.runs.features import Features, HandleUnknown
from crawl.runs.folder import RunFolder
from crawl.training.checkpoint import load_checkpoint
from crawl.training.evaluation import Predictions, Scaling, predict
from crawl.training.seeds import derive_seed
from crawl.training.trainer import choose_device

_NOT_COMPARED = (
    "The data cannot be compared with those of the training, because the run is of an older version that kept only "
    "their split and names."
)


class TrainedModel:
    """The best weights of a run, ready to predict.

    Attributes:
        model: The network, in evaluation mode.
        experiment: What it was trained with.
        features: What it expects of graphs, and what it answers.
        record: The content of the run's `result.json`.
        data: The fingerprint of the data it was trained on; None in checkpoints of older versions.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        experiment: Experiment,
        features: Features,
        scaling: Scaling,
        record: dict[str, Any],
        data: Fingerprint | None = None,
    ) -> None:
        self.model, self.experiment, self.features = model.eval(), experiment, features
        self.scaling, self.record, self.data = scaling, record, data

    @classmethod
    def load(cls, path: Path | str, device: str = "auto", *, eval_start_share: float = 1.0) -> TrainedModel:
        """The model of a run's folder, or of a checkpoint file.

        Args:
            path: The folder or the file.
            device: Where to compute.
            eval_start_share: The share of nodes that start a walk in evaluation.

        Raises:
            ValueError: If there is none, it is damaged, it belongs to another architecture, or the share is not above 0
                and at most 1.
        """
        path = as_path("path", path)
        if path.is_dir():
            run = RunFolder.open(path)
            if not run.best.is_file() and run.result.is_file():
                raise ValueError(f"The weights of the run {path} were removed: remove its folder and train it again.")
            if not run.best.is_file():
                raise ValueError(f"The run {path} is not finished: resume it with crawl train --resume {path}.")
            path = run.best
        tensors, description = load_checkpoint(path)
        if "features" not in description:
            raise ValueError(
                f"{path} is a checkpoint of an unfinished training, not of a model; load best.safetensors."
            )
        try:
            experiment, features, scaling, record, data = described(tensors, description)
        except ValueError as error:
            raise ValueError(f"{path} is damaged or of another version: {error}") from None
        model = build_model(experiment, features, eval_start_share)
        model.load_state_dict(tensors)
        return cls(model.to(choose_device(device)), experiment, features, scaling, record, data)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def check_data(self, dataset: Dataset) -> None:
        """Refuse other data than those the model was trained on; warns if a checkpoint cannot tell.

        Raises:
            ValueError: With everything that is different, classes and targets by name.
        """
        if self.data is None:  # of an older version
            changes = task_changes(self.features.task, dataset.task)
            warnings.warn(_NOT_COMPARED, UserWarning, stacklevel=2)
        else:
            changes = self.data.changes_to(Fingerprint.of(dataset))
        if changes:
            raise ValueError(
                f"The data have changed since the model was trained: {'; '.join(changes)}. "
                "Give those it was trained on, or train again."
            )

    def predict(
        self,
        store: GraphStore,
        *,
        num_repeats: int | None = None,
        num_steps: int | None = None,
        seed: int = 0,
        batch_size: int | None = None,
        on_batch: Callable[[], None] | None = None,
        handle_unknown: HandleUnknown = "warn",
    ) -> Predictions:
        """Predictions for all graphs of a store, in its order.

        Args:
            store: Graphs with the features the model expects.
            num_repeats: Evaluations to average; as in the run when None.
            num_steps: Steps of the walks; as in the run when None.
            seed: Of the walks. A graph gets the same prediction whatever else is in the store.
            batch_size: Graphs per step; changes no result.
            on_batch: Called after every step.
            handle_unknown: What to do about categories that did not occur in training: `warn` encodes them as zeros and
                warns once, `error` refuses them.

        Raises:
            ValueError: If the graphs have other features than the model was trained with, or features that are not
                finite.
        """
        check_type("store", store, GraphStore, "build one with GraphStore.from_graphs(graphs)")
        if num_steps is not None and self.experiment.model.name != "crawl":
            raise ValueError(f"A {self.experiment.model.name} does not walk: leave out num_steps.")
        store = self.features.prepared(store, handle_unknown)
        evaluation = self.experiment.evaluation
        num_repeats = evaluation.num_test_repeats if num_repeats is None else num_repeats
        batch_size = evaluation.batch_size if batch_size is None else batch_size
        num_repeats = whole_number("num_repeats", num_repeats, 1, MAX_COUNT)
        batch_size = whole_number("batch_size", batch_size, 1, MAX_COUNT)
        seed = whole_number("seed", seed, -MAX_SEED, MAX_SEED)
        if num_steps is not None:
            num_steps = whole_number("num_steps", num_steps, 1, MAX_COUNT - 1)
        return predict(
            self.model,
            self.features.task,
            store,
            torch.arange(len(store)),
            num_repeats=num_repeats,
            num_steps=num_steps,
            seed=derive_seed(seed, "predict"),
            scaling=self.scaling,
            batch_size=batch_size,
            on_batch=on_batch,
        )
