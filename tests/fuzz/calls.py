"""Good calls of everything public: from each, `api.py` makes hostile ones by replacing arguments."""

from __future__ import annotations

import copy
import functools
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, fields
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

import crawl
import crawl.data as cd
import crawl.encodings as ce
import crawl.runs as cr
import crawl.theory as ct
import crawl.training as tr
from crawl.plain import structure
from crawl.runs.calibration import Calibration
from crawl.runs.features import Features
from crawl.training.evaluation import Predictions
from tests.fuzz import world
from tests.fuzz.world import World

Arguments = dict[str, Any]
POSITIONAL = "*"  # the name of a list of positional arguments, each of which is an argument of its own

_TINY = world.tiny_experiment()
_FRACTIONS = (0.8, 0.1, 0.1)
_SMALL = {
    **{"hidden_channels": 4, "num_layers": 1, "num_steps": 6, "num_eval_steps": 6, "window_size": 4},
    **{"num_repeats": 1, "max_epochs": 1, "device": "cpu"},
}
_TASK = cd.Task(kind="regression", num_outputs=1)


def call(function: Callable[..., Any], *positional: Any, **arguments: Any) -> tuple[Callable[..., Any], Arguments]:
    """A function and what to call it with."""
    return function, arguments | ({POSITIONAL: list(positional)} if positional else {})


def _complete(num_nodes: int) -> Data:
    """Half of the edges of a complete graph, with features."""
    edge_index = torch.combinations(torch.arange(num_nodes)).t()[:, ::2]
    return Data(x=torch.rand(num_nodes, 2), edge_index=edge_index, edge_attr=torch.rand(edge_index.shape[1], 1))


def _cycle(num_nodes: int = 5, **attributes: float) -> nx.Graph:
    graph = nx.cycle_graph(num_nodes)
    for name, value in attributes.items():
        nx.set_edge_attributes(graph, value, name)
    return graph


def _bare(number: int) -> list[Data]:
    return [Data(x=each.x, edge_index=each.edge_index) for each in world.graphs(number)]


def _members() -> crawl.Segments:
    return crawl.Segments.of(torch.tensor([0, 0, 1]), 2)


def _classes() -> list[Data]:
    sizes = [3 + i % 3 for i in range(12)]
    return [Data(edge_index=world.edges(n), num_nodes=n, y=torch.tensor([i % 3])) for i, n in enumerate(sizes)]


def _walks(**changed: Any) -> tuple[Callable[..., Any], Arguments]:
    arguments = {"num_steps": 6, "strategy": "node2vec", "start": 0.5, "window_size": 4, "seed": 3, "p": 0.5, "q": 2.0}
    return call(crawl.sample_walks, **{"graph": world.graph(), "backend": "auto", **arguments, **changed})


def _all_molecules(path: Any, smiles_column: Any) -> list[Any]:
    return list(cd.read_molecules(path, smiles_column))


def _transformed(kind: type, data: Any, **settings: Any) -> Data:
    """What a transform makes of a graph, which PyG copies before."""
    return kind(**settings).forward(copy.copy(data) if isinstance(data, Data) else data)


def _one_epoch(model: Any, dataset: Any, training: Any, evaluation: Any, seed: Any) -> float:
    return float(next(tr.Trainer(model, dataset, training, evaluation, seed=seed).epochs())["loss"])


def _pretrained_epoch(network: Any, dataset: Any, settings: Any, training: Any, seed: Any) -> float:
    return float(next(tr.Pretrainer(network, dataset, settings, training, seed=seed).epochs())["loss"])


def _experiment_of(**values: Any) -> Any:
    """The experiment of a dictionary, if it can be written as JSON."""
    try:
        text = json.dumps(values, default=str)
    except (TypeError, ValueError, RecursionError):
        return None
    return cr.Experiment.from_json(text)


def _opened(**how: Any) -> Any:
    return cd.open_packed(**how).store.subset([0, 9])


def _packed(function: Any, source: Any, **how: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return len(function(source, f"{folder}/store", **how))


def _run(experiment: Any, dataset: Any, quiet: Any = True, **more: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return cr.run_experiment(experiment, folder, dataset=dataset, quiet=quiet, **more).score()


def _run_together(experiment: Any, dataset: Any, num_members: Any, again: Any = False) -> Any:
    """An ensemble, and what is read of it when it is resumed."""
    with tempfile.TemporaryDirectory() as folder:
        first = cr.run_ensemble(experiment, folder, dataset=dataset, num_members=num_members, quiet=True, device="cpu")
        second = cr.resume_ensemble(folder, dataset=dataset, quiet=again)
        assert first.score() == second.score()
        return first.score()


def _run_with(dataset: Any, seed: Any, device: Any, **settings: Any) -> Any:
    """A run with some settings: whatever is not refused must train."""
    parts = []
    for kind in (crawl.WalkPlan, cr.Model, tr.Training, tr.Evaluation):
        parts.append(kind(**{field.name: settings[field.name] for field in fields(kind) if field.name in settings}))
    return _run(cr.Experiment("tiny", _TINY.data, *parts, seed), dataset, device=device)


def _answers(trained: cr.TrainedModel, graphs: Any) -> Any:
    """Predictions for hostile graphs: what the store does not refuse, the model must refuse or answer."""
    return trained.predict(cd.GraphStore.from_dataset(graphs), num_repeats=1)


def _calibrated(confidence: Any) -> Any:
    """Intervals of predictions at a hostile confidence."""
    found = Predictions(np.zeros((1, 30, 1)), cd.Task(kind="regression", num_outputs=1))
    return Calibration.of(found, np.arange(30.0)[:, None]).interval(found, confidence)


def _fitted(kind: type, X: Any, y: Any, sample_weight: Any = None, **settings: Any) -> Any:
    """The predictions of an estimator for what it was fitted on."""
    estimator = kind(**settings).fit(X, y, sample_weight=sample_weight)
    return estimator.predict_proba(X) if kind is crawl.CRaWlClassifier else estimator.predict(X)


def _one_graph() -> Data:
    """A ring of 16 nodes with two classes, and masks."""
    data, place = world.data(16), torch.arange(16) % 4
    data.y = torch.arange(16) % 3 % 2
    data.train_mask, data.val_mask, data.test_mask = place < 2, place == 2, place == 3
    return data


def _fitted_nodes(kind: Any, X: Any, y: Any, nodes: Any, sample_weight: Any, fold: Any = 0, **settings: Any) -> Any:
    """What an estimator of nodes says of the graph that it was fitted on."""
    return kind(**settings).fit(X, y, nodes, sample_weight, fold).predict(X)


def _fitted_links(X: Any, pairs: Any, hide: Any, **settings: Any) -> Any:
    """The probabilities that an estimator of links gives to pairs of the graph that it was fitted on."""
    return crawl.CRaWlLinkPredictor(**settings).fit(X).predict_proba(pairs, hide=hide)


@functools.cache
def _link_predictor() -> Any:
    return crawl.CRaWlLinkPredictor(**_SMALL).fit(world.data(9))


@functools.cache
def _regressor() -> Any:
    return crawl.CRaWlRegressor(**_SMALL).fit(world.graphs(6), np.arange(6.0))


_MORE = {  # settings of estimators, at their defaults or near
    "validation_fraction": 0.3, "lr": 1e-3, "dropout": 0.1, "patience": 5, "pool": "sum", "virtual_node": False,
    "batch_size": 3, "random_state": 1, "handle_unknown": "warn", "encodings": ce.Encodings(2, 2, 4),
    "pretraining": tr.Pretraining(1),
}  # fmt: skip


TARGETS: dict[str, Callable[[World], tuple[Callable[..., Any], Arguments]]] = {
    # graphs
    "Graph.from_edge_index": lambda _: call(
        crawl.Graph.from_edge_index,
        edge_index=world.edges(),
        num_nodes=5,
        edge_weight=torch.rand(10) + 0.1,
        batch=torch.zeros(5, dtype=torch.int64),
        num_graphs=1,
        undirected=False,
    ),
    "Graph.open": lambda w: call(crawl.Graph.open, path=w.graph_file, verify=True),
    "open_features": lambda w: call(crawl.open_features, path=str(w.graph_file), verify=True),
    "build_graph_file": lambda w: call(
        crawl.build_graph_file,
        source=w.edges,
        path=w.folder / "built.crawl",
        num_nodes=5,
        undirected=True,
        weighted=False,
        header=False,
        features=np.ones((5, 2)),
        memory_gb=1.0,
        on_progress=None,
    ),
    "build_graph_file.of arrays": lambda w: call(
        crawl.build_graph_file,
        source=world.edges(4),
        path=w.folder / "built.crawl",
        num_nodes=4,
        edge_weight=torch.ones(world.edges(4).shape[1]),
    ),
    "Graph.from_data": lambda _: call(crawl.Graph.from_data, data=world.data(), weighted=False, undirected=False),
    "Graph.from_networkx": lambda _: call(
        crawl.Graph.from_networkx, graph=_cycle(weight=2.5), weight="weight", undirected=False
    ),
    "Graph.node_keys": lambda _: call(world.graph().node_keys, graph_ids=torch.tensor([7])),
    "Graph.to": lambda _: call(world.graph().to, device="cpu"),
    # encodings
    **{
        f"encodings.{function.__name__}": lambda _, function=function: call(function, graph=world.graph(), num_steps=3)
        for function in (ce.return_probabilities, ce.walk_probabilities)
    },
    **{
        f"encodings.{function.__name__}": lambda _, function=function: call(
            function, graph=world.graph(), num_steps=3, num_walks=4, seed=1
        )
        for function in (ce.estimate_return_probabilities, ce.estimate_walk_probabilities)
    },
    "encodings.laplacian_eigenvectors": lambda _: call(
        ce.laplacian_eigenvectors, graph=world.graph(), number=2, seed=1
    ),
    "encodings.cycle_counts": lambda _: call(ce.cycle_counts, graph=world.graph(), longest=5),
    **{
        f"encodings.{kind.__name__}": lambda _, kind=kind: call(
            functools.partial(_transformed, kind), data=world.data(), num_steps=3, attr_name=None
        )
        for kind in (ce.AddReturnProbabilities, ce.AddWalkProbabilities)
    },
    "encodings.AddLaplacianEigenvectors": lambda _: call(
        functools.partial(_transformed, ce.AddLaplacianEigenvectors), data=world.data(), number=2, attr_name=None
    ),
    "encodings.AddCycleCounts": lambda _: call(
        functools.partial(_transformed, ce.AddCycleCounts), data=world.data(), longest=5, attr_name=None,
        edge_attr_name=None,
    ),
    "Encodings": lambda _: call(ce.Encodings, return_steps=2, walk_steps=3, longest_cycle=4),
    "with_encodings": lambda w: call(cd.with_encodings, store=w.store, encodings=ce.Encodings(2, 3, 4)),
    # walks
    "sample_walks": lambda _: _walks(keys=torch.arange(5)),
    "sample_walks.restart": lambda _: _walks(strategy="restart", restart=0.3, start=None),
    "sample_walks.centred": lambda _: _walks(strategy="uniform", centred=True, num_walks=2),
    "sample_walks.from_nodes": lambda _: _walks(start=torch.tensor([0, 1, 1]), keys=torch.arange(3)),
    "Walks": lambda _: call(
        crawl.Walks,
        nodes=torch.tensor([[0, 1, 2]], dtype=torch.int32),
        edges=torch.tensor([[0, 1]], dtype=torch.int32),
        code=torch.zeros(1, 3, dtype=torch.int16),
        window_size=8,
    ),
    "Walks.from_nodes": lambda _: call(
        crawl.Walks.from_nodes,
        graph=world.graph(),
        nodes=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        window_size=4,
        edges=torch.tensor([[0, 1], [1, 2]]),
    ),
    "Walks.coverage": lambda _: call(crawl.sample_walks(world.graph(), 4).coverage, graph=world.graph()),
    "Walks.to": lambda _: call(crawl.sample_walks(world.graph(), 4).to, device="cpu"),
    # the model and its layers
    "CRaWl": lambda _: call(
        crawl.CRaWl,
        in_channels=2, out_channels=1, hidden_channels=4, num_layers=2, edge_dim=1, window_size=4, kernel_size=5,
        identity=True, adjacency=True, virtual_node=True, pool="mean", head="mlp", dropout=0.1, strategy="node2vec",
        p=1.0, q=1.0, num_steps=6, num_eval_steps=6, start_share=0.5, eval_start_share=0.5, implementation="fast",
        precision="tf32",
    ),
    "Network": lambda _: call(
        crawl.Network,
        in_channels=2, out_channels=1, layer=("walk", "edge_update", ("gine", "attention"), "virtual_node"),
        num_layers=2, layers=None, hidden_channels=4, edge_dim=1, window_size=4, num_heads=2, mean_log_degree=1.0,
    ),
    "Network.forward": lambda _: call(
        crawl.Network(2, 1, layer=("gine", "gru"), hidden_channels=4, num_layers=1, edge_dim=1, window_size=4).eval(),
        data=world.data(), walks=None, num_steps=6, seed=1,
    ),
    "WalkPlan": lambda _: call(
        crawl.WalkPlan,
        strategy="node2vec", num_steps=5, num_eval_steps=6, start_share=0.5, eval_start_share=1.0, window_size=4,
        p=0.5, q=2.0, restart=0.2, centred=False, num_walks=2,
    ),
    "WalkPlan.sample": lambda _: call(
        crawl.WalkPlan(window_size=4).sample,
        graph=world.graph(), is_training=True, num_steps=6, seed=1, graph_keys=torch.tensor([1]),
    ),
    "CRaWl.forward": lambda _: call(world.model().eval(), data=world.data(), num_steps=6, seed=1),
    "CRaWl.training.forward": lambda _: call(
        world.model(edge_dim=0).train(), data=world.graphs(1)[0], walks=None, num_steps=6, seed=1
    ),
    "CRaWl.sample_walks": lambda _: call(
        world.model().sample_walks, graph=world.graph(), num_steps=6, seed=1, graph_keys=torch.tensor([1])
    ),
    "CRaWlConv": lambda _: call(
        crawl.CRaWlConv,
        in_channels=2, out_channels=4, edge_dim=1, window_size=4, kernel_size=3, identity=True, adjacency=False,
        implementation="fast", precision="tf32",
    ),
    "CRaWlConv.forward": lambda _: call(
        crawl.CRaWlConv(2, 4, edge_dim=1, window_size=4),
        x=torch.rand(5, 2),
        walks=crawl.sample_walks(world.graph(), 6, window_size=4),
        edge_attr=torch.rand(10, 1),
    ),
    "Dense": lambda _: call(crawl.Dense, channels=2),
    "Dense.forward": lambda _: call(crawl.Dense(2), features=torch.rand(3, 2), num_rows=3, like=torch.zeros(1)),
    "OneHot": lambda _: call(crawl.OneHot, num_categories=(2, 3)),
    "OneHot.forward": lambda _: call(
        crawl.OneHot((2, 3)), features=torch.tensor([[0, 2], [1, 1]]), num_rows=2, like=torch.zeros(1)
    ),
    "Embedding": lambda _: call(crawl.Embedding, num_categories=(2, 3), channels=4),
    "Embedding.forward": lambda _: call(
        crawl.Embedding((2, 3), 4), features=torch.tensor([[0, 2], [1, 1]]), num_rows=2, like=torch.zeros(1)
    ),
    "Segments.of": lambda _: call(crawl.Segments.of, owner=torch.tensor([0, 0, 1]), num_owners=2),
    "Segments.sum": lambda _: call(_members().sum, x=torch.rand(3, 2), add=torch.zeros(2, 2)),
    "Segments.spread": lambda _: call(_members().spread, y=torch.rand(2, 2), add=torch.zeros(3, 2)),
    "Segments.softmax": lambda _: call(_members().softmax, x=torch.rand(3, 2)),
    "Walks.gather": lambda _: call(
        crawl.sample_walks(world.graph(), 4, window_size=4).gather,
        nodes=torch.rand(5, 3), edges=torch.rand(10, 3), bits=torch.rand(7, 3),
    ),
    "Walks.gather.jump": lambda _: call(
        crawl.sample_walks(world.graph(), 4, "restart", window_size=4).gather,
        nodes=torch.rand(5, 3), edges=torch.rand(10, 3), jump=torch.rand(3),
    ),
    "Walks.mean_at_nodes": lambda _: call(
        crawl.sample_walks(world.graph(), 4, window_size=4).mean_at_nodes, values=torch.rand(5, 5, 3)
    ),
    "Readout": lambda _: call(crawl.Readout, in_channels=2, out_channels=1, pool="sum", head="linear", dropout=0.1),
    "Readout.forward": lambda _: call(crawl.Readout(2, 1).eval(), x=torch.rand(3, 2), members=_members()),
    "VirtualNode": lambda _: call(crawl.VirtualNode, channels=2, dropout=0.1, precision="tf32"),
    "VirtualNode.forward": lambda _: call(
        crawl.VirtualNode(2).eval(), x=torch.rand(3, 2), state=torch.zeros(2, 2), members=_members()
    ),
    # data
    "GraphStore": lambda _: call(
        cd.GraphStore,
        node_ptr=torch.tensor([0, 3, 6]),
        edge_ptr=torch.tensor([0, 6, 12]),
        edge_index=torch.cat([world.edges(3)] * 2, dim=1),
        x=torch.rand(6, 2),
        edge_attr=torch.rand(12, 1),
        y=torch.rand(2, 1),
        y_per_node=False,
        pairs=None,
        pair_ptr=None,
    ),
    "GraphStore.from_dataset": lambda _: call(
        cd.GraphStore.from_dataset, dataset=world.graphs(4), level="graph", ignore=["edge_weight"]
    ),
    "GraphStore.from_graphs": lambda _: call(
        cd.GraphStore.from_graphs, graphs=[world.data(3 + i) for i in range(3)], level="graph", ignore=["edge_weight"]
    ),
    "GraphStore.concatenate": lambda w: call(cd.GraphStore.concatenate, stores=[w.store, w.store]),
    "GraphStore.batch": lambda w: call(w.store.batch, ids=[0, 2]),
    "GraphStore.batch.of_tensor": lambda w: call(w.store.batch, ids=torch.tensor([0, 2])),
    "GraphStore.subset": lambda w: call(w.store.subset, ids=torch.tensor([1, 0])),
    "GraphStore.graph": lambda w: call(w.store.graph, i=1),
    "GraphStore.to": lambda w: call(w.store.to, device="cpu"),
    "Split": lambda _: call(cd.Split, train=torch.arange(4), val=torch.tensor([4]), test=[5, 6]),
    "Split.from_json": lambda _: call(cd.Split.from_json, text='{"train": [0, 1], "val": [2], "test": [3]}'),
    "Task": lambda _: call(
        cd.Task,
        kind="multiclass", level="graph", num_outputs=2, metric="accuracy", target_names=("t",), class_names=("a", "b"),
    ),
    "Fingerprint.of": lambda w: call(cd.Fingerprint.of, dataset=w.dataset),
    "Fingerprint.from_dict": lambda w: call(
        cd.Fingerprint.from_dict, content=cd.Fingerprint.of(w.dataset).to_dict()
    ),
    "Dataset": lambda w: call(
        cd.Dataset,
        name="own", store=w.dataset.store, task=w.dataset.task, split=w.dataset.split, node_categories=(),
        edge_categories=(), skipped=(), graph_names=tuple(map(str, range(10))),
    ),
    "from_pyg": lambda _: call(
        cd.from_pyg,
        dataset=world.graphs(10), split="random", fractions=_FRACTIONS, seed=0, task="regression", metric="mae",
        name="own", level="graph", ignore=["edge_weight"],
    ),
    "from_pyg.parts": lambda _: call(
        cd.from_pyg, dataset=world.graphs(4), val=world.graphs(3), test=world.graphs(3)
    ),
    "from_pyg.classes": lambda _: call(
        cd.from_pyg, dataset=_classes(), split="stratified", fractions=(0.5, 0.25, 0.25), task="multiclass"
    ),
    "from_graph": lambda _: call(
        cd.from_graph,
        data=_one_graph(), nodes=None, split="auto", fold=0, fractions=_FRACTIONS, seed=0, task="auto", metric=None,
        batches="full", undirected=False, name="own",
    ),
    "from_graph.nodes": lambda _: call(
        cd.from_graph, data=_one_graph(), nodes=list(range(12)), split="random", fractions=(0.5, 0.25, 0.25)
    ),
    "from_nodes": lambda w: call(
        cd.from_nodes,
        folder=w.nodes_folder, label="label", split="random", fractions=(0.5, 0.25, 0.25), seed=0, task="auto",
        metric=None, directed=False, batches="closed",
    ),
    "WalkLoader": lambda _: call(
        cd.WalkLoader,
        data=_one_graph(), plan=crawl.WalkPlan(num_steps=4), owners=torch.arange(3), batch_size=2, shuffle=True,
        is_training=True, with_all_edges=True, seed=0, device="cpu",
    ),
    "OneGraph": lambda _: call(
        cd.OneGraph,
        graph=world.graph(), owners=torch.arange(4), x=torch.rand(5, 2), edge_attr=None, y=torch.arange(4),
        edge_index=world.edges(), batches="full",
    ),
    "from_links": lambda _: call(
        cd.from_links,
        data=_complete(7), fractions=(0.6, 0.2, 0.2), seed=0, num_negatives=1, supervised_share=0.3, metric="hits@20",
        batches="full", undirected=True, name="own",
    ),
    "from_link_folder": lambda w: call(
        cd.from_link_folder,
        folder=w.links_folder, split="random", fractions=(0.6, 0.2, 0.2), seed=0, num_negatives=1,
        supervised_share=0.3, metric="mrr", batches="closed",
    ),
    "from_csv": lambda w: call(
        cd.from_csv,
        path=w.csv, smiles_column="SMILES", target_columns="logS", split="random", fractions=_FRACTIONS, seed=0,
        bad_rows="skip", task="auto", metric="mae",
    ),
    "pack_csv": lambda w: call(
        functools.partial(_packed, cd.pack_csv),
        source=w.csv, smiles_column="SMILES", target_columns="logS", split="random", fractions=_FRACTIONS, seed=0,
        bad_rows="skip", task="auto", metric="mae", weight_column=None, shards=2, shard_size=None,
    ),
    "pack_graphs": lambda _: call(
        functools.partial(_packed, cd.pack_graphs),
        source=world.graphs(10), split="random", fractions=_FRACTIONS, seed=0, task="auto", metric="mae",
        ignore=(), name="own", shards=None, shard_size=4,
    ),
    "open_packed": lambda w: call(_opened, path=w.packed, verify=True),
    "read_molecules": lambda w: call(_all_molecules, path=w.csv, smiles_column="SMILES"),
    "from_folder": lambda w: call(
        cd.from_folder,
        folder=w.graphs_folder, labels="labels.csv", target_columns="y", file_column="file", undirected=False,
        split="random", fractions=_FRACTIONS, seed=0, bad_rows="skip", task="auto", metric=None,
    ),
    "from_tu": lambda w: call(
        cd.from_tu, folder=w.tu, name="TINY", split="random", fractions=_FRACTIONS, seed=0, metric="accuracy"
    ),
    "csl": lambda _: call(cd.csl, fold=1, laplacian=2),
    "counting": lambda _: call(cd.counting, target="triangle", num_graphs=20, seed=0),
    "random_split": lambda _: call(cd.random_split, num_graphs=20, fractions=_FRACTIONS, seed=0),
    "stratified_split": lambda _: call(
        cd.stratified_split, labels=[i % 2 for i in range(40)], fractions=(0.5, 0.25, 0.25), seed=0
    ),
    "stratified_folds": lambda _: call(cd.stratified_folds, labels=torch.arange(12) % 2, num_folds=3, seed=0),
    "random_folds": lambda _: call(cd.random_folds, num_graphs=12, num_folds=3, seed=0, labels=None),
    "group_folds": lambda _: call(cd.group_folds, groups=list("aabbccddee"), num_folds=3, seed=0),
    "Folds": lambda _: call(cd.Folds, num_folds=4, fold=1, by="random"),
    "group_split": lambda _: call(cd.group_split, groups=list("aabbccddee"), fractions=(0.6, 0.2, 0.2), seed=0),
    "scaffold_split": lambda _: call(
        cd.scaffold_split,
        smiles=["c1ccccc1", "C1CCCCC1", "C1CCCC1", "CC", "CCC", "c1ccncc1"],
        fractions=(0.5, 0.25, 0.25),
        seed=0,
    ),
    "split_from_column": lambda _: call(cd.split_from_column, values=["train", "val", "test"], places=["1", "2", "3"]),
    "read_split": lambda w: call(cd.read_split, path=w.split),
    "choose_split": lambda w: call(
        cd.choose_split, split=w.split, num_graphs=12, labels=torch.arange(12) % 2, fractions=_FRACTIONS, seed=0
    ),
    # training and runs
    "Training": lambda _: call(tr.Training, **vars(tr.Training(early_stop=3, clip_norm=1.0))),
    "Evaluation": lambda _: call(tr.Evaluation, **asdict(tr.Evaluation(num_norm_graphs=2))),
    "Trainer": lambda w: call(
        _one_epoch,
        model=world.model(edge_dim=0),
        dataset=w.dataset,
        training=_TINY.training,
        evaluation=_TINY.evaluation,
        seed=0,
    ),
    "Pretraining": lambda _: call(tr.Pretraining, **asdict(tr.Pretraining(lr=0.1))),
    "Pretrainer": lambda w: call(
        _pretrained_epoch,
        network=world.model(edge_dim=0),
        dataset=w.dataset,
        settings=tr.Pretraining(1),
        training=_TINY.training,
        seed=0,
    ),
    "training.predict": lambda w: call(
        tr.predict,
        model=world.model(edge_dim=0), task=_TASK, store=w.store, ids=torch.arange(3), num_repeats=2, seed=0,
        num_steps=6, batch_size=2,
    ),
    "why_not_captured": lambda _: call(tr.why_not_captured, model=world.model(edge_dim=0)),
    "Predictions.scores": lambda _: call(
        tr.Predictions(np.arange(6.0).reshape(2, 3, 1), _TASK).scores, targets=np.ones((3, 1))
    ),
    **{
        f"training.{kind.__name__}": lambda _, kind=kind: call(kind, **asdict(kind()))
        for kind in (tr.Plateau, tr.Step, tr.Interval)
    },
    **{
        f"runs.{kind.__name__}": lambda _, kind=kind: call(kind, **asdict(kind()))
        for kind in (cr.Csl, cr.Counting, cr.Csv, cr.TU, cr.Folder, cr.Benchmark, cr.Superpixels, cr.Social, cr.Model,
                     cr.Nodes, cr.Links, cr.Packed, cr.Heterophilous, cr.Planetoid)
    },
    "runs.GivenModel": lambda _: call(cr.GivenModel, class_="here.Mine"),
    "Experiment.from_json": lambda _: call(cr.Experiment.from_json, text=cr.Experiment().to_json()),
    "Experiment.from_json.of_values": lambda _: call(_experiment_of, **json.loads(_TINY.to_json())),
    "run_experiment": lambda w: call(_run, experiment=_TINY, dataset=w.dataset, quiet=True, device="cpu"),
    "run_experiment.of_a_model": lambda w: call(
        _run, experiment=cr.Experiment(training=_TINY.training), model=world.model(edge_dim=0), dataset=w.dataset
    ),
    "run_experiment.init": lambda w: call(_run, experiment=_TINY, dataset=w.dataset, init=w.run),
    "run_experiment.with_settings": lambda w: call(
        _run_with,
        dataset=w.dataset, seed=0, num_steps=5, num_eval_steps=5, window_size=4, start_share=0.9, strategy="uniform",
        hidden_channels=4, num_layers=1, pool="sum", dropout=0.1, kernel_size=3, max_epochs=1, lr=1e-3, batch_size=4,
        device="cpu", num_val_repeats=1, num_test_repeats=1,
    ),
    "run_ensemble": lambda w: call(_run_together, experiment=_TINY, dataset=w.dataset, num_members=2),
    "resume_ensemble": lambda w: call(_run_together, experiment=_TINY, dataset=w.dataset, num_members=2, again=None),
    "resume_run": lambda w: call(cr.resume_run, folder=w.run, device="cpu", dataset=w.dataset, quiet=True),
    "explain": lambda _: call(
        crawl.explain,
        model=world.model(edge_dim=0),
        data=_bare(1)[0],
        target=0,
        num_repeats=1,
        num_steps=6,
        seed=0,
        top=2,
        num_points=2,
        double=False,
    ),
    "explain.walks": lambda _: call(
        crawl.explain,
        model=world.model(edge_dim=0),
        data=_bare(1)[0],
        node=None,
        target=0,
        walks=world.model(edge_dim=0).sample_walks(crawl.Graph.from_data(_bare(1)[0]), seed=0),
    ),
    "export": lambda _: call(crawl.export, model=world.model(edge_dim=0), data=_bare(1)[0], walks=None),
    "export_inputs": lambda _: call(
        crawl.export_inputs,
        model=world.model(edge_dim=0),
        data=_bare(1)[0],
        walks=world.model(edge_dim=0).sample_walks(crawl.Graph.from_data(_bare(1)[0]), seed=0),
    ),
    "from_pretrained": lambda w: call(crawl.from_pretrained, name=w.run, device="cpu"),
    "TrainedModel.load": lambda w: call(cr.TrainedModel.load, path=w.run, device="cpu"),
    "TrainedModel.predict": lambda w: call(
        w.trained.predict, graphs=w.store, num_repeats=2, num_steps=6, seed=0, batch_size=2, handle_unknown="warn"
    ),
    "TrainedModel.embed": lambda w: call(
        w.trained.embed, graphs=w.store, num_repeats=2, num_steps=6, seed=0, batch_size=2, memory_gb=None
    ),
    "TrainedModel.predict.graphs": lambda w: call(functools.partial(_answers, w.trained), graphs=_bare(4)),
    "Calibration": lambda _: call(_calibrated, confidence=0.9),
    "structure.features": lambda w: call(
        functools.partial(structure, Features, what="It"), values=asdict(w.trained.features)
    ),
    # estimators
    "CRaWlRegressor.fit": lambda _: call(
        functools.partial(_fitted, crawl.CRaWlRegressor), X=world.graphs(6), y=np.arange(6.0), **_SMALL, **_MORE
    ),
    "CRaWlRegressor.fit.weights": lambda _: call(
        functools.partial(_fitted, crawl.CRaWlRegressor, **_SMALL, ensemble=1),
        X=world.graphs(6),
        y=np.arange(6.0),
        sample_weight=np.arange(6.0),
        loss="beta_nll",
    ),
    "CRaWlRegressor.fit.networkx": lambda _: call(
        functools.partial(_fitted, crawl.CRaWlRegressor, **_SMALL),
        X=[_cycle(3 + i) for i in range(6)],
        y=list(np.arange(6.0)),
    ),
    "CRaWlClassifier.fit": lambda _: call(
        functools.partial(_fitted, crawl.CRaWlClassifier), X=world.graphs(6), y=["a", "b"] * 3, **_SMALL, **_MORE
    ),
    "CRaWlClassifier.fit.molecules": lambda _: call(
        functools.partial(_fitted, crawl.CRaWlClassifier, **_SMALL),
        X=["C", "CC", "CCC", "CCO", "CCN", "c1ccccc1"],
        y=[0, 1] * 3,
    ),
    "CRaWlNodeClassifier.fit": lambda _: call(
        functools.partial(_fitted_nodes, crawl.CRaWlNodeClassifier),
        X=_one_graph(), y=["a", "b"] * 8, nodes=list(range(12)), sample_weight=[1.0, 2.0] * 6, batches="closed",
        batch_size=5, **_SMALL,
    ),
    "CRaWlNodeRegressor.fit": lambda _: call(
        functools.partial(_fitted_nodes, crawl.CRaWlNodeRegressor, **_SMALL),
        X=_one_graph(), y=list(range(16)), nodes=None, sample_weight=None, fold=0, loss="mse",
    ),
    "CRaWlLinkPredictor.fit": lambda _: call(
        _fitted_links,
        X=world.data(9), pairs=[[0, 1], [0, 4]], hide=True, batches="closed", batch_size=5, pair="dot",
        num_negatives=1, supervised_share=0.3, metric="roc_auc", **_SMALL,
    ),
    "CRaWlLinkPredictor.predict": lambda _: call(
        _link_predictor().predict_proba, X=[[0, 1], [0, 4]], graph=world.data(7), hide=False
    ),
    "CRaWlLinkPredictor.score": lambda _: call(_link_predictor().score, X=[[0, 1], [0, 4]], y=[1, 0], hide=False),
    "CRaWlRegressor.predict": lambda _: call(_regressor().predict, X=world.graphs(4), return_walk_spread=True),
    # theory
    "count_walks": lambda _: call(ct.count_walks, graph=_cycle(), num_steps=3, strategy="uniform"),
    "total_variation": lambda _: call(
        ct.total_variation,
        graph=_cycle(), other=_cycle(6), num_steps=3, window_size=2, strategy="uniform", max_states=1000,
        max_terms=1000,
    ),
    "first_difference": lambda _: call(
        ct.first_difference, graph=_cycle(), other=_cycle(6), window_size=2, strategy="uniform", max_states=1000
    ),
    "estimate_law": lambda _: call(
        ct.estimate_law,
        graph=_cycle(), num_steps=3, window_size=2, strategy="uniform", num_walks=50, confidence=0.9, seed=0,
    ),
    "estimate_total_variation": lambda _: call(
        ct.estimate_total_variation,
        graph=_cycle(), other=_cycle(6), num_steps=3, window_size=2, strategy="uniform", num_walks=50, confidence=0.9,
        seed=0, max_states=1000,
    ),
    "is_indistinguishable": lambda _: call(ct.is_indistinguishable, distance=Fraction(1, 10), num_walks=5, epsilon=0.1),
    "walks_needed": lambda _: call(ct.walks_needed, distance=Fraction(1, 10), confidence=0.95),
    "cfi": lambda _: call(ct.cfi, base=nx.complete_graph(4), twisted=True, compact=False),
    "cycles": lambda _: call(ct.cycles, 3, 4),
    "three_paths": lambda _: call(ct.three_paths, n=3, uneven=True),
    "cyclic_skip_links": lambda _: call(ct.cyclic_skip_links, n=11, skip=2),
    "named_graph": lambda _: call(ct.named_graph, name="csl:11,2"),
    "isomorphism": lambda _: call(ct.isomorphism, graph=_cycle(), other=_cycle(5)),
    "feature_law": lambda _: call(
        ct.feature_law, graph=_cycle(), num_steps=3, window_size=2, strategy="uniform", max_entries=10000
    ),
    "sample_features": lambda _: call(
        ct.sample_features, graph=_cycle(), num_walks=5, num_steps=3, window_size=2, strategy="uniform", seed=0
    ),
    "reconstruct": lambda _: call(
        ct.reconstruct,
        bits=crawl.sample_walks(world.graph(), 4, window_size=4, start=torch.tensor([0])).bits()[0].numpy(),
        first=0,
        last=4,
    ),
    "first_visits": lambda _: call(ct.first_visits, graph=_cycle(), nodes=[0, 1, 2, 1]),
    "cover_time_bound": lambda _: call(ct.cover_time_bound, graph=_cycle()),
    "visit_probability": lambda _: call(
        ct.visit_probability, graph=_cycle(), num_steps=3, nodes=[0, [1, 2]], strategy="uniform"
    ),
    "color_refinement": lambda _: call(
        ct.color_refinement, _cycle(), _cycle(6), colors=[np.zeros(size, dtype=np.int64) for size in (5, 6)]
    ),
    "k_wl": lambda _: call(ct.k_wl, _cycle(), _cycle(), k=2),
    "separating_round": lambda _: call(ct.separating_round, graph=_cycle(), other=_cycle(6), k=2),
}  # fmt: skip
