"""Training on links: what is predicted is not to be seen, and everything follows from seed and epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import erdos_renyi_graph

from crawl import Graph, Network, WalkPlan
from crawl.data import Dataset, from_links
from crawl.data.link_graph import LinkGraph
from crawl.nn import Batch
from crawl.training import Evaluation, Trainer, Training
from crawl.training.evaluation import predict, targets_of
from crawl.training.runner import Runner


def random_links(num_nodes: int = 100, degree: float = 8, **settings: Any) -> Dataset:
    """Links that nothing tells: those of a random graph."""
    torch.manual_seed(0)
    edge_index = erdos_renyi_graph(num_nodes, degree / num_nodes)
    return from_links(Data(edge_index=edge_index, num_nodes=num_nodes), fractions=(0.6, 0.2, 0.2), **settings)


class Reader(nn.Module):
    """Answers 1 if anything in a batch says that the two nodes of a pair are linked, and else 0."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.walk_plan = WalkPlan(num_steps=20, num_eval_steps=20, window_size=8)

    def forward(self, batch: Batch) -> Tensor:
        assert batch.walks is not None
        assert batch.targets is not None
        nodes, size = batch.walks.nodes.long(), batch.num_nodes
        bits = batch.walks.bits()[:, :, 8:]  # adjacency to the node 2, 3, …, 8 steps before
        pairs = [batch.edge_index[0] * size + batch.edge_index[1], (nodes[:, :-1] * size + nodes[:, 1:]).flatten()]
        for j in range(2, 9):
            is_adjacent = bits[:, j:, j - 2] > 0
            pairs.append((nodes[:, j:] * size + nodes[:, :-j])[is_adjacent])
        seen = torch.cat(pairs)
        first, second = (end.owner for end in batch.targets)
        linked = torch.isin(first * size + second, seen) | torch.isin(second * size + first, seen)
        return self.weight * linked.float().unsqueeze(1)


def answers_in_training(dataset: Dataset, model: nn.Module, seed: int) -> Tensor:
    """What the model answers to the targets of a step of training, in their order."""
    ids = dataset.split.train
    runner = Runner(model, dataset.task, dataset.store, torch.device("cpu"), largest_batch=len(ids))
    (answers,) = runner.run(runner.answer, [ids], len(ids), seed=seed, is_training=True)
    return answers.detach()[:, 0]


def auc_of_evaluation(dataset: Dataset, model: nn.Module, part: str) -> float:
    ids = getattr(dataset.split, part)
    runner = Runner(model, dataset.task, dataset.store, torch.device("cpu"), largest_batch=len(ids))
    answers = runner.predict(ids, len(ids), seed=3)
    return float(roc_auc_score(targets_of(dataset.store, ids), answers.detach().numpy()))


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_nothing_in_a_batch_tells_of_a_link_that_it_predicts(batches: str) -> None:
    dataset = random_links(batches=batches)
    for seed in range(3):
        assert not answers_in_training(dataset, Reader(), seed).any()
    assert [auc_of_evaluation(dataset, Reader(), part) for part in ("train", "val", "test")] == [0.5] * 3


def leaves_links_in(store: LinkGraph, seed: int, true: Callable[..., LinkGraph]) -> LinkGraph:
    """A mistake: the targets of an epoch, but the graph with all training links."""
    return replace(store, owners=true(store, seed).owners)


def leaves_one_in(store: LinkGraph, seed: int, true: Callable[..., LinkGraph]) -> LinkGraph:
    """A mistake: one of the targets of an epoch stays in its graph."""
    epoch = true(store, seed)
    return with_links(epoch, epoch.owners[:1].t())


def with_links(store: LinkGraph, links: Tensor) -> LinkGraph:
    half = torch.cat([store.edge_index[:, : store.num_edges // 2], links], dim=1)
    edge_index = torch.cat([half, half.flip(0)], dim=1)
    return replace(store, graph=Graph.from_edge_index(edge_index, store.num_nodes), edge_index=edge_index)


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_a_leak_would_be_found(batches: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, true = random_links(batches=batches), LinkGraph.drawn
    monkeypatch.setattr(LinkGraph, "drawn", lambda store, seed: leaves_links_in(store, seed, true))
    answers, store = answers_in_training(dataset, Reader(), 0), dataset.store
    assert answers[: store.num_hidden].all()
    assert not answers[store.num_hidden :].any()
    assert auc_of_evaluation(dataset, Reader(), "train") == 1.0
    monkeypatch.setattr(LinkGraph, "drawn", lambda store, seed: leaves_one_in(store, seed, true))
    assert answers_in_training(dataset, Reader(), 0).tolist() == [1.0] + [0.0] * (store.num_drawn - 1)


def test_a_leak_of_validation_links_would_be_found() -> None:
    dataset = random_links()
    store, val = dataset.store, dataset.split.val
    links = store.owners[val][store.y[val] == 1].t()
    assert auc_of_evaluation(replace(dataset, store=with_links(store, links)), Reader(), "val") == 1.0


def trained(dataset: Dataset, epochs: int, **settings: Any) -> Trainer:
    torch.manual_seed(0)
    model = Network(
        *(1, 1),
        layer=("walk", "gin"),
        num_layers=2,
        hidden_channels=16,
        pool=None,
        pair="mlp",
        edge_dim=None,
        num_steps=16,
        num_eval_steps=16,
        window_size=4,
        centred=dataset.batches == "closed",
    )
    training = Training(lr=0.01, max_epochs=epochs)
    trainer = Trainer(model, dataset, training, Evaluation(num_val_repeats=1), **settings)
    for _ in trainer.epochs():
        pass
    return trainer


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_a_network_learns_nothing_where_nothing_is_to_be_learned(batches: str) -> None:
    dataset = random_links(300, batches=batches)
    trainer = trained(dataset, 25)
    assert trainer.history[-1]["loss"] > 0.65  # log 2 is 0.693
    for part in ("train", "val", "test"):
        ids = getattr(dataset.split, part)
        (auc,) = trainer.evaluate(ids, 1, part).scores(targets_of(dataset.store, ids))
        assert abs(auc - 0.5) < 0.09, part  # three standard deviations of validation


def test_the_same_network_would_use_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    true = LinkGraph.drawn
    monkeypatch.setattr(LinkGraph, "drawn", lambda store, seed: leaves_links_in(store, seed, true))
    assert trained(random_links(300), 25).history[-1]["loss"] < 0.6


def test_a_network_learns_what_is_to_be_learned() -> None:
    torch.manual_seed(0)
    block = torch.arange(120) // 30
    is_link = torch.rand(120, 120) < torch.where(block == block.unsqueeze(1), 0.4, 0.01)
    edge_index = torch.triu(is_link, 1).nonzero().t()
    dataset = from_links(Data(edge_index=edge_index, num_nodes=120), undirected=True)
    trainer = trained(dataset, 60)
    assert trainer.schedule.best is not None
    assert trainer.schedule.best > 0.75


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_training_repeats_and_resumes(batches: str) -> None:
    dataset = random_links(metric="mrr", batches=batches)
    whole = trained(dataset, 4)
    again = trained(dataset, 4)
    assert [record["loss"] for record in whole.history] == [record["loss"] for record in again.history]

    begun = trained(dataset, 2)
    tensors, values = begun.state()
    resumed = Trainer(begun.model, dataset, Training(lr=0.01, max_epochs=4), Evaluation(num_val_repeats=1))
    resumed.restore(tensors, values)
    for _ in resumed.epochs():
        pass
    assert [record["loss"] for record in resumed.history] == [record["loss"] for record in whole.history]
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


def test_other_seeds_draw_other_links(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, true = [], LinkGraph.drawn

    def noted(store: LinkGraph, seed: int) -> LinkGraph:
        epoch = true(store, seed)
        drawn.append(tuple(epoch.owners[: store.num_drawn].flatten().tolist()))
        return epoch

    monkeypatch.setattr(LinkGraph, "drawn", noted)
    for seed in (0, 0, 1):
        trained(random_links(40, 6), 2, seed=seed)
    first, second, third = drawn[:2], drawn[2:4], drawn[4:]
    assert first == second
    assert first[0] != first[1]
    assert not set(first) & set(third)


def test_targets_of_both_kinds_are_refused_together() -> None:
    dataset = random_links()
    runner = Runner(Reader(), dataset.task, dataset.store, torch.device("cpu"), largest_batch=500)
    with pytest.raises(ValueError, match="evaluate the splits one by one"):
        runner.predict(torch.arange(len(dataset)), 500, seed=0)


def test_given_pairs_see_all_training_links() -> None:
    dataset = random_links()
    settings: dict[str, Any] = {"num_repeats": 1, "seed": 0}
    found = predict(Reader(), dataset.task, dataset.store, torch.arange(len(dataset)), **settings).repeats[0, :, 0]
    num_hidden = dataset.store.num_hidden
    assert np.allclose(found[:num_hidden], 1 / (1 + np.exp(-1)))
    assert np.allclose(found[num_hidden:], 0.5)


class OnPyG(nn.Module):
    """A network on PyG data."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.conv = nn.Parameter(torch.randn(100, 8)), GCNConv(8, 8)
        self.seen: list[Data] = []

    def forward(self, data: Data) -> Tensor:
        self.seen.append(data)
        h = self.conv(self.embedding, data.edge_index)
        first, second = data.edge_label_index
        return (h[first] * h[second]).sum(dim=1, keepdim=True)


def test_a_network_on_pyg_data_gets_the_pairs() -> None:
    dataset, model = random_links(), OnPyG()
    trainer = Trainer(model, dataset, Training(max_epochs=2), Evaluation())
    for record in trainer.epochs():
        assert record["loss"] > 0
    for data in model.seen:
        pairs = {tuple(pair) for pair in data.edge_label_index[:, data.y == 1].t().tolist()}
        assert pairs
        assert not pairs & {tuple(edge) for edge in data.edge_index.t().tolist()}


def losses_and_answers() -> tuple[list[float], list[Tensor]]:
    """Of two epochs; answers to validation and to training links between them."""
    dataset = random_links(30, 6, supervised_share=0.4)
    torch.manual_seed(0)
    settings: dict[str, Any] = {"num_steps": 6, "num_eval_steps": 8, "window_size": 4, "precision": "float32"}
    network = Network(
        *(1, 1),
        layer=("walk", "gcn"),
        num_layers=1,
        hidden_channels=8,
        pool=None,
        pair="mlp",
        edge_dim=None,
        **settings,
    )
    training = Training(lr=0.01, max_epochs=2)
    trainer = Trainer(network, dataset, training, Evaluation(num_val_repeats=1))
    losses, answers = [], []
    for record in trainer.epochs():
        losses.append(record["loss"])
        for part in ("train", "val"):
            ids = getattr(dataset.split, part)
            answers.append(torch.from_numpy(trainer.evaluate(ids, 1, part).repeats[0]))
    return losses, answers


def test_padded_batches_of_epochs_are_the_same(wide_tiles: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    found = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        found.append(losses_and_answers())
    (eager, eager_answers), (captured, captured_answers) = found
    assert captured == pytest.approx(eager, abs=2e-5)
    for a, b in zip(eager_answers, captured_answers, strict=True):
        torch.testing.assert_close(b, a, rtol=2e-4, atol=2e-4)


def test_padded_batches_do_not_tell_either(triton_everywhere: None) -> None:
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("the reader waits for the device")
    dataset, model = random_links(30, 6), Reader()
    runner = Runner(model, dataset.task, dataset.store, torch.device("cpu"), largest_batch=100)
    assert runner.reason is None
    train, val = dataset.split.train, dataset.split.val
    for ids, is_training in ((train, True), (val, False), (train, False), (train, True)):
        (answers,) = runner.run(runner.answer, [ids], 100, seed=1, is_training=is_training)
        assert not answers[: len(ids)].any()
    seen = predict(model, dataset.task, dataset.store, train, num_repeats=1, seed=0).repeats[0, :, 0]
    assert (seen > 0.6).sum() == dataset.store.num_hidden
