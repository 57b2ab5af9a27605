"""The runner: captured on a GPU, elsewhere the same padded batches in Triton's interpreter, against eager steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from crawl import CRaWl, Dense, Embedding, Network, OneHot
from crawl.choices import OF_BLOCKS, WITH_WALKS
from crawl.data import Dataset, GraphStore, Split, Task, with_encodings
from crawl.data.assembly import Bucket
from crawl.encodings import Encodings
from crawl.nn import APPNP, BLOCKS, GCN2, Batch, Block, GraphFeatures, State, WithEncodings, from_pyg
from crawl.nn.encoders import UNKNOWN
from crawl.ops.triton.streams import stream_of_thread
from crawl.training.calling import why_not_captured
from crawl.training.capture import Recorder, largest_first
from crawl.training.evaluation import predict, predict_with
from crawl.training.runner import Runner
from crawl.training.settings import Cosine, Evaluation, Training
from crawl.training.trainer import Trainer

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("wide_tiles")

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
ONCE = Evaluation(num_val_repeats=1, num_test_repeats=1, batch_size=3)
TOLERANCE = 2e-5 if ON_GPU else 1e-5
# Two steps, the second on a smaller batch; and graphs that are left for validation.
NUM_GRAPHS, BATCH_SIZE = (10, 4) if ON_GPU else (5, 2)


def exact(make_model, dataset: Dataset, **settings: object) -> CRaWl:
    """A small network that multiplies in float32."""
    return make_model(dataset, **({"precision": "float32", "virtual_node": True, "num_layers": 2} | settings))


def runner_of(model: nn.Module, dataset: Dataset, **settings: object) -> Runner:
    return Runner(model, dataset.task, dataset.store, DEVICE, **({"largest_batch": 6} | settings))


def gradients(
    model: nn.Module, dataset: Dataset, batches: tuple[list[int], ...]
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """The answers to batches of different sizes, the first the largest, and the gradients of all parameters."""
    largest = len(batches[0])
    runner = runner_of(model, dataset, largest_batch=max(largest, 6))

    def step(batch: Batch) -> Tensor:
        answer = runner.answer(batch)
        loss = torch.where(batch.y.isnan(), 0, answer * batch.y.nan_to_num()).sum()
        loss.backward()
        return answer.detach()

    model.zero_grad(set_to_none=False)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    protected = lambda: [*model.state_dict().values(), *(p.grad for p in model.parameters())]  # noqa: E731
    ids = [torch.tensor(batch) for batch in batches]
    results = runner.run(step, ids, largest, seed=7, is_training=True, protected=protected)
    answers = [answer[: len(batch)].cpu().clone() for batch, answer in zip(batches, results, strict=True)]
    return answers, {name: parameter.grad.cpu() for name, parameter in model.named_parameters()}


def assert_captured_equals_eager(
    make: Callable[[], nn.Module],
    dataset: Dataset,
    monkeypatch,
    batches: tuple[list[int], ...] = ([3, 0, 5, 7], [1, 2, 4]),
) -> None:
    found = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        torch.manual_seed(0)
        model = make().to(DEVICE).train()
        model = model if devices else model.double()  # rounding of one side only, whatever the processor
        assert (runner_of(model, dataset).reason is None) == bool(devices)
        found.append(gradients(model, dataset, batches))
    (eager, eager_grads), (captured, captured_grads) = found
    for a, b in zip(eager, captured, strict=True):
        torch.testing.assert_close(b.double(), a, rtol=TOLERANCE, atol=TOLERANCE)
    for name, grad in eager_grads.items():
        scale = max(float(grad.abs().max()), 0.1)  # some are 0, except for rounding
        found_grad = captured_grads[name].double()
        error = float((found_grad - grad).abs().max()) / scale
        assert error <= TOLERANCE, f"{name}: {error:.1e}"


@pytest.fixture
def with_edges(make_dataset) -> Dataset:
    return _with_edges(make_dataset("regression", num_graphs=8))


def _with_edges(dataset: Dataset) -> Dataset:
    edge_attr = torch.rand(dataset.store.num_edges, 2, generator=torch.Generator().manual_seed(1))
    return replace(dataset, store=replace(dataset.store, edge_attr=edge_attr))


def network(*layer: object, **settings: object) -> Network:
    """A small network of these blocks, or of all those in `layers`."""
    blind = ("gcn", "gcn2", "gin", "sage", "appnp", "virtual_node", "attention", "feed_forward")
    sees_edges = any(name.sees_edges if isinstance(name, Block) else name not in blind for name in layer or [None])
    names = [name for part in layer or ["walk"] for name in (part if isinstance(part, tuple) else (part,))]
    arguments = {"edge_dim": 2 if sees_edges else None, "hidden_channels": 8, "precision": "float32"}
    if any(name in WITH_WALKS for name in names):
        arguments |= {"num_steps": 6, "num_eval_steps": 8, "window_size": 4}
    if any(name in OF_BLOCKS["num_heads"] for name in names):
        arguments["num_heads"] = 2
    if layer:
        arguments |= {"layer": layer, "num_layers": 1}
    return Network(**({"in_channels": 3, "out_channels": 1} | arguments | settings))


def in_few_steps(name: str) -> str | Block:
    """The block with this name, or one that repeats its step less often, which takes long to interpret."""
    return {"gcn2": GCN2(8, num_steps=3), "appnp": APPNP(num_steps=3)}.get(name, name)


@pytest.mark.parametrize("name", BLOCKS)
def test_captured_equals_eager_for_every_block(name: str, with_edges: Dataset, monkeypatch) -> None:
    others = ("gine",) if name == "edge_update" else ("feed_forward",)
    others = () if name == "gcn2" else others  # a norm over four graphs multiplies the rounding of its steps
    layer = (in_few_steps(name), *others)
    assert_captured_equals_eager(lambda: network(*layer), with_edges, monkeypatch)


@pytest.mark.parametrize("block", ["walk_edges", "gru"])
@pytest.mark.parametrize(
    "walks",
    [
        {"strategy": "min_degree_non_backtracking", "num_walks": 2, "start_share": 0.5},
        {"strategy": "depth_first"},
        {"strategy": "restart", "restart": 0.4},
        {"centred": True},
        {"centred": True, "num_walks": 3, "num_steps": 7},
    ],
    ids=["two of smallest degree", "depth first", "restart", "centred", "three centred"],
)
def test_captured_equals_eager_for_every_kind_of_walks(
    walks: dict[str, object], block: str, with_edges: Dataset, monkeypatch
) -> None:
    assert_captured_equals_eager(lambda: network(block, **walks), with_edges, monkeypatch)


def test_captured_equals_eager_for_a_hybrid_of_all_blocks(make_dataset, monkeypatch) -> None:
    """On batches of many graphs: norms over three or four, as of a virtual node, would multiply the rounding."""
    dataset = _with_edges(make_dataset("regression", num_graphs=20))
    batches = (list(range(10)), list(range(10, 18)))
    names = [in_few_steps(name) for name in BLOCKS]
    assert_captured_equals_eager(lambda: network(*names, "walk"), dataset, monkeypatch, batches)


@pytest.mark.parametrize("norm", ["layer", "none"])
def test_captured_equals_eager_with_other_norms(norm: str, with_edges: Dataset, monkeypatch) -> None:
    make = lambda: network("walk", "gcn", "gated_gcn", norm=norm, residual=False)  # noqa: E731
    assert_captured_equals_eager(make, with_edges, monkeypatch)


def test_captured_equals_eager_where_all_positions_are_pooled(with_edges: Dataset, monkeypatch) -> None:
    """Walks of three nodes, shorter than a window; pooled into nodes and edges, in training and in evaluation."""
    make = lambda: network("walk_edges", padding=True, num_steps=2, num_eval_steps=2)  # noqa: E731
    assert_captured_equals_eager(make, with_edges, monkeypatch)
    found = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        torch.manual_seed(0)
        found.append(runner_of(make().to(DEVICE).eval(), with_edges).predict(torch.arange(8), 3, seed=3))
    torch.testing.assert_close(found[1], found[0], rtol=TOLERANCE, atol=TOLERANCE)


def test_captured_equals_eager_for_blocks_side_by_side(with_edges: Dataset, monkeypatch) -> None:
    assert_captured_equals_eager(
        lambda: network("edge_update", ("walk", "gine", "edge_update")), with_edges, monkeypatch
    )


@pytest.mark.parametrize("layer", [("walk",), ("walk", "edge_update", "gine")])
def test_captured_equals_eager_with_encodings(layer: tuple[str, ...], with_edges: Dataset, monkeypatch) -> None:
    """Encodings have a batch norm, which must not count padding; of nodes with the first block or a linear map."""
    store = with_encodings(with_edges.store, Encodings(return_steps=6, walk_steps=5, longest_cycle=4))
    encoders = {"in_channels": WithEncodings(Dense(3), 8), "edge_dim": WithEncodings(Dense(2), 7)}

    def make() -> Network:
        return network(*layer, **encoders)

    assert make().can_encode_ahead
    assert_captured_equals_eager(make, replace(with_edges, store=store), monkeypatch)


def test_captured_equals_eager_with_features_of_graphs(with_edges: Dataset, monkeypatch) -> None:
    u = torch.randn(len(with_edges), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u[::3, 1] = torch.nan
    scaling = GraphFeatures([0.5, 0.0, 0.0], [2.0, 1.0, 0.1])
    dataset = replace(with_edges, store=replace(with_edges.store, u=u))
    assert_captured_equals_eager(lambda: network("walk", graph_channels=scaling), dataset, monkeypatch)


def test_captured_equals_eager_for_a_tied_block(with_edges: Dataset, monkeypatch) -> None:
    """The same object twice: its weights get two gradients in one pass."""

    def make() -> Network:
        walk, gine = network("walk", "gine", num_layers=2).blocks[2:]
        return network(layers=[walk, gine, walk, gine])

    assert_captured_equals_eager(make, with_edges, monkeypatch)


class Doubled(nn.Module):
    """A parametrisation: the weight is twice what is trained."""

    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def test_captured_equals_eager_for_a_weight_normed_block(with_edges: Dataset, monkeypatch) -> None:
    def make() -> Network:
        model = network("walk", "gine")
        nn.utils.parametrizations.weight_norm(model.blocks[0].conv.mix)
        nn.utils.parametrizations.weight_norm(model.blocks[1].last)
        nn.utils.parametrize.register_parametrization(model.blocks[0].conv.project, "weight", Doubled())
        return model

    assert_captured_equals_eager(make, with_edges, monkeypatch)


@pytest.mark.parametrize("level", ["graph", "node"])
def test_predictions_are_those_of_eager_steps(make_dataset, make_model, monkeypatch, level: str) -> None:
    dataset = make_dataset("regression", level=level)
    model = exact(make_model, dataset).to(DEVICE).eval()
    ids = torch.tensor([4, 1, 7, 0, 2] if ON_GPU else [7, 0, 4])
    arguments = {"num_repeats": 2, "seed": 3, "batch_size": 2}
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())
    expected = predict(model, dataset.task, dataset.store.to(DEVICE), ids, **arguments)
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})
    found = predict_with(runner_of(model, dataset, largest_batch=2), ids, **arguments)
    assert found.repeats == pytest.approx(expected.repeats, abs=2e-5)
    assert (found.repeats[0] != found.repeats[1]).any()


@pytest.mark.usefixtures("triton_everywhere")
@pytest.mark.parametrize("strategy", ["non_backtracking", "min_degree"])
def test_a_data_set_that_does_not_fit_is_brought_in_parts(strategy: str, make_dataset, make_model) -> None:
    dataset = make_dataset("regression")
    model = make_model(dataset, precision="float32", strategy=strategy).to(DEVICE).eval()
    whole = runner_of(model, dataset, largest_batch=3)
    parts = runner_of(model, dataset, largest_batch=3, most_bytes=9000)
    assert whole.is_resident
    assert not parts.is_resident
    assert 3 <= parts.part_size < 8
    ids = torch.tensor([9, 4, 1, 7, 0])
    expected = whole.predict(ids, 2, seed=1)
    for batch_size in (2, 3):  # as in training and evaluation
        assert torch.allclose(parts.predict(ids, batch_size, seed=1), expected, atol=1e-5)
    with pytest.raises(ValueError, match=r"8 graphs .* largest_batch"):
        parts.predict(torch.arange(8), 8, seed=1)


@pytest.mark.parametrize("settings", [{}, {"start_share": 0.5, "edge_dim": 1}])
def test_training_is_that_of_plain_torch(make_dataset, make_model, monkeypatch, settings) -> None:
    dataset = make_dataset("regression", num_graphs=14 if ON_GPU else NUM_GRAPHS)
    training = Training(batch_size=BATCH_SIZE, max_epochs=2 if ON_GPU else 1, clip_norm=1.0, normalise_targets=True)
    results = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        trainer = Trainer(exact(make_model, dataset, **settings), dataset, training, ONCE)
        assert (trainer.runner.reason is None) == bool(devices)
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
    dataset = make_dataset("regression", num_graphs=NUM_GRAPHS)
    # With this small a rate both stay at the first weights.
    training = Training(batch_size=BATCH_SIZE, max_epochs=1, lr=1e-9, schedule=Cosine())
    num_norm_graphs, batch_size = (5, 3) if ON_GPU else (3, 2)  # the second batch is smaller
    evaluation = replace(ONCE, num_norm_graphs=num_norm_graphs, batch_size=batch_size)
    found = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        model = exact(make_model, dataset, start_share=0.5)
        trainer = Trainer(model, dataset, training, evaluation)
        assert (trainer.runner.reason is None) == bool(devices)
        list(trainer.epochs())
        found.append(trainer.norms.moments())
    torch.testing.assert_close(found[1], found[0], rtol=1e-4 if ON_GPU else 1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_every_kind_of_target(make_dataset, make_model, monkeypatch, kind: str) -> None:
    """A last batch that is smaller, and missing labels: what is not there counts nowhere."""
    num_outputs, missing = 1 if kind == "binary" else 3, kind == "multilabel"
    dataset = make_dataset(kind, num_outputs=num_outputs, num_graphs=NUM_GRAPHS, missing=missing)
    if missing:
        assert 0 < int(dataset.store.y[dataset.split.train].isnan().sum()) < 3 * len(dataset.split.train)
    training = Training(batch_size=BATCH_SIZE, max_epochs=1)
    losses = []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        (record,) = Trainer(exact(make_model, dataset, num_layers=1), dataset, training, ONCE).epochs()
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
        trainer = Trainer(model, dataset, Training(batch_size=3, max_epochs=2), ONCE)
        assert (trainer.runner.reason is None) == bool(devices)
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
    runner = Runner(model, dataset.task, store, DEVICE, largest_batch=4)
    assert runner.reason is None
    settings = {"num_repeats": 1, "seed": 3, "batch_size": 4}
    found = predict_with(runner, torch.arange(6), **settings)
    expected = predict(model, dataset.task, store.to(DEVICE), torch.arange(6), **settings)
    assert found.mean == pytest.approx(expected.mean, abs=1e-4)


@pytest.mark.usefixtures("triton_everywhere")
def test_what_cannot_be_captured_is_named(make_dataset, make_model) -> None:
    dataset = make_dataset("regression")
    assert why_not_captured(make_model(dataset)) is None
    assert "blocks.0 (WalkBlock): the reference" in why_not_captured(make_model(dataset, implementation="reference"))
    assert "torch.float64" in why_not_captured(make_model(dataset).double())
    assert "Linear: its forward does not take a crawl.nn.Batch" in why_not_captured(nn.Linear(1, 1))
    hooked = make_model(dataset)
    hooked.readout.register_forward_hook(lambda *_: None)
    assert why_not_captured(hooked) == "readout (Readout): it has hooks, which run on the host"
    hooked = make_model(dataset)
    hooked.readout.register_full_backward_pre_hook(lambda *_: None)
    assert why_not_captured(hooked) == "readout (Readout): it has hooks, which run on the host"
    side_by_side = network(("gine", from_pyg(GCNConv(8, 8))))
    assert why_not_captured(side_by_side).startswith("blocks.0.blocks.1 (PyGBlock): GCNConv looks for self-loops")

    class Normed(Block):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(8)

    named = why_not_captured(network("walk", Normed()))
    assert "blocks.1.norm (BatchNorm1d)" in named
    assert "use crawl.nn.BatchNorm, as norm(x, batch.nodes.rows)" in named

    class Louder(CRaWl):
        def forward(self, *arguments: object, **more: object) -> torch.Tensor:
            return 2 * super().forward(*arguments, **more)

    assert "Louder" in why_not_captured(Louder(3, 1))
    empty = replace(
        dataset.store,
        edge_index=dataset.store.edge_index[:, :0],
        edge_ptr=torch.zeros_like(dataset.store.edge_ptr),
    )
    runner = runner_of(make_model(dataset), replace(dataset, store=empty))
    assert runner.how == "eager: no graph of the data has an edge"


class Seeded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, batch: Batch, seed: int) -> Tensor:
        return self.head(batch.nodes.mean(batch.x))


def test_numbers_that_a_graph_would_keep_and_compiled_models_are_named() -> None:
    assert "Seeded: its forward takes seed, of which a CUDA graph would keep" in why_not_captured(Seeded())
    compiled = torch.compile(network("walk"), backend="eager")
    assert why_not_captured(compiled) == "the model (OptimizedModule): it is compiled by torch.compile"


class Noise(Block):
    """A block that draws from torch's generator."""

    uses_walks = passes_messages = sees_edges = False

    def forward(self, state: State, batch: Batch) -> State:
        return replace(state, nodes=state.nodes + torch.randn_like(state.nodes))


@pytest.mark.usefixtures("triton_everywhere")
def test_what_captured_evaluations_draw_repeats(with_edges: Dataset) -> None:
    runner = runner_of(network("gcn", Noise(), edge_dim=None).to(DEVICE).eval(), with_edges)
    assert runner.reason is None
    found = []
    for seed in (3, 3, 4):
        torch.rand(seed + len(found), device=DEVICE)  # what happened before does not matter
        found.append(runner.predict(torch.arange(8), 4, seed=seed))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


class Waiting(Block):
    """A block that asks the device for a number."""

    uses_walks = passes_messages = sees_edges = False

    def forward(self, state: State, batch: Batch) -> State:
        return replace(state, nodes=state.nodes * float(state.nodes.abs().max()))


@pytest.mark.gpu
def test_a_block_that_waits_for_the_device_is_named_and_runs_eagerly(with_edges: Dataset) -> None:
    model = network("walk", Waiting()).to(DEVICE)
    runner = runner_of(model, with_edges)
    assert runner.reason is None
    with pytest.warns(UserWarning, match=r"eagerly.*blocks.1 \(Waiting\)"):
        found = runner.predict(torch.arange(8), 4, seed=3)
    assert runner.how.startswith("eager: blocks.1 (Waiting)")
    expected = runner_of(model, with_edges, is_captured=False).predict(torch.arange(8), 4, seed=3)
    torch.testing.assert_close(found, expected)


def test_without_a_gpu_the_runner_says_so(make_dataset, make_model, monkeypatch) -> None:
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())
    dataset = make_dataset("regression")
    assert runner_of(make_model(dataset), dataset).how == f"eager: there is no NVIDIA GPU with Triton, but {DEVICE}"


@pytest.mark.usefixtures("triton_everywhere")
def test_a_trainer_warns_once_that_its_steps_are_eager(make_dataset, make_model) -> None:
    dataset = make_dataset("regression", num_graphs=8)
    eager, captured = make_model(dataset, implementation="reference"), make_model(dataset)
    with pytest.warns(UserWarning, match=r"eagerly.*blocks.0 \(WalkBlock\): the reference") as caught:
        trainer = Trainer(eager, dataset, Training(batch_size=4, max_epochs=1), ONCE)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings(action="error"):
        list(trainer.epochs())
        Trainer(captured, dataset, Training(), ONCE)


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
    training = Training(max_epochs=400, schedule=Cosine())
    losses = [record["loss"] for record in Trainer(model, dataset, training, ONCE).epochs()]
    assert losses[0] > 0.5
    assert losses[-1] < 0.1


@pytest.mark.gpu
def test_two_runs_give_the_same_bits(make_dataset, make_model) -> None:
    dataset = make_dataset("regression", num_graphs=64)
    training = Training(batch_size=7, max_epochs=5)
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
    training = Training(batch_size=7, max_epochs=4)

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
    training = Training(batch_size=7, max_epochs=8)

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


def test_larger_bucket_sizes_are_captured_first() -> None:
    function = lambda batch: batch.x  # noqa: E731
    small, middle, large = ((function, Bucket(7, size, 2 * size, size, 9)) for size in (16, 32, 48))
    assert largest_first({middle, small, large}) == [large, middle, small]


@pytest.mark.gpu
def test_an_epoch_captures_its_larger_bucket_sizes_first(make_dataset, make_model, monkeypatch) -> None:
    dataset = make_dataset("regression", num_graphs=64)
    trainer = Trainer(make_model(dataset), dataset, Training(batch_size=3, max_epochs=1), ONCE)
    keys = []
    capture = Recorder._captured

    def noted(self, graphs, ids, function, bucket):
        keys.append((function, bucket))
        return capture(self, graphs, ids, function, bucket)

    monkeypatch.setattr(Recorder, "_captured", noted)
    list(trainer.steps(list(torch.split(dataset.split.train, 3)), seed=1))
    assert len(keys) > 1
    assert keys == largest_first(keys)


def test_what_was_captured_is_not_used_after_a_weight_is_frozen(with_edges, triton_everywhere) -> None:
    """A captured step would still compute its gradient, and change it."""
    model = network("gine").to(DEVICE)
    runner = runner_of(model, with_edges)
    before = runner._recorder(0, True, list)
    assert runner._recorder(0, True, list) is before
    model.blocks[0].last.weight.requires_grad_(False)
    assert runner._recorder(0, True, list) is not before


def test_answers_for_bonds_with_kernels_are_those_of_plain_torch(make_dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches with pairs of nodes in many graphs are not captured, but kernels work on them; gradients, too."""
    store = make_dataset("regression", num_graphs=6).store
    num_pairs = torch.tensor([2, 0, 3, 1, 4, 2])
    ends = torch.tensor([[0, 3], [2, 1], [3, 3]]).repeat(4, 1)  # every graph has four nodes or more
    store = replace(
        store, y=torch.rand(12, 1), pairs=ends, pair_ptr=torch.cat([torch.tensor([0]), num_pairs.cumsum(0)])
    )
    task, found = Task(kind="regression", level="pair", num_outputs=1), []
    for devices in (set(), {"cuda", "cpu"}):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        torch.manual_seed(0)
        settings = {"num_layers": 1, "hidden_channels": 8, "num_steps": 10, "precision": "float32"}
        model = Network(3, 1, layer=("walk",), pool=None, pair="mlp", **settings)
        runner = Runner(model.to(DEVICE), task, store, DEVICE, largest_batch=6)
        assert runner.reason is not None

        def step(batch: Batch, runner: Runner = runner) -> Tensor:
            answer = runner.answer(batch)
            (answer * batch.y).sum().backward()
            return answer.detach()

        (answer,) = runner.run(step, [torch.arange(6)], 6, seed=1, is_training=True)
        found.append([answer.cpu(), *(parameter.grad.cpu() for parameter in model.parameters())])
    for plain, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, plain, rtol=TOLERANCE, atol=TOLERANCE)
