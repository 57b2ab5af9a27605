"""How to train and how to evaluate: plain values, the same for every task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from crawl.checks import check_fields


@dataclass(frozen=True)
class Training:
    """How to train.

    Attributes:
        lr: The first learning rate of Adam.
        batch_size: Graphs per step.
        max_epochs: Stop after so many epochs at the latest.
        schedule: How the learning rate falls: `plateau` (times `factor` after `patience` epochs without a better
            validation score; stop below `min_lr`), `step` (times `factor` once, after epoch `step_epoch`), `cosine`
            (to 0 over `max_epochs`), `interval` (times `factor` every `interval` epochs).
        patience: For `plateau`.
        factor: What the learning rate is multiplied with.
        min_lr: For `plateau`.
        step_epoch: For `step`.
        interval: For `interval`.
        early_stop: Stop after so many epochs without a better validation score; never when None.
        clip_norm: Clip the norm of the gradients; not when None.
        loss: `auto` is L1 for the metric MAE and squared error for other regression, cross entropy for classes.
        normalise_targets: Train a regression on targets with mean 0 and deviation 1; scores stay in the given unit.
        device: `auto` takes a GPU if there is one.
    """

    lr: float = 1e-3
    batch_size: int = 50
    max_epochs: int = 1000
    schedule: Literal["plateau", "step", "cosine", "interval"] = "plateau"
    patience: int = 10
    factor: float = 0.5
    min_lr: float = 1e-6
    step_epoch: int = 50
    interval: int = 20
    early_stop: int | None = None
    clip_norm: float | None = None
    loss: Literal["auto", "l1", "mse"] = "auto"
    normalise_targets: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        check_fields(self, "training", at_least_0=("step_epoch", "min_lr"))
        if not 0 < self.factor < 1:
            raise ValueError(f"training.factor must lie between 0 and 1, not {self.factor}.")
        if self.schedule == "plateau" and self.lr < self.min_lr:
            raise ValueError(f"training.min_lr must not be above training.lr={self.lr}, as {self.min_lr} is.")


@dataclass(frozen=True)
class Evaluation:
    """How to evaluate: every evaluation draws fresh walks, and several are averaged.

    Attributes:
        num_val_repeats: Evaluations of the validation part after an epoch.
        val_every: Evaluate the validation part after every so many epochs, and after the last. Epochs in between count
            neither for `patience` nor for `early_stop`.
        num_norm_graphs: Before an evaluation, take the statistics of batch norms from so many training graphs, with
            walks as in evaluation. When 0, those that were gathered in training are used, as in the paper.
        num_test_repeats: Evaluations of the test part at the end.
        batch_size: Graphs per step. It changes no result, but for that of `num_norm_graphs`, which wants large batches.
        track_test: Also score the test part, once, after every epoch, for protocols that report such scores. The
            weights that are kept are chosen by the validation part all the same.
    """

    num_val_repeats: int = 2
    val_every: int = 1
    num_norm_graphs: int = 0
    num_test_repeats: int = 10
    batch_size: int = 100
    track_test: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "evaluation", at_least_0=("num_norm_graphs",))
