"""Pre-training by hidden bits: what is hidden, the loss, captured steps, and what is left of it in the network."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from crawl import CRaWl, Graph, Network, Walks, sample_walks
from crawl.data import Dataset
from crawl.nn import Batch
from crawl.training import Cosine, Evaluation, Pretrainer, Pretraining, Trainer, Training
from crawl.training.pretraining import MaskedBits, hidden_bits_loss, with_bits
from crawl.training.runner import Runner

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
TOLERANCE = 2e-5 if ON_GPU else 1e-5
TRAINING = Training(lr=0.01, batch_size=4, max_epochs=3)


def two_rings() -> Data:
    """A ring of four and a ring of six nodes, joined by an edge."""
    ends = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9), (9, 4), (0, 4)]
    edge_index = torch.tensor([*ends, *((v, u) for u, v in ends)]).t()
    return Data(edge_index=edge_index, x=torch.randn(10, 3, generator=torch.Generator().manual_seed(0)), num_nodes=10)


def small(**settings: object) -> Network:
    torch.manual_seed(0)
    arguments = {"layer": ("walk", "virtual_node"), "num_layers": 2, "hidden_channels": 8, "window_size": 4}
    return Network(3, 1, **(arguments | {"num_steps": 12, "precision": "float32"} | settings))


def batch_for(network: Network, data: Data, seed: int = 0) -> Batch:
    return network.batch_of(data, None, 12, seed)


class TestWhatIsHidden:
    @pytest.mark.parametrize("layer", [("walk",), ("gru",), ("walk_edges", "gine", "virtual_node")])
    def test_predictions_depend_on_the_bits_of_other_walks_only(self, layer: tuple[str, ...]) -> None:
        network = small(layer=layer)
        model = MaskedBits(network, 0.5, seed=1).eval()
        batch = batch_for(network, two_rings())
        walks, is_hidden = batch.walks, model.hidden(batch.walks)
        assert 0 < int(is_hidden.sum()) < len(walks)

        def logits(code: torch.Tensor) -> torch.Tensor:
            kept = []
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(model, "logits", lambda *given: kept.append(MaskedBits.logits(model, *given)) or kept[0])
                model(replace(batch, walks=replace(walks, code=code)))
            return kept[0].detach()

        before, flipped = logits(walks.code), walks.code ^ (2**7 - 1)
        assert torch.equal(logits(torch.where(is_hidden.unsqueeze(1), flipped, walks.code)), before)
        assert not torch.allclose(logits(torch.where(is_hidden.unsqueeze(1), walks.code, flipped)), before)

    @pytest.mark.parametrize("are_hidden", [True, False])
    def test_bits_that_nothing_else_tells_are_predicted_by_chance(self, are_hidden: bool, monkeypatch) -> None:
        """A walk on each of 32 triangles, with bits by the toss of a coin: whoever saw them would know them."""
        corner = 3 * torch.arange(32)
        edge_index = torch.cat([torch.stack([corner + i, corner + (i + 1) % 3]) for i in range(3)], dim=1)
        data = Data(edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1), x=torch.ones(96, 3), num_nodes=96)
        walks = sample_walks(Graph.from_data(data), num_steps=12, window_size=4, start=corner, seed=0)
        network, generator = small(), torch.Generator().manual_seed(0)
        model, batch = MaskedBits(network, 0.5, seed=0), network.batch_of(data, walks, None, None)
        if not are_hidden:
            monkeypatch.setattr(torch.Tensor, "masked_fill", lambda code, *_: code)
        optimiser, losses = torch.optim.Adam(model.parameters(), 0.01), []
        for _ in range(100):
            coin = torch.randint(2, (32, 1), generator=generator)
            code = (127 * coin).expand(-1, 13).to(walks.code.dtype).contiguous()
            loss, _ = model(replace(batch, walks=replace(walks, code=code)))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        last = sum(losses[-30:]) / 30
        assert last == pytest.approx(math.log(2), abs=0.02) if are_hidden else last < 0.1

    def test_real_bits_are_predicted_better_than_by_chance(self, make_dataset, make_model) -> None:
        dataset = make_dataset("regression")
        pretrainer = Pretrainer(make_model(dataset), dataset, Pretraining(20), TRAINING, device="cpu")
        losses = [record["loss"] for record in pretrainer.epochs()]
        assert losses[-1] < 0.4 < 0.5 < losses[0]

    def test_each_step_hides_other_walks_the_same_for_the_same_seed(self) -> None:
        network = small()
        walks = batch_for(network, two_rings()).walks
        parts = [part[:1].repeat(4000, 1) for part in (walks.nodes, walks.edges, walks.code)]
        many = Walks(*parts, 4)
        drawn = []
        for seed in (0, 0, 1):
            model = MaskedBits(network, 0.3, seed)
            for step in range(2):
                model.num_steps.fill_(step)
                drawn.append(model.hidden(many))
        assert torch.equal(torch.stack(drawn[:2]), torch.stack(drawn[2:4]))
        assert all(not torch.equal(drawn[0], other) for other in (drawn[1], drawn[4]))
        assert all(float(each.float().mean()) == pytest.approx(0.3, abs=0.03) for each in drawn)
        both = (drawn[0] & drawn[1]).float().mean()
        assert float(both) == pytest.approx(0.09, abs=0.02)


def test_loss_is_that_of_a_loop() -> None:
    """A walk round a triangle with a tail, and one that is not hidden; ones count as much as zeros."""
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), undirected=True)
    nodes = torch.tensor([[0, 1, 2, 0, 1], [3, 2, 0, 1, 2], [1, 2, 3, 2, 0]])
    walks = Walks.from_nodes(graph, nodes, window_size=3)
    logits = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0))
    is_hidden = torch.tensor([True, False, True])
    edges = {(0, 1), (1, 2), (2, 0), (2, 3)}
    edges |= {(v, u) for u, v in edges}
    sums, numbers = [0.0, 0.0], [0, 0]
    for w in (0, 2):
        walk = nodes[w].tolist()
        for i in range(5):
            asked = [(walk[i] == walk[i - j], j) for j in (1, 2, 3)]
            asked += [((walk[i], walk[i - j]) in edges, j) for j in (2, 3)]
            for k, (bit, j) in enumerate(asked):
                if i >= j:
                    logit = logits[w, i, k].item()
                    sums[bit] += math.log1p(math.exp(-logit if bit else logit))
                    numbers[bit] += 1
    loss, count = hidden_bits_loss(logits, walks, is_hidden)
    assert loss.item() == pytest.approx((sums[0] / numbers[0] + sums[1] / numbers[1]) / 2, rel=1e-6)
    assert int(count) == sum(numbers)
    padded = replace(walks, num_real=torch.tensor([2], dtype=torch.int32))
    assert torch.equal(
        hidden_bits_loss(logits, padded, is_hidden)[0],
        hidden_bits_loss(logits, walks, is_hidden & torch.tensor([True, True, False]))[0],
    )
    nothing, number = hidden_bits_loss(logits, walks, torch.zeros(3, dtype=torch.bool))
    assert (nothing.item(), int(number)) == (0, 0)


def test_logits_are_those_of_a_convolution() -> None:
    """A position sees the states of its own node and of the s nodes before it."""
    network = small()
    model = MaskedBits(network, 0.5, seed=0).eval()
    batch, states = batch_for(network, two_rings()), torch.randn(10, 8)
    found = model.logits(states, batch.walks, batch.nodes.rows)
    along = model.norm(states)[batch.walks.nodes.long()].transpose(1, 2)
    weight = model.of_nodes.view(5, 64, 8).flip(0).permute(1, 2, 0)
    hidden = nn.functional.conv1d(nn.functional.pad(along, (4, 0)), weight).relu()
    torch.testing.assert_close(found, hidden.transpose(1, 2) @ model.of_bits.t() + model.bias, rtol=1e-5, atol=1e-5)


def gradients(model: MaskedBits, dataset: Dataset) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The losses of two batches of different sizes, and the gradients of all parameters after them."""
    runner = Runner(model, dataset.task, dataset.store, DEVICE, largest_batch=4)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def step(batch: Batch) -> torch.Tensor:
        loss, _ = model(batch)
        loss.backward()
        return loss.detach()

    protected = lambda: [*model.state_dict().values(), *(p.grad for p in model.parameters())]  # noqa: E731
    batches = [torch.tensor([3, 0, 5, 7]), torch.tensor([1, 2, 4])]
    losses = [loss.item() for loss in runner.run(step, batches, 4, seed=7, is_training=True, protected=protected)]
    return losses, {name: parameter.grad.cpu() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("layer", [("walk", "virtual_node"), ("walk_edges", "gine"), ("gru",)])
@pytest.mark.usefixtures("wide_tiles")
def test_captured_equals_eager(layer: tuple[str, ...], make_dataset, monkeypatch) -> None:
    pytest.importorskip("triton")
    dataset, found = make_dataset("regression", num_graphs=8), []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        model = MaskedBits(small(layer=layer, num_steps=6), 0.5, seed=0).to(DEVICE).train()
        runner = Runner(model, dataset.task, dataset.store, DEVICE, largest_batch=4)
        assert (runner.reason is None) == bool(devices)
        found.append((*gradients(model, dataset), model.num_steps.item()))
    (eager, eager_grads, _), (captured, captured_grads, num_steps) = found
    assert captured == pytest.approx(eager, rel=TOLERANCE, abs=TOLERANCE)
    assert num_steps == 2
    assert any(float(grad.abs().max()) > 0 for grad in eager_grads.values())
    for name, grad in eager_grads.items():
        scale = max(float(grad.abs().max()), 0.1)
        torch.testing.assert_close(captured_grads[name] / scale, grad / scale, rtol=0, atol=TOLERANCE, msg=name)


class TestPretrainer:
    def test_encoders_and_blocks_keep_what_they_learned_and_the_readout_is_fresh(self, make_dataset) -> None:
        dataset, network = make_dataset("regression"), small()
        before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        adamw = replace(TRAINING, optimiser="adamw", weight_decay=0.1)
        list(Pretrainer(network, dataset, Pretraining(2), adamw, device="cpu").epochs())
        for name, tensor in network.state_dict().items():
            assert torch.equal(tensor, before[name]) == name.startswith("readout."), name
        trainer = Trainer(network, dataset, TRAINING, Evaluation(), device="cpu")
        assert torch.equal(
            trainer.best_weights["blocks.0.conv.norm.running_var"], network.blocks[0].conv.norm.running_var
        )

    def test_it_looks_at_training_graphs_only_and_at_no_targets(self, make_dataset) -> None:
        dataset, weights = make_dataset("regression"), []
        other = replace(dataset.store, x=dataset.store.x.clone(), y=torch.rand_like(dataset.store.y))
        for graph in (*dataset.split.val.tolist(), *dataset.split.test.tolist()):
            other.x[other.node_ptr[graph] : other.node_ptr[graph + 1]] = 100.0
        for store in (dataset.store, other):
            network = small()
            list(Pretrainer(network, replace(dataset, store=store), Pretraining(2), TRAINING, device="cpu").epochs())
            weights.append(torch.cat([parameter.flatten() for parameter in network.parameters()]))
        assert torch.equal(*weights)

    def test_a_network_of_doubles_is_pretrained(self, make_dataset) -> None:
        dataset = make_dataset("regression")
        dataset = replace(dataset, store=replace(dataset.store, x=dataset.store.x.double()))
        pretrainer = Pretrainer(small().double(), dataset, Pretraining(1), TRAINING, device="cpu")
        assert math.isfinite(next(pretrainer.epochs())["loss"])

    def test_settings_are_those_of_the_training_except_its_length_and_rate(self) -> None:
        training = Training(lr=0.1, optimiser="lion", weight_decay=0.2, schedule=Cosine(), accumulate=2, early_stop=3)
        training = replace(training, warmup_epochs=2.0, average_decay=0.9)
        found = Pretraining(7).as_training(training)
        assert (found.lr, found.max_epochs, found.schedule.name) == (0.1, 7, "cosine_per_step")
        assert (found.optimiser, found.weight_decay, found.accumulate) == ("lion", 0.2, 2)
        assert (found.early_stop, found.warmup_epochs, found.average_decay) == (None, 0.0, None)
        assert Pretraining(7, lr=0.01).as_training(training).lr == 0.01

    def test_accumulated_batches_and_a_state_from_which_it_resumes(self, make_dataset) -> None:
        dataset, training = make_dataset("binary"), replace(TRAINING, accumulate=2, clip_norm=1.0)
        whole, first, second = (
            Pretrainer(small(dropout=0.1), dataset, Pretraining(4), training, seed=3, device="cpu") for _ in range(3)
        )
        records = [record["loss"] for record in whole.epochs()]
        epochs = first.epochs()
        assert [next(epochs)["loss"] for _ in range(2)] == records[:2]
        second.restore(*first.state())
        assert [record["loss"] for record in second.epochs()] == records[2:]
        assert torch.equal(whole.model.of_bits, second.model.of_bits)
        assert whole.records[-1].keys() == {"epoch", "lr", "loss", "seconds"}


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Linear(3, 1), "a Linear, which is not a crawl.Network"),
        (Network(3, 1, layer=("gin",), edge_dim=None), "without a block that uses walks"),
        (CRaWl(3, 1, window_size=0), "window of 0"),
        (CRaWl(3, 1, identity=False, adjacency=False), "without identity and adjacency"),
    ],
)
def test_models_without_bits_are_refused(model: nn.Module, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"{reason}.*: leave out pretraining\."):
        with_bits(model)


def test_wrong_settings_are_refused() -> None:
    for wrong in ({"epochs": 0}, {"epochs": 1.5}, {"hidden_share": 0}, {"hidden_share": 1.0}, {"lr": -1.0}):
        with pytest.raises(ValueError, match=rf"pretraining\.{next(iter(wrong))} must be"):
            Pretraining(**wrong)
