from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from crawl.data import Dataset, GraphStore, Split, Task
from crawl.data.identity import graph_keys
from crawl.training import Cosine, Evaluation, Trainer, Training
from crawl.training.evaluation import Predictions, predict, targets_of
from crawl.training.metrics import score


@pytest.fixture
def answer(make_dataset, make_model):
    """Predicts graphs of a store with one and the same model, of which nothing was learned."""
    dataset = make_dataset("regression", num_outputs=2)
    model = make_model(dataset, num_layers=2, virtual_node=True)
    with torch.no_grad():  # as if it had seen some data
        for module in model.modules():
            if hasattr(module, "running_mean"):
                module.running_mean.uniform_(-0.3, 0.3)
        model.readout.head[-1].weight.mul_(10)  # so that other walks make a difference to be seen

    def run(store: GraphStore, ids=None, seed=0, num_repeats=2, **settings) -> Predictions:
        ids = torch.arange(len(store)) if ids is None else torch.tensor(ids)
        return predict(model, dataset.task, store, ids, num_repeats=num_repeats, seed=seed, **settings)

    run.store, run.model = dataset.store, model
    return run


def assert_close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


class TestThePredictionOfAGraph:
    def test_does_not_depend_on_the_batch_size(self, answer):
        expected = answer(answer.store)
        for batch_size in (1, 3, 16):
            assert_close(answer(answer.store, batch_size=batch_size).repeats, expected.repeats)

    def test_does_not_depend_on_its_position(self, answer):
        expected = answer(answer.store)
        order = torch.randperm(16, generator=torch.Generator().manual_seed(1)).tolist()
        assert_close(answer(answer.store, order).repeats, expected.repeats[:, order])
        assert_close(answer(answer.store.subset(order)).repeats, expected.repeats[:, order])

    def test_does_not_depend_on_what_else_is_there(self, answer):
        expected = answer(answer.store)
        assert_close(answer(answer.store.subset([5])).repeats, expected.repeats[:, [5]])
        twice = GraphStore.concatenate([answer.store.subset([9, 5]), answer.store])
        assert_close(answer(twice).repeats[:, 2:], expected.repeats)
        assert_close(answer(twice).repeats[:, 1], expected.repeats[:, 5])

    def test_depends_on_the_seed_and_on_the_repeat(self, answer):
        a, b = answer(answer.store), answer(answer.store, seed=1)
        assert np.abs(a.repeats - b.repeats).max() > 1e-3
        assert np.abs(a.repeats[0] - a.repeats[1]).max() > 1e-3

    def test_more_repeats_begin_with_the_same(self, answer):
        assert np.array_equal(answer(answer.store, num_repeats=3).repeats[:2], answer(answer.store).repeats)

    def test_does_not_need_targets(self, answer):
        from dataclasses import replace

        assert_close(answer(replace(answer.store, y=None)).repeats, answer(answer.store).repeats)


def test_one_repeat_has_no_spread(answer):
    once = answer(answer.store, num_repeats=1)
    assert (once.walk_spread == 0).all()
    assert np.array_equal(once.mean, once.repeats[0])


def test_longer_walks_lie_closer_together(answer):
    short, long = (answer(answer.store, num_repeats=12, num_steps=n).walk_spread.mean() for n in (4, 60))
    assert long < short


def test_the_mode_of_the_model_and_its_gradients_are_left_alone(answer):
    for mode in (True, False):
        answer.model.train(mode)
        before = {name: tensor.clone() for name, tensor in answer.model.state_dict().items()}
        answer(answer.store)
        assert answer.model.training is mode
        assert all(torch.equal(tensor, before[name]) for name, tensor in answer.model.state_dict().items())


def test_every_batch_is_counted(answer):
    calls = []
    answer(answer.store, batch_size=5, num_repeats=3, on_batch=lambda: calls.append(1))
    assert len(calls) == 3 * 4


def test_no_graphs(answer):
    assert answer(answer.store, []).repeats.shape == (2, 0, 2)


@pytest.mark.parametrize("settings", [{"num_repeats": 0}, {"batch_size": 0}])
def test_repeats_and_batches_are_positive(answer, settings):
    with pytest.raises(ValueError, match=r"must be a whole number from 1 to 2147483647"):
        answer(answer.store, **settings)


def test_node_level_rows_are_nodes_in_order(make_dataset, make_model):
    dataset = make_dataset("multiclass", level="node", num_outputs=3)
    model = make_model(dataset)
    every = predict(model, dataset.task, dataset.store, torch.arange(16), num_repeats=1, seed=0).mean
    some = predict(model, dataset.task, dataset.store, torch.tensor([3, 1]), num_repeats=1, seed=0).mean
    ptr = dataset.store.node_ptr.tolist()
    assert every.shape == (dataset.store.num_nodes, 3)
    assert_close(some, np.concatenate([every[ptr[3] : ptr[4]], every[ptr[1] : ptr[2]]]))
    assert np.array_equal(
        targets_of(dataset.store, torch.tensor([3, 1])),
        np.concatenate([dataset.store.y[ptr[3] : ptr[4]], dataset.store.y[ptr[1] : ptr[2]]]),
    )


@pytest.mark.parametrize(("kind", "num_outputs"), [("binary", 1), ("multiclass", 3), ("multilabel", 3)])
def test_probabilities(make_dataset, make_model, kind, num_outputs):
    dataset = make_dataset(kind, num_outputs=num_outputs)
    ids = torch.arange(16)
    found = predict(make_model(dataset), dataset.task, dataset.store, ids, num_repeats=3, seed=0)
    assert found.repeats.shape == (3, 16, num_outputs)
    assert ((found.repeats > 0) & (found.repeats < 1)).all()
    if kind == "multiclass":
        assert found.repeats.sum(axis=2) == pytest.approx(1)


class TestPredictions:
    repeats = np.array([[[0.2], [0.9], [0.6]], [[0.4], [0.7], [0.2]]])

    def test_by_hand(self):
        found = Predictions(self.repeats, Task(kind="binary", num_outputs=1, metric="accuracy"))
        assert found.mean == pytest.approx(np.array([[0.3], [0.8], [0.4]]))
        assert found.walk_spread == pytest.approx(np.array([[0.1], [0.1], [0.2]]))
        assert found.classes.tolist() == [0, 1, 0]
        targets = np.array([0.0, 1.0, 1.0])
        assert found.scores(targets) == pytest.approx([1, 2 / 3])
        assert found.score_of_mean(targets) == pytest.approx(2 / 3)
        assert found.score_of_mean(targets) == score("accuracy", found.mean, targets)

    def test_classes(self):
        repeats = np.array([[[0.1, 0.6, 0.3]], [[0.5, 0.1, 0.4]]])
        assert Predictions(repeats, Task(kind="multiclass", num_outputs=3)).classes.tolist() == [1]


class TestKeys:
    def test_depend_on_the_graph_alone(self, make_dataset):
        store = make_dataset("regression").store
        keys = graph_keys(store)
        assert keys.unique().numel() == 16
        assert bool(((keys >= 0) & (keys < 2**31)).all())
        assert torch.equal(graph_keys(store.subset([7, 2])), keys[[7, 2]])

    def test_depend_on_every_part_of_the_graph(self, make_dataset):
        from dataclasses import replace

        store = make_dataset("regression").store.subset([0])
        edge_attr = torch.zeros(store.num_edges, 1)
        other_attr, other_x, other_edges = edge_attr.clone(), store.x.clone(), store.edge_index.clone()
        other_attr[-1], other_x[-1, -1], other_edges[:, 0] = 1, 0, torch.tensor([0, 2])
        variants = [store, replace(store, edge_attr=edge_attr), replace(store, edge_attr=other_attr)]
        variants += [replace(store, x=other_x), replace(store, x=None), replace(store, edge_index=other_edges)]
        variants += [replace(store, x=store.x.roll(1, 0))]
        keys = [int(graph_keys(variant)) for variant in variants]
        assert len(set(keys)) == len(keys)

    def test_of_graphs_without_edges_and_nodes(self):
        store = GraphStore(
            node_ptr=torch.tensor([0, 0, 1, 3]),
            edge_ptr=torch.zeros(4, dtype=torch.long),
            edge_index=torch.empty(2, 0, dtype=torch.long),
            edge_attr=torch.empty(0, 3),
        )
        assert graph_keys(store).unique().numel() == 3


class TestNoise:
    """A mean-and-variance head: means as always, and the standard deviation of targets in their unit."""

    @pytest.mark.parametrize("normalise_targets", [True, False])
    def test_the_noise_of_targets_is_learned(self, normalise_targets):
        generator = torch.Generator().manual_seed(0)
        x = torch.randint(2, (160, 1), generator=generator)  # 0 for quiet graphs, 1 for noisy ones
        scatter = torch.where(x == 0, 1.0, 5.0)
        y = 50 * normalise_targets + 3 * x + scatter * torch.randn(160, 1, generator=generator)
        y = torch.cat([y, -y], dim=1)
        y[::7, 1] = torch.nan
        graphs = [Data(x=torch.eye(2)[x[i]], edge_index=torch.empty(2, 0).long(), y=y[i : i + 1]) for i in range(160)]
        task = Task(kind="regression", num_outputs=2)
        split = Split(*torch.arange(160).split([120, 20, 20]))
        dataset = Dataset(name="noisy", store=GraphStore.from_graphs(graphs), task=task, split=split)
        torch.manual_seed(0)
        model = NoisyLine()
        training = Training(lr=0.1, batch_size=120, max_epochs=80, loss="beta_nll", schedule=Cosine())
        training = replace(training, normalise_targets=normalise_targets)
        trainer = Trainer(model, dataset, training, Evaluation(), device="cpu")
        list(trainer.epochs())
        found = trainer.evaluate(torch.arange(160), 2, "all")
        assert found.mean.shape == found.noise.shape == (160, 2)
        noisy = x[:, 0].numpy() == 1
        assert found.noise[~noisy] == pytest.approx(1, rel=0.3)
        assert found.noise[noisy] == pytest.approx(5, rel=0.3)
        sign = np.array([1, -1])
        assert sign * found.mean[~noisy] == pytest.approx(50 * normalise_targets, abs=0.5)

    def test_a_model_without_variances_is_refused(self, make_dataset, make_model):
        dataset = make_dataset("regression", num_outputs=2)
        trainer = Trainer(make_model(dataset), dataset, Training(loss="beta_nll"), Evaluation(), device="cpu")
        with pytest.raises(ValueError, match="must answer with 4 numbers for each graph, means and then what says"):
            next(trainer.epochs())
        with pytest.raises(ValueError, match="has_noise is for numbers, and the task is binary"):
            predict(
                make_model(dataset),
                Task(kind="binary", num_outputs=1),
                dataset.store,
                torch.arange(2),
                num_repeats=1,
                seed=0,
                has_noise=True,
            )


class NoisyLine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 4)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def test_members_are_joined_with_their_spreads_apart():
    task = Task(kind="regression", num_outputs=1)
    repeats = np.array([[[1.0], [5.0]], [[3.0], [5.0]]])
    members = [Predictions(repeats, task, np.full((2, 1), 3.0)), Predictions(repeats + 2, task, np.full((2, 1), 4.0))]
    found = Predictions.of_members(members)
    assert found.mean.tolist() == [[3.0], [6.0]]
    assert found.walk_spread.tolist() == [[1.0], [0.0]]
    assert found.model_spread.tolist() == [[1.0], [1.0]]
    assert found.noise == pytest.approx(12.5**0.5)
    both = Predictions.joined([found, found])
    assert both.repeats.shape == (2, 4, 1)
    assert len(both.noise) == len(both.model_spread) == 4
    binary = Predictions.of_members(
        [Predictions(np.full((1, 1, 1), p), Task(kind="binary", num_outputs=1)) for p in (0.2, 0.4)]
    ).for_each_class()
    assert binary.mean == pytest.approx(np.array([[0.7, 0.3]]))
    assert binary.model_spread == pytest.approx(np.array([[0.1, 0.1]]))
