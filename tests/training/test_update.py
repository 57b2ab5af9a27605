from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.nn import global_mean_pool

from crawl.data import Dataset
from crawl.training import Cosine, CosinePerStep, Evaluation, OneCycle, Plateau, Training
from crawl.training import Trainer as AnyTrainer
from crawl.training.averaging import Average
from crawl.training.checkpoint import load_checkpoint, save_checkpoint
from crawl.training.evaluation import targets_of
from crawl.training.optimisers import Lion
from crawl.training.update import WeightUpdate

ONCE = Evaluation(num_val_repeats=1, num_test_repeats=1)
BASE = Training(lr=0.01, batch_size=3, max_epochs=4)
LION = replace(BASE, optimiser="lion", weight_decay=0.1, schedule=OneCycle(), accumulate=2, clip_norm=0.5)
ADAMW = replace(
    BASE, optimiser="adamw", weight_decay=0.1, schedule=CosinePerStep(), warmup_epochs=1.5, average_decay=0.9
)
ADAM = replace(BASE, accumulate=3, average_decay=0.99, warmup_epochs=1, schedule=Plateau(patience=1))
ALL = {"lion": LION, "adamw": ADAMW, "adam": ADAM}


class Smooth(nn.Module):
    """A network without batch norm, in float64, with a parameter that it does not use."""

    def __init__(self, num_outputs: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, num_outputs)
        self.unused = nn.Parameter(torch.ones(2, 2))
        self.double()

    def forward(self, batch, num_steps=None, seed=None):
        return self.last(global_mean_pool(self.first(batch.x.double()).tanh(), batch.batch))


class Trainer(AnyTrainer):
    """A trainer on the CPU."""

    def __init__(self, *arguments, **settings) -> None:
        super().__init__(*arguments, device="cpu", **settings)


def spy_gradients(trainer: Trainer) -> list[list[torch.Tensor | None]]:
    """The gradients with which each coming step changes the weights."""
    seen: list[list[torch.Tensor | None]] = []
    step = trainer.update.optimiser.step

    def spy() -> None:
        seen.append([None if p.grad is None else p.grad.clone() for p in trainer.model.parameters()])
        step()

    trainer.update.optimiser.step = spy
    return seen


class TestAccumulation:
    @pytest.mark.parametrize("name", ["adam", "adamw", "lion"])
    @pytest.mark.parametrize("kind", ["regression", "multilabel", "multiclass"])
    def test_several_batches_equal_a_large_one(self, make_dataset, kind, name):
        """Also if the last step has fewer graphs, and batches have fewer targets where some are missing."""
        num_outputs = 1 if kind == "regression" else 3
        dataset = make_dataset(kind, num_outputs=num_outputs, missing=kind == "multilabel", num_graphs=22)
        training = replace(
            BASE, optimiser=name, weight_decay=0.0 if name == "adam" else 0.1, clip_norm=0.3, schedule=CosinePerStep()
        )
        assert len(dataset.split.train) == 12
        found = []
        for accumulate, batch_size in ((1, 10), (2, 5), (10, 1)):
            settings = replace(training, accumulate=accumulate, batch_size=batch_size)
            trainer = Trainer(Smooth(num_outputs), dataset, settings, ONCE)
            gradients = spy_gradients(trainer)
            losses = [record["loss"] for record in trainer.epochs()]
            found.append((gradients, losses, trainer.model.state_dict()))
        (large, losses, weights), *others = found
        assert len(large) == 2 * BASE.max_epochs
        for gradients, other_losses, other_weights in others:
            if kind != "multilabel":  # the loss of an epoch weights batches by graphs, not by known targets
                assert other_losses == pytest.approx(losses, abs=1e-6)
            torch.testing.assert_close(other_weights, weights, rtol=0, atol=1e-6)
            for a, b in zip(gradients, large, strict=True):
                for one, other in zip(a, b, strict=True):
                    assert (one is None) == (other is None)
                    if one is not None:
                        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)

    def test_a_batch_without_targets_counts_for_nothing(self, make_dataset):
        dataset = make_dataset("regression")
        dataset.store.y[dataset.split.train[:4]] = torch.nan
        rest = replace(dataset, split=replace(dataset.split, train=dataset.split.train[4:]))
        training = replace(BASE, max_epochs=1, batch_size=1, accumulate=8)
        weights = []
        for data in (dataset, rest):
            trainer = Trainer(Smooth(), data, training, ONCE)
            list(trainer.epochs())
            weights.append(trainer.model.state_dict())
        torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=1e-12)

    def test_the_weights_change_after_the_last_batch_of_a_step(self, make_dataset):
        dataset = make_dataset("regression")
        trainer = Trainer(Smooth(), dataset, replace(BASE, batch_size=1, accumulate=3), ONCE)
        weight, changes = trainer.model.first.weight, []
        before = weight.detach().clone()
        for _ in trainer.steps([torch.tensor([i]) for i in range(8)], seed=0):
            changes.append(not torch.equal(weight, before))
            before = weight.detach().clone()
        assert changes == [False, False, True, False, False, True, False, True]

    def test_a_parameter_without_a_gradient_in_this_step_is_left_alone(self):
        """As without accumulation: momentum of earlier steps does not move it, and a resumed training does the same."""
        found = []
        for accumulate in (1, 2):
            model = nn.ParameterList([torch.ones(2), torch.ones(2)])
            update = WeightUpdate(model, replace(BASE, accumulate=accumulate), [0.1, 0.1, 0.1])
            for used in ([0, 1], [0], [0, 1]):
                model.zero_grad()
                sum(model[i].square().sum() for i in used).backward()
                if accumulate > 1:
                    update.add_gradients(torch.zeros(()), torch.ones(()))
                update.step()
            found.append(dict(model.state_dict()))
        torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)

    def test_an_interrupted_step_is_dropped(self, make_dataset):
        dataset = make_dataset("regression")
        whole, stopped = (Trainer(Smooth(), dataset, LION, ONCE) for _ in range(2))

        def interrupt(_: Callable[[], float]) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            next(stopped.epochs(interrupt))
        assert float(stopped.update._count) > 0
        records = [next(trainer.epochs()) for trainer in (whole, stopped)]
        assert records[0]["loss"] == records[1]["loss"]


class TestRates:
    @pytest.mark.parametrize("training", [LION, ADAMW, ADAM, replace(BASE, schedule=Cosine())], ids=str)
    def test_every_step_has_the_rate_of_the_schedule(self, make_dataset, training):
        trainer = Trainer(Smooth(), make_dataset("regression"), training, ONCE)
        (group, *_), seen = trainer.update.optimiser.param_groups, []
        step = trainer.update.optimiser.step

        def spy() -> None:
            seen.append(float(group["lr"]))
            step()

        trainer.update.optimiser.step = spy
        expected = []
        for _ in range(training.max_epochs):
            rates = trainer.schedule.rates()
            expected += rates
            record = next(trainer.epochs())
            assert record["lr"] == rates[-1]
        assert seen == expected
        assert len(seen) == training.max_epochs * -(-3 // training.accumulate)


class TestAverages:
    def test_they_are_validated_kept_and_returned(self, make_dataset, make_model):
        """Against a trainer without an average, whose weights are averaged by hand."""
        dataset = make_dataset("regression")
        training = replace(ADAMW, lr=0.05, average_decay=None, accumulate=2)
        plain = Trainer(make_model(dataset, dropout=0.2), dataset, training, ONCE)
        averaged = Trainer(make_model(dataset, dropout=0.2), dataset, replace(training, average_decay=0.8), ONCE)
        peer = make_model(dataset)
        by_hand = Average(peer, 0.8)
        step = plain.update.step

        def spy() -> None:
            step()
            peer.load_state_dict(plain.model.state_dict())
            by_hand.update()

        plain.update.step = spy
        scores = []
        for record, other in zip(plain.epochs(), averaged.epochs(), strict=True):
            assert record["loss"] == other["loss"]  # training does not see the average
            with by_hand.in_model():
                reference = Trainer(peer, dataset, training, ONCE)
                scores.append(reference._score(dataset.split.val, 1, record["epoch"]))
            assert other["val_mae"] == scores[-1] != record["val_mae"]
            if averaged.best_epoch == other["epoch"]:
                best = copy.deepcopy(by_hand.state()[0])
        assert averaged.history[averaged.best_epoch - 1]["val_mae"] == min(scores)
        averaged.use_best_weights()
        for name, tensor in averaged.model.state_dict().items():
            assert torch.equal(tensor, best[name]), name

    def test_with_measured_norms(self, make_dataset, make_model):
        """The norms are measured with the averaged weights, and training does not notice."""
        dataset = make_dataset("regression")
        evaluation = replace(ONCE, num_norm_graphs=8)
        trainers = [Trainer(make_model(dataset), dataset, ADAMW, each) for each in (ONCE, evaluation)]
        for a, b in zip(trainers[0].epochs(), trainers[1].epochs(), strict=True):
            assert a["loss"] == b["loss"]
            assert a["val_mae"] != b["val_mae"]


class TestResuming:
    @pytest.mark.parametrize("stop", [1, 3])
    @pytest.mark.parametrize("name", ALL)
    def test_gives_the_same_bits(self, make_dataset, make_model, tmp_path, name, stop):
        dataset = make_dataset("regression")
        evaluation = replace(ONCE, num_norm_graphs=5)

        def new() -> Trainer:
            return Trainer(make_model(dataset, dropout=0.3), dataset, ALL[name], evaluation, seed=3)

        whole, first, second = new(), new(), new()
        list(whole.epochs())
        for _, _ in zip(range(stop), first.epochs(), strict=False):
            pass
        save_checkpoint(tmp_path / "last", *first.state())
        second.restore(*load_checkpoint(tmp_path / "last"))
        list(second.epochs())
        (expected, values), (found, other_values) = whole.state(), second.state()
        assert found.keys() == expected.keys()
        for key, tensor in expected.items():
            assert torch.equal(tensor, found[key]), key
        for each in (values, other_values):
            for record in each["history"]:
                del record["seconds"]
        assert json.dumps(other_values) == json.dumps(values)

    def test_restoring_keeps_the_addresses(self, make_dataset):
        """CUDA graphs know them."""
        dataset = make_dataset("regression")
        trainers = [Trainer(Smooth(), dataset, replace(ADAMW, accumulate=2), ONCE) for _ in range(2)]
        next(trainers[0].epochs())
        before = [tensor.data_ptr() for tensor in trainers[1]._changed_by_steps()]
        trainers[1].restore(*copy.deepcopy(trainers[0].state()))
        list(trainers[1].epochs())
        assert [tensor.data_ptr() for tensor in trainers[1]._changed_by_steps()] == before

    @pytest.mark.parametrize("before", ["adam", "adamw", "lion"])
    @pytest.mark.parametrize("now", ["adam", "adamw", "lion"])
    def test_from_another_optimiser_is_refused(self, make_dataset, before, now):
        dataset = make_dataset("regression")
        state = Trainer(Smooth(), dataset, replace(BASE, optimiser=before), ONCE).state()
        trainer = Trainer(Smooth(), dataset, replace(BASE, optimiser=now), ONCE)
        if before == now:
            trainer.restore(*state)
            return
        with pytest.raises(ValueError, match=rf"{before}, not {now}: set training\.optimiser='{before}'"):
            trainer.restore(*state)

    def test_from_a_checkpoint_of_an_older_version(self, make_dataset):
        """It has neither the optimiser's name, which was Adam, nor moments of parameters without a gradient."""
        dataset = make_dataset("regression")
        first, second = (Trainer(Smooth(), dataset, BASE, ONCE) for _ in range(2))
        next(first.epochs())
        tensors, values = copy.deepcopy(first.state())
        del values["optimiser"]
        unused = [name for name, _ in first.model.named_parameters()].index("unused")
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(f"optimiser.{unused}.")}
        second.restore(tensors, values)
        list(first.epochs())
        list(second.epochs())
        for name, tensor in first.model.state_dict().items():
            assert torch.equal(tensor, second.model.state_dict()[name]), name

    def test_with_or_without_an_average_is_told(self, make_dataset):
        dataset = make_dataset("regression")
        plain, averaged = (
            Trainer(Smooth(), dataset, replace(BASE, average_decay=decay), ONCE) for decay in (None, 0.9)
        )
        states = plain.state(), averaged.state()
        with pytest.raises(ValueError, match=r"no averaged weights: leave out training\.average_decay"):
            averaged.restore(*states[0])
        with pytest.raises(ValueError, match=r"has averaged weights: set training\.average_decay"):
            plain.restore(*states[1])

    def test_moments_that_make_no_sense(self, make_dataset):
        dataset = make_dataset("regression")
        trainer = Trainer(Smooth(), dataset, BASE, ONCE)
        tensors, values = trainer.state()
        for name, value, message in (
            ("optimiser.2.exp_avg_sq", -torch.ones(8).double(), r"optimiser\.2 has a negative"),
            ("optimiser.99.exp_avg", torch.ones(8).double(), r"optimiser\.99 belongs to no parameter"),
            ("optimiser.-1.exp_avg", torch.ones(8).double(), r"optimiser\.-1 belongs to no parameter"),
        ):
            with pytest.raises(ValueError, match=message):
                trainer.restore({**tensors, name: value}, values)


class _NoWaiting(TorchDispatchMode):
    """Refuses whatever brings a value from the device to the host."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function is not torch.ops.aten._local_scalar_dense.default, "a step waits for the device"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ALL)
def test_a_step_does_not_wait_for_the_device(name):
    model = Smooth()
    update = WeightUpdate(model, replace(ALL[name], clip_norm=0.1, accumulate=2), [0.1, 0.2])
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    with _NoWaiting():
        update.add_gradients(torch.tensor(6.0), torch.tensor(3))
        update.step()
    with pytest.raises(AssertionError, match="waits"), _NoWaiting():
        float(model.last.bias.detach())


def test_lion_trains_crawl(make_dataset, make_model):
    dataset = make_dataset("regression")
    training = Training(
        optimiser="lion", lr=0.01, weight_decay=0.01, batch_size=8, max_epochs=60, schedule=CosinePerStep(),
        warmup_epochs=2, average_decay=0.9,
    )  # fmt: skip
    trainer = Trainer(make_model(dataset), dataset, training, ONCE)
    assert isinstance(trainer.update.optimiser, Lion)
    ids = dataset.split.train

    def train_score() -> float:
        return trainer.evaluate(ids, 3, "train").score_of_mean(targets_of(trainer.store, ids))

    assert train_score() > 0.5
    list(trainer.epochs())
    with trainer.update.averaged():
        assert train_score() < 0.3


@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter stands in for a GPU")
def test_captured_functions_do_the_same(make_dataset: Callable[..., Dataset], make_model, monkeypatch, request):
    """The functions that a GPU captures are called in Triton's interpreter."""
    pytest.importorskip("triton")
    request.getfixturevalue("wide_tiles")
    dataset = make_dataset("regression", num_graphs=10)
    training = replace(ADAMW, accumulate=2, batch_size=2, max_epochs=2, clip_norm=1.0)
    found = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        trainer = Trainer(make_model(dataset, precision="float32"), dataset, training, ONCE)
        assert (trainer.runner.reason is None) == bool(devices)
        gradients = spy_gradients(trainer)
        next(trainer.epochs())
        found.append((gradients, trainer.history[0]["loss"]))
    (eager, loss), (captured, captured_loss) = found
    assert captured_loss == pytest.approx(loss, rel=1e-5)
    assert len(eager) == len(captured) == 2
    for one, other in zip(eager[0], captured[0], strict=True):  # later ones differ more: Adam turns signs into steps
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ALL)
def test_captured_steps_repeat_resume_and_equal_eager_ones(make_dataset, make_model, monkeypatch, tmp_path, name):
    dataset = make_dataset("regression", num_graphs=40)
    training = replace(ALL[name], lr=1e-3)

    def new() -> AnyTrainer:
        model = make_model(dataset, precision="float32", virtual_node=True, num_layers=2)
        return AnyTrainer(model, dataset, training, ONCE, device="cuda")

    whole, again, first, second = (new() for _ in range(4))
    list(whole.epochs())
    list(again.epochs())
    for _, _ in zip(range(2), first.epochs(), strict=False):
        pass
    save_checkpoint(tmp_path / "last", *first.state())
    second.restore(*load_checkpoint(tmp_path / "last"))
    list(second.epochs())
    expected, values = whole.state()
    for other in (again, second):
        for key, tensor in other.state()[0].items():
            assert torch.equal(tensor, expected[key]), key
    if whole.update.average is not None:
        assert values["average_steps"] == training.max_epochs * whole.schedule.steps_per_epoch
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())
    eager = new()
    assert eager.runner.reason is not None
    for record, captured in zip(eager.epochs(), whole.history, strict=True):
        assert captured["lr"] == record["lr"]
        assert captured["loss"] == pytest.approx(record["loss"], rel=1e-3)
        assert captured["val_mae"] == pytest.approx(record["val_mae"], rel=1e-3)
