"""What was once accepted in silence, point by point: each case is refused by name, or comes out right."""

from __future__ import annotations

import csv
import json
import os
import pickle
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import crawl
from crawl.cli import main
from crawl.data import GraphStore, from_csv, from_folder, from_pyg
from crawl.runs import Experiment, TrainedModel, run_experiment
from crawl.training.checkpoint import load_checkpoint, save_checkpoint
from tests.fuzz import world as made
from tests.fuzz.oracle import judge_call, judge_command, time_limit
from tests.fuzz.world import MOLECULES, TINY, World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("named"))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRAWL_DATA", str(tmp_path / "data-root"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def refused(call: Callable[[], Any]) -> str:
    """The message of the error with which a call is refused."""
    kind, outcome = judge_call(call, 30)
    assert kind == "refused", f"{kind}: {outcome!r:.300}"
    return str(outcome)


def refused_command(*words: str | Path) -> str:
    """The line with which a command is refused."""
    kind, outcome = judge_command(lambda: main([str(word) for word in words]), 30)
    assert kind == "refused", f"{kind}: {outcome}"
    return str(outcome)


def done(*words: str | Path) -> None:
    """Run a command that must succeed."""
    kind, outcome = judge_command(lambda: main([str(word) for word in words]), 60)
    assert (kind, outcome) == ("result", 0), f"{kind}: {outcome}"


# 1: code runs from data


class Payload:
    """Its pickle touches a file when it is read."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.canary,)


def _raw_files(benchmark: str) -> tuple[str, ...]:
    from crawl.data.benchmarks import BENCHMARKS

    published = BENCHMARKS[benchmark].form
    assert published is not None
    return published.files


@pytest.mark.parametrize("benchmark", ["zinc", "mnist", "cifar10", "pascalvoc_sp", "peptides_func", "peptides_struct"])
def test_1_no_code_runs_from_an_imported_file(benchmark: str, tmp_path: Path) -> None:
    raw, canary = tmp_path / "raw", tmp_path / "canary"
    raw.mkdir()
    for name in _raw_files(benchmark):
        if name.endswith(".index"):
            (raw / name).write_text("0,1,2\n")
        elif name.endswith(".pt"):
            torch.save(Payload(canary), raw / name)
        else:
            (raw / name).write_bytes(pickle.dumps(Payload(canary)))
    refused_command("datasets", "import", benchmark, raw, "--data-root", tmp_path / "root")
    assert not canary.exists()


# 3: devices are destroyed


def _device(path: Path) -> Path:
    try:
        os.mknod(path, 0o20666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can make a device")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_3_walks_are_written_to_a_device(suffix: str, world: World, tmp_path: Path) -> None:
    device = _device(tmp_path / f"null{suffix}")
    done("walk", world.edges, "--num-steps", "3", "-o", device)
    assert stat.S_ISCHR(device.lstat().st_mode)


def test_3_predictions_are_written_to_a_device(world: World, tmp_path: Path) -> None:
    device = _device(tmp_path / "null")
    done("predict", world.csv_run, world.csv, "-o", device)
    assert stat.S_ISCHR(device.lstat().st_mode)


def test_3_a_link_is_followed(world: World, tmp_path: Path) -> None:
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    done("walk", world.edges, "--num-steps", "3", "-o", link)
    assert link.is_symlink()
    assert target.read_text().startswith("node_0")


def test_3_a_pipe_is_written_to(world: World, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    done("walk", world.edges, "--num-steps", "3", "-o", pipe)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    reader.join(10)
    assert read
    assert read[0].startswith("node_0")


# 4: evaluation against other classes; 5: changed data


def test_4_classes_are_compared_by_name(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(MOLECULES.replace(",no,", ",zz,"))
    line = refused_command("evaluate", world.csv_run, "--data", other)
    assert "zz" in line
    assert "yes" in line


@pytest.mark.parametrize("old_and_new", [("yes", "no"), ("CCCCN", "CCCCF")], ids=["targets", "graphs"])
def test_5_changed_data_are_refused(old_and_new: tuple[str, str], world: World, tmp_path: Path) -> None:
    path, run = tmp_path / "data.csv", tmp_path / "run"
    path.write_text(MOLECULES)
    words = ["--data.path", path, "--data.targets", "active", "--data.split", "part", "--quiet", *TINY]
    done("train", "csv", *words, "--out", run)
    old, new = old_and_new
    path.write_text(MOLECULES.replace(old, "tmp").replace(new, old).replace("tmp", new))
    refused_command("evaluate", run)
    (run / "result.json").unlink()  # as if it had been stopped
    refused_command("train", "--resume", run, "--quiet")


# 6: features at prediction


def test_6_graphs_without_the_features_of_training(world: World) -> None:
    bare = GraphStore.from_graphs([Data(edge_index=made.edges(4), num_nodes=4)])
    refused(lambda: world.trained.predict(bare))


def test_6_graphs_with_features_that_were_not_in_training(tmp_path: Path) -> None:
    bare = [Data(edge_index=each.edge_index, num_nodes=each.num_nodes, y=each.y) for each in made.graphs(10)]
    run = run_experiment(made.tiny_experiment(), tmp_path / "run", dataset=from_pyg(bare), quiet=True).folder
    trained = TrainedModel.load(run, "cpu")
    wide = GraphStore.from_graphs([Data(x=torch.rand(4, 1), edge_index=made.edges(4))])
    refused(lambda: trained.predict(wide))


def test_6_edge_features_that_were_not_in_training(world: World) -> None:
    graph = made.data(4)
    store = GraphStore.from_graphs([Data(x=graph.x, edge_index=graph.edge_index, edge_attr=graph.edge_attr)])
    refused(lambda: world.trained.predict(store))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["x", "edge_attr", "y"])
def test_6_numbers_that_are_not_finite(where: str, number: float) -> None:
    graphs = [made.data(3 + i % 4, i) for i in range(10)]
    graphs[4][where] = graphs[4][where].clone().fill_(number)
    refused(lambda: from_pyg(graphs))


def test_6_nan_at_prediction(world: World) -> None:
    def predict() -> Any:
        graph = Data(x=torch.full((4, 2), torch.nan), edge_index=made.edges(4))
        return world.trained.predict(GraphStore.from_graphs([graph]))

    refused(predict)


# 7: precision of targets


def test_7_targets_far_from_zero_keep_their_differences() -> None:
    targets = [1e9 + i for i in range(10)]
    graphs = made.graphs(10)
    for graph, target in zip(graphs, targets, strict=True):
        graph.y = torch.tensor([target], dtype=torch.float64)
    kind, outcome = judge_call(lambda: from_pyg(graphs), 10)
    assert kind in ("result", "refused"), outcome
    if kind == "result":
        y = outcome.store.y.double().flatten().numpy()
        assert np.ptp(y) == pytest.approx(9, rel=1e-3)
        assert len(np.unique(y)) == 10


def test_7_estimators_keep_the_differences() -> None:
    targets = 1e9 + np.arange(12.0)
    settings: dict[str, Any] = {
        "hidden_channels": 4,
        "num_layers": 1,
        "num_steps": 6,
        "num_eval_steps": 6,
        "window_size": 4,
    }
    model = crawl.CRaWlRegressor(**settings, max_epochs=1, num_repeats=1, device="cpu")
    kind, outcome = judge_call(lambda: model.fit(made.graphs(12), targets), 30)
    assert kind in ("result", "refused"), outcome
    if kind == "result":
        assert model.model_.scaling.deviation[0] == pytest.approx(np.std(np.arange(12)), rel=0.3)


# 8: ambiguity


def test_8_four_nodes_with_four_targets_each() -> None:
    graphs = [Data(edge_index=made.edges(4), num_nodes=4, y=torch.rand(4)) for _ in range(10)]
    assert "level" in refused(lambda: from_pyg(graphs))


# 9: false records


@pytest.mark.parametrize(
    "flags",
    [
        ("--data.split", "nonsense"),
        ("--data.root", "/nope"),
        ("--model.layer", "gin", "--model.kernel-size", "3"),
        ("--model.layer", "gin", "--walk.window-size", "4"),
        ("--walk.strategy", "node2vec"),
    ],
    ids=["split", "root", "kernel of GIN", "walks of GIN", "node2vec"],
)
def test_9_settings_that_do_nothing(flags: tuple[str, ...], tmp_path: Path) -> None:
    refused_command("train", "csl", *TINY, *flags, "--out", tmp_path / "run", "--quiet")


def test_9_data_of_ones_own_are_not_recorded_as_csl(world: World, tmp_path: Path) -> None:
    kind, outcome = judge_call(
        lambda: run_experiment(made.tiny_experiment(), tmp_path / "run", dataset=world.dataset, quiet=True), 30
    )
    assert kind in ("result", "refused"), outcome
    if kind == "result":
        written = json.loads((tmp_path / "run" / "config.json").read_text())
        assert written["data"]["name"] != "csl"


# 10: edge features that are given and not used


def test_10_edge_weights_of_data_are_used_or_refused() -> None:
    weighted = Data(edge_index=made.edges(4), num_nodes=4, edge_weight=torch.rand(8) + 0.1)
    kind, outcome = judge_call(lambda: crawl.Graph.from_data(weighted), 10)
    assert kind == "refused" or (kind == "result" and outcome.is_weighted), outcome


def test_10_edge_features_that_the_model_does_not_take() -> None:
    refused(lambda: made.model(edge_dim=0).eval()(made.data(), seed=1))


# 11: unseen categories


def test_11_a_category_that_fit_had_not_seen() -> None:
    def graphs(number: int, largest: int) -> list[Data]:
        return [Data(x=torch.full((4, 1), i % (largest + 1)), edge_index=made.edges(4)) for i in range(number)]

    settings: dict[str, Any] = {
        "hidden_channels": 4,
        "num_layers": 1,
        "num_steps": 6,
        "num_eval_steps": 6,
        "window_size": 4,
    }
    model = crawl.CRaWlRegressor(**settings, max_epochs=1, num_repeats=1, device="cpu")
    model.fit(graphs(10, 1), np.arange(10.0))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        answer = model.predict(graphs(6, 2))
    assert np.isfinite(answer).all()
    assert len([each for each in seen if "categor" in str(each.message).lower()]) == 1


# 12: targets as others write them


def _bracketed(path: Path, cells: list[str]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["SMILES", "y"])
        writer.writerows((i * "C", cell) for i, cell in enumerate(cells, start=1))
    return path


def test_12_numbers_in_brackets(tmp_path: Path) -> None:
    path = _bracketed(tmp_path / "a.csv", [f"[{i - 2.06}]" for i in range(12)])
    kind, outcome = judge_call(lambda: from_csv(path), 10)
    assert kind in ("result", "refused"), outcome
    if kind == "result":
        assert outcome.task.kind == "regression"
    else:
        assert "bracket" in outcome.lower() or "list" in outcome.lower()


def test_12_classes_in_brackets(tmp_path: Path) -> None:
    path = _bracketed(tmp_path / "a.csv", [f"[{i % 2}]" for i in range(12)])
    kind, outcome = judge_call(lambda: from_csv(path), 10)
    assert kind in ("result", "refused"), outcome
    if kind == "result":
        assert outcome.task.class_names == ("0", "1")


# 15: hostile files and numbers


@pytest.mark.parametrize("suffix", [".json", ".graphml", ".txt"])
def test_15_json_of_great_depth(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"deep{suffix}"
    path.write_text("[" * 100_000 + "]" * 100_000)
    refused_command("distinguish", path, "rook", "--num-steps", "3")


def test_15_a_split_of_great_depth(world: World, tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000 + "]" * 100_000)
    refused_command("train", "csv", "--data.path", world.csv, "--data.targets", "logS", "--data.split", path, *TINY)


@pytest.mark.parametrize(
    "name", ["cycle:99999999999", "csl:99999999999999,3", "paths:99999999999", "cycle:" + 5000 * "9"]
)
def test_15_names_of_great_graphs(name: str) -> None:
    began = time.perf_counter()
    refused_command("distinguish", name, "rook")
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    "flag",
    [
        "--model.num-layers",
        "--model.hidden-channels",
        "--walk.num-steps",
        "--training.batch-size",
        "--walk.window-size",
    ],
)
def test_15_great_numbers(flag: str, tmp_path: Path) -> None:
    refused_command("train", "csl", *TINY, flag, "99999999999999999999", "--out", tmp_path / "run", "--quiet")


@pytest.mark.parametrize(
    "place", [("scaling",), ("features", "task"), ("features",), ("experiment", "model"), ("record",), ("experiment",)]
)
@pytest.mark.parametrize("value", [None, 5, [], "a", {"a": [1]}], ids=["null", "number", "list", "word", "object"])
def test_15_a_crafted_checkpoint(place: tuple[str, ...], value: Any, world: World, tmp_path: Path) -> None:
    tensors, description = load_checkpoint(world.csv_run / "best.safetensors")
    inner = description
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = tmp_path / "best.safetensors"
    save_checkpoint(path, tensors, description)
    kind, outcome = judge_command(lambda: main(["info", str(path)]), 30)
    assert kind == "refused" or (kind == "result" and place == ("record",)), outcome  # a record is only shown


def test_15_a_long_chain_in_a_scaffold_split_is_quick(tmp_path: Path) -> None:
    path = tmp_path / "chain.csv"
    rows = [f"{i * 'C'}c1ccccc1{i * 'N'},{i}.5" for i in range(1, 12)] + [
        f"{3000 * 'C'},7.5",
        "C1CCCC1,2.5",
        "C1CCC1,3.5",
    ]
    path.write_text("SMILES,y\n" + "\n".join(rows) + "\n")
    began = time.perf_counter()
    kind, outcome = judge_call(lambda: from_csv(path, split="scaffold", fractions=(0.5, 0.25, 0.25)), 30)
    assert kind in ("result", "refused"), outcome
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("content", ["[" * 100_000, '{"nodes": 5}', "<a/>", "\0"], ids=["deep", "number", "xml", "nul"])
@pytest.mark.parametrize("suffix", ["json", "graphml"])
def test_15_one_bad_file_in_a_folder_is_skipped(content: str, suffix: str, tmp_path: Path) -> None:
    for i in range(12):
        nx.write_graphml(nx.cycle_graph(3 + i), tmp_path / f"g{i}.graphml")
    (tmp_path / f"bad.{suffix}").write_text(content)
    rows = [f"g{i}.graphml,{i}.5" for i in range(12)] + [f"bad.{suffix},1.5"]
    (tmp_path / "labels.csv").write_text("file,y\n" + "\n".join(rows) + "\n")
    with time_limit(20):
        dataset = from_folder(tmp_path)
    assert len(dataset) == 12
    assert len(dataset.skipped) == 1
    assert f"bad.{suffix}" in dataset.skipped[0]


# 16: wrong types in Python


def _weighted(weight: Any) -> nx.Graph:
    graph = nx.path_graph(3)
    nx.set_edge_attributes(graph, weight, "weight")
    return graph


_EDGES = torch.tensor([[0, 1], [1, 0]])
_STORE = GraphStore.from_graphs([Data(edge_index=_EDGES, num_nodes=2)])
_WRONG_TYPES: dict[str, Callable[[], Any]] = {
    "weight 10**400": lambda: crawl.Graph.from_networkx(_weighted(10**400), weight="weight"),
    "a number no one can print": lambda: crawl.Graph.from_edge_index(_EDGES, num_nodes=10**5000),
    "0-dimensional x": lambda: GraphStore.from_graphs([Data(edge_index=_EDGES, x=torch.tensor(1.0), num_nodes=2)]),
    "batch of nothing": lambda: _STORE.batch(None),  # type: ignore[arg-type]
    "batch of words": lambda: _STORE.batch(["0"]),  # type: ignore[list-item]
    "sparse edge_index": lambda: crawl.Graph.from_edge_index(_EDGES.to_sparse()),
    "sparse x": lambda: GraphStore.from_graphs([Data(edge_index=_EDGES, x=torch.eye(2).to_sparse())]),
    "sparse x in the model": lambda: crawl.CRaWl(2, 1, num_eval_steps=9).eval()(
        Data(edge_index=_EDGES, x=torch.eye(2).to_sparse())
    ),
    "meta edge_index": lambda: crawl.Graph.from_edge_index(_EDGES.to("meta")),
    "meta x": lambda: GraphStore.from_graphs([Data(edge_index=_EDGES, x=torch.zeros(2, 1, device="meta"))]),
    "complex x": lambda: GraphStore.from_graphs([Data(edge_index=_EDGES, x=torch.zeros(2, 1, dtype=torch.complex64))]),
    "complex x in the model": lambda: crawl.CRaWl(1, 1, num_eval_steps=9).eval()(
        Data(edge_index=_EDGES, x=torch.ones(2, 1) * 1j)
    ),
    "num_steps of a word": lambda: crawl.CRaWl(1, 1, num_steps="a"),  # type: ignore[arg-type]
    "num_steps below zero": lambda: crawl.CRaWl(1, 1, num_steps=-3),
    "no outputs": lambda: crawl.CRaWl(1, 0),
    "half an output": lambda: crawl.CRaWl(1, 1.5),  # type: ignore[arg-type]
    "no inputs": lambda: crawl.CRaWl(0, 1),
    "many layers": lambda: crawl.CRaWl(1, 1, num_layers=10**20),
    "dropout of a word": lambda: crawl.CRaWl(1, 1, dropout="a"),  # type: ignore[arg-type]
    "dropout that is not a number": lambda: crawl.CRaWl(1, 1, dropout=float("nan")),
    "start share of a word": lambda: crawl.CRaWl(1, 1, start_share="a"),  # type: ignore[arg-type]
    "no graph": lambda: crawl.sample_walks(None),  # type: ignore[arg-type]
    "a device that is none": lambda: _STORE.to("nowhere"),
    "graphs that are none": lambda: GraphStore.from_graphs(5),  # type: ignore[arg-type]
    "a learning rate of a word": lambda: crawl.CRaWlRegressor(lr="a").fit(made.graphs(6), np.arange(6.0)),
}


@pytest.mark.parametrize("name", _WRONG_TYPES)
def test_16_wrong_types(name: str) -> None:
    refused(_WRONG_TYPES[name])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16])
def test_16_ids_of_any_integer_type(dtype: torch.dtype) -> None:
    graph = crawl.Graph.from_edge_index(_EDGES.to(dtype), batch=torch.tensor([0, 0]).to(dtype))
    assert graph.col.tolist() == [1, 0]
    store = GraphStore.from_graphs([Data(edge_index=_EDGES.to(dtype), num_nodes=2)] * 3)
    assert store.batch(torch.tensor([2, 0]).to(dtype)).edge_index.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]


def test_16_one_data_is_a_store_of_one_graph() -> None:
    store = GraphStore.from_dataset(made.data())
    assert len(store) == 1
    assert torch.equal(store.graph(0).x, made.data().x)


def test_16_from_pyg_of_one_data() -> None:
    one, two, three = made.graphs(3)
    assert "val" in refused(lambda: from_pyg(one))
    kind, outcome = judge_call(lambda: from_pyg(one, two, three), 10)
    assert kind == "result", outcome
    assert (len(outcome), outcome.task.level) == (3, "graph")


def test_16_class_ids_are_refused_or_numbered_anew() -> None:
    graphs = [Data(edge_index=made.edges(4), num_nodes=4, y=torch.tensor([(7, 100_000, 9)[i % 3]])) for i in range(12)]
    kind, outcome = judge_call(lambda: from_pyg(graphs, task="multiclass"), 20)
    assert kind in ("result", "refused"), outcome
    if kind == "result":
        assert outcome.task.num_outputs == 3
        assert set(outcome.task.class_names) == {"7", "9", "100000"}


def test_16_category_ids_are_refused_or_numbered_anew() -> None:
    graphs = made.graphs(12)
    for i, graph in enumerate(graphs):
        graph.x = torch.tensor([0, 100_000_000, 3, 4, 5, 6])[: graph.num_nodes].clone() + i % 2
    kind, outcome = judge_call(lambda: from_pyg(graphs), 20)
    assert kind in ("result", "refused"), outcome
    if kind == "result":
        assert sum(outcome.node_categories) < 1000


def test_an_experiment_that_is_not_json() -> None:
    refused(lambda: Experiment.from_json("[" * 100_000))
