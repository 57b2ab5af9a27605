"""Predictions over fresh walks: several evaluations, their mean and how far they lie apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crawl.checks import MAX_COUNT, MAX_SEED, check_type, whole_number
from crawl.data.one_graph import OneGraph
from crawl.data.store import GraphStore
from crawl.data.task import Task
from crawl.graph import Graph
from crawl.training.metrics import Array, score
from crawl.training.runner import Runner
from crawl.training.seeds import derive_seed

_FEW_BATCHES = 20  # not worth capturing for a GPU


@dataclass(frozen=True)
class Scaling:
    """Targets as the network sees them: (target - mean) / deviation."""

    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    @classmethod
    def of(cls, targets: Tensor) -> Scaling:
        """The scaling that gives these targets mean 0 and deviation 1; missing ones (NaN) are left out."""
        known = ~targets.isnan()
        count = known.sum(0).clamp_min(1)
        mean = targets.nan_to_num().sum(0) / count
        deviation = (torch.where(known, targets - mean, 0).square().sum(0) / count).sqrt()
        tiny = torch.where(known, targets - mean, 0).abs().sum(0) / count  # numbers whose squares are 0
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
    """Predictions of one model, evaluated several times.

    Attributes:
        repeats: `[r, n, k]` one prediction per evaluation: values, or probabilities; for a binary task one column, the
            probability of the second class.
        task: What is predicted.
    """

    repeats: Array
    task: Task

    @property
    def mean(self) -> Array:
        """`[n, k]` the averaged prediction."""
        mean: Array = self.repeats.mean(axis=0)
        return mean

    @property
    def walk_spread(self) -> Array:
        """`[n, k]` the standard deviation of the evaluations: how much the prediction depends on the walks.

        It is not an uncertainty of the prediction: it says nothing about how far from the truth that is.
        """
        spread: Array = self.repeats.std(axis=0)
        return spread

    def for_each_class(self) -> Predictions:
        """The same with a probability for each of the two classes of a binary task, in their order; `k` is 2 then."""
        if self.task.kind != "binary":
            return self
        return replace(self, repeats=np.concatenate([1 - self.repeats, self.repeats], axis=2))

    @property
    def classes(self) -> NDArray[np.int64]:
        """`[n]` the most probable class (binary and multi-class tasks)."""
        mean = self.mean
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
    batch_size: int = 100,
    on_batch: Callable[[], None] | None = None,
) -> Predictions:
    """The model's predictions for the graphs `ids`, in this order; rows are nodes for a node-level task.

    The walks of a graph depend on the seed and on the graph, so its prediction does not depend on `batch_size` or on
    what else is predicted, up to rounding; what a model draws from torch's generator itself depends on the batch.

    Args:
        model: It is called with what its `forward` accepts; see `Runner`.
        task: What it predicts.
        store: The graphs.
        ids: Which of them.
        num_repeats: Evaluations, each with walks of its own.
        seed: Of the walks.
        scaling: How targets were scaled in training.
        num_steps: Steps of the walks; those of the model in evaluation when None.
        batch_size: Graphs per step.
        on_batch: Called after every step.
    """
    check_type("model", model, nn.Module)
    check_type("task", task, Task)
    check_type("store", store, (GraphStore, OneGraph), "build one with GraphStore.from_graphs(graphs)")
    num_repeats = whole_number("num_repeats", num_repeats, 1, MAX_COUNT)
    batch_size = whole_number("batch_size", batch_size, 1, MAX_COUNT)
    if num_steps is not None:
        num_steps = whole_number("num_steps", num_steps, 0, MAX_COUNT - 1)
    ids = store.checked_ids(ids)
    if not torch.equal(ids, torch.arange(len(store))):
        store, ids = store.subset(ids), torch.arange(len(ids))
    is_long = num_repeats * len(ids) > _FEW_BATCHES * batch_size
    device = next(model.parameters()).device
    runner = Runner(model, task, store, device, largest_batch=batch_size, is_captured=is_long)
    settings: dict[str, Any] = {"num_steps": num_steps, "batch_size": batch_size, "on_batch": on_batch}
    return predict_with(runner, ids, num_repeats=num_repeats, seed=seed, scaling=scaling, **settings)


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
        output = torch.empty(0, task.num_outputs)
        if len(ids):
            walk_seed = derive_seed(seed, "evaluation", repeat)
            output = runner.predict(ids, batch_size, seed=walk_seed, num_steps=num_steps, on_batch=on_batch)
        outputs.append(output)
    model.train(was_training)
    on_host = torch.stack(outputs).cpu().double()
    repeats = [_as_prediction(task, output, scaling or Scaling()).numpy() for output in on_host]
    return Predictions(np.stack(repeats), task)


def mean_coverage(runner: Runner, ids: Tensor, *, seed: int, batch_size: int) -> dict[str, float] | None:
    """The shares of `nodes` and `edges` that walks see in the first evaluation of `predict_with`, as means over graphs.

    None for a model without walks, without graphs, and for targets of one graph.
    """
    if runner.plan is None or len(ids) == 0 or isinstance(runner.store, OneGraph):
        return None
    walk_seed, shares = derive_seed(seed, "evaluation", 0), []
    for part in torch.split(ids, batch_size):
        graph = Graph.from_data(runner.store.batch(part))
        keys = runner.keys.to(graph.device)[part.to(graph.device)]
        walks = runner.plan.sample(graph, seed=walk_seed, graph_keys=keys)
        shares.append(torch.stack(walks.coverage(graph)))
    nodes, edges = torch.cat(shares, dim=1).double().mean(dim=1).tolist()
    return {"nodes": nodes, "edges": edges}


def targets_of(store: GraphStore | OneGraph, ids: Tensor) -> Array:
    """The targets of the graphs `ids`, or the targets `ids` of one graph, as numbers."""
    assert store.y is not None
    per_node = isinstance(store, GraphStore) and store.y_per_node
    y = store.batch(ids).y if per_node else store.y[ids.to(store.y.device)]
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
