"""Weights of samples and classes: what the loss is multiplied with, and that it reaches every kind of batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import nn
from torch.nn import functional as F

import crawl
from crawl.data import Dataset, OneGraph, Split, Task
from crawl.data.padding import padded
from crawl.data.target_assembly import ClosedGraph, FullGraph
from crawl.training import Evaluation, Training
from crawl.training.trainer import Trainer
from crawl.training.weights import weighted
from crawl.walks.plan import WalkPlan

ONCE = Evaluation(num_val_repeats=1, num_test_repeats=1)


def with_weights(dataset: Dataset, weights: torch.Tensor | None) -> Dataset:
    return replace(dataset, store=replace(dataset.store, sample_weight=weights))


class Linear(nn.Module):
    """A model without walks or norms, whose gradients are those of a linear regression on pooled features."""

    def __init__(self, width: int, per_node: bool = False) -> None:
        super().__init__()
        self.weight, self.per_node = nn.Parameter(torch.linspace(-1, 1, 3 * width).view(width, 3)), per_node

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        out = x @ self.weight.t()
        if self.per_node:
            return out
        return out.new_zeros(int(batch.max()) + 1, out.shape[1]).index_add(0, batch, out)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass", "multilabel"])
def test_gradients_are_those_of_plain_torch(make_dataset, kind, level):
    width = {"binary": 1, "regression": 2}.get(kind, 3)
    dataset = make_dataset(kind, level=level, num_outputs=width, missing=kind in ("regression", "multilabel"))
    store = dataset.store
    weights = torch.rand(len(store.y), generator=torch.Generator().manual_seed(1)) * 7
    class_weights = "none" if kind == "regression" else "balanced"
    model = Linear(width, level == "node")
    training = Training(batch_size=len(dataset), loss="mse", class_weights=class_weights)
    trainer = Trainer(model, with_weights(dataset, weights), training, ONCE, device="cpu")
    list(trainer.steps([dataset.split.train], seed=0))
    batch = store.batch(dataset.split.train)
    if level == "node":
        owner = torch.repeat_interleave(store.node_ptr.diff())
        rows = torch.cat([(owner == i).nonzero()[:, 0] for i in dataset.split.train])
    else:
        rows = dataset.split.train
    y, weights = store.y[rows], weights[rows]
    reference = Linear(width, level == "node")
    output = reference(batch.x, batch.edge_index, batch.batch)
    if kind == "multiclass":
        balance = compute_class_weight("balanced", classes=np.unique(y), y=y.numpy())
        weights = weights * torch.tensor(balance)[y]
        losses, known = F.cross_entropy(output, y, reduction="none"), torch.ones_like(y, dtype=torch.bool)
    else:
        y = y.view(len(y), -1).float()
        weights, known = weights.unsqueeze(1).expand_as(y).double(), ~y.isnan()
        if kind == "regression":
            losses = F.mse_loss(output, y.nan_to_num(), reduction="none")
        else:
            losses = F.binary_cross_entropy_with_logits(output, y.nan_to_num(), reduction="none")
            for k in range(y.shape[1]):
                seen = y[known[:, k], k].long().numpy()
                balance = compute_class_weight("balanced", classes=np.unique(seen), y=seen)
                weights = weights.clone()
                weights[known[:, k], k] *= torch.tensor(balance)[np.searchsorted(np.unique(seen), seen)]
    ((losses * weights)[known].sum() / weights[known].sum()).backward()  # of one batch, the weighted mean
    torch.testing.assert_close(model.weight.grad, reference.weight.grad, rtol=1e-4, atol=1e-6)


def test_the_mean_weight_of_training_targets_is_1(make_dataset):
    dataset = make_dataset("multilabel", num_outputs=3, missing=True)
    store = weighted(with_weights(dataset, torch.arange(16.0)), "balanced")
    known = ~dataset.store.y[dataset.split.train].isnan()
    assert float(store.sample_weight[dataset.split.train][known].mean()) == pytest.approx(1)
    assert weighted(dataset).sample_weight is None
    once = weighted(with_weights(dataset, torch.full((16,), 5.0)))
    assert torch.equal(once.sample_weight, torch.ones(16))


def test_balanced_classes_count_alike(make_dataset):
    dataset = make_dataset("multiclass", num_outputs=3)
    weights, y = weighted(dataset, "balanced").sample_weight[dataset.split.train], dataset.store.y[dataset.split.train]
    sums = [float(weights[y == c].sum()) for c in y.unique()]
    assert len(sums) > 1
    assert sums == pytest.approx([sums[0]] * len(sums))


def test_a_graph_of_weight_0_is_not_learned_from(make_dataset, make_model):
    dataset = make_dataset("regression")
    weights = torch.ones(16)
    weights[dataset.split.train[::2]] = 0
    other = dataset.store.y.clone()
    other[dataset.split.train[::2]] += 100
    histories = []
    for y in (dataset.store.y, other):
        data = replace(dataset, store=replace(dataset.store, y=y, sample_weight=weights))
        trainer = Trainer(make_model(data), data, Training(batch_size=4, max_epochs=2), ONCE, device="cpu")
        histories.append([record["loss"] for record in trainer.epochs()])
    assert histories[0] == histories[1]


def test_captured_steps_are_weighted_as_by_plain_torch(make_dataset, monkeypatch, wide_tiles):
    """With a variance head, since both are computed by plain torch there, too, but on padded batches."""
    pytest.importorskip("triton")
    dataset = with_weights(make_dataset("regression", num_graphs=5), torch.tensor([0.5, 0.0, 3.0, 1.0, 2.0]))
    training = Training(batch_size=2, max_epochs=1, loss="beta_nll", normalise_targets=True)
    losses = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        torch.manual_seed(0)
        model = crawl.CRaWl(3, 2, hidden_channels=4, num_layers=1, num_steps=4, window_size=2, precision="float32")
        trainer = Trainer(model, dataset, training, ONCE)
        assert (trainer.runner.reason is None) == bool(devices)
        batches = [dataset.split.train[:2], dataset.split.train[2:]]
        losses.append([float(loss) for loss in trainer.steps(batches, seed=0)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_classes_of_nodes_of_one_graph(batches):
    ring = torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12])
    edge_index = torch.cat([ring, ring.flip(0)], dim=1)
    y = (torch.arange(12) % 4 == 0).long()
    graph = crawl.Graph.from_edge_index(edge_index, 12)
    store = OneGraph(graph, torch.arange(12), torch.eye(12)[:, :4], y=y, edge_index=edge_index, batches=batches)
    task = Task(kind="binary", level="node", num_outputs=1)
    dataset = Dataset(name="ring", store=store, task=task, split=Split(*torch.arange(12).split([8, 2, 2])))
    store = weighted(dataset, "balanced")
    weights, ids = store.sample_weight, torch.tensor([4, 1, 7])
    assert float(weights[:8][y[:8] == 1].sum()) == pytest.approx(float(weights[:8][y[:8] == 0].sum()))
    assert torch.equal(store.subset(ids).sample_weight, weights[ids])
    assert torch.equal(store.batch(ids).sample_weight, weights[ids])
    plan, device = WalkPlan(num_steps=4, num_eval_steps=4, window_size=2), torch.device("cpu")
    if batches == "full":
        graphs = FullGraph(store, device, has_walks=False)
        exact = graphs.batch(ids, None, 0, 0)
        (bucket,) = graphs.buckets([ids], 5)
        (places,) = graphs.padded_ids([ids], 5)
        larger = graphs.padded_batch(places, bucket, None, 0, torch.zeros(1).long(), is_training=True)
    else:
        graphs = ClosedGraph(store, device)
        exact = graphs.batch(ids, plan, 4, 0)
        larger = padded(exact, graphs.bucket_of(exact, 5), graphs.walks_per_target(plan))
    assert torch.equal(exact.sample_weight, weights[ids])
    assert torch.equal(larger.sample_weight[:3], weights[ids])
    assert len(larger.sample_weight) == len(larger.y) > 3


def test_what_cannot_be_weighted_is_refused(make_dataset, make_model):
    numbers, classes = make_dataset("regression"), make_dataset("multiclass", num_outputs=3)
    with pytest.raises(ValueError, match="'balanced' is for classes, and the task is regression"):
        weighted(numbers, "balanced")
    with pytest.raises(ValueError, match="No training target has a sample_weight above 0"):
        weighted(with_weights(classes, torch.zeros(16)))
    with pytest.raises(ValueError, match=r"must be 16 numbers, a weight for each target, not \[16, 3\]"):
        weighted(with_weights(classes, torch.ones(16, 3)))
    for wrong in (-1.0, torch.nan, torch.inf):
        with pytest.raises(ValueError, match=r"sample_weight has .* in row 2: give finite numbers that are 0 or more"):
            weighted(with_weights(classes, torch.tensor([1.0, 1.0, wrong] + 13 * [1.0])))
    with pytest.raises(ValueError, match=r"sample_weight must have 16 entries, but its shape is \[3\]"):
        with_weights(classes, torch.ones(3))
    with pytest.raises(ValueError, match="'beta_nll' is for numbers, and the task is multiclass"):
        Trainer(make_model(classes), classes, Training(loss="beta_nll"), ONCE, device="cpu")


@pytest.mark.parametrize("level", ["graph", "node"])
def test_targets_are_scaled_by_the_rows_that_count(make_dataset, level):
    dataset = make_dataset("regression", level=level, num_outputs=2)
    store, first = dataset.store, dataset.split.train[:1]
    owner = torch.repeat_interleave(store.node_ptr.diff()) if level == "node" else torch.arange(len(store))
    is_wrong = owner == first
    wrong = replace(store, y=torch.where(is_wrong.unsqueeze(1), 1e6, store.y), sample_weight=(~is_wrong).float())
    training = Training(batch_size=4, normalise_targets=True)
    settings = (training, ONCE)
    trainer = Trainer(Linear(2, level == "node"), replace(dataset, store=wrong), *settings, device="cpu")
    rest = torch.cat([store.y[owner == i] for i in dataset.split.train[1:]])
    assert trainer.scaling.mean == pytest.approx(rest.mean(0).tolist(), rel=1e-5)
    assert trainer.scaling.deviation == pytest.approx(rest.std(0, correction=0).tolist(), rel=1e-5)
