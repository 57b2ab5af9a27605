"""The one training loop, for every task."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from crawl.checks import MAX_SEED, check_type, shown, whole_number
from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.data.targets import float32_blurs
from crawl.data.task import Task
from crawl.nn.dropout import Dropout
from crawl.ops.losses import beta_nll, class_loss, known_loss
from crawl.ops.triton.streams import backward
from crawl.tensor_checks import as_device
from crawl.training.calling import draws_from_torch
from crawl.training.checkpoint import check_history, check_state, check_weights
from crawl.training.evaluation import Predictions, Scaling, mean_coverage, predict_with, targets_of
from crawl.training.norms import Norms
from crawl.training.ranks import Ranks
from crawl.training.runner import Function, Runner
from crawl.training.schedule import Schedule
from crawl.training.seeds import derive_seed
from crawl.training.settings import Evaluation, Training
from crawl.training.update import WeightUpdate
from crawl.training.weights import weighted, weights_of


class Trainer:
    """Trains a model epoch by epoch and remembers the weights with the best validation score.

    Everything random is derived from the seed and the epoch, so that training resumes from `state` as if it had never
    stopped: the same seed on the same machine gives the same weights, bit for bit. With `training.average_decay`, the
    averaged weights are validated and remembered; between epochs the model has those that are trained.

    Args:
        model: It is called with what its `forward` accepts (see `Runner`); its parameters are trained in place.
        dataset: Graphs, targets and split.
        training: How to train.
        evaluation: How to evaluate.
        seed: Of the order of graphs, the walks and dropout.
        device: Where to compute; `auto` takes a GPU if there is one.
        ranks: The processes that train together, which all make the same calls; one when None.
    """

    epoch_title: ClassVar[str] = "epoch"

    def __init__(
        self,
        model: nn.Module,
        dataset: Dataset,
        training: Training,
        evaluation: Evaluation,
        *,
        seed: int = 0,
        device: str = "auto",
        ranks: Ranks | None = None,
    ) -> None:
        check_type("model", model, nn.Module)
        check_type("dataset", dataset, Dataset, "call crawl.data.from_pyg(graphs), for example")
        check_type("training", training, Training)
        check_type("evaluation", evaluation, Evaluation)
        seed = whole_number("seed", seed, -MAX_SEED, MAX_SEED)
        check_state(model)
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ValueError("model has no parameters to train: none of its parameters requires a gradient.")
        if len(dataset.split.train) == 0:
            raise ValueError(f"{dataset.name} has no graphs in its training split.")
        if dataset.store.y is None:
            raise ValueError(f"The graphs of {dataset.name} have no targets `y` to train on.")
        if dataset.task.kind == "regression" and not training.normalise_targets and float32_blurs(dataset.store.y):
            raise ValueError(
                f"The targets of {dataset.name} are so close together for their size that float32, in which networks "
                "are trained, would not tell them apart: set training.normalise_targets."
            )
        training = training.for_graphs(len(dataset.split.train))
        self.ranks = ranks = Ranks() if ranks is None else ranks
        check_shares(ranks.size, dataset, training)
        if ranks.size > 1:
            ranks.check_equal("The settings of the training", training)
            ranks.check_equal("The data", (len(dataset.store), dataset.split.to_json()))
        if dataset.batches == "full":
            training, evaluation = _with_all_targets(dataset.split, training, evaluation)
        self.device = choose_device(device)
        self.model = model.to(self.device)
        self.task, self.split, self.store = dataset.task, dataset.split, weighted(dataset, training.class_weights)
        largest = max(training.batch_size, evaluation.batch_size)
        has_noise = training.has_noise
        if has_noise and self.task.kind != "regression":
            raise ValueError(
                f"training.loss='beta_nll' is for numbers, and the task is {self.task.kind}: leave it out."
            )
        self.runner = Runner(model, self.task, self.store, self.device, largest_batch=largest, has_noise=has_noise)
        self.norms = Norms(self.model)
        if ranks.size > 1:
            self.model.load_state_dict(ranks.copy_from_first(self.model.state_dict()))
            if training.sync_norms and self.norms.members:
                self.norms.synchronise(ranks.across)
                self.runner.reason = self.runner.reason or "batch norms are synchronised between processes"
        self.runner.warn_if_eager()
        self.training, self.evaluation, self.seed = training, evaluation, seed
        self.scaling = Scaling()
        if training.normalise_targets and self.task.kind == "regression":
            targets, weights = targets_of(self.store, self.split.train), weights_of(self.store, self.split.train)
            self.scaling = Scaling.of(torch.from_numpy(targets), weights)
        self.generator = torch.Generator(self.device)
        self.schedule = Schedule(training, self.task.lower_is_better, -(-self.num_batches // training.accumulate))
        self.update = WeightUpdate(self.model, training, self.schedule.rates(), ranks)
        self.history: list[dict[str, Any]] = []
        self.best_epoch = 0
        self.best_weights: dict[str, Tensor] = self._weights()

    @property
    def num_batches(self) -> int:
        """Training batches per epoch."""
        return -(-len(self.split.train) // self.training.batch_size)

    @property
    def records(self) -> list[dict[str, Any]]:
        """What there is to say about each epoch so far."""
        return self.history

    def epochs(self, on_batch: Callable[[Callable[[], float]], None] | None = None) -> Iterator[dict[str, Any]]:
        """One record per epoch until the schedule says that training is over.

        Args:
            on_batch: Called after every batch with a function that returns its loss; on a GPU, that function waits.
        """
        while not self.schedule.is_over:
            yield self._epoch(on_batch)

    def steps(self, batches: list[Tensor], seed: int) -> Iterator[Tensor]:
        """The loss of each training batch, in a tensor that the next may overwrite. The seed is that of the walks."""
        last, accumulate = len(batches) - 1, self.training.accumulate
        is_step = [i % accumulate == accumulate - 1 or i == last for i in range(len(batches))]
        how: Any = {"seed": seed, "is_training": True, "protected": self._changed_by_steps}
        if self.ranks.size == 1:
            functions = [self._step if steps else self._accumulate for steps in is_step]
            yield from self.runner.run(functions, batches, self.training.batch_size, **how)
            return
        shares = [self.ranks.share(batch) for batch in batches]
        is_idle = [len(share) == 0 for share in shares]  # of a last batch that is short: it works on a graph in vain
        shares = [batch[:1] if idle else share for batch, share, idle in zip(batches, shares, is_idle, strict=True)]
        whole = self.runner.reason is None and self.ranks.sum_in_captured_steps  # steps, with what processes add up
        shared = [self._shared_function(idle, whole and steps) for idle, steps in zip(is_idle, is_step, strict=True)]
        results = self.runner.run(shared, shares, self.training.batch_size, **how)
        for idle, steps in zip(is_idle, is_step, strict=True):
            self.ranks.is_idle = idle and not whole
            result = next(results)
            self.ranks.is_idle = False
            self.update.agree()
            if steps and not whole:  # after what is captured, since processes meet here
                self.update.step()
            if accumulate > 1:
                loss, count = self.ranks.across(result)
                yield loss / count.clamp_min(1)
            else:  # the step has added up the losses, too
                yield result if whole else self.update.mean_loss

    def evaluate(self, ids: Tensor, num_repeats: int, purpose: str | int) -> Predictions:
        """Predictions of the model as it is now; `purpose` keeps the walks of different evaluations apart."""
        seed, batch_size = derive_seed(self.seed, "evaluate", purpose), self.evaluation.batch_size
        own = self.ranks.share(ids)
        found = predict_with(
            self.runner, own, num_repeats=num_repeats, seed=seed, scaling=self.scaling, batch_size=batch_size
        )
        noise = None if found.noise is None else self.ranks.gathered(found.noise)
        return replace(found, repeats=self.ranks.gathered(found.repeats, axis=1), noise=noise)

    def coverage(self, ids: Tensor, purpose: str | int) -> dict[str, float] | None:
        """How much of its graphs the model sees in the first evaluation for this purpose; see `mean_coverage`."""
        seed = derive_seed(self.seed, "evaluate", purpose)
        return mean_coverage(self.runner, ids, seed=seed, batch_size=self.evaluation.batch_size)

    def use_best_weights(self) -> None:
        """Put the weights with the best validation score into the model."""
        self.model.load_state_dict(self.best_weights)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values from which `restore` resumes, between two epochs."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        of_update, values = self.update.state()
        values |= {"schedule": self.schedule.state(), "best_epoch": self.best_epoch, "history": self.history}
        return tensors | of_update, {**values, "scaling": [self.scaling.mean, self.scaling.deviation]}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Resume from a state of a trainer with the same arguments.

        Raises:
            ValueError: If it is the state of something else; do not use the trainer any more then.
        """
        try:
            self._restore(tensors, values)
        except (ValueError, KeyError, IndexError, RuntimeError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(
                "The checkpoint does not fit: it belongs to another architecture, or is not one of a training "
                f"({' '.join(str(error).split()).rstrip('.')})."
            ) from error

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimiser": {}, "average": {}}
        for name, tensor in tensors.items():
            group, _, rest = name.partition(".")
            groups[group][rest] = tensor
        for weights in (groups["model"], groups["best"]):
            check_weights(weights, self.model.state_dict())
        self.model.load_state_dict(groups["model"])
        self.best_weights = {name: tensor.to(self.device) for name, tensor in groups["best"].items()}
        self.update.restore(groups["optimiser"], groups["average"], values)
        self.schedule.restore(values["schedule"])
        whole_number("best_epoch", values["best_epoch"], 0, self.schedule.epoch)
        check_history(values["history"], self.schedule.epoch, f"val_{self.task.metric}")
        self.best_epoch, self.history = values["best_epoch"], list(values["history"])
        if "scaling" in values:  # weights belong to the scaling they were trained with
            self.scaling = Scaling(*(tuple(numbers) for numbers in values["scaling"]))

    def _epoch(self, on_batch: Callable[[Callable[[], float]], None] | None) -> dict[str, Any]:
        began = time.perf_counter()
        epoch, rates = self.schedule.epoch + 1, self.schedule.rates()
        self.update.begin_epoch(rates)
        own = () if self.ranks.is_first else (self.ranks.rank,)
        with self._seeded(derive_seed(self.seed, "dropout", epoch, *own)):
            total_loss = self._train_epoch(epoch, on_batch)
        self._share_buffers()
        with self.update.averaged():
            if self.update.average is not None:
                self._share_buffers()
            record = self._evaluate_epoch(epoch, total_loss)
        self.store.check_unchanged()
        self.history.append({"epoch": epoch, "lr": rates[-1], **record, "seconds": time.perf_counter() - began})
        return self.history[-1]

    def _evaluate_epoch(self, epoch: int, total_loss: Tensor) -> dict[str, Any]:
        """The scores of an epoch; remembers its weights if they are the best."""
        is_validated = epoch % self.evaluation.val_every == 0 or epoch == self.training.num_epochs
        if is_validated or self.evaluation.track_test:
            self._measure_norms(epoch)
        val_score = self._score(self.split.val, self.evaluation.num_val_repeats, epoch) if is_validated else None
        loss = float(total_loss) / len(self.split.train)  # only now: a GPU works on the evaluation meanwhile
        if not math.isfinite(loss):
            raise ValueError(
                f"The loss became {loss} in epoch {epoch}: lower training.lr, set training.clip_norm, or scale down "
                "features or targets that are large."
            )
        self.schedule.update(val_score)
        if self.schedule.best in (val_score, None):  # of equal epochs the last, which has learned for longest
            self.best_epoch, self.best_weights = epoch, self._weights()
        record = {"loss": loss, f"val_{self.task.metric}": val_score}
        if self.evaluation.track_test:
            record[f"test_{self.task.metric}"] = self._score(self.split.test, 1, f"test {epoch}")
        return record

    @contextmanager
    def _seeded(self, seed: int) -> Iterator[None]:
        """Where dropout draws from our generator: seeds it, and torch's own if the model may use that."""
        self.generator.manual_seed(seed)
        before = {module: module.generator for module in self.model.modules() if isinstance(module, Dropout)}
        for module in before:
            module.generator = self.generator
        try:
            if not draws_from_torch(self.model):  # others may train in this process
                yield
                return
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
                torch.manual_seed(seed)
                yield
        finally:
            for module, generator in before.items():
                module.generator = generator

    def _score(self, ids: Tensor, num_repeats: int, purpose: str | int) -> float:
        """The mean score of several evaluations."""
        scores = self.evaluate(ids, num_repeats, purpose).scores(targets_of(self.store, ids))
        return sum(scores) / len(scores)

    def _train_epoch(self, epoch: int, on_batch: Callable[[Callable[[], float]], None] | None) -> Tensor:
        """The sum of the losses of the graphs of the epoch."""
        self.model.train()
        batches = list(torch.split(self._shuffled(derive_seed(self.seed, "order", epoch)), self.training.batch_size))
        total = torch.zeros((), device=self.device)
        for batch, loss in zip(batches, self.steps(batches, derive_seed(self.seed, "walks", epoch)), strict=True):
            total.add_(loss, alpha=len(batch))
            if on_batch is not None:
                on_batch(loss.item)
        return total

    def _shuffled(self, seed: int) -> Tensor:
        """The training graphs in random order."""
        order = torch.randperm(len(self.split.train), generator=torch.Generator().manual_seed(seed))
        return self.split.train[order]

    @torch.no_grad()
    def _share_buffers(self) -> None:
        """Let all processes remember the same: the mean of what each of their norms remembers."""
        for buffer in self.model.buffers() if self.ranks.size > 1 else ():
            if buffer.is_floating_point():
                buffer.copy_(self.ranks.across(buffer) / self.ranks.size)

    @torch.no_grad()
    def _measure_norms(self, epoch: int) -> None:
        """Give batch norms the statistics of training graphs with walks as in evaluation, if settings ask for it.

        They are means over batches of equal size; while a batch is measured, all norms use its own statistics.
        """
        num_graphs = self.evaluation.num_norm_graphs
        if num_graphs == 0 or not self.norms.members:
            return
        seed = derive_seed(self.seed, "norms", epoch)
        ids = self._shuffled(seed)[:num_graphs]
        batches = list(torch.tensor_split(ids, -(-len(ids) // self.evaluation.batch_size)))
        batches = batches[self.ranks.rank :: self.ranks.size]
        uses_before = self.norms.num_uses()
        with self.norms.using_batches():
            seen = self.runner.run(
                self._moments, batches, self.evaluation.batch_size, seed=seed, protected=self.norms.buffers
            )
            total = torch.zeros_like(self.norms.moments())
            for batch, moments in zip(batches, seen, strict=True):
                total.add_(moments, alpha=len(batch) / len(ids))
        self.norms.check_used_once(self.norms.num_uses() - uses_before, len(batches))
        self.norms.set_moments(self.ranks.sum_(total))

    def _moments(self, batch: Any) -> Tensor:
        with torch.no_grad():
            self.runner.answer(batch)
        return self.norms.moments()

    def _step(self, batch: Any) -> Tensor:
        """Gradients of one batch and an optimiser step; returns the loss before it."""
        loss = self._accumulate(batch)
        self.update.step()
        return loss

    def _accumulate(self, batch: Any) -> Tensor:
        """Gradients of one batch; returns its loss."""
        if self.training.accumulate > 1:
            sums = self._accumulate_share(batch)
            return sums[0] / sums[1].clamp_min(1)
        loss, _ = self._loss(batch, is_mean=True)
        self.update.optimiser.zero_grad()
        backward(loss)
        return loss.detach()

    def _accumulate_share(self, batch: Any) -> Tensor:
        """Gradients of the summed loss of a batch, or of a share of it; returns that loss and the number of targets."""
        loss, count = self._loss(batch, is_mean=False)
        self.update.optimiser.zero_grad()
        backward(loss)
        self.update.add_gradients(loss.detach(), count)
        return torch.stack([loss.detach(), count.to(loss.dtype)])

    def _accumulate_nothing(self, batch: Any) -> Tensor:
        """What the other processes do, without a share of the batch: gradients of 0, over no targets."""
        loss, count = self._loss(batch, is_mean=False)
        self.update.optimiser.zero_grad()
        backward(loss)  # norms that are synchronised meet here
        torch._foreach_zero_([each.grad for each in self.update.parameters if each.grad is not None])
        self.update.add_gradients(torch.zeros_like(loss), torch.zeros_like(count))
        return loss.new_zeros(2)

    def _shared_function(self, is_idle: bool, has_step: bool) -> Function:
        """What this process does with its share of a batch; with a step, also what all of them do together."""
        if has_step:
            return self._step_together_idle if is_idle else self._step_together
        return self._accumulate_nothing if is_idle else self._accumulate_share

    def _step_together(self, batch: Any) -> Tensor:
        return self._stepped(self._accumulate_share(batch))

    def _step_together_idle(self, batch: Any) -> Tensor:
        return self._stepped(self._accumulate_nothing(batch))

    def _stepped(self, sums: Tensor) -> Tensor:
        """The step of all processes, as a part of what is captured; returns its loss, or else that of the share."""
        is_trial = self.runner.reason is None and not torch.cuda.is_current_stream_capturing()
        self.update.step(is_trial=is_trial)
        return self.update.mean_loss if self.training.accumulate == 1 else sums

    def _loss(self, batch: Any, is_mean: bool) -> tuple[Tensor, Tensor]:
        """The mean or the sum of the losses of a batch, and over how many targets."""
        targets, weights = batch.y, getattr(batch, "sample_weight", None)  # now: a model may write on the data
        answer = self.runner.answer(batch)
        if not answer.requires_grad:
            raise ValueError(
                f"The answer of {type(self.model).__name__} has no gradient: compute it from the parameters, without "
                "detach(), torch.no_grad() and whole numbers."
            )
        return task_loss(self.task, self.training.loss, answer, targets, self.scaling, is_mean=is_mean, weights=weights)

    def _changed_by_steps(self) -> list[Tensor]:
        return [*self.model.state_dict().values(), *self.update.changed_by_steps()]

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}


def check_shares(size: int, dataset: Dataset, training: Training) -> None:
    """Refuse several processes where they cannot share batches."""
    if size > 1 and dataset.batches == "full":
        raise ValueError(
            f"A batch of the full graph cannot be shared by {size} processes: train in one, or choose "
            "batches='closed' (--data.batches closed)."
        )
    if training.batch_size < size:
        raise ValueError(
            f"{size} processes cannot share batches of {training.batch_size} graphs: take fewer processes, or a "
            "larger training.batch_size (--training.batch-size)."
        )


def _with_all_targets(split: Split, training: Training, evaluation: Evaluation) -> tuple[Training, Evaluation]:
    """The settings with batches of all targets of a split. Refuses a size of batches that was chosen."""
    for group, settings, names in (
        ("training", training, ("batch_size", "accumulate")),
        ("evaluation", evaluation, ("batch_size",)),
    ):
        for name in names:
            if (value := getattr(settings, name)) != getattr(type(settings), name):
                raise ValueError(
                    f"A batch of the full graph has all targets, so {group}.{name}={value} cannot change anything: "
                    "leave it out, or choose batches='closed' (--data.batches closed)."
                )
    largest = max(len(split.train), len(split.val), len(split.test))
    return replace(training, batch_size=len(split.train)), replace(evaluation, batch_size=largest)


def task_loss(
    task: Task,
    kind: str,
    output: Tensor,
    targets: Tensor,
    scaling: Scaling,
    *,
    is_mean: bool = True,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean or the sum of the losses over the known targets, 0 if there are none, and the number of these.

    Args:
        task: What is predicted.
        kind: `l1`, `mse`, `beta_nll`, or `auto` for the first or second, whichever suits the metric; for regression.
        output: `[n, k]` the model's output; `[n, 2k]` for `beta_nll`.
        targets: `[n, k]` numbers or labels, or `[n]` classes, with NaN where missing.
        scaling: How targets are scaled for the network; for regression.
        is_mean: Divide the sum by the number of targets.
        weights: `[n]` or `[n, k]` what the losses of targets are multiplied with; with nothing when None.
    """
    how: Any = {"is_mean": is_mean, "weights": weights}
    if task.kind == "multiclass":
        return class_loss(output, targets, **how)
    targets = targets.reshape(len(output), task.num_outputs)
    targets = targets.to(torch.promote_types(targets.dtype, output.dtype))
    if task.kind == "regression":
        targets = scaling.apply(targets).to(output.dtype)  # before they are rounded
        if kind == "beta_nll":
            return beta_nll(output, targets, **how)
        uses_l1 = kind == "l1" or (kind == "auto" and task.metric == "mae")
        return known_loss("l1" if uses_l1 else "mse", output, targets, **how)
    return known_loss("bce", output, targets.to(output.dtype), **how)


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` is a GPU if there is one.

    Raises:
        ValueError: If there is no such device here.
    """
    if isinstance(name, str) and name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', not {shown(name)}.") from error
    if device.type != "cuda":
        as_device(device)  # refuses one that is not there
    if device.type == "meta":
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', not {str(device)!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda' needs an NVIDIA GPU, and torch sees none; use 'cpu' or 'auto'.")
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device
