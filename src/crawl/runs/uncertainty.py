"""How far to trust predictions: what a run keeps for it at its end, and what a trained model says by that."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crawl.checks import check_type
from crawl.data.dataset import Dataset
from crawl.data.task import Task
from crawl.files import write_atomically
from crawl.plain import read_checked
from crawl.runs.calibration import CONFIDENCE, Calibration
from crawl.runs.domain import MOST_EMBEDDINGS, Domain, Rows
from crawl.runs.experiment import Experiment
from crawl.runs.features import Features
from crawl.runs.folder import RunFolder
from crawl.runs.sources import Data, GivenData, OwnFiles
from crawl.training.checkpoint import digest_of
from crawl.training.evaluation import Predictions, embed_with, targets_of
from crawl.training.metrics import Array
from crawl.training.seeds import derive_seed
from crawl.training.trainer import Trainer

_NOT_KEPT = (
    "train one on data of your own, with targets of graphs and at least 20 validation rows (of an estimator, see "
    "validation_fraction), and load it from the folder of its run, or of save_pretrained, not from a checkpoint file"
)
_NO_EMBEDDINGS = (
    "it has no embeddings of training graphs, and neither categories nor features of graphs; load it from the folder "
    "of a run on data of your own with targets of graphs, not from a saved model or a checkpoint file"
)


class WithUncertainty:
    """What a trained model says about its predictions, as far as its run has kept a calibration and a domain."""

    model: nn.Module
    experiment: Experiment
    features: Features
    record: dict[str, Any]
    calibration: Calibration | None
    domain: Domain | None
    members: tuple[Any, ...]

    @property
    def digest(self) -> str:
        """A hash of the weights, which a calibration is bound to; of an ensemble, of the weights of all members."""
        if self.members:
            return digest_of({}, "".join(member.digest for member in self.members))
        return digest_of(self.model.state_dict())

    def interval(self, predictions: Predictions, confidence: float = CONFIDENCE) -> tuple[NDArray[Any], NDArray[Any]]:
        """`[n, k]` the lower and upper ends of intervals of predicted numbers that hold the truth this often.

        Args:
            predictions: What `predict` has found, with as many evaluations as the run has.
            confidence: The share of intervals that hold the truth, if data are like those of the validation part.

        Raises:
            ValueError: If the run has no calibration, its validation part is too small for the confidence, or the
                predictions are of another model or of walks of another length.
        """
        return self._calibration_for(predictions).interval(predictions, confidence)

    def sets(self, predictions: Predictions, confidence: float = CONFIDENCE) -> NDArray[np.bool_]:
        """`[n, t, c]` bool: sets of classes that hold the truth this often; see `Calibration.sets`, and `interval`."""
        return self._calibration_for(predictions).sets(predictions, confidence)

    def calibrated(self, predictions: Predictions) -> Predictions:
        """The predictions with probabilities at the temperature that suits the validation part best."""
        return self._calibration_for(predictions).scaled(predictions)

    @property
    def knows_distances(self) -> bool:
        """Whether `distances` has percentiles: whether the model has embeddings of training graphs."""
        return all(each.domain is not None for each in self.members or (self,))

    @property
    def knows_far(self) -> bool:
        """Whether `distances` can tell anything; without embeddings, by categories and by features of graphs alone."""
        features = self.features
        is_told = features.node_categories or features.edge_categories or features.num_graph_features
        return self.knows_distances or (features.task.level == "graph" and bool(is_told))

    @property
    def spread_names(self) -> tuple[str, ...]:
        """The spreads that its predictions have; see `Predictions.spreads`."""
        of_models, of_noise = ("model_spread",) * bool(self.members), ("noise",) * self.experiment.training.has_noise
        return ("walk_spread", *of_models, *of_noise)

    def known_calibration(self) -> Calibration:
        """The calibration. Refuses a model that has none, with the reason."""
        if self.calibration is None:
            reason = self.record.get("calibration", {}).get("reason", _NOT_KEPT)
            remedy = ": train it with a larger validation part" if reason.endswith("are needed") else ""
            raise ValueError(f"The model has no calibration: {reason}{remedy}.")
        return self.calibration

    def _calibration_for(self, predictions: Predictions) -> Calibration:
        """The calibration. Refuses predictions that were made in another way than those of the validation part."""
        check_type("predictions", predictions, Predictions, "call predict")
        calibration = self.known_calibration()
        if predictions.weights not in ("", self.digest):
            raise ValueError("These are predictions of another model: give what predict of this one has found.")
        self.check_num_steps(predictions.num_steps)
        return calibration

    def check_num_steps(self, num_steps: int | None, setting: str = "num_steps") -> None:
        """Refuse walks of another length than those that the model was calibrated with."""
        walk = self.experiment.walk
        if walk is not None and num_steps not in (None, walk.num_eval_steps):
            raise ValueError(
                f"The calibration is of predictions with walks of {walk.num_eval_steps} steps, not of {num_steps}: "
                f"leave out {setting}."
            )

    def known_domain(self) -> Domain:
        """What is near to the training graphs. Refuses a model that does not tell, with the reason."""
        if self.domain is None:
            reason = self.record.get("domain", {}).get("reason", _NO_EMBEDDINGS)
            raise ValueError(f"The model does not know how far graphs are from its training data: {reason}.")
        return self.domain


def read_uncertainty(
    run: RunFolder, experiment: Experiment, task: Task, num_graph_features: int = 0
) -> tuple[Calibration | None, Domain | None]:
    """The calibration and the domain in the folder of a run, as far as they are there. Refuses what is damaged."""
    calibration = domain = None
    if run.calibration.is_file():
        remedy = "remove it to predict without intervals, or train again"
        calibration = read_checked(run.calibration, lambda text: Calibration.from_json(text, task), remedy)
    if run.domain.is_file():
        width = getattr(experiment.model, "hidden_channels", None)  # with the features of graphs that the head sees
        domain = Domain.load(run.domain, None if width is None else width + num_graph_features)
    return calibration, domain


def is_calibrated(data: Data, dataset: Dataset) -> bool:
    """Whether a run on these data is calibrated: data of one's own with targets of graphs.

    Benchmarks are for tables of scores; their validation parts may be large, and nobody predicts others with them.
    """
    return dataset.task.level == "graph" and isinstance(data, OwnFiles | GivenData)


def keep_uncertainty(
    run: RunFolder, trainer: Trainer, dataset: Dataset, test: tuple[Predictions, Array]
) -> dict[str, Any]:
    """Write the calibration and the domain of a run; what its record says about them.

    Validation rows are predicted as test rows are, with as many evaluations.
    """
    record: dict[str, Any] = {}
    ids, num_repeats = dataset.split.val, trainer.evaluation.num_test_repeats
    targets, predictions = targets_of(trainer.store, ids), trainer.evaluate(ids, num_repeats, "calibration")
    try:
        calibration = Calibration.of(predictions, targets, digest_of(trainer.model.state_dict()))
    except ValueError as error:
        record["calibration"] = {"reason": f"{error}"}
    else:
        write_atomically(run.calibration, calibration.to_json())
        record["calibration"] = calibration.record({"val": (predictions, targets), "test": test})
    if not (trainer.runner.caller.takes_batch and hasattr(trainer.model, "embed")):
        return record | {"domain": {"reason": f"{type(trainer.model).__name__} has no embeddings"}}
    try:
        domain = Domain.of(*(_embedded(trainer, ids) for ids in (dataset.split.train, dataset.split.val)))
    except ValueError as error:
        return record | {"domain": {"reason": f"{error}"}}
    domain.save(run.domain)
    test_embeddings = _embedded(trainer, dataset.split.test)
    far = [] if not len(test_embeddings) else domain.is_far(test_embeddings).tolist()
    return record | {"domain": {"num_train": len(domain.embeddings), "test": {"count": len(far), "num_far": sum(far)}}}


def _embedded(trainer: Trainer, ids: torch.Tensor) -> Rows:
    """Embeddings of these graphs, or of some of very many, by one evaluation."""
    generator = torch.Generator().manual_seed(0)
    ids = ids[torch.randperm(len(ids), generator=generator)[:MOST_EMBEDDINGS].sort().values]
    seed, batch_size = derive_seed(trainer.seed, "domain"), trainer.evaluation.batch_size
    if not len(ids):
        return torch.empty(0, 1).numpy()
    return embed_with(trainer.runner, ids, num_repeats=1, seed=seed, batch_size=batch_size)
