"""How to train and how to evaluate: plain values, the same for every task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from crawl.checks import between, check_fields


@dataclass(frozen=True)
class Training:
    """How to train.

    Attributes:
        lr: The learning rate; the highest one for schedules that change it at every step.
        batch_size: Graphs per batch.
        max_epochs: Stop after this many epochs at the latest.
        schedule: How the learning rate changes. From epoch to epoch: `plateau` (times `factor` after `patience` epochs
            without a better validation score; stop below `min_lr`), `step` (times `factor` once, after epoch
            `step_epoch`), `cosine` (to 0 over `max_epochs`), `interval` (times `factor` every `interval` epochs).
            From step to step: `cosine_per_step` (to 0 at the last step of the last epoch), `one_cycle` (from `lr / 25`
            up to `lr` over the first 30 % of all steps, then down to almost 0).
        patience: Epochs without a better validation score that `plateau` allows.
        factor: What `plateau`, `step` and `interval` multiply the learning rate with.
        min_lr: Below this learning rate `plateau` stops.
        step_epoch: The epoch after which `step` lowers the learning rate.
        interval: Every this many epochs `interval` lowers the learning rate.
        early_stop: Stop after this many epochs without a better validation score; never when None.
        clip_norm: Clip the norm of the gradients; not when None.
        loss: `auto` is L1 for the metric MAE and squared error for other regression, cross entropy for classes.
        normalise_targets: Train a regression on targets with mean 0 and standard deviation 1; scores stay in the given
            unit.
        device: `auto` takes a GPU if there is one.
        optimiser: `adam`, `adamw` (Adam with decoupled weight decay) or `lion` (the sign of a momentum; it wants a
            third to a tenth of the learning rate of Adam, and as many times the weight decay).
        weight_decay: Every step also shrinks the weights by `lr * weight_decay` of their size. Norms, biases and
            parameters of one dimension are left out. For `adamw` and `lion`.
        warmup_epochs: Let the learning rate rise linearly over this many epochs, step by step; may be a fraction. Not
            for `one_cycle`, which has a rise of its own.
        accumulate: Batches per step of the optimiser. Gradients are means over all their targets, so this is like a
            batch of `accumulate * batch_size` graphs, except that batch norms see one batch at a time.
        average_decay: Validate, keep and return an exponential average of the weights, which keeps this share of itself
            at every step (0.999, say; less in the first steps); the weights themselves when None.
    """

    lr: float = 1e-3
    batch_size: int = 50
    max_epochs: int = 1000
    schedule: Literal["plateau", "step", "cosine", "interval", "cosine_per_step", "one_cycle"] = "plateau"
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
    optimiser: Literal["adam", "adamw", "lion"] = "adam"
    weight_decay: float = 0.0
    warmup_epochs: float = 0.0
    accumulate: int = 1
    average_decay: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, "training", at_least_0=("step_epoch", "min_lr", "weight_decay", "warmup_epochs"))
        between("training.factor", self.factor, 0, 1)
        if self.average_decay is not None:
            between("training.average_decay", self.average_decay, 0, 1)
        if self.schedule == "plateau" and self.lr < self.min_lr:
            raise ValueError(f"training.min_lr must not be above training.lr={self.lr}, as {self.min_lr} is.")
        if self.optimiser == "adam" and self.weight_decay:
            raise ValueError(
                f"training.weight_decay={self.weight_decay} is not for adam: use training.optimiser='adamw'."
            )
        if self.warmup_epochs > self.max_epochs:
            raise ValueError(
                f"training.warmup_epochs must not be above training.max_epochs={self.max_epochs}, "
                f"as {self.warmup_epochs} is."
            )
        if self.schedule == "one_cycle" and self.warmup_epochs:
            raise ValueError(
                f"training.warmup_epochs={self.warmup_epochs} is not for one_cycle, which has a rise of its own: "
                "leave it out, or use training.schedule='cosine_per_step'."
            )


@dataclass(frozen=True)
class Evaluation:
    """How to evaluate: every evaluation draws fresh walks, and several are averaged.

    Attributes:
        num_val_repeats: Evaluations of the validation split after an epoch.
        val_every: Evaluate the validation split after every this many epochs, and after the last. Epochs in between
            count neither for `patience` nor for `early_stop`.
        num_norm_graphs: Before an evaluation, take the statistics of batch norms from this many training graphs, with
            walks as in evaluation. When 0, the statistics gathered in training are used, as in the paper.
        num_test_repeats: Evaluations of the test split at the end.
        batch_size: Graphs per batch. It changes no result except with `num_norm_graphs`, which wants large batches.
        track_test: Also score the test split, once, after every epoch, for protocols that report such scores. The
            validation split still chooses the weights that are kept.
    """

    num_val_repeats: int = 2
    val_every: int = 1
    num_norm_graphs: int = 0
    num_test_repeats: int = 10
    batch_size: int = 100
    track_test: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "evaluation", at_least_0=("num_norm_graphs",))
