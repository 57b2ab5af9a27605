"""How much each target counts in the loss: weights of samples and of classes, as one number for each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from crawl.data.dataset import Dataset
from crawl.data.one_graph import OneGraph, Store
from crawl.data.store import GraphStore


def weighted(dataset: Dataset, class_weights: str = "none") -> Store:
    """The graphs of a data set, checked, with the weights that losses are multiplied with in `sample_weight`.

    They are the given weights times those of classes, divided by their mean over the known targets of the training
    part: so the mean of weighted losses over a batch has the size of one without weights, and its gradient is, on
    average, that of the weighted mean over the whole training part. A store without weights stays as it is.

    Args:
        dataset: Graphs, targets and split.
        class_weights: `none`, or `balanced`: a class that n of N training targets have, of K classes that occur,
            weighs N / (K n), as in scikit-learn. The answers yes and no to each label are classes, too.

    Raises:
        ValueError: If weights cannot be used: for numbers or drawn links, or if no training target has one above 0.
    """
    store: Store = dataset.store.checked()
    if class_weights == "none" and store.sample_weight is None:
        return store
    assert store.y is not None  # which the trainer has checked
    kind, targets = dataset.task.kind, store.y.cpu()
    given = torch.ones(len(targets)) if store.sample_weight is None else store.sample_weight.float().cpu()
    is_for_each = kind == "multilabel" or (kind == "regression" and targets.dim() == 2)
    width = (targets.shape[1],) if is_for_each else ()
    if given.dim() > 2 or (given.dim() == 2 and given.shape[1:] not in ((1,), width)):
        wanted = f"{len(targets)} numbers" + (f", or {list(targets.shape)}" if width else "")
        raise ValueError(f"sample_weight must be {wanted}, a weight for each target, not {list(given.shape)}.")
    weights = given if given.dim() == 2 and width else given.reshape(len(targets))
    training = _training_rows(dataset)
    if class_weights == "balanced":
        if kind == "regression":
            raise ValueError(
                "training.class_weights='balanced' is for classes, and the task is regression: leave it out."
            )
        if dataset.task.level == "pair" and isinstance(store, OneGraph):
            raise ValueError(
                "training.class_weights='balanced' cannot weigh pairs, of which as many are drawn as the data say: "
                "leave it out."
            )
        of_classes = _balanced(targets, training)
        weights = of_classes * (weights.unsqueeze(1) if of_classes.dim() > weights.dim() else weights)
    known = ~targets[training].isnan() if targets.is_floating_point() else torch.ones_like(targets[training]).bool()
    counted = weights[training].reshape(len(training), -1) * known.reshape(len(training), -1)
    mean = float(counted.double().sum() / known.sum().clamp_min(1))
    if not mean > 0:
        raise ValueError("No training target has a sample_weight above 0: there would be nothing to learn.")
    weights = weights.double().div(mean).float().to(store.y.device)
    return store.with_weights(weights) if isinstance(store, GraphStore) else replace(store, sample_weight=weights)


def weights_of(store: Store, ids: Tensor) -> Tensor | None:
    """What the targets of the graphs `ids` count, or the targets `ids` of one graph; None where all count alike."""
    weights = store.sample_weight
    if weights is None:
        return None
    if isinstance(store, GraphStore) and store.level != "graph":
        return store.batch(ids).sample_weight.cpu()  # type: ignore[no-any-return]
    return weights[ids.to(weights.device)].cpu()


def _training_rows(dataset: Dataset) -> Tensor:
    """The rows of `y` that belong to the training part."""
    store, ids = dataset.store, dataset.split.train
    if isinstance(store, OneGraph) or store.level == "graph":
        return ids
    owner = torch.repeat_interleave(store.targets_per_graph)
    return torch.isin(owner, ids).nonzero().squeeze(1)


def _balanced(targets: Tensor, training: Tensor) -> Tensor:
    """The weight of the class of each target, in the shape of the targets; 1 for a class that is not in training."""
    columns = targets.reshape(len(targets), -1).double()
    weights = torch.ones_like(columns, dtype=torch.float32)
    for k, column in enumerate(columns.unbind(1)):
        seen = column[training]
        classes, counts = np.unique(seen[~seen.isnan()].numpy(), return_counts=True)
        for value, count in zip(classes, counts, strict=True):
            weights[column == value, k] = float(counts.sum() / (len(classes) * count))
    return weights.reshape(targets.shape)
