"""How to train and how to evaluate: plain values, the same for every task."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

from crawl.checks import between, check_fields, shown
from crawl.plain import LEFT_OUT, tagged


class _Falling:
    """A schedule that multiplies the learning rate with a factor."""

    factor: float

    def __post_init__(self) -> None:
        check_fields(self, "training.schedule", at_least_0=("min_lr", "step_epoch"))
        between("training.schedule.factor", self.factor, 0, 1)


@dataclass(frozen=True)
class Constant:
    """The learning rate as it is."""

    name: ClassVar[str] = "constant"


@dataclass(frozen=True)
class Plateau(_Falling):
    """Lower the learning rate where the validation score does not get better, and stop when it is low.

    Attributes:
        patience: Epochs without a better validation score before the learning rate falls.
        factor: What the learning rate is multiplied with.
        min_lr: Training stops below this learning rate.
    """

    name: ClassVar[str] = "plateau"
    patience: int = 10
    factor: float = 0.5
    min_lr: float = 1e-6


@dataclass(frozen=True)
class Step(_Falling):
    """Lower the learning rate once.

    Attributes:
        step_epoch: The epoch after which the learning rate falls.
        factor: What the learning rate is multiplied with.
    """

    name: ClassVar[str] = "step"
    step_epoch: int = 50
    factor: float = 0.5


@dataclass(frozen=True)
class Interval(_Falling):
    """Lower the learning rate again and again.

    Attributes:
        interval: The learning rate falls after every this many epochs.
        factor: What the learning rate is multiplied with.
    """

    name: ClassVar[str] = "interval"
    interval: int = 20
    factor: float = 0.5


@dataclass(frozen=True)
class Cosine:
    """From epoch to epoch along half a cosine, to 0 over `max_epochs`."""

    name: ClassVar[str] = "cosine"


@dataclass(frozen=True)
class CosinePerStep:
    """From step to step along half a cosine, to 0 at the last step of the last epoch."""

    name: ClassVar[str] = "cosine_per_step"


@dataclass(frozen=True)
class OneCycle:
    """From step to step from `lr / 25` up to `lr` over the first 30 % of all steps, then down to almost 0."""

    name: ClassVar[str] = "one_cycle"


ScheduleSettings = Plateau | Constant | Step | Interval | Cosine | CosinePerStep | OneCycle
SCHEDULES: dict[str, type[ScheduleSettings]] = {kind.name: kind for kind in get_args(ScheduleSettings)}
tagged(ScheduleSettings, SCHEDULES)


_SUITABLE_STEPS = 2000  # of a training whose number of epochs is not given
_FEWEST_EPOCHS, _MOST_EPOCHS = 20, 200


@dataclass(frozen=True)
class Training:
    """How to train.

    Attributes:
        lr: The learning rate; the highest one for schedules that change it at every step.
        batch_size: Graphs per batch.
        max_epochs: Stop after this many epochs at the latest; None chooses as many as suit the number of training
            graphs: about 2,000 steps, and between 20 and 200 epochs.
        schedule: How the learning rate changes: `constant`, `plateau` (lower where validation does not improve),
            `step` (lower once), `interval` (lower again and again), `cosine` (to 0), `cosine_per_step`, `one_cycle`
            (up and down).
        early_stop: Stop after this many epochs without a better validation score; never when not given.
        clip_norm: Clip the norm of the gradients to this; not when not given.
        loss: The loss of a regression; `auto` is L1 for the metric MAE and squared error for others. With `beta_nll`
            the network also learns a variance, and so how far targets scatter around its prediction.
        normalise_targets: Train a regression on targets with mean 0 and standard deviation 1; scores stay in the given
            unit.
        optimiser: `adam`, `adamw` (Adam with decoupled weight decay) or `lion` (the sign of a momentum; it wants a
            third to a tenth of the learning rate of Adam, and as many times the weight decay).
        weight_decay: Every step of `adamw` or `lion` also shrinks the weights by `lr * weight_decay` of their size.
            With `adam` it is an L2 penalty, as in torch: `weight_decay` times the weights is added to the gradient.
            Norms, biases and parameters of one dimension are left out.
        warmup_epochs: Let the learning rate rise linearly over this many epochs, step by step; may be a fraction. Not
            for `one_cycle`, which has a rise of its own.
        accumulate: Batches per step of the optimiser. Gradients are means over all their targets, so this is like a
            batch of `accumulate * batch_size` graphs, except that batch norms see one batch at a time.
        average_decay: Validate, keep and return an exponential average of the weights, which keeps this share of itself
            at every step (0.999, say; less in the first steps); the weights themselves when not given.
        class_weights: With `balanced`, each class or answer to a label counts in the loss as if all were equally
            frequent in the training part. Scores are not weighted.
        sync_norms: Where several processes train together, let batch norms see the batches of all of them, as one
            process would; otherwise each process normalises by its own share of a batch.
    """

    lr: float = 1e-3
    batch_size: int = 50
    max_epochs: int | None = 1000
    schedule: ScheduleSettings = Plateau()
    early_stop: int | None = None
    clip_norm: float | None = None
    loss: Literal["auto", "l1", "mse", "beta_nll"] = "auto"
    normalise_targets: bool = False
    optimiser: Literal["adam", "adamw", "lion"] = "adam"
    weight_decay: float = 0.0
    warmup_epochs: float = 0.0
    accumulate: int = 1
    average_decay: float | None = None
    class_weights: Literal["none", "balanced"] = field(default="none", metadata=LEFT_OUT)
    sync_norms: bool = field(default=False, metadata=LEFT_OUT)

    @property
    def has_noise(self) -> bool:
        """Whether a network answers with a mean and a variance for each target."""
        return self.loss == "beta_nll"

    @property
    def num_epochs(self) -> int:
        """How many epochs there are at the latest, once that is chosen."""
        assert self.max_epochs is not None
        return self.max_epochs

    def for_graphs(self, num_graphs: int) -> Training:
        """The same, with a number of epochs that suits this many training graphs if none was given."""
        if self.max_epochs is not None:
            return self
        steps_per_epoch = max(1, math.ceil(num_graphs / (self.batch_size * self.accumulate)))
        fewest, most = (
            max(_FEWEST_EPOCHS, math.ceil(self.warmup_epochs)),
            max(_MOST_EPOCHS, math.ceil(self.warmup_epochs)),
        )
        return replace(self, max_epochs=min(max(math.ceil(_SUITABLE_STEPS / steps_per_epoch), fewest), most))

    def __post_init__(self) -> None:
        if type(self.schedule) not in SCHEDULES.values():
            kinds = ", ".join(f"{kind.__name__}()" for kind in SCHEDULES.values())
            raise ValueError(f"training.schedule must be one of {kinds}, not {shown(self.schedule)}.")
        check_fields(self, "training", at_least_0=("weight_decay", "warmup_epochs"))
        if self.average_decay is not None:
            between("training.average_decay", self.average_decay, 0, 1)
        if isinstance(self.schedule, Plateau) and self.lr < self.schedule.min_lr:
            raise ValueError(f"training.min_lr must not be above training.lr={self.lr}, as {self.schedule.min_lr} is.")
        if self.max_epochs is not None and self.warmup_epochs > self.max_epochs:
            raise ValueError(
                f"training.warmup_epochs must not be above training.max_epochs={self.max_epochs}, "
                f"as {self.warmup_epochs} is."
            )
        if isinstance(self.schedule, OneCycle) and self.warmup_epochs:
            raise ValueError(
                f"training.warmup_epochs={self.warmup_epochs} is not for one_cycle, which has a rise of its own: "
                "leave it out, or use cosine_per_step."
            )


@dataclass(frozen=True)
class Pretraining:
    """Before it is trained, let a network predict the bits of walks whose bits it does not see.

    Batch size, optimiser, weight decay, clipping and accumulation are those of the training. The learning rate falls
    from step to step along half a cosine.

    Attributes:
        epochs: Epochs on the training graphs; on the command line, 0 for no pre-training.
        hidden_share: The share of walks whose bits are hidden and predicted.
        lr: The first learning rate; that of the training when not given.
    """

    epochs: int = 50
    hidden_share: float = 0.5
    lr: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, "pretraining")
        between("pretraining.hidden_share", self.hidden_share, 0, 1)

    def as_training(self, training: Training) -> Training:
        """How to pre-train before this training."""
        return replace(
            training,
            lr=training.lr if self.lr is None else self.lr,
            max_epochs=self.epochs,
            schedule=CosinePerStep(),
            early_stop=None,
            warmup_epochs=0.0,
            average_decay=None,
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
