"""The engine against plain torch: on a GPU with CUDA graphs, elsewhere without them, in Triton's interpreter."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from crawl import CRaWl, Embedding, Graph, OneHot, sample_walks
from crawl.data import Dataset, GraphStore, Split, Task
from crawl.data.identity import graph_keys
from crawl.nn.encoders import UNKNOWN
from crawl.ops.triton.streams import stream_of_thread
from crawl.training.engine import Engine, _largest_first, _Recorder, can_use_engine
from crawl.training.evaluation import predict, predict_by_engine
from crawl.training.padded import DeviceGraphs, Room
from crawl.training.settings import Evaluation, Training
from crawl.training.trainer import Trainer

pytest.importorskip("triton")

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
ONCE = Evaluation(num_val_repeats=1, num_test_repeats=1, batch_size=3)


@pytest.fixture
def triton_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the interpreter stand in for a GPU."""
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})


@pytest.fixture
def plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())


def exact(make_model, dataset: Dataset, **settings: object) -> CRaWl:
    """A small network that multiplies exactly."""
    return make_model(dataset, precision="float32", virtual_node=True, num_layers=2, **settings)


@pytest.mark.parametrize("share", [None, 0.4])
@pytest.mark.parametrize("ids", [[3], [0, 5, 2], [7, 1, 4, 6]])
def test_a_padded_batch_is_that_of_the_store(make_dataset, make_model, ids: list[int], share: float | None) -> None:
    dataset = make_dataset("regression")
    store, keys = dataset.store, graph_keys(dataset.store)
    graphs = DeviceGraphs(make_model(dataset), store, keys, DEVICE)
    graphs.draw_starts(share, 5)
    (room,) = graphs.rooms_for([torch.tensor(ids)], 4)
    (padded,) = graphs.padded_ids([torch.tensor(ids)], 4)
    found = graphs.cut(padded, room, 6, torch.tensor([5], device=DEVICE), True)
    plain = store.batch(ids)
    graph = Graph.from_data(plain)
    walks = sample_walks(graph, 6, window_size=4, seed=5, start=share, keys=graph.node_keys(keys[ids]))
    num_nodes, num_walks = int(found.num_nodes), int(found.num_walks)
    assert (num_nodes, num_walks, int(found.num_graphs)) == (graph.num_nodes, len(walks), len(ids))
    assert torch.equal(found.x[:num_nodes].cpu(), plain.x)
    assert torch.equal(found.batch[:num_nodes].cpu(), graph.batch)
    assert torch.equal(found.ptr[: len(ids) + 1].cpu(), graph.graph_ptr)
    assert torch.equal(found.y[: len(ids)].cpu(), plain.y)
    assert found.y[len(ids) :].isnan().all()
    for name in ("nodes", "edges", "code"):
        assert torch.equal(getattr(found, name)[:num_walks].cpu(), getattr(walks, name)), name
    groups = walks.groups_of_nodes(room.num_nodes)
    assert torch.equal(found.node_order[: groups.order.numel()].cpu(), groups.order)
    assert torch.equal(found.node_ptr.cpu(), groups.ptr)


def test_targets_keep_their_digits_on_the_device(make_dataset, make_model) -> None:
    dataset = make_dataset("regression")
    store = replace(dataset.store, y=1e9 + dataset.store.y.double())
    graphs = DeviceGraphs(make_model(dataset), store, graph_keys(store), DEVICE)
    ids = torch.tensor([3, 0, 5])
    (room,) = graphs.rooms_for([ids], 4)
    (padded,) = graphs.padded_ids([ids], 4)
    found = graphs.cut(padded, room, 6, torch.tensor([5], device=DEVICE), True)
    assert torch.equal(found.y[:3].cpu(), store.y[ids])
    assert found.y[3:].isnan().all()


def test_edge_features_that_would_not_be_used_are_refused(make_dataset, make_model) -> None:
    dataset = make_dataset("regression")
    store = replace(dataset.store, edge_attr=torch.ones(dataset.store.num_edges, 2))
    with pytest.raises(ValueError, match="give it edge_dim=2 to use them, or edge_dim=None to ignore them"):
        DeviceGraphs(make_model(dataset), store, graph_keys(store), DEVICE)
    assert DeviceGraphs(make_model(dataset, edge_dim=None), store, graph_keys(store), DEVICE).edge_attr is None


def test_rooms_are_few_and_large_enough(make_dataset, make_model) -> None:
    dataset = make_dataset("regression", num_graphs=64)
    graphs = DeviceGraphs(make_model(dataset), dataset.store, graph_keys(dataset.store), DEVICE)
    rooms = set()
    for seed in range(200):
        ids = torch.randperm(64, generator=torch.Generator().manual_seed(seed))[:8]
        (room,) = graphs.rooms_for([ids], 8)
        num_nodes, num_edges = dataset.store.sizes[:, ids].sum(1).tolist()
        assert num_nodes <= room.num_nodes
        assert num_edges <= room.num_edges
        rooms.add(room)
    assert len(rooms) <= 5


@pytest.mark.parametrize("level", ["graph", "node"])
def test_predictions_are_those_of_plain_torch(make_dataset, make_model, monkeypatch, level: str) -> None:
    dataset = make_dataset("regression", level=level)
    model = exact(make_model, dataset).to(DEVICE).eval()
    ids = torch.tensor([4, 1, 7, 0, 2])
    arguments = {"num_repeats": 2, "seed": 3, "batch_size": 2}
    with monkeypatch.context() as patch:
        patch.setattr("crawl.ops.backends._DEVICES", set())
        expected = predict(model, dataset.task, dataset.store.to(DEVICE), ids, **arguments)
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})
    engine = Engine(model, dataset.store, graph_keys(dataset.store), DEVICE, largest_batch=2)
    found = predict_by_engine(engine, dataset.task, ids, **arguments)
    assert found.repeats == pytest.approx(expected.repeats, abs=2e-5)
    assert (found.repeats[0] != found.repeats[1]).any()


def test_a_data_set_that_does_not_fit_is_brought_in_parts(make_dataset, make_model, triton_everywhere) -> None:
    dataset = make_dataset("regression")
    model = exact(make_model, dataset).to(DEVICE).eval()
    keys = graph_keys(dataset.store)
    whole = Engine(model, dataset.store, keys, DEVICE, largest_batch=3)
    parts = Engine(model, dataset.store, keys, DEVICE, largest_batch=3, most_bytes=6000)
    assert whole.is_resident
    assert not parts.is_resident
    assert 3 <= parts.part_size < 8
    ids = torch.tensor([9, 4, 1, 7, 0, 2, 15, 11])
    expected = whole.predict(ids, 2, 8, seed=1)
    for batch_size in (2, 3):  # as in training and evaluation
        assert torch.allclose(parts.predict(ids, batch_size, 8, seed=1), expected, atol=1e-5)
    with pytest.raises(ValueError, match="larger than largest_batch"):
        parts.predict(ids, 8, 8, seed=1)


def test_rooms_depend_on_the_data_set_alone(make_dataset, make_model) -> None:
    """Not on the seed that comes first, nor on the part of the data that does: a resumed run has the same ones."""
    dataset = make_dataset("regression")
    keys, ids = graph_keys(dataset.store), torch.arange(6)
    first = DeviceGraphs(make_model(dataset), dataset.store, keys, DEVICE)
    some = dataset.store.subset(ids)
    second = DeviceGraphs(
        make_model(dataset), some, keys[ids], DEVICE, most=(16, 200, 400), all_sizes=dataset.store.sizes
    )
    for graphs in (first, second):
        graphs.draw_starts(0.4, 3 if graphs is first else 4)
        graphs.draw_starts(0.4, 5)
    assert first.rooms_for([ids], 8) == second.rooms_for([ids], 8)


@pytest.mark.parametrize("settings", [{}, {"start_share": 0.5}, {"edge_dim": 1}])
def test_training_is_that_of_plain_torch(make_dataset, make_model, monkeypatch, settings) -> None:
    dataset = make_dataset("regression", num_graphs=14 if ON_GPU else 10)
    training = Training(
        batch_size=4, max_epochs=2 if ON_GPU else 1, clip_norm=1.0, normalise_targets=True, device=DEVICE.type
    )
    results = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        trainer = Trainer(exact(make_model, dataset, **settings), dataset, training, ONCE)
        assert (trainer.engine is not None) == bool(devices)
        results.append((list(trainer.epochs()), trainer.model.state_dict()))
    (plain, plain_weights), (fast, fast_weights) = results
    for a, b in zip(plain, fast, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
        assert a["val_mae"] == pytest.approx(b["val_mae"], rel=1e-3)
    for name, value in plain_weights.items():
        # Adam turns the sign of a vanishing gradient into a whole step, so single weights may differ
        distance = (value.double() - fast_weights[name].double()).abs().mean()
        assert float(distance) < 1e-3, name


def test_norms_are_measured_as_by_plain_torch(make_dataset, make_model, monkeypatch) -> None:
    dataset = make_dataset("regression", num_graphs=10)
    # With so small a rate both stay at the first weights.
    training = Training(batch_size=4, max_epochs=1, lr=1e-9, schedule="cosine", device=DEVICE.type)
    found = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        model = exact(make_model, dataset, start_share=0.5)
        trainer = Trainer(model, dataset, training, replace(ONCE, num_norm_graphs=5))  # batches of 3 and 2
        assert (trainer.engine is not None) == bool(devices)
        list(trainer.epochs())
        found.append(trainer.norms.moments())
    torch.testing.assert_close(found[1], found[0], rtol=1e-4 if ON_GPU else 1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_every_kind_of_target(make_dataset, make_model, monkeypatch, kind: str) -> None:
    """A last batch that is smaller, and missing labels: what is not there counts nowhere."""
    dataset = make_dataset(kind, num_outputs=1 if kind == "binary" else 3, num_graphs=10, missing=kind == "multilabel")
    training = Training(batch_size=4, max_epochs=1, device=DEVICE.type)
    losses = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        (record,) = Trainer(exact(make_model, dataset), dataset, training, ONCE).epochs()
        losses.append(record["loss"])
    assert losses[0] > 0
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_learned_encoders_isolated_nodes_and_graphs_without_edges(monkeypatch) -> None:
    pair = torch.tensor([[0, 1], [1, 0]])
    graphs = [
        Data(x=torch.tensor([[0], [2], [1]]), edge_index=pair, edge_attr=torch.tensor([[1], [0]]), y=torch.ones(1, 1)),
        Data(x=torch.tensor([[1]]), edge_index=pair[:, :0], edge_attr=torch.empty(0, 1).long(), y=torch.zeros(1, 1)),
        Data(x=torch.tensor([[2], [2]]), edge_index=pair, edge_attr=torch.tensor([[0], [0]]), y=-torch.ones(1, 1)),
    ]
    every = torch.arange(3)
    task = Task(kind="regression", num_outputs=1, metric="mae")
    split = Split(every, every[:0], every[:0])
    dataset = Dataset(name="odd", store=GraphStore.from_graphs(graphs), task=task, split=split)
    weights = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        torch.manual_seed(0)
        encoders = Embedding(3, 4), Embedding(2, 3)
        model = CRaWl(
            encoders[0], 1, edge_dim=encoders[1], hidden_channels=8, num_layers=1, num_steps=5, precision="float32",
            window_size=4,
        )  # fmt: skip
        trainer = Trainer(model, dataset, Training(batch_size=3, max_epochs=2, device=DEVICE.type), ONCE)
        assert (trainer.engine is not None) == bool(devices)
        list(trainer.epochs())
        weights.append(trainer.model.state_dict())
    for name, value in weights[0].items():
        assert torch.allclose(value.double(), weights[1][name].double(), atol=1e-4), name


@pytest.mark.parametrize("encoder", [OneHot, lambda size: Embedding(size, 4)], ids=["one-hot", "embedding"])
def test_unknown_categories_are_encoded_as_in_plain_torch(encoder, make_dataset, triton_everywhere) -> None:
    dataset = make_dataset("regression", num_graphs=6)
    generator = torch.Generator().manual_seed(1)
    sizes = dataset.store.num_nodes, dataset.store.num_edges
    x, edge_attr = (torch.randint(4, (number, 1), generator=generator) for number in sizes)
    store = replace(
        dataset.store, x=torch.where(x < 3, x, UNKNOWN), edge_attr=torch.where(edge_attr < 2, edge_attr, UNKNOWN)
    )
    torch.manual_seed(0)
    model = CRaWl(
        encoder(3), 1, edge_dim=encoder(2), hidden_channels=8, num_layers=1, num_eval_steps=6, window_size=4,
        precision="float32",
    ).to(DEVICE).eval()  # fmt: skip
    assert can_use_engine(model, store, DEVICE)
    engine = Engine(model, store, graph_keys(store), DEVICE, largest_batch=4)
    settings = {"num_repeats": 1, "seed": 3, "batch_size": 4}
    found = predict_by_engine(engine, dataset.task, torch.arange(6), **settings)
    expected = predict(model, dataset.task, store.to(DEVICE), torch.arange(6), **settings)
    assert found.mean == pytest.approx(expected.mean, abs=1e-4)


def test_what_it_cannot_do(make_dataset, make_model, triton_everywhere) -> None:
    dataset = make_dataset("regression")
    assert can_use_engine(make_model(dataset), dataset.store, DEVICE)
    assert not can_use_engine(make_model(dataset, implementation="reference"), dataset.store, DEVICE)
    assert not can_use_engine(make_model(dataset).double(), dataset.store, DEVICE)
    assert not can_use_engine(torch.nn.Linear(1, 1), dataset.store, DEVICE)
    hooked = make_model(dataset)
    hooked.readout.register_forward_hook(lambda *_: None)
    assert not can_use_engine(hooked, dataset.store, DEVICE)

    class Louder(CRaWl):
        def forward(self, *arguments: object, **more: object) -> torch.Tensor:
            return 2 * super().forward(*arguments, **more)

    assert not can_use_engine(Louder(3, 1), dataset.store, DEVICE)
    without_edges = GraphStore.from_graphs([dataset.store.graph(0).clone()])
    without_edges = replace(
        without_edges,
        edge_index=without_edges.edge_index[:, :0],
        edge_ptr=torch.zeros_like(without_edges.edge_ptr),
    )
    assert not can_use_engine(make_model(dataset), without_edges, DEVICE)


def molecule(generator: torch.Generator) -> Data:
    """A ring of six with branches, 23 nodes of 21 kinds, bonds of 3 kinds, and a target that has to be learned."""
    edges = [(i, (i + 1) % 6) for i in range(6)]
    edges += [(i, int(torch.randint(i, (), generator=generator))) for i in range(6, 23)]
    edge_index = torch.tensor(edges).t()
    bonds = torch.randint(1, 4, (len(edges), 1), generator=generator)
    return Data(
        x=torch.randint(21, (23, 1), generator=generator),
        edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1),
        edge_attr=torch.cat([bonds, bonds]),
        y=torch.randn(1, 1, generator=generator),
    )


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["tf32", "bf16", "float32"])
def test_the_model_for_zinc_learns_a_batch_by_heart(precision: str) -> None:
    generator = torch.Generator().manual_seed(0)
    store = GraphStore.from_graphs(molecule(generator) for _ in range(55))
    every = torch.arange(55)
    task = Task(kind="regression", num_outputs=1, metric="mae")
    dataset = Dataset(name="molecules", store=store, task=task, split=Split(every[:50], every[50:], every[:0]))
    torch.manual_seed(0)
    model = CRaWl(
        OneHot(21),
        1,
        hidden_channels=147,
        num_layers=3,
        edge_dim=OneHot(4),
        virtual_node=True,
        pool="sum",
        precision=precision,
    )
    training = Training(max_epochs=400, schedule="cosine", device="cuda")
    losses = [record["loss"] for record in Trainer(model, dataset, training, ONCE).epochs()]
    assert losses[0] > 0.5
    assert losses[-1] < 0.1


@pytest.mark.gpu
def test_two_runs_give_the_same_bits(make_dataset, make_model) -> None:
    dataset = make_dataset("regression", num_graphs=64)
    training = Training(batch_size=7, max_epochs=5, device="cuda")
    weights = []
    for _ in range(2):
        model = make_model(dataset, virtual_node=True, num_layers=2, hidden_channels=37, dropout=0.3)
        trainer = Trainer(model, dataset, training, ONCE)
        list(trainer.epochs())
        weights.append(trainer.model.state_dict())
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


@pytest.mark.gpu
def test_resumed_training_gives_the_same_bits(make_dataset, make_model) -> None:
    dataset = make_dataset("regression", num_graphs=40)
    training = Training(batch_size=7, max_epochs=4, device="cuda")

    def trainer() -> Trainer:
        return Trainer(make_model(dataset, virtual_node=True, num_layers=2, dropout=0.3), dataset, training, ONCE)

    whole, first, second = trainer(), trainer(), trainer()
    list(whole.epochs())
    epochs = first.epochs()
    next(epochs)
    next(epochs)
    tensors, values = first.state()
    second.restore({name: tensor.cpu() for name, tensor in tensors.items()}, values)
    list(second.epochs())
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name]), name


@pytest.mark.gpu
def test_models_that_are_trained_at_the_same_time_do_not_disturb_each_other(make_dataset, make_model) -> None:
    dataset = make_dataset("regression", num_graphs=64)
    training = Training(batch_size=7, max_epochs=8, device="cuda")

    def train(model: CRaWl) -> dict[str, torch.Tensor]:
        with torch.cuda.stream(stream_of_thread(DEVICE, "main")):
            trainer = Trainer(model, dataset, training, ONCE)
            list(trainer.epochs())
            return {name: tensor.cpu() for name, tensor in trainer.model.state_dict().items()}

    def models() -> list[CRaWl]:
        widths = (37, 48, 64, 147)
        return [
            make_model(dataset, virtual_node=True, num_layers=2, hidden_channels=width, dropout=0.3) for width in widths
        ]

    alone = [train(model) for model in models()]
    with ThreadPoolExecutor(max_workers=4) as threads:
        together = list(threads.map(train, models()))
    for one, other in zip(alone, together, strict=True):
        for name, value in one.items():
            assert torch.equal(value, other[name]), name


def test_larger_rooms_are_recorded_first():
    small, middle, large = (Room(7, size, 2 * size, size, 9) for size in (16, 32, 48))
    assert _largest_first({middle, small, large}) == [large, middle, small]


@pytest.mark.gpu
def test_an_epoch_records_its_larger_rooms_first(make_dataset, make_model, monkeypatch) -> None:
    dataset = make_dataset("regression", num_graphs=64)
    trainer = Trainer(make_model(dataset), dataset, Training(batch_size=3, max_epochs=1, device="cuda"), ONCE)
    rooms: list[Room] = []
    record = _Recorder._record

    def noted(self, graphs, ids, room):
        rooms.append(room)
        return record(self, graphs, ids, room)

    monkeypatch.setattr(_Recorder, "_record", noted)
    list(trainer.steps(list(torch.split(dataset.split.train, 3)), seed=1))
    assert len(rooms) > 1
    assert rooms == _largest_first(rooms)
