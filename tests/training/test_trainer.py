from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

from crawl import CRaWl, Network
from crawl.data import Dataset, GraphStore, Split, Task, from_pyg
from crawl.nn import Batch, Block, State
from crawl.training import Cosine, Evaluation, Interval, Plateau, Training
from crawl.training import Trainer as AnyTrainer
from crawl.training.calling import Caller
from crawl.training.evaluation import Scaling, predict, targets_of
from crawl.training.seeds import derive_seed
from crawl.training.trainer import choose_device, task_loss

GIN = partial(Network, layer=("gin",), edge_dim=None)
ONCE = Evaluation(num_val_repeats=1, num_test_repeats=1)
FAST = Training(lr=0.02, batch_size=8, max_epochs=60, schedule=Cosine())


class Trainer(AnyTrainer):
    """A trainer on the CPU."""

    def __init__(self, *arguments, **settings) -> None:
        super().__init__(*arguments, device="cpu", **settings)


def train(model, dataset, training=FAST, evaluation=ONCE, seed=0) -> Trainer:
    trainer = Trainer(model, dataset, training, evaluation, seed=seed)
    for _ in trainer.epochs():
        pass
    return trainer


def train_score(trainer: Trainer) -> float:
    ids = trainer.split.train
    return trainer.evaluate(ids, 3, "train").score_of_mean(targets_of(trainer.store, ids))


class TestEveryTaskIsLearned:
    @pytest.mark.parametrize("num_targets", [1, 3])
    @pytest.mark.parametrize("level", ["graph", "node"])
    def test_regression(self, make_dataset, make_model, num_targets, level):
        dataset = make_dataset("regression", level=level, num_outputs=num_targets, missing=num_targets > 1)
        assert bool(dataset.store.y.isnan().any()) == (num_targets > 1)
        assert train_score(train(make_model(dataset), dataset)) < 0.3

    @pytest.mark.parametrize("level", ["graph", "node"])
    def test_binary(self, make_dataset, make_model, level):
        dataset = make_dataset("binary", level=level)
        assert train_score(train(make_model(dataset), dataset)) > 0.95

    @pytest.mark.parametrize("level", ["graph", "node"])
    def test_multiclass(self, make_dataset, make_model, level):
        dataset = make_dataset("multiclass", level=level, num_outputs=3)
        assert train_score(train(make_model(dataset), dataset)) > 0.95

    @pytest.mark.parametrize("level", ["graph", "node"])
    def test_multilabel_with_missing_labels(self, make_dataset, make_model, level):
        dataset = make_dataset("multilabel", level=level, num_outputs=3, missing=True)
        assert train_score(train(make_model(dataset), dataset)) > 0.95

    def test_by_message_passing(self, make_dataset):
        dataset = make_dataset("regression")
        torch.manual_seed(0)
        assert train_score(train(GIN(3, 1, hidden_channels=12, num_layers=1), dataset)) < 0.3


class TestNormalisedTargets:
    def test_predictions_are_in_the_unit_of_the_targets(self, make_dataset, make_model):
        dataset = make_dataset("regression", offset=1000.0, unit=50.0)
        trainer = train(make_model(dataset), dataset, replace(FAST, normalise_targets=True))
        targets = targets_of(trainer.store, trainer.split.train)
        assert trainer.scaling.mean == pytest.approx(targets.mean(axis=0))
        assert trainer.scaling.deviation == pytest.approx(targets.std(axis=0))
        assert train_score(trainer) < 15
        assert trainer.history[-1]["loss"] < 1  # in the unit of the network
        plain = train(make_model(dataset), dataset)
        assert train_score(plain) > 500  # far too slow without

    def test_missing_and_constant_targets(self):
        targets = torch.tensor([[1.0, 5.0, torch.nan], [3.0, 5.0, torch.nan], [torch.nan, 5.0, torch.nan]])
        scaling = Scaling.of(targets)
        assert scaling == Scaling((2.0, 5.0, 0.0), (1.0, 1.0, 1.0))
        assert torch.equal(scaling.apply(targets)[:2, :2], torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        torch.testing.assert_close(scaling.undo(scaling.apply(targets)), targets, equal_nan=True)

    def test_targets_that_count_for_nothing_decide_no_unit(self):
        targets = torch.tensor([[1.0, 7.0], [3.0, torch.nan], [1e6, 9.0]])
        assert Scaling.of(targets, torch.tensor([1.0, 1.0, 0.0])) == Scaling((2.0, 7.0), (1.0, 1.0))
        assert Scaling.of(targets, torch.tensor([[1, 1], [1, 1], [0, 1.0]])) == Scaling((2.0, 8.0), (1.0, 1.0))
        assert Scaling.of(targets, torch.ones(3)) == Scaling.of(targets)
        assert Scaling.of(targets[:2], torch.tensor([3.0, 1.0])).mean[0] == 1.5

    def test_tiny_targets_are_scaled(self):
        scaling = Scaling.of(torch.tensor([[1e-200], [3e-200]], dtype=torch.float64))  # whose squares are 0
        assert scaling.mean == pytest.approx([2e-200], rel=1e-9)
        assert scaling.deviation == pytest.approx([1e-200], rel=1e-9)
        assert Scaling.of(torch.empty(0, 2)) == Scaling((0.0, 0.0), (1.0, 1.0))

    def test_targets_are_scaled_before_they_are_rounded(self, make_dataset, make_model):
        near = make_dataset("regression", unit=5.0)
        far = replace(near, store=replace(near.store, y=1e9 + near.store.y.double()))
        training = replace(FAST, max_epochs=2, normalise_targets=True)
        plain, shifted = (train(make_model(dataset), dataset, training) for dataset in (near, far))
        assert shifted.scaling.mean[0] - 1e9 == pytest.approx(plain.scaling.mean[0], abs=1e-6)
        for a, b in zip(plain.history, shifted.history, strict=True):
            assert b["loss"] == pytest.approx(a["loss"], rel=1e-5)
            assert b["val_mae"] == pytest.approx(a["val_mae"], rel=1e-5)
        means = [trainer.evaluate(near.split.test, 2, "test").mean for trainer in (plain, shifted)]
        assert means[1] - 1e9 == pytest.approx(means[0], abs=1e-4)

    def test_targets_that_float32_blurs_must_be_scaled(self, make_dataset, make_model):
        near = make_dataset("regression")
        far = replace(near, store=replace(near.store, y=1e9 + near.store.y.double()))
        with pytest.raises(ValueError, match=r"would not tell them apart: set training\.normalise_targets"):
            Trainer(make_model(far), far, FAST, ONCE)
        same = replace(near, store=replace(near.store, y=near.store.y.double()))  # float32 numbers in float64
        histories = [train(make_model(data), data, replace(FAST, max_epochs=2)).history for data in (near, same)]
        assert [record["loss"] for record in histories[0]] == [record["loss"] for record in histories[1]]

    def test_digits_to_write(self):
        scaling = Scaling((0.5, 300.0, 1e9, -1e12, 1e300), (1.0, 10.0, 30.0, 1.0, 1.0))
        assert scaling.num_digits == (6, 7, 13, 17, 17)
        assert Scaling().num_digits == ()

    def test_none_is_the_identity(self):
        assert torch.equal(Scaling().undo(Scaling().apply(torch.ones(2))), torch.ones(2))

    def test_classes_are_never_scaled(self, make_dataset, make_model):
        dataset = make_dataset("binary")
        training = replace(FAST, normalise_targets=True)
        assert Trainer(make_model(dataset), dataset, training, ONCE).scaling == Scaling()


class TestTheLoss:
    output = torch.tensor([[0.5, -1.0], [2.0, 0.0]])
    targets = torch.tensor([[1.0, torch.nan], [0.0, 1.0]])

    def loss(self, kind="regression", metric="", loss="auto", targets=None, scaling=None):
        task = Task(kind=kind, num_outputs=2, metric=metric)
        targets = self.targets if targets is None else targets
        return float(task_loss(task, loss, self.output, targets, scaling or Scaling())[0])

    def test_of_regression(self):
        l1, mse = (0.5 + 2 + 1) / 3, (0.25 + 4 + 1) / 3
        assert self.loss() == pytest.approx(l1)
        assert self.loss(metric="rmse") == pytest.approx(mse)
        assert self.loss(loss="mse") == pytest.approx(mse)
        assert self.loss(metric="r2", loss="l1") == pytest.approx(l1)

    def test_of_scaled_regression(self):
        scaling = Scaling((1.0, 0.0), (2.0, 1.0))
        assert self.loss(scaling=scaling) == pytest.approx((0.5 + 2.5 + 1) / 3)

    def test_of_labels(self):
        known = ~self.targets.isnan()
        expected = F.binary_cross_entropy_with_logits(self.output[known], self.targets[known])
        assert self.loss("multilabel") == pytest.approx(float(expected))

    def test_of_classes(self):
        classes = torch.tensor([1, 0])
        expected = F.cross_entropy(self.output, classes)
        assert self.loss("multiclass", targets=classes) == pytest.approx(float(expected))

    @pytest.mark.parametrize(("kind", "shape"), [("multilabel", (2, 2)), ("multiclass", (2,))])
    def test_without_any_target_is_0_and_has_a_gradient_of_0(self, kind, shape):
        task = Task(kind=kind, num_outputs=2)
        output = self.output.clone().requires_grad_()
        loss, _ = task_loss(task, "auto", output, torch.full(shape, torch.nan), Scaling())
        loss.backward()
        assert float(loss.detach()) == 0
        assert torch.equal(output.grad, torch.zeros(2, 2))

    def test_missing_targets_give_no_gradient(self):
        output = self.output.clone().requires_grad_()
        task_loss(Task(kind="regression", num_outputs=2), "mse", output, self.targets, Scaling())[0].backward()
        assert float(output.grad[0, 1]) == 0
        assert not bool(output.grad.isnan().any())


class TestSettings:
    def test_gradients_are_clipped(self, make_dataset, make_model, monkeypatch):
        dataset = make_dataset("regression", offset=1000.0)
        norms = []
        step = torch.optim.Adam.step

        def spy(self, *arguments):
            gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
            norms.append(float(torch.cat([g.flatten() for g in gradients]).norm()))
            return step(self, *arguments)

        monkeypatch.setattr(torch.optim.Adam, "step", spy)
        training = replace(FAST, max_epochs=2, loss="mse")
        train(make_model(dataset), dataset, training)
        assert min(norms) > 1
        norms.clear()
        train(make_model(dataset), dataset, replace(training, clip_norm=0.5))
        assert max(norms) <= 0.5 * (1 + 1e-5)

    def test_early_stop(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        training = replace(FAST, lr=1e-12, schedule=Interval(), early_stop=3)
        model = make_model(dataset)
        trainer = Trainer(model, dataset, training, ONCE)
        trainer.evaluate = lambda ids, repeats, purpose: Trainer.evaluate(trainer, ids, repeats, "always the same")
        model.readout.norm.momentum = 0.0
        epochs = [record["epoch"] for record in trainer.epochs()]
        assert len(epochs) == trainer.best_epoch + 3
        assert len(epochs) < 60

    def test_a_share_of_start_nodes(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        model = make_model(dataset, start_share=0.5)
        counts = {True: [], False: []}

        def spy(module, inputs):
            (batch,) = inputs
            counts[module.training].append(batch.walks.num_walks / batch.num_nodes)

        model.register_forward_pre_hook(spy)
        train(model, dataset, replace(FAST, max_epochs=3))
        assert set(counts[False]) == {1.0}
        assert 0.2 < np.mean(counts[True]) < 0.8

    def test_the_last_batch_may_be_smaller(self, make_dataset, make_model):
        dataset = make_dataset("regression", num_graphs=14)
        losses = []
        trainer = Trainer(make_model(dataset), dataset, replace(FAST, batch_size=3, max_epochs=1), ONCE)
        (record,) = trainer.epochs(lambda loss: losses.append(loss()))
        assert trainer.num_batches == len(losses) == 3  # 3 + 3 + 2 graphs
        assert record["loss"] == pytest.approx((3 * losses[0] + 3 * losses[1] + 2 * losses[2]) / 8)

    def test_scores_of_the_test_part_on_demand(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        settings = Training(max_epochs=2)
        plain, tracked = (
            Trainer(make_model(dataset), dataset, settings, Evaluation(track_test=track)) for track in (False, True)
        )
        for without, with_test in zip(plain.epochs(), tracked.epochs(), strict=True):
            assert "test_mae" not in without
            assert with_test["test_mae"] > 0
            assert with_test["val_mae"] == without["val_mae"]

    def test_validation_after_some_epochs(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        settings = replace(FAST, max_epochs=7)
        always, sometimes = (
            train(make_model(dataset), dataset, settings, replace(ONCE, val_every=every)) for every in (1, 3)
        )
        scores = [record["val_mae"] for record in always.history]
        assert [record["val_mae"] for record in sometimes.history] == [
            score if epoch in (3, 6, 7) else None for epoch, score in enumerate(scores, start=1)
        ]
        assert [record["loss"] for record in sometimes.history] == [record["loss"] for record in always.history]
        assert sometimes.best_epoch == min((3, 6, 7), key=lambda epoch: scores[epoch - 1])

    def test_measured_norms_change_evaluations_alone(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        settings = replace(FAST, max_epochs=4)
        remembered, measured = (
            train(make_model(dataset, dropout=0.3), dataset, settings, replace(ONCE, num_norm_graphs=num))
            for num in (0, 8)
        )
        for a, b in zip(remembered.history, measured.history, strict=True):
            assert a["loss"] == b["loss"]
            assert a["val_mae"] != b["val_mae"]
        assert all(norm.momentum == 0.1 for norm in measured.norms.members)

    @pytest.mark.parametrize("baseline", [False, True])
    def test_measured_norms_are_those_of_walks_in_evaluation(self, make_dataset, make_model, baseline):
        dataset = make_dataset("regression")
        model = make_model(dataset, dropout=0.5, implementation="reference")
        if baseline:
            model = GIN(3, 1, hidden_channels=12, num_layers=2)
        everything = len(dataset.split.train)
        evaluation = replace(ONCE, num_norm_graphs=everything, batch_size=everything)
        trainer = train(model, dataset, replace(FAST, max_epochs=1), evaluation)
        seen: list[torch.Tensor] = []
        norm = trainer.norms.members[0]  # what it sees does not depend on other norms
        hook = norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
        trainer.model.eval()
        order = trainer._shuffled(derive_seed(0, "norms", 1))
        batch = trainer.store.batch(order)
        batch.graph_keys = trainer.runner.keys[order]
        model(batch, seed=derive_seed(0, "norms", 1))
        hook.remove()
        values = seen[0].transpose(0, 1).flatten(1)  # channels come second
        torch.testing.assert_close(norm.running_mean, values.mean(1), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(norm.running_var, values.var(1), rtol=1e-4, atol=1e-5)

    def test_a_network_without_norms_has_nothing_to_measure(self, make_dataset):
        dataset = make_dataset("regression")

        class Sum(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(dataset.store.x.shape[1], 1)

            def forward(self, batch, num_steps=None, seed=None):
                return global_add_pool(self.linear(batch.x), batch.batch)

        trainer = train(Sum(), dataset, replace(FAST, max_epochs=2), replace(ONCE, num_norm_graphs=4))
        assert trainer.norms.members == []
        assert len(trainer.history) == 2

    def test_before_the_first_validation_the_latest_weights_are_kept(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        trainer = Trainer(make_model(dataset), dataset, FAST, replace(ONCE, val_every=3))
        for expected, _ in zip((1, 2, 3, 3), trainer.epochs(), strict=False):
            assert trainer.best_epoch == expected

    def test_devices(self):
        assert choose_device("cpu").type == "cpu"
        with pytest.raises(ValueError, match="device must be 'auto', 'cpu' or 'cuda', not 'cqu'"):
            choose_device("cqu")
        if not torch.cuda.is_available():
            assert choose_device("auto").type == "cpu"
            with pytest.raises(ValueError, match="torch sees none"):
                choose_device("cuda")


class TestGoingOn:
    def test_from_a_state_gives_the_same_bits(self, make_dataset, make_model):
        dataset = make_dataset("multilabel", num_outputs=2, missing=True)
        training = replace(FAST, schedule=Plateau(patience=1), max_epochs=6)
        evaluation = replace(ONCE, val_every=2, num_norm_graphs=5, batch_size=3)

        def new() -> Trainer:
            return Trainer(make_model(dataset, dropout=0.3), dataset, training, evaluation, seed=3)

        whole = new()
        list(whole.epochs())
        first = new()
        epochs = first.epochs()
        for _ in range(3):
            next(epochs)
        tensors, values = first.state()
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        values = json.loads(json.dumps(values))
        torch.manual_seed(99)  # nothing depends on the state of torch's generator
        second = new()
        second.restore(tensors, values)
        list(second.epochs())
        for (name, a), (other, b) in zip(
            sorted(whole.state()[0].items()), sorted(second.state()[0].items()), strict=True
        ):
            assert name == other
            assert torch.equal(a, b), name
        assert second.best_epoch == whole.best_epoch
        without_time = [[{**record, "seconds": 0} for record in t.history] for t in (whole, second)]
        assert without_time[0] == without_time[1]

    def test_training_leaves_the_global_generator_alone(self, make_dataset, make_model):
        dataset = make_dataset("binary")
        model = make_model(dataset, dropout=0.5, implementation="reference")
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        train(model, dataset, replace(FAST, max_epochs=2))
        assert torch.equal(torch.rand(3), expected)

    def test_seeds_differ(self, make_dataset, make_model):
        dataset = make_dataset("binary")
        a, b, c = (train(make_model(dataset), dataset, replace(FAST, max_epochs=2), seed=seed) for seed in (0, 0, 1))
        assert a.history[-1]["loss"] == b.history[-1]["loss"] != c.history[-1]["loss"]

    def test_from_the_state_of_another_architecture(self, make_dataset, make_model):
        dataset = make_dataset("binary")
        state = Trainer(make_model(dataset), dataset, FAST, ONCE).state()
        for other in (make_model(dataset, hidden_channels=8), make_model(dataset, num_layers=2), GIN(3, 1)):
            with pytest.raises(
                ValueError, match=r"^The checkpoint does not fit: it belongs to another architecture.*$"
            ):
                Trainer(other, dataset, FAST, ONCE).restore(*state)

    def test_from_something_that_is_not_a_state(self, make_dataset, make_model):
        dataset = make_dataset("binary")
        trainer = Trainer(make_model(dataset), dataset, FAST, ONCE)
        with pytest.raises(ValueError, match="does not fit"):
            trainer.restore(trainer.model.state_dict(), {})

    def test_best_weights_are_those_of_the_best_epoch(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        trainer = Trainer(make_model(dataset), dataset, replace(FAST, max_epochs=12, lr=0.1), ONCE)
        weights = []
        for _ in trainer.epochs():
            weights.append({name: tensor.clone() for name, tensor in trainer.model.state_dict().items()})
        scores = [record["val_mae"] for record in trainer.history]
        assert trainer.best_epoch == 1 + int(np.argmin(scores))
        trainer.use_best_weights()
        for name, tensor in trainer.model.state_dict().items():
            assert torch.equal(tensor, weights[trainer.best_epoch - 1][name])


def bare_graphs(sizes: list[int], kind: str = "binary") -> Dataset:
    """Graphs without edges and features."""
    graphs = [Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=n, y=torch.tensor(n % 2)) for n in sizes]
    ids = torch.arange(len(sizes))
    split = Split(ids[: len(ids) // 2], ids[len(ids) // 2 : -2], ids[-2:])
    return Dataset(
        name="bare",
        store=GraphStore.from_graphs(graphs),
        task=Task(kind=kind, num_outputs=1, metric="accuracy"),
        split=split,
    )


class Own(nn.Module):
    """A model of one's own that does not walk."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, batch: Batch) -> torch.Tensor:
        return self.head(batch.nodes.mean(batch.edges.sum(batch.sources.spread(batch.x))))


class TestOddData:
    @pytest.mark.parametrize("sizes", [[1] * 10, [1, 2, 3, 4, 5, 4, 3, 2, 1, 2]], ids=["single nodes", "no edges"])
    @pytest.mark.parametrize("batch_size", [1, 4])
    @pytest.mark.parametrize("name", ["crawl", "virtual node", "gin"])
    def test_without_edges(self, make_model, sizes, batch_size, name):
        dataset = bare_graphs(sizes)
        model = GIN(1, 1, hidden_channels=8, num_layers=1)
        if name != "gin":
            model = make_model(dataset, num_layers=2, virtual_node=name == "virtual node")
        trainer = train(model, dataset, replace(FAST, batch_size=batch_size, max_epochs=2))
        assert all(math.isfinite(record["loss"]) for record in trainer.history)
        assert np.isfinite(trainer.evaluate(dataset.split.test, 2, "test").mean).all()

    def test_directed_graphs(self, make_model):
        """Nodes that cannot be left are in the way of walks alone."""
        graphs = [
            Data(x=torch.rand(4, 3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), y=float(i)) for i in range(10)
        ]
        dataset = from_pyg(graphs, task="regression", fractions=(0.6, 0.2, 0.2))
        for model in (GIN(3, 1, hidden_channels=8, num_layers=1), Own()):
            trainer = train(model, dataset, replace(FAST, max_epochs=2))
            assert np.isfinite(trainer.evaluate(dataset.split.test, 1, "test").mean).all()
        with pytest.raises(
            ValueError, match=r"can be entered but not left.*Make the graph undirected \(PyG: ToUndirected"
        ):
            train(make_model(dataset), dataset, replace(FAST, max_epochs=2))

    def test_a_model_that_walks_only_later(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        model = make_model(dataset)
        plan, model.walk_plan = model.walk_plan, None
        runner = Trainer(model, dataset, FAST, Evaluation()).runner
        steps = []
        for model.walk_plan in (None, plan):
            ids = torch.arange(2)
            seen = lambda batch: steps.append(batch.walks and batch.walks.num_steps) or batch.x.sum()  # noqa: E731
            list(runner.run(seen, [ids], 2, seed=0))
        assert steps == [None, plan.num_eval_steps]

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_features_that_are_not_numbers(self, make_dataset, make_model, value):
        dataset = make_dataset("regression")
        dataset.store.x[-1, 0] = value
        with pytest.raises(ValueError, match=rf"^Graph 15 has {value} in x: give finite numbers"):
            train(make_model(dataset), dataset)

    def test_targets_that_are_infinite(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        dataset.store.y[3] = -math.inf
        with pytest.raises(ValueError, match=r"^Graph 3 has -inf in y: give finite numbers"):
            train(make_model(dataset), dataset)

    def test_features_that_are_too_large(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        dataset.store.x.mul_(1e30)
        with pytest.raises(ValueError, match=r"NaN or infinity: .* or the features are too large: scale them down\.$"):
            train(make_model(dataset), dataset)

    def test_a_loss_that_explodes(self, make_dataset, make_model):
        dataset = make_dataset("regression", metric="rmse", unit=1e30)
        with pytest.raises(ValueError, match=r"The loss became inf in epoch 1.*scale down features or targets"):
            train(make_model(dataset), dataset)

    def test_graphs_without_targets(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        without = replace(dataset, store=replace(dataset.store, y=None))
        with pytest.raises(ValueError, match="The graphs of tiny have no targets `y` to train on"):
            Trainer(make_model(dataset), without, FAST, ONCE)

    def test_nothing_to_train_on(self, make_dataset, make_model):
        dataset = make_dataset("regression")
        empty = replace(dataset, split=Split(torch.empty(0), torch.arange(3), torch.arange(3, 6)))
        with pytest.raises(ValueError, match="no graphs in its training split"):
            Trainer(make_model(dataset), empty, FAST, ONCE)

    def test_without_a_validation_score_the_last_weights_are_the_best(self, make_dataset, make_model):
        dataset = make_dataset("binary")
        dataset.store.y[dataset.split.val] = 1  # no ROC curve
        trainer = train(make_model(dataset), dataset, replace(FAST, max_epochs=3))
        assert trainer.best_epoch == 3
        assert math.isnan(trainer.history[-1]["val_roc_auc"])

    def test_no_validation_and_no_test_part(self, make_dataset, make_model):
        dataset = make_dataset("multiclass", num_outputs=3)
        dataset = replace(dataset, split=Split(torch.arange(16), torch.empty(0), torch.empty(0)))
        trainer = train(make_model(dataset), dataset, replace(FAST, max_epochs=2))
        assert trainer.best_epoch == 2
        assert trainer.evaluate(dataset.split.test, 2, "test").mean.shape == (0, 3)


class TestThreads:
    def test_their_number_changes_no_bit_of_a_training(self, make_dataset, make_model):
        """On a CPU. The layers are wide enough for torch to use its own threads, and for products in several parts."""
        dataset = make_dataset("regression", num_graphs=80)
        before = torch.get_num_threads()
        found = []
        try:
            for number in (1, 2, 3):
                torch.set_num_threads(number)
                model = make_model(dataset, hidden_channels=200, num_layers=2, num_steps=30, virtual_node=True)
                training = replace(FAST, batch_size=40, max_epochs=2)
                found.append(train(model, dataset, training).model.state_dict())
                assert torch.get_num_threads() == number
        finally:
            torch.set_num_threads(before)
        for other in found[1:]:
            for name, tensor in found[0].items():
                assert torch.equal(tensor, other[name]), name

    def test_message_passing_keeps_those_of_torch(self, make_dataset):
        dataset = make_dataset("regression")
        before, seen = torch.get_num_threads(), []
        model = GIN(3, 1, hidden_channels=4, num_layers=1)
        model.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
        try:
            torch.set_num_threads(2)
            train(model, dataset, replace(FAST, max_epochs=1))
        finally:
            torch.set_num_threads(before)
        assert set(seen) == {2}


def test_a_subclass_with_dropout_of_torch_repeats(make_dataset):
    class Noisy(CRaWl):
        def forward(self, *args, **arguments):
            return F.dropout(super().forward(*args, **arguments), 0.5, self.training)

    dataset = make_dataset("regression")

    def trained() -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = Noisy(3, 1, hidden_channels=8, num_layers=1, num_steps=6, num_eval_steps=6, window_size=4)
        torch.rand(int(torch.randint(5, (), generator=torch.Generator().manual_seed(len(found)))))  # another state
        return train(model, dataset, replace(FAST, max_epochs=2)).model.state_dict()

    found: list[dict[str, torch.Tensor]] = []
    for _ in range(3):
        found.append(trained())
    for other in found[1:]:
        assert all(torch.equal(tensor, other[name]) for name, tensor in found[0].items())


class Drawing(torch.nn.Module):
    """A model of one's own that takes no seed and draws from torch's generator."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 1))

    def forward(self, data) -> torch.Tensor:
        pooled = torch.zeros(data.num_graphs, 3).index_add(0, data.batch, data.x)
        return (pooled + torch.randn(3)) @ self.weight


def test_a_model_that_takes_no_seed_repeats(make_dataset):
    dataset = make_dataset("regression")
    histories = []
    for other in (1, 2):
        torch.manual_seed(other)  # what happened before does not matter
        trainer = Trainer(Drawing(), dataset, replace(FAST, max_epochs=2), ONCE)
        histories.append([(record["loss"], record["val_mae"]) for record in trainer.epochs()])
    assert histories[0] == histories[1]


class Seeded(Drawing):
    """A model that takes a seed, and draws from torch's generator nevertheless."""

    def forward(self, data, seed=None):
        return super().forward(data)


def with_random_slopes(dataset: Dataset) -> nn.Module:
    model = CRaWl(3, 1, num_layers=1, hidden_channels=4, window_size=2, num_steps=4, num_eval_steps=4, edge_dim=None)
    model.readout.head = nn.Sequential(nn.Linear(4, 4), nn.RReLU(), nn.Linear(4, 1))
    return model


class OnBatches(Drawing):
    def forward(self, batch: Batch) -> torch.Tensor:
        return (batch.nodes.mean(batch.x) + torch.randn(3)) @ self.weight


class Noise(Block):
    uses_walks = passes_messages = sees_edges = False

    def forward(self, state: State, batch: Batch) -> State:
        return replace(state, nodes=state.nodes + torch.randn_like(state.nodes))


def with_noise(dataset: Dataset) -> nn.Module:
    return GIN(3, 1, layer=("gin", Noise()), hidden_channels=4, num_layers=1)


@pytest.mark.parametrize(
    "make",
    [lambda _: Seeded(), lambda _: OnBatches(), with_random_slopes, with_noise],
    ids=["evaluation", "batches", "slopes", "block"],
)
def test_what_torch_draws_repeats(make_dataset, make) -> None:
    dataset = make_dataset("regression")
    histories = []
    for other in (1, 2):
        torch.manual_seed(0)
        model = make(dataset)
        torch.manual_seed(other)
        trainer = Trainer(model, dataset, replace(FAST, max_epochs=2), ONCE)
        histories.append([(record["loss"], record["val_mae"]) for record in trainer.epochs()])
    assert histories[0] == histories[1]


def test_steps_of_walks_are_refused_where_there_are_none(make_dataset):
    dataset = make_dataset("regression")
    with pytest.raises(ValueError, match="Drawing does not walk: leave out num_steps=7"):
        predict(Drawing(), dataset.task, dataset.store, torch.arange(3), num_repeats=1, seed=0, num_steps=7)


def test_a_plan_that_is_changed_is_used(make_dataset, make_model):
    dataset = make_dataset("regression")
    trainer = Trainer(make_model(dataset), dataset, replace(FAST, max_epochs=1), ONCE)
    trainer.model.walk_plan = replace(trainer.model.walk_plan, num_eval_steps=11)
    seen = []
    trainer.model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].walks.num_steps))
    trainer.evaluate(dataset.split.val, 1, "now")
    assert set(seen) == {11}


class Parts(nn.Module):
    """A network whose `forward` names parts of PyG data; the others need something that nobody has."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x, edge_index, batch):
        heard = torch.zeros(len(x), 8).index_add(0, edge_index[1], self.first(x).tanh()[edge_index[0]])
        return self.last(global_add_pool(heard, batch))


class Whole(Parts):
    def forward(self, data):
        return super().forward(data.x, data.edge_index, data.batch)


class Positions(Parts):
    def forward(self, x, edge_index, pos):
        raise AssertionError


def test_a_model_that_names_parts_of_the_data_gets_them(make_dataset) -> None:
    dataset, training = make_dataset("regression"), replace(FAST, max_epochs=2)
    named, whole = (train(model, dataset, training) for model in (Parts(), Whole()))
    torch.testing.assert_close(named.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"Positions needs pos.*edge_index"):
        Trainer(Positions(), dataset, training, ONCE)


def test_a_model_without_anything_to_train_is_refused(make_dataset, make_model) -> None:
    dataset = make_dataset("regression")
    with pytest.raises(ValueError, match="no parameters to train"):
        Trainer(make_model(dataset).requires_grad_(False), dataset, FAST, ONCE)


class Detached(Whole):
    def forward(self, data):
        return super().forward(data).detach()


def test_a_model_whose_answer_has_no_gradient_is_refused(make_dataset) -> None:
    with pytest.raises(ValueError, match=r"The answer of Detached has no gradient: .* without detach"):
        train(Detached(), make_dataset("regression"))


class Writing(Whole):
    def forward(self, data):
        data.y = data.y + 1000
        return super().forward(data)


def test_a_model_that_writes_on_the_data_changes_no_targets(make_dataset) -> None:
    training = replace(FAST, max_epochs=2)
    losses = [train(make(), make_dataset("regression"), training).history[-1]["loss"] for make in (Whole, Writing)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_dropout_draws_from_torch_again_after_a_training(make_dataset, make_model, is_interrupted) -> None:
    dataset = make_dataset("regression")
    model = make_model(dataset, dropout=0.5)
    trainer = Trainer(model, dataset, replace(FAST, max_epochs=2), ONCE)
    if is_interrupted:

        def interrupt(_) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            list(trainer.epochs(interrupt))
    else:
        list(trainer.epochs())
    model.train()
    answers = []
    for _ in range(2):
        torch.manual_seed(0)
        answers.append(model(dataset.store.batch([0, 1]), seed=1))
    assert torch.equal(*answers)


class Asking(Drawing):
    """A model that takes a batch, and a seed that it must get."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int | None]] = []

    def forward(self, batch: Batch, seed, num_steps=None):
        self.seen.append((seed, num_steps))
        return batch.nodes.mean(batch.x) @ self.weight


class AskingForData(Asking):
    """A model that takes PyG data as well, and a seed for walks on them."""

    def forward(self, batch: Data | Batch, seed=None):
        return super().forward(batch, seed)


def test_a_model_that_takes_a_batch_gets_the_seed_it_asks_for(make_dataset) -> None:
    dataset = make_dataset("regression")
    settings = (dataset.task, dataset.store, torch.arange(3))
    asking, for_data = Asking(), AskingForData()
    predict(asking, *settings, num_repeats=1, seed=5, num_steps=7)
    predict(for_data, *settings, num_repeats=1, seed=5)
    assert asking.seen == [(derive_seed(5, "evaluation", 0), 7)]
    assert for_data.seen == [(None, None)]
    with pytest.raises(ValueError, match="AskingForData does not walk: leave out num_steps=7"):
        predict(for_data, *settings, num_repeats=1, seed=5, num_steps=7)


class Remembering(Parts):
    def get_extra_state(self):
        return {"calls": 1}


class Lazy(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.first = GCNConv(-1, 8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Remembering, "Remembering has _extra_state, which is not a tensor, .*: make it a buffer"),
        (Lazy, "Lazy has a weight without a size, first.lin.weight, .*: give the number of input channels"),
    ],
)
def test_a_state_that_a_checkpoint_cannot_hold_is_refused(make_dataset, make, message) -> None:
    with pytest.raises(ValueError, match=message):
        Trainer(make(), make_dataset("regression"), FAST, ONCE)


def test_a_model_that_names_features_that_are_not_there_is_refused(make_dataset) -> None:
    dataset = make_dataset("regression")
    bare = replace(dataset, store=replace(dataset.store, x=None))
    with pytest.raises(ValueError, match="The graphs have no x, but the forward of Parts needs it"):
        Trainer(Parts(), bare, FAST, ONCE)


def test_weights_of_another_dtype_are_named(make_dataset) -> None:
    trainer = Trainer(Parts().double(), make_dataset("regression"), FAST, ONCE)
    with pytest.raises(RuntimeError) as caught:
        next(trainer.epochs())
    (note,) = caught.value.__notes__
    assert note.startswith("x is of torch.float32, but the weights of Parts are of torch.float64: call model.to(")


def test_a_compiled_model_is_called_as_what_it_compiles() -> None:
    assert Caller(torch.compile(Parts(), backend="eager")).parts == ["x", "edge_index", "batch"]
    assert Caller(torch.compile(OnBatches(), backend="eager")).takes_batch


class Nested(nn.Module):
    """A model with a network inside."""

    def __init__(self, **settings) -> None:
        super().__init__()
        self.inner = CRaWl(3, 1, hidden_channels=4, num_layers=1, window_size=2, num_steps=6, num_eval_steps=6)
        self.walk_plan = replace(self.inner.walk_plan, **settings)

    def forward(self, batch: Batch):
        return self.inner(batch)


def test_a_network_inside_with_other_walks_is_refused(make_dataset) -> None:
    dataset = make_dataset("regression")
    Trainer(Nested(), dataset, FAST, ONCE)
    with pytest.raises(ValueError, match=r"inner \(CRaWl\) has WalkPlan\(.* walks of the model.* the same walk_plan"):
        Trainer(Nested(strategy="uniform"), dataset, FAST, ONCE)
