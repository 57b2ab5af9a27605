"""Trainings on one graph: targets of nodes and pairs, batches of the full graph and closed ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from crawl import Graph, Network, WalkPlan
from crawl.data import Dataset, OneGraph, Split, Task, WalkLoader, from_graph
from crawl.nn import OneHot
from crawl.training import Evaluation, Training
from crawl.training.evaluation import predict
from crawl.training.runner import Runner
from crawl.training.trainer import Trainer

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TOLERANCE = 2e-5 if torch.cuda.is_available() else 1e-5


def graph_data(num_nodes: int = 24) -> Data:
    """A ring with chords, a leaf and an isolated node, the last; whether a node has a chord is its class."""
    generator = torch.Generator().manual_seed(0)
    ring = torch.arange(num_nodes - 2)
    ends = torch.stack([ring, ring.roll(-1)])
    chords = torch.tensor([[0, 3, 7], [5, 9, 15]])
    leaf = torch.tensor([[4], [num_nodes - 2]])
    edges = torch.cat([ends, chords, leaf], dim=1)
    y = torch.zeros(num_nodes, dtype=torch.long)
    y[chords.flatten()] = 1
    return Data(
        x=torch.rand(num_nodes, 3, generator=generator),
        edge_index=torch.cat([edges, edges.flip(0)], dim=1),
        edge_attr=torch.rand(2 * edges.shape[1], 2, generator=generator),
        y=y,
    )


def of_nodes(batches: str) -> Dataset:
    return from_graph(graph_data(), batches=batches, fractions=(0.5, 0.25, 0.25))


def of_pairs(batches: str) -> Dataset:
    data = graph_data()
    pairs = torch.tensor([[0, 1], [4, 22], [3, 9], [2, 17], [23, 5], [8, 8], [6, 11], [1, 0]])
    graph = Graph.from_data(data)
    y = (torch.arange(8) % 2).long()
    store = OneGraph(graph, pairs, data.x, data.edge_attr, y, data.edge_index, batches)
    task = Task(kind="binary", level="pair", num_outputs=1)
    ids = torch.arange(8)
    return Dataset("pairs", store, task, Split(ids[:4], ids[4:6], ids[6:]))


def network(*layer: str, level: str = "node", **settings: Any) -> Network:
    torch.manual_seed(0)
    readout = {"pool": None} if level == "node" else {"pool": None, "pair": "mlp"}
    plan = {"num_steps": 8, "num_eval_steps": 8, "window_size": 4, "num_layers": 2}
    model = Network(
        3, 1, layer=layer or ("walk", "gine", "virtual_node"), hidden_channels=8, edge_dim=2,
        precision="float32", **readout, **(plan | settings),
    )  # fmt: skip
    assert model.walk_plan is not None
    model.walk_plan = WalkPlan(**{**vars(model.walk_plan), "centred": True, "num_walks": 2})
    return model


each_batches = pytest.mark.parametrize("batches", ["full", "closed"])
each_level = pytest.mark.parametrize(
    ("level", "make"), [("node", of_nodes), ("pair", of_pairs)], ids=["nodes", "pairs"]
)


@pytest.mark.parametrize(
    ("block", "batches", "level", "make"),
    [
        ("gine", "full", "node", of_nodes),
        ("edge_update", "full", "pair", of_pairs),
        ("attention", "closed", "node", of_nodes),
        ("gine", "closed", "pair", of_pairs),
    ],
)
def test_captured_equals_eager(
    block: str,
    batches: str,
    level: str,
    make: Callable[[str], Dataset],
    monkeypatch: pytest.MonkeyPatch,
    wide_tiles: None,
) -> None:
    """Answers, and gradients of all parameters."""
    dataset, found = make(batches), []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        # One graph leaves the norm of a virtual node nothing to do.
        more = ("virtual_node", "feed_forward") if batches == "closed" else ("feed_forward",)
        model = network("walk", block, *more, level=level, num_layers=1).to(DEVICE).train()
        model = model if devices else model.double()  # rounding of one side only, whatever the processor
        runner = Runner(model, dataset.task, dataset.store, DEVICE, largest_batch=8)
        assert (runner.reason is None) == bool(devices)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)

        def step(batch: Any, runner: Runner = runner) -> Tensor:
            answer = runner.answer(batch)
            known = torch.where(batch.y.isnan(), 0, batch.y).view(-1, 1)
            is_known = ~batch.y.isnan().view(-1, 1)
            ((answer - known).square() * is_known).sum().backward()
            return answer.detach()

        # A norm over few graphs, as of a virtual node, would multiply the rounding.
        ids = [torch.tensor([3, 0, 7, 5, 2, 6]), torch.tensor([1, 2, 4, 6, 3, 0, 7, 5])]
        grads = lambda model=model: [*model.state_dict().values(), *(p.grad for p in model.parameters())]  # noqa: E731
        answers = [
            answer[: len(part)].cpu().clone()
            for part, answer in zip(
                ids, runner.run(step, ids, 8, seed=3, is_training=True, protected=grads), strict=True
            )
        ]
        found.append((answers, {name: parameter.grad.cpu() for name, parameter in model.named_parameters()}))
    (eager, eager_grads), (captured, captured_grads) = found
    for a, b in zip(eager, captured, strict=True):
        torch.testing.assert_close(b.double(), a, rtol=TOLERANCE, atol=TOLERANCE)
    for name, grad in eager_grads.items():
        scale = max(float(grad.abs().max()), 0.1)
        error = float((captured_grads[name] - grad).abs().max()) / scale
        assert error <= TOLERANCE, f"{name}: {error:.1e}"


@each_level
@pytest.mark.parametrize("layer", [("walk", "virtual_node"), ("walk", "gine", "attention")])
def test_an_answer_does_not_depend_on_the_batch(
    layer: tuple[str, ...], level: str, make: Callable[[str], Dataset]
) -> None:
    dataset, model = make("closed"), network(*layer, level=level).eval()
    ids = torch.arange(len(dataset.store))
    settings: dict[str, Any] = {"num_repeats": 2, "seed": 5}
    whole = predict(model, dataset.task, dataset.store, ids, batch_size=len(ids), **settings).repeats
    alone = [predict(model, dataset.task, dataset.store, ids[i : i + 1], batch_size=1, **settings).repeats for i in ids]
    torch.testing.assert_close(
        torch.cat([torch.from_numpy(each) for each in alone], 1), torch.from_numpy(whole), rtol=0, atol=1e-5
    )
    backwards = predict(model, dataset.task, dataset.store, ids.flip(0), batch_size=3, **settings).repeats[:, ::-1]
    torch.testing.assert_close(torch.from_numpy(backwards.copy()), torch.from_numpy(whole), rtol=0, atol=1e-5)


def test_an_isolated_node_is_answered_by_its_features() -> None:
    data, model = graph_data(), network("walk", "gine").eval()
    isolated = torch.tensor([23])
    answers = []
    for value in (0.0, 0.0, 1.0):
        data.x[23] = value
        store = OneGraph(Graph.from_data(data), isolated, data.x, data.edge_attr, batches="closed")
        answers.append(predict(model, of_nodes("full").task, store, torch.tensor([0]), num_repeats=1, seed=0).mean)
    assert answers[0] == answers[1] != answers[2]


@each_level
@each_batches
def test_it_learns_repeats_and_resumes(batches: str, level: str, make: Callable[[str], Dataset]) -> None:
    dataset = make(batches)
    size = {"batch_size": 6} if batches == "closed" else {}
    training = Training(lr=0.02, max_epochs=30 if level == "node" else 8, **size)

    def trainer() -> Trainer:
        layer = ("walk", "gine", "virtual_node") if batches == "closed" else ("walk", "gine")
        return Trainer(
            network(*layer, level=level), dataset, training, Evaluation(num_val_repeats=1), seed=1, device="cpu"
        )

    first = trainer()
    history = list(first.epochs())
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]
    second = trainer()
    for _ in zip(range(3), second.epochs(), strict=False):
        pass
    third = trainer()
    third.restore(*second.state())
    list(third.epochs())
    for name, value in first.model.state_dict().items():
        assert torch.equal(third.model.state_dict()[name], value), name


def test_models_of_pyg_data_are_trained_on_the_full_graph() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(3, 1)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(x, edge_index)

    torch.manual_seed(0)
    dataset = of_nodes("full")
    trainer = Trainer(Own(), dataset, Training(lr=0.1, max_epochs=3), Evaluation(), device="cpu")
    losses = [record["loss"] for record in trainer.epochs()]
    assert losses[-1] < losses[0]
    ids, data = torch.tensor([4, 1]), graph_data()
    expected = trainer.model(data.x, data.edge_index)[dataset.store.owners[ids]].sigmoid()
    found = predict(trainer.model, dataset.task, dataset.store, ids, num_repeats=1, seed=0).mean
    torch.testing.assert_close(torch.from_numpy(found).float(), expected.detach())


@each_batches
@pytest.mark.parametrize("is_captured", [False, True], ids=["eager", "captured"])
def test_evaluation_has_a_number_of_walks_of_its_own(
    batches: str, is_captured: bool, monkeypatch: pytest.MonkeyPatch, wide_tiles: None
) -> None:
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"} if is_captured else set())
    dataset, model, found = of_nodes(batches), network("walk", num_layers=1).eval(), []
    assert model.walk_plan is not None
    for numbers in ({"num_walks": 1, "num_eval_walks": 3}, {"num_walks": 3}, {"num_walks": 1}):
        model.walk_plan = replace(model.walk_plan, num_eval_walks=None)
        model.walk_plan = replace(model.walk_plan, **numbers)
        ids = torch.tensor([0, 3, 5])
        found.append(predict(model, dataset.task, dataset.store, ids, num_repeats=1, seed=0).mean)
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).any()


@each_batches
@each_level
def test_predictions_with_kernels_are_those_of_plain_torch(
    batches: str, level: str, make: Callable[[str], Dataset], monkeypatch: pytest.MonkeyPatch, wide_tiles: None
) -> None:
    """Captured, or eager, which has batches of exact size; few at a time or all."""
    dataset, model, ids = make(batches), network("walk", level=level, num_layers=1).eval(), torch.tensor([0, 3, 5, 2])
    found = []
    for devices, is_eager, batch_size in ((set(), True, 4), ({"cuda", "cpu"}, True, 3), ({"cuda", "cpu"}, False, 4)):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        runner = Runner(model, dataset.task, dataset.store, torch.device("cpu"), largest_batch=4)
        runner.reason = "it is not tried" if is_eager else runner.reason
        assert (runner.reason is None) != is_eager
        found.append(runner.predict(ids, batch_size if batches == "closed" else 4, seed=0))
    for answers in found[1:]:
        torch.testing.assert_close(answers, found[0], rtol=1e-5, atol=1e-6)


def test_a_loader_for_a_loop_of_ones_own() -> None:
    data, model = graph_data(), network("walk", "gine")
    assert model.walk_plan is not None
    loader = WalkLoader(data, model.walk_plan, batch_size=7, shuffle=True, seed=2)
    assert len(loader) == 4
    owners = []
    for batch in loader:
        answer = model(batch)
        assert answer.shape == (len(batch.y), 1)
        answer.sum().backward()
        owners.append(batch.y)
    assert torch.cat(owners).sum() == data.y.sum()
    first, second = (
        [batch.walks.nodes for batch in WalkLoader(data, model.walk_plan, batch_size=30)] for _ in range(2)
    )
    assert torch.equal(first[0], second[0])
    again = WalkLoader(data, model.walk_plan, batch_size=30)
    one, other = next(iter(again)), next(iter(again))
    assert one.walks.num_nodes != other.walks.num_nodes or not torch.equal(one.walks.nodes, other.walks.nodes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": ("gine",)}, "batches='full'"),
        ({"layer": ("walk",), "strategy": "restart"}, "restart.*batches='full'"),
    ],
)
def test_networks_that_closed_batches_are_not_for(settings: dict[str, Any], message: str) -> None:
    model = Network(3, 1, num_layers=1, hidden_channels=8, edge_dim=2, pool=None, **settings)
    dataset = of_nodes("closed")
    with pytest.raises(ValueError, match=message):
        predict(model, dataset.task, dataset.store, torch.tensor([0]), num_repeats=1, seed=0)


class OnData(nn.Module):
    """A model of one's own that takes PyG data."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(3, 1)

    def forward(self, data: Data) -> Tensor:
        assert data.edge_index is not None
        return self.conv(data.x, data.edge_index)


def test_models_that_would_see_the_full_graph_in_closed_batches_are_refused() -> None:
    dataset = of_nodes("closed")
    with pytest.raises(ValueError, match=r"OnData takes PyG data.*batches='full'"):
        Trainer(OnData(), dataset, Training(max_epochs=1), Evaluation(), seed=0)


def test_walks_that_begin_at_their_targets_are_pooled_with_padding_or_refused() -> None:
    dataset, plan = of_nodes("closed"), WalkPlan(num_steps=8, num_eval_steps=8, window_size=4)
    batch = next(iter(WalkLoader(dataset.store, plan, is_training=False)))
    for padding in (False, True):
        model = network("walk", padding=padding).eval()
        model.walk_plan = plan
        if padding:
            answers = model(batch)
            run = predict(model, dataset.task, dataset.store, torch.arange(6), num_repeats=1, seed=0)
            assert len(answers.unique(dim=0)) > len(dataset.store) // 2
            assert run.mean.shape == (6, 1)
            continue
        message = r"begin at their targets.*centred=True \(--walk\.centred\), or padding=True \(--model\.padding\)"
        with pytest.raises(ValueError, match=message):
            model(batch)
        with pytest.raises(ValueError, match=message):
            Runner(model, dataset.task, dataset.store, torch.device("cpu"), largest_batch=4)


def test_a_network_checks_the_features_of_batches() -> None:
    model, data = network("walk", "gine").eval(), graph_data()
    bare, without, twice = (data.clone() for _ in range(3))
    bare.x, without.edge_attr, twice.u = None, None, torch.ones(1, 4)
    for given, message in (
        (bare, "no features, but 3 channels"),
        (without, "no features, but 2 channels"),
        (twice, r"u, features of the graph.*del data\.u"),
    ):
        with pytest.raises(ValueError, match=message):
            model(next(iter(WalkLoader(given, model.walk_plan))))
    unused = Network(3, 1, hidden_channels=8, num_layers=1, pool=None, centred=True)
    with pytest.raises(ValueError, match="edge_dim=2 to use them"):
        unused(next(iter(WalkLoader(data, unused.walk_plan))))
    data.x = torch.arange(len(data.x)) % 6
    for limit in (6, 5):
        of_categories = Network(OneHot(limit), 1, layer=("gine", "walk"), edge_dim=2, pool=None, centred=True).eval()
        batch = next(iter(WalkLoader(data, of_categories.walk_plan)))
        if limit == 6:
            assert torch.isfinite(of_categories(batch)).all()
        else:
            with pytest.raises(ValueError, match="category 5 in column 0, but only 0 to 4"):
                of_categories(batch)


def test_a_virtual_node_of_one_graph_is_refused() -> None:
    dataset = of_nodes("full")
    with pytest.raises(ValueError, match=r"blocks\..*VirtualNode.*batches='closed'"):
        Runner(network(), dataset.task, dataset.store, torch.device("cpu"), largest_batch=4)


def test_readouts_and_targets_must_fit() -> None:
    for level, make in (("pair", of_nodes), ("node", of_pairs)):
        dataset = make("full")
        with pytest.raises(ValueError, match="pair"):
            predict(network("walk", level=level), dataset.task, dataset.store, torch.tensor([0]), num_repeats=1, seed=0)
