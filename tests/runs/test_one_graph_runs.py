"""Runs on targets of one graph: settings of batches, and answers that depend on nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from crawl import Graph, Network, WalkPlan, build_graph_file, open_features
from crawl.data import Dataset, GraphStore, OneGraph, Task, from_graph
from crawl.data.graph_folder import read_graph_folder
from crawl.explanations.subject import Subject
from crawl.runs import Experiment, Model, Nodes, TrainedModel, resume_run, run_experiment
from crawl.runs.description import described
from crawl.training import Evaluation, Trainer, Training
from crawl.training.checkpoint import load_checkpoint
from crawl.training.memory_bound import check_full_graph, peak_bytes, targets_within
from crawl.training.runner import Runner
from tests.data.test_nodes import ring
from tests.graph_files.test_opened import change

EXPERIMENT = Experiment(
    walk=WalkPlan(num_steps=10, num_eval_steps=10, centred=True, num_walks=2),
    model=Model(("walk", "gine"), hidden_channels=8, num_layers=2),
    training=Training(lr=0.01, max_epochs=3),
    evaluation=Evaluation(num_test_repeats=2),
)


def ring_data() -> Data:
    torch.manual_seed(0)
    return ring(24)


def dataset(batches: str) -> Dataset:
    return from_graph(ring_data(), batches=batches)


@pytest.fixture(scope="module", params=["full", "closed"])
def trained(request, tmp_path_factory) -> TrainedModel:
    folder = tmp_path_factory.mktemp("runs") / request.param
    run_experiment(EXPERIMENT, folder, dataset=dataset(request.param), device="cpu", quiet=True)
    return TrainedModel.load(folder, "cpu")


def test_embeddings_are_what_the_head_sees(trained):
    for batches in ("full", "closed"):
        store = dataset(batches).store
        embeddings = trained.embed(store, num_repeats=1)
        assert embeddings.shape == (24, 8)
        with torch.no_grad():
            logits = trained.model.readout.head(torch.from_numpy(embeddings))
        predictions = trained.predict(store, num_repeats=1)
        assert np.allclose(logits.sigmoid().numpy(), predictions.mean, atol=1e-6)


def test_an_isolated_node_is_predicted_from_its_features_alone(trained):
    store = dataset("closed").store
    alone = trained.predict(store.subset(torch.tensor([23])), num_repeats=3)
    assert alone.walk_spread.max() == 0
    other = replace(store, x=store.x.clone())
    other.x[:23] += 1  # features of all others
    assert np.allclose(trained.predict(other.subset(torch.tensor([23])), num_repeats=3).mean, alone.mean)


def test_answers_of_closed_batches_do_not_depend_on_the_batch(trained):
    store = dataset("closed").store
    together = trained.predict(store, seed=3)
    for batch_size in (1, 7):
        assert np.allclose(trained.predict(store, seed=3, batch_size=batch_size).repeats, together.repeats, atol=1e-5)
    few = trained.predict(store.subset(torch.tensor([5, 2])), seed=3)
    assert np.allclose(few.repeats, together.repeats[:, [5, 2]], atol=1e-5)


def test_answers_on_a_mapped_graph_are_those_in_memory_together_and_one_by_one(trained, tmp_path):
    store = dataset("closed").store
    build_graph_file(store.edge_index, tmp_path / "graph.crawl", features=store.x)
    mapped = OneGraph(Graph.open(tmp_path / "graph.crawl"), store.owners, open_features(tmp_path / "graph.crawl"))
    together = trained.predict(mapped, seed=3).repeats
    assert np.array_equal(together, trained.predict(store, seed=3).repeats)
    for i in range(24):
        alone = trained.predict(mapped.subset(torch.tensor([i])), seed=3, batch_size=1).repeats
        assert np.allclose(alone, together[:, i : i + 1], rtol=0, atol=1e-5)


def folder_of_ring(folder):
    """A folder with the graph file of a ring, and labels that the features tell."""
    folder.mkdir()
    ring, x = torch.arange(24), (torch.arange(24) // 4 % 2).float().unsqueeze(1)
    build_graph_file(torch.stack([ring, ring.roll(-1)]), folder / "graph.crawl", undirected=True, features=x)
    rows = [f"{i},{'high' if x[i] > 0 else 'low'},{('train', 'train', 'val', 'test')[i % 4]}" for i in range(24)]
    (folder / "labels.csv").write_text("\n".join(["id,label,split", *rows]) + "\n")
    return folder / "graph.crawl"


def test_a_file_that_is_changed_during_a_training_ends_it_before_a_checkpoint_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("crawl.runs.run._SECONDS_BETWEEN_CHECKPOINTS", 0)
    file, experiment = folder_of_ring(tmp_path / "data"), replace(EXPERIMENT, data=Nodes(batches="closed"))
    how = {"device": "cpu", "path": tmp_path / "data", "quiet": True}
    expected = run_experiment(experiment, tmp_path / "whole", **how)
    content, calls = file.read_bytes(), []

    def cut() -> bool:
        calls.append(None)
        if len(calls) == 2:
            change(file, content[:600])
        return False

    with pytest.raises(ValueError, match=f"{file} was changed while it was read"):
        run_experiment(experiment, tmp_path / "run", stop=cut, **how)
    _, values = load_checkpoint(tmp_path / "run" / "last.safetensors")
    assert values["schedule"]["epoch"] == 2
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2
    assert not (tmp_path / "run" / "result.json").exists()
    with pytest.raises(ValueError, match=r"graph.crawl .*it has 600 bytes"):
        resume_run(tmp_path / "run", quiet=True)
    change(file, content)
    resumed = resume_run(tmp_path / "run", quiet=True)
    assert resumed.record["scores"] == expected.record["scores"]


@pytest.mark.parametrize("function", ["predict", "embed"])
def test_nothing_is_handed_over_of_a_file_that_was_changed_meanwhile(tmp_path, monkeypatch, function):
    file, experiment = folder_of_ring(tmp_path / "data"), replace(EXPERIMENT, data=Nodes(batches="closed"))
    run_experiment(experiment, tmp_path / "run", device="cpu", path=tmp_path / "data", quiet=True)
    trained, store = TrainedModel.load(tmp_path / "run", "cpu"), read_graph_folder(tmp_path / "data")
    name, forward = ("embed", Network.embed) if function == "embed" else ("forward", Network.forward)

    @wraps(forward)
    def changing(network, *args, **kwargs):
        monkeypatch.undo()
        change(file, file.read_bytes())
        return forward(network, *args, **kwargs)

    monkeypatch.setattr(Network, name, changing)
    with pytest.raises(ValueError, match=f"{file} was changed while it was read"):
        (trained.embed if function == "embed" else trained.predict)(store, batch_size=24, num_repeats=1)


def test_pieces_are_those_of_the_whole(trained, monkeypatch):
    monkeypatch.setattr("crawl.runs.trained._PIECE", 10)
    store = dataset("closed").store
    pieces = list(trained.embeddings_in_pieces(store))
    assert [len(piece) for piece in pieces] == [10, 10, 4]
    assert np.allclose(np.concatenate(pieces), trained.embed(store), atol=1e-6)
    assert len(list(trained.predictions_in_pieces(dataset("full").store))) == 1


def test_predictions_within_a_bound_of_memory(trained):
    for batches in ("full", "closed"):
        store = dataset(batches).store
        assert np.allclose(trained.predict(store, memory_gb=2).mean, trained.predict(store).mean, atol=1e-5)
        with pytest.raises(ValueError, match=r"more than memory_gb=1e-07: (allow more|train with batches='closed')"):
            trained.predict(store, memory_gb=1e-7)
    with pytest.raises(ValueError, match="batch_size says it, too"):
        trained.predict(dataset("closed").store, memory_gb=1, batch_size=3)


def test_more_memory_is_for_more_targets(trained):
    store = dataset("closed").store
    runner = Runner(trained.model, trained.features.task, store, torch.device("cpu"), largest_batch=100)
    few, many = (targets_within(runner, memory, num_steps=None) for memory in (0.01, 1.0))
    assert 1 <= few < many
    full = Runner(trained.model, trained.features.task, dataset("full").store, torch.device("cpu"), largest_batch=100)
    check_full_graph(full, None, num_steps=None)  # a small graph is not looked at
    check_full_graph(full, 1.0, num_steps=None)


def test_pages_of_a_mapped_file_are_not_memory_of_a_batch(tmp_path):
    """A row that is read from a file makes a whole page of it resident, and many around it."""
    num_nodes, width = 20_000, 512
    ends = torch.stack([torch.arange(num_nodes), torch.arange(num_nodes).roll(-1)])
    path, x = tmp_path / "graph.crawl", torch.rand(num_nodes, width)
    build_graph_file(ends, path, undirected=True, features=x)
    owners = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))
    steps = {"num_eval_steps": 4, "window_size": 2, "centred": True}
    network = Network(width, 1, hidden_channels=8, num_layers=1, pool=None, **steps).eval()
    sizes: list[int] = []
    for features in (x, open_features(path)):
        store = OneGraph(Graph.open(path), owners, features)
        task = Task(kind="binary", level="node", num_outputs=1)
        runner = Runner(network, task, store, torch.device("cpu"), largest_batch=100)
        sizes.append(targets_within(runner, 0.1, num_steps=None))
    assert sizes[1] > 0.6 * sizes[0]


def test_the_peak_of_a_call_is_measured():
    found = peak_bytes(lambda: np.ones(30_000_000), torch.device("cpu"))
    assert found is None or 2e8 < found < 5e8


def test_a_size_of_batches_that_changes_nothing_is_refused(tmp_path):
    message = (
        r"A batch of the full graph has all targets, so training\.batch_size=8 cannot change anything: leave it out, "
    )
    experiment = replace(EXPERIMENT, training=Training(batch_size=8, max_epochs=1))
    with pytest.raises(
        ValueError, match="A batch of the full graph, which has all targets, cannot be changed by --trai"
    ):
        run_experiment(experiment, tmp_path / "run", dataset=dataset("full"), device="cpu")
    network = torch.nn.Linear(2, 1)
    network.forward = lambda x, edge_index: torch.nn.functional.linear(x, network.weight)
    with pytest.raises(ValueError, match=message):
        Trainer(network, dataset("full"), Training(batch_size=8), Evaluation(), device="cpu")
    trainer = Trainer(network, dataset("full"), Training(max_epochs=1), Evaluation(), device="cpu")
    assert trainer.num_batches == 1
    list(trainer.epochs())


def test_pretraining_on_one_graph(tmp_path):
    from crawl.training import Pretraining

    experiment = replace(EXPERIMENT, pretraining=Pretraining(epochs=2))
    for batches in ("full", "closed"):
        result = run_experiment(experiment, tmp_path / batches, dataset=dataset(batches), device="cpu", quiet=True)
        assert len(result.record["pretraining"]) == 2


def test_a_graph_is_answered_in_the_batches_of_the_training(trained):
    """A graph as it is gets the same answers as the store it was trained on."""
    data, store = ring_data(), dataset(trained.batches).store
    graph = to_networkx(data, node_attrs=["x"], to_undirected=True)
    wanted = trained.predict(store, memory_gb=1, seed=3).repeats
    for same in (data, [data]):
        assert np.array_equal(trained.predict(same, memory_gb=1, seed=3).repeats, wanted)
    assert np.array_equal(trained.embed(data), trained.embed(store))
    assert np.allclose(
        trained.predict(graph, num_repeats=60).mean, trained.predict(data, num_repeats=60).mean, atol=0.1
    )
    if trained.batches == "closed":
        with pytest.raises(
            ValueError, match=r"^The model was trained with closed batches, .*: give one at a time, not 2"
        ):
            trained.predict([data, data])
        with pytest.raises(ValueError, match="trained with closed batches"):
            Subject(trained)
    else:
        assert trained.predict([data, data]).mean.shape == (48, 1)


def test_edges_that_led_both_ways_must_still(trained):
    data = ring_data()
    source, target = data.edge_index
    data.edge_index = data.edge_index[:, (source != 4) | (target != 5)]
    with pytest.raises(ValueError, match=r"no edge leads from node 4 back to node 5: list both directions"):
        trained.predict(data)
    with pytest.raises(ValueError, match=r"^The model answers for nodes, not for pairs of nodes: leave out pairs\.$"):
        trained.predict(data, pairs=[(0, 1)])


def test_sets_of_graphs_are_answered_as_one_is_or_refused(trained):
    data = ring_data()
    one_way = Data(x=data.x, edge_index=data.edge_index[:, :23])
    if trained.batches == "closed":
        with pytest.raises(ValueError, match="closed batches, which are of one graph, not of a GraphStore: give the"):
            trained.predict(GraphStore.from_graphs([one_way]))
        return
    for graphs in ([data, one_way], GraphStore.from_graphs([one_way])):
        with pytest.raises(ValueError, match="All edges of the training led both ways, but no edge leads from node"):
            trained.predict(graphs)
    with pytest.raises(ValueError, match="All edges of the training led both ways"):
        Subject(trained).prepared(one_way)  # which is explained as it is predicted


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_edges_get_a_reverse_in_predictions_as_they_did_in_training(tmp_path, batches):
    both = ring_data()
    one_way = both.clone()
    one_way.edge_index = both.edge_index[:, both.edge_index[0] < both.edge_index[1]]
    given = from_graph(one_way, undirected=True, batches=batches)
    run_experiment(EXPERIMENT, tmp_path / "run", dataset=given, device="cpu", quiet=True)
    trained = TrainedModel.load(tmp_path / "run", "cpu")
    assert trained.features.undirected
    wanted = trained.predict(given.store).mean
    for same in (one_way, both, to_networkx(one_way, node_attrs=["x"])):
        assert np.allclose(trained.predict(same, num_repeats=2).mean, wanted, atol=1e-5)
        assert np.allclose(trained.embed(same), trained.embed(given.store), atol=1e-5)
    if batches == "full":
        assert trained.predict([one_way, both]).mean.shape == (48, 1)


def test_no_nodes_have_no_embeddings(trained):
    for batches in ("full", "closed"):
        store = dataset(batches).store.with_owners(torch.empty(0, dtype=torch.long))
        assert trained.embed(store).shape == (0, 8)
        assert trained.predict(store).mean.shape == (0, 1)


def test_models_of_older_versions_do_not_say_their_batches(trained, tmp_path):
    description = trained._description()
    del description["features"]["batches"]
    experiment, features, *_ = described(description)
    assert features == trained.features
    older = TrainedModel(trained.model, experiment, features, trained.scaling, {})
    assert older.batches is None
    assert older.predict(ring_data()).mean.shape == (24, 1)
    older.experiment = replace(experiment, data=Nodes(batches=trained.batches))
    assert older.batches == trained.batches
