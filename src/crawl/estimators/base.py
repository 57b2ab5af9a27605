"""What all estimators share: parameters of the network and the training, fitting, and what a fitted one keeps."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Self, get_args

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from torch import Tensor

from crawl.checks import check_choice, positive_number, real_number, shown, whole_number
from crawl.choices import WITH_CNN
from crawl.data.dataset import Dataset
from crawl.data.encoded import with_encodings
from crawl.data.splits import Split
from crawl.data.task import Task
from crawl.encodings.settings import Encodings
from crawl.runs.build import build_model
from crawl.runs.experiment import Experiment, Model
from crawl.runs.features import Features, HandleUnknown
from crawl.runs.sources import GivenData
from crawl.runs.trained import TrainedModel
from crawl.training.pretraining import Pretrainer
from crawl.training.settings import Evaluation, Plateau, Pretraining, Training
from crawl.training.trainer import Trainer
from crawl.walks.plan import WalkPlan

_COUNTS = ("num_layers", "num_steps", "num_eval_steps", "num_repeats", "max_epochs", "patience")


@dataclass(eq=False, repr=False)
class CRaWlEstimator(BaseEstimator):  # type: ignore[misc]
    """A network that is trained by `fit`, without files. Subclasses say what it is given, and what it answers."""

    hidden_channels: int = 64
    num_layers: int = 3
    window_size: int = 8
    num_steps: int = 50
    num_eval_steps: int = 150
    num_repeats: int = 5
    dropout: float = 0.0
    lr: float = 1e-3
    max_epochs: int = 100
    patience: int = 10
    validation_fraction: float = 0.1
    device: str = "auto"
    random_state: int | np.random.RandomState | None = 0
    handle_unknown: HandleUnknown = "warn"
    encodings: Encodings | None = None
    pretraining: Pretraining | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, with the network on the CPU: it can be loaded where there is no GPU."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "model_" in state and next(self.model_.model.parameters()).is_cuda:
            state["model_"] = copy.deepcopy(self.model_).to("cpu")
        return state

    def _check_parameters(self) -> None:
        for name in _COUNTS:
            whole_number(name, getattr(self, name), 1, 2**31 - 1)
        check_choice("handle_unknown", self.handle_unknown, get_args(HandleUnknown))

    def _seed(self) -> int:
        """A seed for everything random."""
        try:
            return int(check_random_state(self.random_state).randint(2**31 - 1))
        except (TypeError, ValueError):
            raise ValueError(
                f"random_state must be None, a RandomState, or a whole number from 0 to {2**32 - 1}, "
                f"not {shown(self.random_state)}."
            ) from None

    def _experiment(self, seed: int, model: Model, batch_size: int | None = None, **walk: Any) -> Experiment:
        """What to do; `walk` are settings of the walks besides those that are parameters. Batches are as usual when
        their size is None. A network that does not walk has no walks, and is evaluated once."""
        plan = None
        if model.has_walks:
            steps: Any = {"num_steps": self.num_steps, "num_eval_steps": self.num_eval_steps}
            plan = WalkPlan(**steps, window_size=self.window_size, **walk)
            _check_windows(model, plan)
        elif self.pretraining is not None:
            raise ValueError(
                f"{model.title} does not walk, so pretraining={shown(self.pretraining)} cannot change it: leave it out."
            )
        training = Training(
            lr=positive_number("lr", self.lr),
            max_epochs=whole_number("max_epochs", self.max_epochs),
            schedule=Plateau(patience=whole_number("patience", self.patience)),
            normalise_targets=True,
        )
        return Experiment(
            name=type(self).__name__,
            data=GivenData(),
            walk=plan,
            model=model,
            training=training if batch_size is None else replace(training, batch_size=batch_size),
            evaluation=Evaluation(num_test_repeats=self.num_repeats if model.has_walks else 1),
            seed=seed,
            encodings=Encodings() if self.encodings is None else self.encodings,
            pretraining=self.pretraining,
        )

    def _train(self, dataset: Dataset, experiment: Experiment) -> Self:
        """Train a network, and keep the weights with the best validation score."""
        self.model_ = self._trained(dataset, experiment)
        return self

    def _trained(self, dataset: Dataset, experiment: Experiment) -> TrainedModel:
        features, seed = Features.of(dataset), experiment.seed
        model = build_model(experiment, features)
        dataset = replace(dataset, store=with_encodings(dataset.store, experiment.encodings))
        if experiment.pretraining is not None:
            how = (experiment.pretraining, experiment.training)
            for _ in Pretrainer(model, dataset, *how, seed=seed, device=self.device).epochs():
                pass
        trainer = Trainer(model, dataset, experiment.training, experiment.evaluation, seed=seed, device=self.device)
        self.history_ = list(trainer.epochs())
        self.n_iter_ = len(self.history_)
        trainer.use_best_weights()
        return TrainedModel(trainer.model, experiment, features, trainer.scaling, record={})

    def _split(self, targets: Tensor, task: Task, seed: int, owner: str = "graph") -> Split:
        """Training and validation part of targets. There is no test part: the caller keeps those to themselves."""
        if not 0 < real_number("validation_fraction", self.validation_fraction) < 1:
            raise ValueError(f"validation_fraction must be between 0 and 1, not {self.validation_fraction}.")
        everything, num_targets = np.arange(len(targets)), len(targets)
        num_val = min(max(round(self.validation_fraction * num_targets), 1), num_targets - 2)
        classes = None if task.kind in ("regression", "multilabel") else targets.numpy()
        try:
            train, val = train_test_split(everything, test_size=num_val, stratify=classes, random_state=seed)
        except ValueError:  # too few of a class for a share in both parts: one of each class is for training
            order = np.random.default_rng(seed).permutation(num_targets)
            _, first = np.unique(targets.numpy()[order], return_index=True)
            val = np.delete(order, first)[:num_val]
            if not len(val):
                raise ValueError(f"Every class has a single {owner}: give at least two of one class.") from None
            train = np.setdiff1d(everything, val)
        return Split(*(torch.from_numpy(np.sort(part)) for part in (train, val, everything[:0])))


def _check_windows(model: Model, plan: WalkPlan) -> None:
    """Refuses windows of walk convolutions that have no centre, or are longer than walks, by the names of parameters
    that estimators have."""
    if not set(WITH_CNN) & set(model.blocks):
        return
    width = plan.window_size + 1
    if width % 2 == 0:
        raise ValueError(f"window_size must be even, so that a window has a centre, not {plan.window_size}.")
    for name in ("num_steps", "num_eval_steps"):
        if (number := getattr(plan, name)) + 1 < width:
            raise ValueError(
                f"Walks of {number} steps ({name}) are shorter than one window of {width} nodes: take {width - 1} "
                f"or more, or a smaller window_size than {plan.window_size}."
            )
