"""Runs on links: from an experiment to a folder, stopped and resumed, and predictions for pairs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph, to_networkx

from crawl import Graph, Network, WalkPlan
from crawl.choices import Batches
from crawl.data import Dataset, GraphStore, OneGraph, from_links
from crawl.data.hidden_links import hidden_parts
from crawl.encodings import Encodings
from crawl.runs import Experiment, Model, TrainedModel, resume_run, run_experiment, trained
from crawl.runs.run import Stopped
from crawl.training import Evaluation, Training

ONCE = Evaluation(num_val_repeats=1, num_test_repeats=2)


@pytest.fixture
def dataset() -> Dataset:
    torch.manual_seed(0)
    data = Data(x=torch.randn(50, 4), edge_index=erdos_renyi_graph(50, 0.2), num_nodes=50)
    return from_links(data, metric="hits@20", name="random links")


def experiment(epochs: int = 3, *, centred: bool = False, **model: object) -> Experiment:
    return Experiment(
        name="links",
        walk=WalkPlan(num_steps=12, num_eval_steps=16, window_size=4, centred=centred),
        model=Model(**({"layer": ("walk", "gcn"), "hidden_channels": 8, "num_layers": 2} | model)),
        training=Training(lr=0.01, max_epochs=epochs),
        evaluation=ONCE,
    )


def test_a_run_is_stopped_and_resumed_to_the_same_result(dataset: Dataset, tmp_path: Path) -> None:
    whole = run_experiment(experiment(), tmp_path / "whole", dataset=dataset, quiet=True)
    with pytest.raises(Stopped):
        run_experiment(experiment(), tmp_path / "parts", dataset=dataset, quiet=True, stop=lambda: True)
    parts = resume_run(tmp_path / "parts", dataset=dataset, quiet=True)
    for key in ("scores", "best_epoch", "metric", "num_graphs"):
        assert parts.record[key] == whole.record[key]
    assert whole.record["metric"] == "hits@20"
    assert 0 <= whole.score() <= 1
    assert (tmp_path / "whole/predictions.csv").read_text() == (tmp_path / "parts/predictions.csv").read_text()
    rows = list(csv.reader((tmp_path / "whole/predictions.csv").read_text().splitlines()))
    assert len(rows) == 1 + len(dataset.split.test)
    assert rows[1][0] == ":".join(map(str, dataset.store.owners[dataset.split.test][0].tolist()))

    other = from_links(Data(x=dataset.store.x, edge_index=dataset.store.edge_index, num_nodes=50), metric="hits@20")
    with pytest.raises(Stopped):
        run_experiment(experiment(), tmp_path / "changed", dataset=dataset, quiet=True, stop=lambda: True)
    with pytest.raises(ValueError, match="The data have changed"):
        resume_run(tmp_path / "changed", dataset=other, quiet=True)


def test_predictions_for_pairs_of_this_and_of_another_graph(dataset: Dataset, tmp_path: Path) -> None:
    run = run_experiment(experiment(2), tmp_path / "run", dataset=dataset, quiet=True)
    model = TrainedModel.load(run.folder, "cpu")
    test = dataset.store.subset(dataset.split.test)
    whole = model.predict(test)
    assert whole.repeats.shape == (2, len(dataset.split.test), 1)
    assert model.predict(dataset.store).mean.shape == (len(dataset), 1)
    pairs = test.owners[:5]
    store = OneGraph(test.graph, pairs, test.x, edge_index=test.edge_index, batches="full")
    assert model.predict(store).mean == pytest.approx(whole.mean[:5], abs=1e-5)
    turned = dataset.store.with_owners(pairs.flip(1))
    assert type(turned) is OneGraph
    assert model.predict(turned).mean == pytest.approx(whole.mean[:5], abs=1e-5)
    with pytest.raises(ValueError, match="There is no node 50"):
        dataset.store.with_owners(torch.tensor([[3, 50]]))

    torch.manual_seed(1)
    elsewhere = from_links(Data(x=torch.randn(30, 4), edge_index=erdos_renyi_graph(30, 0.2), num_nodes=30)).store
    assert model.predict(elsewhere.subset(torch.arange(7))).mean.shape == (7, 1)


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_a_graph_as_it_is_is_asked_about_pairs(tmp_path: Path, batches: Batches) -> None:
    """All of its links are seen, in the batches of the training; an edge that is listed one way is one, too."""
    torch.manual_seed(0)
    both = erdos_renyi_graph(50, 0.2)
    one_way = both[:, both[0] < both[1]]
    data = Data(x=torch.randn(50, 4), edge_index=one_way, num_nodes=50)
    dataset = from_links(data, undirected=True, batches=batches)
    run = run_experiment(experiment(1, centred=True, layer=("walk",)), tmp_path / "run", dataset=dataset, quiet=True)
    model = TrainedModel.load(run.folder, "cpu")
    assert model.features.undirected
    loops = torch.tensor([[4, 7], [4, 7]])
    more = Data(x=data.x, edge_index=torch.cat([both, loops, both[:, :3]], dim=1), num_nodes=50)
    graph = to_networkx(data, node_attrs=["x"])
    pairs = [(0, 1), (30, 4), tuple(one_way[:, 9].tolist())]
    ids = torch.tensor(pairs)
    store = OneGraph(Graph.from_edge_index(both, 50), ids, data.x, edge_index=both, batches=batches)
    for hide in (False, True):
        wanted = model.predict(store, hide=hide).mean
        for same in (data, [data], more, graph):
            assert model.predict(same, pairs=pairs, hide=hide).mean == pytest.approx(wanted, abs=1e-5)
        assert model.predict(data, pairs=ids.flip(1).numpy(), hide=hide).mean == pytest.approx(wanted, abs=1e-5)
    embeddings = model.embed(store.with_owners(torch.arange(50)))
    assert embeddings.shape == (50, 8)
    for same in (data, more, graph):
        assert model.embed(same) == pytest.approx(embeddings, abs=1e-5)
    assert model.predict(data, pairs=[]).mean.shape == (0, 1)


def test_wrong_pairs_of_a_graph_are_refused_in_one_line(dataset: Dataset, tmp_path: Path) -> None:
    run = run_experiment(experiment(1), tmp_path / "run", dataset=dataset, quiet=True)
    model = TrainedModel.load(run.folder, "cpu")
    assert dataset.store.edge_index is not None
    edge_index = dataset.store.edge_index
    data = Data(x=dataset.store.x, edge_index=edge_index, num_nodes=50)
    u, v = edge_index[:, 0].tolist()
    cut = Data(x=data.x, edge_index=edge_index[:, 1:], num_nodes=50)
    for graph, pairs, message in (
        (data, None, r"^The model answers for pairs of nodes: name them, predict\(graph, pairs=\[\(0, 1\)\]\) say\.$"),
        (data, [(0, 50)], r"^There is no node 50: the graph has nodes 0 to 49\.$"),
        (data, [(3, 3)], r"^A link is between two different nodes, but pairs\[0\] names one twice\.$"),
        (dataset.store, [(0, 1)], r"^A store names its pairs: leave out pairs, or give store\.with_owners\(pairs\)\.$"),
        ([data, data], [(0, 1)], r"^The model answers for links of one graph: give it alone, not \[Data"),
        (cut, [(0, 1)], rf"^The edge from {v} to {u} has no reverse, .*: list both directions, as PyG's ToUndirected"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(graph, pairs=pairs)
    older = TrainedModel(
        model.model, model.experiment, replace(model.features, batches=None), model.scaling, model.record
    )
    with pytest.raises(ValueError, match=r"^The model, of an older version, does not say .*: give a OneGraph\.$"):
        older.embed(data)


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_a_link_is_hidden_while_it_is_predicted(dataset: Dataset, tmp_path: Path, batches: str) -> None:
    """With `hide`, an answer is the same with the link and without, and whatever else is asked for."""
    store = replace(dataset.store, batches=batches)
    dataset = replace(dataset, store=store)
    run = run_experiment(experiment(1, centred=True, layer=("walk",)), tmp_path / "run", dataset=dataset, quiet=True)
    model = TrainedModel.load(run.folder, "cpu")
    u, v = store.edge_index[:, 0].tolist()
    is_other = ((store.edge_index != torch.tensor([[u], [v]])) & (store.edge_index != torch.tensor([[v], [u]]))).any(0)
    rest = store.edge_index[:, is_other]
    pairs = torch.cat([torch.tensor([[u, v]]), dataset.store.owners[-9:]])
    without = OneGraph(Graph.from_edge_index(rest, 50), pairs, store.x, edge_index=rest, batches=batches)
    answers = {}
    for hide in (True, False):
        seen = model.predict(store.with_owners(pairs), hide=hide).mean
        answers[hide] = abs(seen[0, 0] - model.predict(without, hide=hide).mean[0, 0])
        alone = model.predict(store.with_owners(pairs[:1]), hide=hide).mean
        assert alone == pytest.approx(seen[:1], abs=1e-5)
    assert answers[True] < 1e-6 < 1e-5 < answers[False]
    assert model.predict(store, hide=True).mean.shape == (len(store), 1)  # all training links among them
    with pytest.raises(ValueError, match="hide must be True or False"):
        model.predict(store, hide="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="this store asks about nodes"):
        model.predict(store.with_owners(torch.arange(3)), hide=True)
    graphs = GraphStore.from_graphs([Data(x=torch.rand(3, 4), edge_index=torch.tensor([[0, 1], [1, 0]]))])
    message = {
        "full": "hide=True is for pairs of nodes of one graph",
        "closed": "closed batches, which are of one graph",
    }
    with pytest.raises(ValueError, match=message[batches]):
        model.predict(graphs, hide=True)


def test_graphs_with_hidden_links_are_not_all_in_memory(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_experiment(experiment(1), tmp_path / "run", dataset=dataset, quiet=True)
    most = 0

    def counted(store: OneGraph, seed: int) -> Iterator[tuple[Tensor, OneGraph]]:
        nonlocal most
        graphs: WeakSet[Graph] = WeakSet()
        for ids, part in hidden_parts(store, seed):
            graphs.add(part.graph)
            most = max(most, len(graphs))
            yield ids, part

    monkeypatch.setattr(trained, "hidden_parts", counted)
    TrainedModel.load(run.folder, "cpu").predict(dataset.store, hide=True)
    assert 0 < most <= 3  # of ten


def test_a_graph_of_a_single_link_can_be_asked_about(dataset: Dataset, tmp_path: Path) -> None:
    run = run_experiment(experiment(1), tmp_path / "run", dataset=dataset, quiet=True)
    ways = torch.tensor([[0, 1], [1, 0]])
    features = torch.rand(2, 4)
    store = OneGraph(Graph.from_edge_index(ways, 2), torch.tensor([[0, 1]]), features, edge_index=ways, batches="full")
    model = TrainedModel.load(run.folder, "cpu")
    for hide in (False, True):
        assert 0 < model.predict(store, hide=hide).mean.item() < 1


@pytest.mark.parametrize("pair", ["dot", "bilinear", "mlp"])
def test_scores_of_pairs(dataset: Dataset, tmp_path: Path, pair: str) -> None:
    settings = Experiment(
        model=Model(layer=("gcn",), hidden_channels=8, num_layers=2, pair=pair),  # type: ignore[arg-type]
        training=Training(max_epochs=1),
    )
    run = run_experiment(settings, tmp_path / "run", dataset=dataset, quiet=True)
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["model"].get("pair", "mlp") == pair
    model = TrainedModel.load(run.folder, "cpu").model
    assert isinstance(model, Network)
    assert model.readout.score == pair


def test_settings_without_effect_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    for setting in ({"pool": "sum"}, {"head": "linear"}):
        with pytest.raises(ValueError, match="An answer for each pair cannot be changed by --model"):
            run_experiment(experiment(1, **setting), tmp_path / "run", dataset=dataset, quiet=True)
    with pytest.raises(ValueError, match=r"An answer for each graph cannot be changed by --model\.pair"):
        run_experiment(experiment(1, pair="dot"), tmp_path / "run", quiet=True)


@pytest.mark.parametrize("batches", ["full", "closed"])
def test_encodings_follow_the_links_that_are_seen(dataset: Dataset, tmp_path: Path, batches: str) -> None:
    dataset = replace(dataset, store=replace(dataset.store, batches=batches))
    encoded = replace(experiment(2, centred=True, layer=("walk",)), encodings=Encodings(return_steps=3, walk_steps=2))
    run = run_experiment(encoded, tmp_path / "run", dataset=dataset, quiet=True)
    assert 0 <= run.score() <= 1
    model = TrainedModel.load(run.folder, "cpu")
    test = dataset.store.subset(dataset.split.test)
    assert (tmp_path / "run/predictions.csv").read_text().count("\n") == 1 + len(test)
    for hide in (False, True):
        assert model.predict(test, hide=hide).mean.shape == (len(test), 1)
