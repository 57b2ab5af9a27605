"""Predictions over fresh walks: several evaluations, their mean and how far they lie apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crawl.checks import MAX_COUNT, MAX_SEED, check_type, shown, truth, whole_number
from crawl.data.link_graph import LinkGraph
from crawl.data.one_graph import OneGraph
from crawl.data.store import GraphStore
from crawl.data.task import Task
from crawl.graph import Graph
from crawl.ops.losses import variance_of
from crawl.training.metrics import Array, score
from crawl.training.runner import Runner
from crawl.training.seeds import derive_seed

_FEW_BATCHES = 20  # not worth capturing for a GPU
_ARRAYS = ("repeats", "noise", "member_means", "scaled_mean")  # of predictions; each is `[…, n, k]`


@dataclass(frozen=True)
class Scaling:
    """Targets as the network sees them: (target - mean) / deviation."""

    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    @classmethod
    def of(cls, targets: Tensor, weights: Tensor | None = None) -> Scaling:
        """The scaling that gives these targets mean 0 and deviation 1; missing ones (NaN) are left out.

        With weights, `[n]` or `[n, k]`, both are weighted: what counts for nothing in training decides no unit either.
        """
        known = ~targets.isnan()
        if weights is None:
            shares = known.to(targets.dtype)
        else:
            shares = known * (weights.unsqueeze(1) if weights.dim() < targets.dim() else weights).to(targets.dtype)
        total = shares.sum(0)
        count = torch.where(total > 0, total, 1)
        mean = (shares * targets.nan_to_num()).sum(0) / count
        distances = torch.where(known, targets - mean, 0)
        deviation = ((shares * distances.square()).sum(0) / count).sqrt()
        tiny = (shares * distances.abs()).sum(0) / count  # numbers whose squares are 0
        deviation = torch.where(deviation > 0, deviation, torch.where(tiny > 0, tiny, 1.0))
        return cls(tuple(mean.tolist()), tuple(deviation.tolist()))

    @property
    def num_digits(self) -> tuple[int, ...]:
        """How many digits of each target to write: six, and more if its values are large for how they differ."""
        shares = (abs(mean) / deviation for mean, deviation in zip(self.mean, self.deviation, strict=True))
        return tuple(min(6 + int(math.log10(max(share, 1.0))), 17) for share in shares)

    def apply(self, targets: Tensor) -> Tensor:
        """Targets in the network's unit."""
        if not self.mean:
            return targets
        return (targets - _like(self.mean, targets)) / _like(self.deviation, targets)

    def unit(self, like: Tensor) -> Tensor:
        """What a difference of 1 in the network's unit is in the unit of the targets."""
        return _like(self.deviation, like) if self.mean else torch.ones((), dtype=like.dtype, device=like.device)

    def undo(self, outputs: Tensor) -> Tensor:
        """Outputs in the unit of the targets."""
        if not self.mean:
            return outputs
        return outputs * _like(self.deviation, outputs) + _like(self.mean, outputs)


def _like(values: tuple[float, ...], tensor: Tensor) -> Tensor:
    return _on_device(values, tensor.dtype, tensor.device)


@cache
def _on_device(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Made once: a CUDA graph cannot take numbers from the host."""
    return torch.tensor(values, dtype=dtype, device=device)


@dataclass(frozen=True)
class Predictions:
    """Predictions of one model, or of several that were trained alike, evaluated several times.

    Three spreads say three things, and none of them the others: `walk_spread` how much a prediction depends on the
    walks, `model_spread` how much on the model, and `noise` how far targets scatter around it, as learned.

    Attributes:
        repeats: `[r, n, k]` one prediction per evaluation: values, or probabilities; for a binary task one column, the
            probability of the second class. Of several models, their mean.
        task: What is predicted.
        noise: `[n, k]` the standard deviation of targets around the prediction, in their unit, by models that were
            trained with the loss `beta_nll`: the root of the mean of all variances. None for others.
        member_means: `[m, n, k]` what each of several models predicts, averaged over its evaluations; None for a single
            model.
        num_steps: The steps of the walks; None for those that the model takes in evaluation.
        weights: A hash of the weights of the model; empty if it is not known.
        scaled_mean: `[n, k]` the mean of probabilities at the temperatures of a calibration, which `repeats` and
            `member_means` have each by themselves then; None without a calibration.
    """

    repeats: Array
    task: Task
    noise: Array | None = None
    member_means: Array | None = None
    num_steps: int | None = None
    weights: str = ""
    scaled_mean: Array | None = None

    @classmethod
    def of_members(cls, members: Sequence[Predictions]) -> Predictions:
        """What several models predict together for the same rows, with the same number of evaluations."""
        assert len(members) > 1
        noises = [each.noise for each in members if each.noise is not None]
        return cls(
            np.mean([each.repeats for each in members], axis=0),
            members[0].task,
            np.sqrt(np.mean(np.square(noises), axis=0)) if noises else None,
            np.stack([each.mean for each in members]),
            members[0].num_steps,
        )

    @classmethod
    def joined(cls, pieces: Sequence[Predictions]) -> Predictions:
        """The predictions of several pieces, one after the other."""
        (first, *_) = pieces
        names = [name for name in _ARRAYS if getattr(first, name) is not None]
        found: Any = {name: np.concatenate([getattr(each, name) for each in pieces], axis=-2) for name in names}
        return replace(first, **found)

    def with_gaps(self, is_read: NDArray[np.bool_]) -> Predictions:
        """The same with NaN in the rows of graphs that could not be read; `is_read` has an entry for each graph."""
        known = {name: rows for name in _ARRAYS if (rows := getattr(self, name)) is not None}
        found: Any = {
            name: np.moveaxis(with_gaps(np.moveaxis(rows, -2, 0), is_read), 0, -2) for name, rows in known.items()
        }
        return replace(self, **found)

    @property
    def mean(self) -> Array:
        """`[n, k]` the averaged prediction; of calibrated probabilities, the average at the temperature."""
        mean: Array = self.repeats.mean(axis=0) if self.scaled_mean is None else self.scaled_mean
        return mean

    @property
    def walk_spread(self) -> Array:
        """`[n, k]` the standard deviation of the evaluations: how much the prediction depends on the walks.

        It is not an uncertainty of the prediction: it says nothing about how far from the truth that is.
        """
        spread: Array = self.repeats.std(axis=0)
        return spread

    @property
    def model_spread(self) -> Array | None:
        """`[n, k]` the standard deviation over models of what each predicts, averaged over its evaluations; None for a
        single model."""
        return None if self.member_means is None else np.std(self.member_means, axis=0)

    @property
    def spreads(self) -> dict[str, Array]:
        """`[n, k]` all spreads that there are, by their names: `walk_spread`, and perhaps `model_spread`, `noise`."""
        found = {"walk_spread": self.walk_spread, "model_spread": self.model_spread, "noise": self.noise}
        return {name: spread for name, spread in found.items() if spread is not None}

    def for_each_class(self) -> Predictions:
        """The same with a probability for each of the two classes of a binary task, in their order; `k` is 2 then."""
        if self.task.kind != "binary":
            return self
        known = {name: rows for name in _ARRAYS if (rows := getattr(self, name)) is not None}
        both: Any = {name: np.concatenate([1 - rows, rows], axis=-1) for name, rows in known.items()}
        return replace(self, **both)

    @property
    def classes(self) -> NDArray[np.int64]:
        """`[n]` the most probable class (binary and multi-class tasks). Refuses predictions of which some are NaN."""
        mean = self.mean
        if (missing := np.isnan(mean).any(axis=1)).any():
            raise ValueError(
                f"Graph {int(missing.argmax())} could not be read, so it has no class: leave it out, or use mean."
            )
        return (mean[:, 0] > 0.5).astype(np.int64) if self.task.kind == "binary" else mean.argmax(axis=1)

    def scores(self, targets: Array) -> list[float]:
        """The score of each evaluation by itself, as the paper reports them."""
        return [score(self.task.metric, repeat, targets) for repeat in self.repeats]

    def scores_by_target(self, targets: Array) -> dict[str, list[float]]:
        """The same for each target alone, where there are several with names; else nothing."""
        names, metric = self.task.target_names, self.task.metric
        columns = {name: slice(k, k + 1) for k, name in enumerate(names)} if len(names) > 1 else {}
        return {
            name: [score(metric, repeat[:, column], targets[:, column]) for repeat in self.repeats]
            for name, column in columns.items()
        }

    def score_of_mean(self, targets: Array) -> float:
        """The score of the averaged prediction."""
        return score(self.task.metric, self.mean, targets)


def with_gaps(rows: NDArray[Any], is_read: NDArray[np.bool_]) -> NDArray[Any]:
    """A row for each entry of `is_read`: in their order those given where it is True, and NaN where it is not."""
    whole = np.full((len(is_read), *rows.shape[1:]), np.nan, rows.dtype)
    whole[is_read] = rows
    return whole


def predict(
    model: nn.Module,
    task: Task,
    store: GraphStore | OneGraph,
    ids: Tensor,
    *,
    num_repeats: int,
    seed: int,
    scaling: Scaling | None = None,
    num_steps: int | None = None,
    batch_size: int | None = None,
    on_batch: Callable[[], None] | None = None,
    has_noise: bool = False,
) -> Predictions:
    """The model's predictions for the graphs `ids`, in this order; rows are nodes for a node-level task.

    The walks of a graph depend on the seed and on the graph, so its prediction does not depend on `batch_size` or on
    what else is predicted, up to rounding; what a model draws from torch's generator itself depends on the batch.

    Args:
        model: It is called with what its `forward` accepts; see `Runner`.
        task: What it predicts.
        store: The graphs, or one graph with targets, which sees all of its edges.
        ids: Which of them.
        num_repeats: Evaluations, each with walks of its own.
        seed: Of the walks.
        scaling: How targets were scaled in training.
        num_steps: Steps of the walks; those of the model in evaluation when None.
        batch_size: Graphs per step, or targets of one graph; 100 when None. A batch of the full graph has all targets.
        on_batch: Called after every step.
        has_noise: Whether the model was trained with the loss `beta_nll`.
    """
    check_type("model", model, nn.Module)
    truth("has_noise", has_noise)
    if has_noise and isinstance(task, Task) and task.kind != "regression":
        raise ValueError(f"has_noise is for numbers, and the task is {task.kind}: leave it out.")
    check_type("task", task, Task)
    check_type("store", store, (GraphStore, OneGraph), "build one with GraphStore.from_graphs(graphs)")
    num_repeats = whole_number("num_repeats", num_repeats, 1, MAX_COUNT)
    if num_steps is not None:
        num_steps = whole_number("num_steps", num_steps, 0, MAX_COUNT - 1)
    ids = store.checked_ids(ids)
    if isinstance(store, LinkGraph) or not torch.equal(ids, torch.arange(len(store))):
        store, ids = store.subset(ids), torch.arange(len(ids))
    runner, batch_size = runner_for(model, task, store, num_repeats, batch_size, has_noise)
    settings: dict[str, Any] = {"num_steps": num_steps, "batch_size": batch_size, "on_batch": on_batch}
    return predict_with(runner, ids, num_repeats=num_repeats, seed=seed, scaling=scaling, **settings)


def runner_for(
    model: nn.Module,
    task: Task,
    store: GraphStore | OneGraph,
    num_repeats: int,
    batch_size: int | None = None,
    has_noise: bool = False,
) -> tuple[Runner, int]:
    """What runs a model on all graphs or targets of a store, captured if that is worth it, and the size of batches.

    The size is 100 when None; a batch of the full graph has all targets, and another size is refused.
    """
    if isinstance(store, OneGraph) and store.batches == "full":
        if batch_size is not None:
            raise ValueError(
                f"A batch of the full graph has all targets, so batch_size={shown(batch_size)} cannot change anything: "
                "leave it out."
            )
        batch_size = max(len(store), 1)
    batch_size = whole_number("batch_size", 100 if batch_size is None else batch_size, 1, MAX_COUNT)
    is_long = num_repeats * len(store) > _FEW_BATCHES * batch_size
    device = next(model.parameters()).device
    how: Any = {"largest_batch": batch_size, "is_captured": is_long, "has_noise": has_noise}
    return Runner(model, task, store, device, **how), batch_size


@torch.no_grad()
def predict_with(
    runner: Runner,
    ids: Tensor,
    *,
    num_repeats: int,
    seed: int,
    scaling: Scaling | None = None,
    num_steps: int | None = None,
    batch_size: int = 100,
    on_batch: Callable[[], None] | None = None,
) -> Predictions:
    """`predict` for the model and the graphs of a runner."""
    model, task = runner.model, runner.task
    seed = whole_number("seed", seed, -MAX_SEED, MAX_SEED)
    was_training = model.training
    model.eval()
    outputs = []
    for repeat in range(num_repeats):
        output = torch.empty(0, task.num_outputs * (2 if runner.has_noise else 1))
        if len(ids):
            walk_seed = derive_seed(seed, "evaluation", repeat)
            output = runner.predict(ids, batch_size, seed=walk_seed, num_steps=num_steps, on_batch=on_batch)
        outputs.append(output)
    model.train(was_training)
    runner.store.check_unchanged()
    on_host, scaling = torch.stack(outputs).cpu().double(), scaling or Scaling()
    noise: Array | None = None
    if runner.has_noise:
        on_host, raw = on_host.chunk(2, dim=2)
        noise = (variance_of(raw).mean(dim=0).sqrt() * scaling.unit(raw)).numpy()
    repeats = [_as_prediction(task, output, scaling).numpy() for output in on_host]
    return Predictions(np.stack(repeats), task, noise, num_steps=num_steps)


@torch.no_grad()
def embed_with(
    runner: Runner,
    ids: Tensor,
    *,
    num_repeats: int,
    seed: int,
    num_steps: int | None = None,
    batch_size: int = 100,
    on_batch: Callable[[], None] | None = None,
) -> NDArray[np.float32]:
    """`[n, d]` what the head of a runner's model sees, as the mean of evaluations with the walks of `predict_with`."""
    model = runner.model
    was_training = model.training
    model.eval()
    total: Tensor | None = None
    for repeat in range(num_repeats):
        walk_seed = derive_seed(seed, "evaluation", repeat)
        found = runner.embed(ids, batch_size, seed=walk_seed, num_steps=num_steps, on_batch=on_batch).float()
        total = found if total is None else total + found
    model.train(was_training)
    runner.store.check_unchanged()
    assert total is not None
    embeddings: NDArray[np.float32] = (total / num_repeats).cpu().numpy()
    return embeddings


def mean_coverage(runner: Runner, ids: Tensor, *, seed: int, batch_size: int) -> dict[str, float] | None:
    """The shares of `nodes` and `edges` that walks see in the first evaluation of `predict_with`, as means over graphs.

    None for a model without walks, without graphs, and for targets of one graph.
    """
    if runner.plan is None or len(ids) == 0 or isinstance(runner.store, OneGraph):
        return None
    walk_seed, shares = derive_seed(seed, "evaluation", 0), []
    for part in torch.split(ids, batch_size):
        graph = Graph.from_data(runner.store.batch(part))
        keys = runner.keys_of(part).to(graph.device)
        walks = runner.plan.sample(graph, seed=walk_seed, graph_keys=keys)
        shares.append(torch.stack(walks.coverage(graph)))
    nodes, edges = torch.cat(shares, dim=1).double().mean(dim=1).tolist()
    return {"nodes": nodes, "edges": edges}


def targets_of(store: GraphStore | OneGraph, ids: Tensor) -> Array:
    """The targets of the graphs `ids`, or the targets `ids` of one graph, as numbers."""
    assert store.y is not None
    has_several = isinstance(store, GraphStore) and store.level != "graph"
    y = store.batch(ids).y if has_several else store.y[ids.to(store.y.device)]
    targets: Array = y.double().cpu().numpy()
    return targets


def _as_prediction(task: Task, output: Tensor, scaling: Scaling) -> Tensor:
    if not bool(output.isfinite().all()):
        raise ValueError(
            "The model answers with NaN or infinity: its weights grew too large in training, where a lower training.lr "
            "or training.clip_norm helps, or the features are too large: scale them down."
        )
    if task.kind == "regression":
        return scaling.undo(output)
    return output.softmax(dim=1) if task.kind == "multiclass" else output.sigmoid()
