"""How far to trust predictions: what a run keeps for it at its end, and what a trained model says by that."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crawl.checks import check_type
from crawl.data.dataset import Dataset
from crawl.data.task import Task
from crawl.files import write_atomically
from crawl.plain import read_checked
from crawl.runs.calibration import CONFIDENCE, Calibration
from crawl.runs.domain import MOST_EMBEDDINGS, Domain, Rows
from crawl.runs.experiment import Experiment
from crawl.runs.folder import RunFolder
from crawl.runs.sources import Data, GivenData, OwnFiles
from crawl.training.evaluation import Predictions, embed_with, targets_of
from crawl.training.metrics import Array
from crawl.training.seeds import derive_seed
from crawl.training.trainer import Trainer

_NOT_KEPT = (
    "it must be loaded from the folder of a run of this version, whose data are one's own and have targets of graphs"
)


class WithUncertainty:
    """What a trained model says about its predictions, as far as its run has kept a calibration and a domain."""

    experiment: Experiment
    record: dict[str, Any]
    calibration: Calibration | None
    domain: Domain | None
    members: tuple[Any, ...]

    def interval(self, predictions: Predictions, confidence: float = CONFIDENCE) -> tuple[NDArray[Any], NDArray[Any]]:
        """`[n, k]` the lower and upper ends of intervals of predicted numbers that hold the truth this often.

        Args:
            predictions: What `predict` has found, with as many evaluations as the run has.
            confidence: The share of intervals that hold the truth, if data are like those of the validation part.

        Raises:
            ValueError: If the run has no calibration, or its validation part is too small for the confidence.
        """
        check_type("predictions", predictions, Predictions, "call predict")
        return self.known_calibration().interval(predictions, confidence)

    def sets(self, predictions: Predictions, confidence: float = CONFIDENCE) -> NDArray[np.bool_]:
        """`[n, t, c]` bool: sets of classes that hold the truth this often; see `Calibration.sets`, and `interval`."""
        check_type("predictions", predictions, Predictions, "call predict")
        return self.known_calibration().sets(predictions, confidence)

    def calibrated(self, predictions: Predictions) -> Predictions:
        """The predictions with probabilities at the temperature that suits the validation part best."""
        check_type("predictions", predictions, Predictions, "call predict")
        return self.known_calibration().scaled(predictions)

    @property
    def knows_distances(self) -> bool:
        """Whether `distances` can tell."""
        return all(each.domain is not None for each in self.members or (self,))

    @property
    def spread_names(self) -> tuple[str, ...]:
        """The spreads that its predictions have; see `Predictions.spreads`."""
        of_models, of_noise = ("model_spread",) * bool(self.members), ("noise",) * self.experiment.training.has_noise
        return ("walk_spread", *of_models, *of_noise)

    def known_calibration(self) -> Calibration:
        """The calibration. Refuses a model that has none, with the reason."""
        if self.calibration is None:
            reason = self.record.get("calibration", {}).get("reason", _NOT_KEPT)
            raise ValueError(f"The model has no calibration: {reason}.")
        return self.calibration

    def known_domain(self) -> Domain:
        """What is near to the training graphs. Refuses a model that does not tell, with the reason."""
        if self.domain is None:
            reason = self.record.get("domain", {}).get("reason", _NOT_KEPT)
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
        calibration = Calibration.of(predictions, targets)
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
