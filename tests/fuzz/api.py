"""Calls of everything public, with one to three of their arguments replaced by hostile values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import crawl
import crawl.data as cd
import crawl.experiments as ce
import crawl.theory as ct
import crawl.training as tr
from crawl.experiments.build import Features
from tests.fuzz import hostile, world
from tests.fuzz.oracle import judge_call
from tests.fuzz.world import World, rng_of

SECONDS = 20.0
Arguments = dict[str, Any]
Target = Callable[[World], tuple[Callable[..., Any], Arguments]]
POSITIONAL = "*"  # the name of a list of positional arguments, each of which is an argument of its own

# Numbers up to these are a matter of taste and of time; above, the next hostile number is far above.
_CAPS = {
    **{"num_graphs": 300, "num_walks": 2000, "max_states": 10**6, "max_terms": 10**6, "max_entries": 10**6},
    **{"num_steps": 60, "num_eval_steps": 60, "num_repeats": 20, "max_epochs": 2, "num_layers": 4, "laplacian": 40},
    **{"n": 50, "k": 3, "num_test_repeats": 3, "num_val_repeats": 3, "hidden_channels": 64},
}


@dataclass(frozen=True)
class Call:
    """One case: which call, with which arguments, and which of them are hostile."""

    name: str
    function: Callable[..., Any]
    arguments: Arguments
    changed: tuple[str, ...]

    def __call__(self) -> Any:
        arguments = dict(self.arguments)
        return self.function(*arguments.pop(POSITIONAL, ()), **arguments)

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={_shown(self.arguments[name])}" for name in self.changed)
        return f"{self.name}({shown})"


TARGETS: dict[str, Target] = {}


def _target(function: Target) -> Target:
    TARGETS[function.__name__.lstrip("_").replace("__", ".")] = function
    return function


def make_call(index: int, seed: int, given: World) -> Call:
    """Case `index`: the targets in turn, so that each gets its share."""
    rng = rng_of(seed, "api", index)
    name = list(TARGETS)[index % len(TARGETS)]
    torch.manual_seed(rng.randrange(2**31))
    function, arguments = TARGETS[name](given)
    changed = rng.sample(sorted(arguments), min(len(arguments), rng.choice((1, 1, 1, 2, 3))))
    for argument in changed:
        value = arguments[argument]
        if argument == POSITIONAL:
            place = rng.randrange(len(value))
            value = [*value]
            value[place] = _capped("n", hostile.hostile(rng, value[place]))
            arguments[argument] = value
        else:
            arguments[argument] = _capped(argument, hostile.hostile(rng, value))
    return Call(name, function, arguments, tuple(changed))


def good_call(name: str, given: World) -> Call:
    """A target with good arguments only."""
    return Call(name, *TARGETS[name](given), ())


def judge(index: int, seed: int, given: World) -> tuple[str, str, str]:
    """What came of case `index`: the kind of outcome, the call, and more about the outcome."""
    call = make_call(index, seed, given)
    shown = str(call)
    kind, outcome = judge_call(
        call, SECONDS, allows_sklearn=call.name.startswith(("CRaWlClassifier", "CRaWlRegressor"))
    )
    if kind == "result":
        is_excused = call.name.endswith("forward") and any(_holds_nan(call.arguments[name]) for name in call.changed)
        problem = None if is_excused else implausible(outcome)  # NaN into a layer, NaN out of it
        return ("failed", shown, f"accepted, but {problem}") if problem else ("result", shown, "")
    return kind, shown, str(outcome)


def implausible(result: Any) -> str | None:
    """What is wrong with a result, if something is."""
    if isinstance(result, Tensor) and result.is_floating_point() and not bool(result.isfinite().all()):
        return "the answer has NaN or infinity in it"
    if isinstance(result, tr.Predictions) and not np.isfinite(result.repeats).all():
        return "predictions are not finite"
    if isinstance(result, np.ndarray) and result.dtype.kind == "f" and not np.isfinite(result).all():
        return "the answer has NaN or infinity in it"
    if isinstance(result, cd.Dataset):
        for name in ("x", "edge_attr"):
            features = getattr(result.store, name)
            if features is not None and features.is_floating_point() and not bool(features.isfinite().all()):
                return f"{name} has NaN or infinity in it"
        y = result.store.y
        if y is not None and y.is_floating_point() and bool(y.isinf().any()):
            return "y has infinity in it"
    is_real = isinstance(result, crawl.Walks) and result.device.type != "meta"
    if is_real and result.num_walks and int(result.nodes.min()) < 0:
        return "a walk visits a negative node"
    return None


def _holds_nan(value: Any) -> bool:
    tensors = value.to_dict().values() if isinstance(value, Data) else [value]
    return any(isinstance(each, Tensor) and each.is_floating_point() and not each.isfinite().all() for each in tensors)


def _capped(name: str, value: Any) -> Any:
    """The value, or a far greater one where it would only take long."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return 2**63 if name in _CAPS and is_number and _CAPS[name] < value < 2**62 else value


def _shown(value: Any) -> str:
    try:
        if isinstance(value, Tensor):
            return f"tensor({list(value.shape)}, {value.dtype}, {value.layout}, {value.device})"
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= 120 else text[:117] + "…"


def _small() -> nx.Graph:
    return nx.cycle_graph(5)


# crawl: graphs, walks, layers, the model


@_target
def _Graph__from_edge_index(_: World) -> Any:
    batch = torch.tensor([0, 0, 0, 0, 0])
    weight = torch.rand(10) + 0.1
    arguments = {"edge_index": world.edges(), "num_nodes": 5, "edge_weight": weight, "batch": batch, "num_graphs": 1}
    return crawl.Graph.from_edge_index, {**arguments, "undirected": False}


@_target
def _Graph__from_data(_: World) -> Any:
    return crawl.Graph.from_data, {"data": world.data(), "undirected": False}


@_target
def _Graph__from_networkx(_: World) -> Any:
    graph = _small()
    nx.set_edge_attributes(graph, 2.5, "weight")
    return crawl.Graph.from_networkx, {"graph": graph, "weight": "weight", "undirected": False}


@_target
def _Graph__node_keys(_: World) -> Any:
    return world.graph().node_keys, {"graph_ids": torch.tensor([7])}


@_target
def _Graph__to(_: World) -> Any:
    return world.graph().to, {"device": "cpu"}


def _walk_arguments() -> Arguments:
    return {"graph": world.graph(), "num_steps": 6, "strategy": "node2vec", "start": 0.5, "window_size": 4, "seed": 3,
            "p": 0.5, "q": 2.0, "backend": "auto", "keys": torch.arange(5)}  # fmt: skip


@_target
def _sample_walks(_: World) -> Any:
    return crawl.sample_walks, _walk_arguments()


@_target
def _sample_walks__from_nodes(_: World) -> Any:
    return crawl.sample_walks, _walk_arguments() | {"start": torch.tensor([0, 1, 1]), "keys": torch.arange(3)}


@_target
def _Walks__from_nodes(_: World) -> Any:
    nodes, columns = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([[0, 1], [1, 2]])
    return crawl.Walks.from_nodes, {"graph": world.graph(), "nodes": nodes, "window_size": 4, "edges": columns}


@_target
def _Walks(_: World) -> Any:
    walks = crawl.sample_walks(world.graph(), 4)
    return crawl.Walks, {"nodes": walks.nodes, "edges": walks.edges, "code": walks.code, "window_size": 8}


@_target
def _Walks__to(_: World) -> Any:
    return crawl.sample_walks(world.graph(), 4).to, {"device": "cpu"}


@_target
def _CRaWl(_: World) -> Any:
    return crawl.CRaWl, {
        "in_channels": 2, "out_channels": 1, "hidden_channels": 4, "num_layers": 2, "edge_dim": 1, "window_size": 4,
        "kernel_size": 5, "identity": True, "adjacency": True, "virtual_node": True, "pool": "mean", "head": "mlp",
        "dropout": 0.1, "strategy": "node2vec", "p": 1.0, "q": 1.0, "num_steps": 6, "num_eval_steps": 6,
        "start_share": 0.5, "eval_start_share": 0.5, "implementation": "fast", "precision": "tf32",
    }  # fmt: skip


@_target
def _CRaWl__forward(_: World) -> Any:
    return world.model().eval(), {"data": world.data(), "num_steps": 6, "seed": 1}


@_target
def _CRaWl__forward_without_edge_features(_: World) -> Any:
    bare = world.data()
    del bare.edge_attr
    return world.model(edge_dim=0).train(), {"data": bare, "walks": None, "num_steps": 6, "seed": 1}


@_target
def _CRaWl__sample_walks(_: World) -> Any:
    return world.model().sample_walks, {
        "graph": world.graph(),
        "num_steps": 6,
        "seed": 1,
        "graph_keys": torch.tensor([1]),
    }


@_target
def _CRaWlConv(_: World) -> Any:
    return crawl.CRaWlConv, {
        "in_channels": 2, "out_channels": 4, "edge_dim": 1, "window_size": 4, "kernel_size": 3, "identity": True,
        "adjacency": False, "implementation": "fast", "precision": "tf32",
    }  # fmt: skip


@_target
def _CRaWlConv__forward(_: World) -> Any:
    layer = crawl.CRaWlConv(2, 4, edge_dim=1, window_size=4)
    walks = crawl.sample_walks(world.graph(), 6, window_size=4)
    return layer, {"x": torch.rand(5, 2), "walks": walks, "edge_attr": torch.rand(10, 1)}


@_target
def _Dense(_: World) -> Any:
    return crawl.Dense, {"channels": 2}


@_target
def _Dense__forward(_: World) -> Any:
    return crawl.Dense(2), {"features": torch.rand(3, 2), "num_rows": 3, "like": torch.zeros(1)}


@_target
def _OneHot(_: World) -> Any:
    return crawl.OneHot, {"num_categories": (2, 3)}


@_target
def _OneHot__forward(_: World) -> Any:
    return crawl.OneHot((2, 3)), {"features": torch.tensor([[0, 2], [1, 1]]), "num_rows": 2, "like": torch.zeros(1)}


@_target
def _Embedding(_: World) -> Any:
    return crawl.Embedding, {"num_categories": (2, 3), "channels": 4}


@_target
def _Embedding__forward(_: World) -> Any:
    layer = crawl.Embedding((2, 3), 4)
    return layer, {"features": torch.tensor([[0, 2], [1, 1]]), "num_rows": 2, "like": torch.zeros(1)}


@_target
def _Membership__of(_: World) -> Any:
    return crawl.Membership.of, {"batch": torch.tensor([0, 0, 1]), "num_graphs": 2}


@_target
def _Readout(_: World) -> Any:
    return crawl.Readout, {"in_channels": 2, "out_channels": 1, "pool": "sum", "head": "linear", "dropout": 0.1}


@_target
def _Readout__forward(_: World) -> Any:
    members = crawl.Membership.of(torch.tensor([0, 0, 1]), 2)
    return crawl.Readout(2, 1).eval(), {"x": torch.rand(3, 2), "members": members}


@_target
def _VirtualNode(_: World) -> Any:
    return crawl.VirtualNode, {"channels": 2, "dropout": 0.1, "precision": "tf32"}


@_target
def _VirtualNode__forward(_: World) -> Any:
    members = crawl.Membership.of(torch.tensor([0, 0, 1]), 2)
    return crawl.VirtualNode(2).eval(), {"x": torch.rand(3, 2), "state": torch.zeros(2, 2), "members": members}


# crawl.data


@_target
def _GraphStore(_: World) -> Any:
    return cd.GraphStore, {
        "node_ptr": torch.tensor([0, 3, 6]), "edge_ptr": torch.tensor([0, 6, 12]),
        "edge_index": torch.cat([world.edges(3)] * 2, dim=1), "x": torch.rand(6, 2), "edge_attr": torch.rand(12, 1),
        "y": torch.rand(2, 1), "y_per_node": False,
    }  # fmt: skip


@_target
def _GraphStore__from_dataset(_: World) -> Any:
    return cd.GraphStore.from_dataset, {"dataset": world.graphs(4)}


@_target
def _GraphStore__from_graphs(_: World) -> Any:
    return cd.GraphStore.from_graphs, {"graphs": [world.data(3 + i) for i in range(3)]}


@_target
def _GraphStore__concatenate(given: World) -> Any:
    return cd.GraphStore.concatenate, {"stores": [given.store, given.store]}


@_target
def _GraphStore__batch(given: World) -> Any:
    return given.store.batch, {"ids": [0, 2]}


@_target
def _GraphStore__batch_of_tensor(given: World) -> Any:
    return given.store.batch, {"ids": torch.tensor([0, 2])}


@_target
def _GraphStore__subset(given: World) -> Any:
    return given.store.subset, {"ids": torch.tensor([1, 0])}


@_target
def _GraphStore__graph(given: World) -> Any:
    return given.store.graph, {"i": 1}


@_target
def _GraphStore__to(given: World) -> Any:
    return given.store.to, {"device": "cpu"}


@_target
def _Split(_: World) -> Any:
    return cd.Split, {"train": torch.arange(4), "val": torch.tensor([4]), "test": [5, 6]}


@_target
def _Split__from_json(_: World) -> Any:
    return cd.Split.from_json, {"text": '{"train": [0, 1], "val": [2], "test": [3]}'}


@_target
def _Task(_: World) -> Any:
    return cd.Task, {"kind": "multiclass", "level": "graph", "num_outputs": 2, "metric": "accuracy",
                     "target_names": ("t",),                      "class_names": ("a", "b")}  # fmt: skip


@_target
def _Dataset(given: World) -> Any:
    whole = given.dataset
    return cd.Dataset, {
        "name": "own", "store": whole.store, "task": whole.task, "split": whole.split, "node_categories": (),
        "edge_categories": (), "skipped": (), "graph_names": tuple(map(str, range(10))),
    }  # fmt: skip


@_target
def _from_pyg(_: World) -> Any:
    return cd.from_pyg, {"dataset": world.graphs(10), "split": "random", "fractions": (0.8, 0.1, 0.1), "seed": 0,
                         "task": "regression", "metric": "mae", "name": "own"}  # fmt: skip


@_target
def _from_pyg__in_parts(_: World) -> Any:
    parts = [world.graphs(4), world.graphs(3), world.graphs(3)]
    return cd.from_pyg, dict(zip(("dataset", "val", "test"), parts, strict=True))


@_target
def _from_pyg__classes(_: World) -> Any:
    made = [Data(edge_index=world.edges(3 + i % 3), num_nodes=3 + i % 3, y=torch.tensor([i % 3])) for i in range(12)]
    return cd.from_pyg, {"dataset": made, "split": "stratified", "fractions": (0.5, 0.25, 0.25), "task": "multiclass"}


@_target
def _from_csv(given: World) -> Any:
    return cd.from_csv, {
        "path": given.csv, "smiles_column": "SMILES", "target_columns": "logS", "split": "random",
        "fractions": (0.8, 0.1, 0.1), "seed": 0, "bad_rows": "skip", "task": "auto", "metric": "mae",
    }  # fmt: skip


@_target
def _read_molecules(given: World) -> Any:
    def read(path: Any, smiles_column: Any) -> list[Any]:
        return list(cd.read_molecules(path, smiles_column))

    return read, {"path": given.csv, "smiles_column": "SMILES"}


@_target
def _from_folder(given: World) -> Any:
    return cd.from_folder, {
        "folder": given.graphs_folder, "labels": "labels.csv", "target_columns": "y", "file_column": "file",
        "undirected": False, "split": "random", "fractions": (0.8, 0.1, 0.1), "seed": 0, "bad_rows": "skip",
        "task": "auto", "metric": None,
    }  # fmt: skip


@_target
def _from_tu(given: World) -> Any:
    return cd.from_tu, {"folder": given.tu, "name": "TINY", "split": "random", "fractions": (0.8, 0.1, 0.1), "seed": 0,
                        "metric": "accuracy"}  # fmt: skip


@_target
def _csl(_: World) -> Any:
    return cd.csl, {"fold": 1, "laplacian": 2}


@_target
def _counting(_: World) -> Any:
    return cd.counting, {"target": "triangle", "num_graphs": 20, "seed": 0}


@_target
def _random_split(_: World) -> Any:
    return cd.random_split, {"num_graphs": 20, "fractions": (0.8, 0.1, 0.1), "seed": 0}


@_target
def _stratified_split(_: World) -> Any:
    return cd.stratified_split, {"labels": [i % 2 for i in range(40)], "fractions": (0.5, 0.25, 0.25), "seed": 0}


@_target
def _stratified_folds(_: World) -> Any:
    return cd.stratified_folds, {"labels": torch.arange(12) % 2, "num_folds": 3, "seed": 0}


@_target
def _group_split(_: World) -> Any:
    return cd.group_split, {"groups": list("aabbccddee"), "fractions": (0.6, 0.2, 0.2), "seed": 0}


@_target
def _scaffold_split(_: World) -> Any:
    rings = ["c1ccccc1", "C1CCCCC1", "C1CCCC1", "CC", "CCC", "c1ccncc1"]
    return cd.scaffold_split, {"smiles": rings, "fractions": (0.5, 0.25, 0.25), "seed": 0}


@_target
def _split_from_column(_: World) -> Any:
    return cd.split_from_column, {"values": ["train", "val", "test"], "places": ["line 1", "line 2", "line 3"]}


@_target
def _read_split(given: World) -> Any:
    return cd.read_split, {"path": given.split}


@_target
def _choose_split(given: World) -> Any:
    return cd.choose_split, {"split": given.split, "num_graphs": 12, "labels": torch.arange(12) % 2,
                             "fractions": (0.8, 0.1, 0.1), "seed": 0}  # fmt: skip


# crawl.training


@_target
def _Training(_: World) -> Any:
    return tr.Training, {
        "lr": 1e-3, "batch_size": 4, "max_epochs": 1, "schedule": "plateau", "patience": 10, "factor": 0.5,
        "min_lr": 1e-6, "step_epoch": 50, "interval": 20, "early_stop": 3, "clip_norm": 1.0, "loss": "auto",
        "normalise_targets": True, "device": "cpu",
    }  # fmt: skip


@_target
def _Evaluation(_: World) -> Any:
    return tr.Evaluation, {"num_val_repeats": 1, "val_every": 1, "num_norm_graphs": 2, "num_test_repeats": 1,
                           "batch_size": 4, "track_test": False}  # fmt: skip


def _train_an_epoch(model: Any, dataset: Any, training: Any, evaluation: Any, seed: Any) -> float:
    trainer = tr.Trainer(model, dataset, training, evaluation, seed=seed)
    return float(next(trainer.epochs())["loss"])


@_target
def _Trainer(given: World) -> Any:
    tiny = world.tiny_experiment()
    return _train_an_epoch, {"model": world.model(edge_dim=0), "dataset": given.dataset, "training": tiny.training,
                             "evaluation": tiny.evaluation, "seed": 0}  # fmt: skip


@_target
def _training__predict(given: World) -> Any:
    task = cd.Task(kind="regression", num_outputs=1)
    return tr.predict, {"model": world.model(edge_dim=0), "task": task, "store": given.store, "ids": torch.arange(3),
                        "num_repeats": 2, "seed": 0, "num_steps": 6, "batch_size": 2}  # fmt: skip


@_target
def _Predictions__scores(_: World) -> Any:
    task = cd.Task(kind="regression", num_outputs=1)
    return tr.Predictions(np.arange(6.0).reshape(2, 3, 1), task).scores, {"targets": np.ones((3, 1))}


# crawl.experiments


@_target
def _experiments__Data(_: World) -> Any:
    return ce.Data, asdict(ce.Data(path="x", targets=("a",), metric="mae"))


@_target
def _experiments__Walk(_: World) -> Any:
    return ce.Walk, asdict(ce.Walk())


@_target
def _experiments__Model(_: World) -> Any:
    return ce.Model, asdict(ce.Model())


@_target
def _Experiment__from_json(_: World) -> Any:
    return ce.Experiment.from_json, {"text": ce.Experiment().to_json()}


def _from_values(**values: Any) -> Any:
    """The experiment of a dictionary, if it can be written as JSON."""
    import json

    try:
        text = json.dumps(values, default=str)
    except (TypeError, ValueError, RecursionError):
        return None
    return ce.Experiment.from_json(text)


@_target
def _Experiment__from_json_with_values(_: World) -> Any:
    return _from_values, asdict(world.tiny_experiment())


@_target
def _run_experiment(given: World) -> Any:
    def run(experiment: Any, dataset: Any, quiet: Any) -> Any:
        import tempfile

        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            return ce.run_experiment(experiment, folder, dataset=dataset, quiet=quiet).score()

    return run, {"experiment": world.tiny_experiment(), "dataset": given.dataset, "quiet": True}


@_target
def _run_experiment__with_settings(given: World) -> Any:
    """A run whose settings are hostile but of the right kind: whatever is not refused must train."""
    tiny = world.tiny_experiment()

    def run(**values: Any) -> Any:
        import tempfile

        experiment = ce.Experiment(
            name="tiny",
            data=tiny.data,
            walk=ce.Walk(num_steps=values["num_steps"], num_eval_steps=5, window_size=values["window_size"],
                         start_share=values["start_share"], strategy=values["strategy"]),
            model=ce.Model(hidden_channels=values["hidden_channels"], num_layers=values["num_layers"],
                           pool=values["pool"], dropout=values["dropout"], kernel_size=values["kernel_size"]),
            training=tr.Training(max_epochs=1, lr=values["lr"], batch_size=values["batch_size"],
                                 device=values["device"]),
            evaluation=tr.Evaluation(num_val_repeats=1, num_test_repeats=values["num_test_repeats"]),
            seed=values["seed"],
        )  # fmt: skip
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            return ce.run_experiment(experiment, folder, dataset=given.dataset, quiet=True).score()

    return run, {"num_steps": 5, "window_size": 4, "start_share": 1.0, "strategy": "uniform", "hidden_channels": 4,
                 "num_layers": 1, "pool": "mean", "dropout": 0.0, "kernel_size": 3, "lr": 1e-3, "batch_size": 4,
                 "device": "cpu", "num_test_repeats": 1, "seed": 0}  # fmt: skip


@_target
def _resume_run(given: World) -> Any:
    return ce.resume_run, {"folder": given.run, "device": "cpu", "dataset": given.dataset, "quiet": True}


@_target
def _TrainedModel__load(given: World) -> Any:
    return ce.TrainedModel.load, {"path": given.run, "device": "cpu"}


@_target
def _TrainedModel__predict(given: World) -> Any:
    return given.trained.predict, {"store": given.store, "num_repeats": 2, "num_steps": 6, "seed": 0, "batch_size": 2}


@_target
def _TrainedModel__predict_graphs(given: World) -> Any:
    """Predictions for hostile graphs: what the store does not refuse, the model must refuse or answer."""

    def predict(graphs: Any) -> Any:
        return given.trained.predict(cd.GraphStore.from_dataset(graphs), num_repeats=1)

    return predict, {"graphs": [Data(x=each.x, edge_index=each.edge_index) for each in world.graphs(4)]}


@_target
def _Features__from_dict(given: World) -> Any:
    return Features.from_dict, {"values": given.trained.features.to_dict()}


# the estimators


_SMALL = {"hidden_channels": 4, "num_layers": 1, "num_steps": 6, "num_eval_steps": 6, "window_size": 4,
          "num_repeats": 1,           "max_epochs": 1, "device": "cpu"}  # fmt: skip


def _fitted(kind: type, X: Any, y: Any, **settings: Any) -> Any:
    """The predictions of an estimator for what it was fitted on."""
    estimator = kind(**settings).fit(X, y)
    return estimator.predict_proba(X) if kind is crawl.CRaWlClassifier else estimator.predict(X)


@_target
def _CRaWlRegressor__fit(_: World) -> Any:
    return functools.partial(_fitted, crawl.CRaWlRegressor), {"X": world.graphs(6), "y": np.arange(6.0), **_SMALL}


@_target
def _CRaWlRegressor__fit_networkx(_: World) -> Any:
    made = [nx.cycle_graph(3 + i) for i in range(6)]
    return functools.partial(_fitted, crawl.CRaWlRegressor, **_SMALL), {"X": made, "y": list(np.arange(6.0))}


@_target
def _CRaWlClassifier__fit(_: World) -> Any:
    return functools.partial(_fitted, crawl.CRaWlClassifier), {"X": world.graphs(6), "y": ["a", "b"] * 3, **_SMALL}


@_target
def _CRaWlClassifier__fit_molecules(_: World) -> Any:
    smiles = ["C", "CC", "CCC", "CCO", "CCN", "c1ccccc1"]
    return functools.partial(_fitted, crawl.CRaWlClassifier, **_SMALL), {"X": smiles, "y": [0, 1] * 3}


@functools.cache
def _regressor() -> Any:
    return crawl.CRaWlRegressor(**_SMALL).fit(world.graphs(6), np.arange(6.0))


@_target
def _CRaWlRegressor__predict(_: World) -> Any:
    return _regressor().predict, {"X": world.graphs(4)}


# crawl.theory


@_target
def _count_walks(_: World) -> Any:
    return ct.count_walks, {"graph": _small(), "num_steps": 3, "strategy": "uniform"}


@_target
def _total_variation(_: World) -> Any:
    return ct.total_variation, {"graph": _small(), "other": nx.cycle_graph(6), "num_steps": 3, "window_size": 2,
                                "strategy": "uniform", "max_states": 1000, "max_terms": 1000}  # fmt: skip


@_target
def _first_difference(_: World) -> Any:
    return ct.first_difference, {"graph": _small(), "other": nx.cycle_graph(6), "window_size": 2, "strategy": "uniform",
                                 "max_states": 1000}  # fmt: skip


@_target
def _estimate_law(_: World) -> Any:
    return ct.estimate_law, {"graph": _small(), "num_steps": 3, "window_size": 2, "strategy": "uniform",
                             "num_walks": 50, "confidence": 0.9, "seed": 0}  # fmt: skip


@_target
def _estimate_total_variation(_: World) -> Any:
    return ct.estimate_total_variation, {
        "graph": _small(), "other": nx.cycle_graph(6), "num_steps": 3, "window_size": 2, "strategy": "uniform",
        "num_walks": 50, "confidence": 0.9, "seed": 0, "max_states": 1000,
    }  # fmt: skip


@_target
def _is_indistinguishable(_: World) -> Any:
    return ct.is_indistinguishable, {"distance": Fraction(1, 10), "num_walks": 5, "epsilon": 0.1}


@_target
def _walks_needed(_: World) -> Any:
    return ct.walks_needed, {"distance": Fraction(1, 10), "confidence": 0.95}


@_target
def _cfi(_: World) -> Any:
    return ct.cfi, {"base": nx.complete_graph(4), "twisted": True, "compact": False}


@_target
def _cycles(_: World) -> Any:
    return ct.cycles, {POSITIONAL: [3, 4]}


@_target
def _three_paths(_: World) -> Any:
    return ct.three_paths, {"n": 3, "uneven": True}


@_target
def _cyclic_skip_links(_: World) -> Any:
    return ct.cyclic_skip_links, {"n": 11, "skip": 2}


@_target
def _named_graph(_: World) -> Any:
    return ct.named_graph, {"name": "csl:11,2"}


@_target
def _isomorphism(_: World) -> Any:
    return ct.isomorphism, {"graph": _small(), "other": nx.cycle_graph(5)}


@_target
def _feature_law(_: World) -> Any:
    return ct.feature_law, {"graph": _small(), "num_steps": 3, "window_size": 2, "strategy": "uniform",
                            "max_entries": 10000}  # fmt: skip


@_target
def _sample_features(_: World) -> Any:
    return ct.sample_features, {"graph": _small(), "num_walks": 5, "num_steps": 3, "window_size": 2,
                                "strategy": "uniform", "seed": 0}  # fmt: skip


@_target
def _reconstruct(_: World) -> Any:
    walk = crawl.sample_walks(world.graph(), 4, window_size=4, start=torch.tensor([0]))
    return ct.reconstruct, {"bits": walk.bits()[0].numpy(), "first": 0, "last": 4}


@_target
def _first_visits(_: World) -> Any:
    return ct.first_visits, {"graph": _small(), "nodes": [0, 1, 2, 1]}


@_target
def _cover_time_bound(_: World) -> Any:
    return ct.cover_time_bound, {"graph": _small()}


@_target
def _visit_probability(_: World) -> Any:
    return ct.visit_probability, {"graph": _small(), "num_steps": 3, "nodes": [0, [1, 2]], "strategy": "uniform"}


@_target
def _color_refinement(_: World) -> Any:
    colors = [np.zeros(5, dtype=np.int64), np.zeros(6, dtype=np.int64)]
    return ct.color_refinement, {POSITIONAL: [_small(), nx.cycle_graph(6)], "colors": colors}


@_target
def _k_wl(_: World) -> Any:
    return ct.k_wl, {POSITIONAL: [_small(), nx.cycle_graph(5)], "k": 2}


@_target
def _separating_round(_: World) -> Any:
    return ct.separating_round, {"graph": _small(), "other": nx.cycle_graph(6), "k": 2}
