"""Checkpoints with a valid checksum and wrong content."""

from __future__ import annotations

import copy
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from path_graphs import make_dataset

from crawl.cli import main
from crawl.data import Task
from crawl.nn import BLOCKS
from crawl.runs import Model, TrainedModel, resume_run, run_experiment
from crawl.training.checkpoint import load_checkpoint, save_checkpoint

Tensors, Values = dict[str, torch.Tensor], dict[str, Any]
Change = Callable[[Tensors, Values], Any]


def _set(*path: Any, to: Any) -> Change:
    def change(_: Tensors, values: Values) -> None:
        for key in path[:-1]:
            values = values[key]
        values[path[-1]] = to

    return change


def _drop(key: str) -> Change:
    return lambda _, values: values.pop(key)


def _tensor(prefix: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def apply(tensors: Tensors, _: Values) -> None:
        name = next(name for name in sorted(tensors) if name.startswith(prefix) and tensors[name].dim())
        tensors[name] = change(tensors[name])

    return apply


def _rename(prefix: str, to: str) -> Change:
    def apply(tensors: Tensors, _: Values) -> None:
        name = next(name for name in sorted(tensors) if name.startswith(prefix))
        tensors[to] = tensors.pop(name)

    return apply


HUGE = 99999999999999999999
MODELS: dict[str, Change] = {
    "no features": _set("features", to={}),
    "features that are a list": _set("features", to=[]),
    "a feature of another version": _set("features", "colour", to=1),
    "a width that is a word": _set("features", "num_node_features", to="two"),
    "a huge width": _set("features", "num_node_features", to=HUGE),
    "a width that fits nowhere": _set("features", "num_node_features", to=10**9),
    "a negative width": _set("features", "num_node_features", to=-1),
    "categories that are a number": _set("features", "node_categories", to=3),
    "categories that are words": _set("features", "node_categories", to=["a"]),
    "a NaN degree": _set("features", "mean_log_degree", to=math.nan),
    "a task that is a word": _set("features", "task", to="regression"),
    "a task of an unknown kind": _set("features", "task", "kind", to="clustering"),
    "a huge number of outputs": _set("features", "task", "num_outputs", to=HUGE),
    "outputs that are words": _set("features", "task", "num_outputs", to="2"),
    "target names that are numbers": _set("features", "task", "target_names", to=[1, 2]),
    "target names that are one word": _set("features", "task", "target_names", to="ab"),
    "too many class names": _set("features", "task", "class_names", to=["a", "b", "c"]),
    "other target names than the data's": _set("features", "task", "target_names", to=["b", "a"]),
    "the same target name twice": _set("features", "task", "target_names", to=["a", "a"]),
    "too many target names": _set("features", "task", "target_names", to=["a", "b", "c"]),
    "no experiment": _drop("experiment"),
    "an experiment that is a number": _set("experiment", to=3),
    "a huge number of layers": _set("experiment", "model", "num_layers", to=HUGE),
    "other layers": _set("experiment", "model", "num_layers", to=2),
    "a width of 10,000": _set("experiment", "model", "hidden_channels", to=10_000),
    "a share of nothing": _set("experiment", "walk", "start_share", to=0),
    "no scaling": _drop("scaling"),
    "scaling of one number": _set("scaling", to=[1.0]),
    "scaling of words": _set("scaling", to=[["a", "b"], ["c", "d"]]),
    "scaling by zero": _set("scaling", to=[[0.0, 0.0], [0.0, 1.0]]),
    "scaling that is NaN": _set("scaling", to=[[math.nan, 0.0], [1.0, 1.0]]),
    "scaling of three targets": _set("scaling", to=[[0.0] * 3, [1.0] * 3]),
    "no record": _drop("record"),
    "a record that is a list": _set("record", to=[1]),
    "a record without scores": _set("record", to={"data": "paths"}),
    "scores that are words": _set("record", "scores", "test", to="good"),
    "a score that is a word": _set("record", "scores", "test", "mean", to="good"),
    "an infinite score": _set("record", "scores", "test", "mean", to=math.inf),
    "an infinite evaluation": _set("record", "scores", "test", "evaluations", to=[math.inf]),
    "an evaluation that is a word": _set("record", "scores", "val", "evaluations", to=["good"]),
    "a score of a target that is NaN": _set("record", "scores", "test", "by_target", "a", "mean", to=math.nan),
    "no evaluations": _set("record", "scores", "test", to={"mean": 1.0, "internal_deviation": 0.0}),
    "an epoch that is a word": _set("record", "best_epoch", to="last"),
    "versions that are a word": _set("record", "versions", to="all"),
    "weights of another shape": _tensor("", lambda tensor: tensor[:1]),
    "weights of another dtype": _tensor("", lambda tensor: tensor.long()),
    "weights that are NaN": _tensor("", lambda tensor: tensor * torch.nan),
    "weights of another name": _rename("", "weights"),
}

CLASSIFIERS: dict[str, Change] = {
    "names of several targets": _set("features", "task", "target_names", to=["a", "b", "c"]),
    "classes in another order": _set("features", "task", "class_names", to=["yes", "no"]),
    "the same class twice": _set("features", "task", "class_names", to=["yes", "yes"]),
    "the same class twice, also in the data": lambda _, values: [
        values[place]["task"].update(class_names=["yes", "yes"]) for place in ("features", "data")
    ],
    "scaling of classes": _set("scaling", to=[[5.0], [100.0]]),
}

TRAININGS: dict[str, Change] = {
    "no history": _drop("history"),
    "a history that is a word": _set("history", to="long"),
    "a history that is a dictionary": _set("history", to={}),
    "a shorter history": _set("history", to=[]),
    "an epoch that is a word": _set("history", 0, to="first"),
    "an epoch without seconds": _set("history", 0, to={"epoch": 1, "lr": 1.0, "loss": 1.0}),
    "seconds that are words": _set("history", 0, "seconds", to="few"),
    "endless seconds": _set("history", 0, "seconds", to=math.inf),
    "a loss that is missing": _set("history", 0, "loss", to=None),
    "epochs in another order": _set("history", 0, "epoch", to=7),
    "no best epoch": _drop("best_epoch"),
    "a best epoch that is a word": _set("best_epoch", to="last"),
    "a best epoch that is to come": _set("best_epoch", to=100),
    "no schedule": _drop("schedule"),
    "a schedule that is a list": _set("schedule", to=[1]),
    "a schedule with too much": _set("schedule", "settings", to=None),
    "a schedule with too little": _set("schedule", to={"epoch": 1}),
    "an epoch of the schedule that is a word": _set("schedule", "epoch", to="3"),
    "a huge epoch": _set("schedule", "epoch", to=HUGE),
    "a learning rate that is NaN": _set("schedule", "lr", to=math.nan),
    "a huge learning rate": _set("schedule", "lr", to=1e300),
    "a negative learning rate": _set("schedule", "lr", to=-1.0),
    "a best score that is a word": _set("schedule", "best", to="good"),
    "runs at a time that are words": _set("runs_at_a_time", to="two"),
    "a commit that is a number": _set("commit", to=3),
    "weights of another shape": _tensor("model.", lambda tensor: tensor[:1]),
    "weights that are NaN": _tensor("model.", lambda tensor: tensor * torch.nan),
    "best weights of another shape": _tensor("best.", lambda tensor: tensor[:1]),
    "best weights of another dtype": _tensor("best.", lambda tensor: tensor.half()),
    "best weights that are infinite": _tensor("best.", lambda tensor: tensor + torch.inf),
    "no best weights of a name": _rename("best.", "best.nothing"),
    "tensors of another group": _rename("best.", "worst.weights"),
    "moments of another shape": _tensor("optimiser.", lambda tensor: tensor[:1]),
    "moments that are NaN": _tensor("optimiser.", lambda tensor: tensor * torch.nan),
    "moments of nothing": _rename("optimiser.0.exp_avg", "optimiser.1000.exp_avg"),
    "moments without a number": _rename("optimiser.0.exp_avg", "optimiser.first.exp_avg"),
    "moments of another name": _rename("optimiser.0.exp_avg", "optimiser.0.nothing"),
}


def _change(path: Path, change: Change) -> None:
    tensors, values = load_checkpoint(path)
    values = copy.deepcopy(values)
    change(tensors, values)
    save_checkpoint(path, tensors, values)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_refused(finished, tmp_path, capsys, name):
    path = tmp_path / "best.safetensors"
    shutil.copy(finished.folder / "best.safetensors", path)
    _change(path, MODELS[name])
    with pytest.raises(
        ValueError, match=r"best\.safetensors is damaged or of another version|is a checkpoint of an un"
    ):
        TrainedModel.load(path)
    assert main(["info", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"crawl: error: {path} is ")


@pytest.fixture(scope="module")
def classifier(tiny, tmp_path_factory) -> Path:
    """The checkpoint of a model that says no or yes."""
    task = Task(kind="binary", num_outputs=1, metric="accuracy", target_names=("y",), class_names=("no", "yes"))
    folder = tmp_path_factory.mktemp("classifier") / "run"
    run_experiment(tiny, folder, dataset=make_dataset(task, torch.arange(10) % 2))
    return folder / "best.safetensors"


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_is_refused(classifier, tmp_path, name):
    path = tmp_path / "best.safetensors"
    shutil.copy(classifier, path)
    _change(path, CLASSIFIERS[name])
    with pytest.raises(ValueError, match=r"best\.safetensors is damaged or of another version"):
        TrainedModel.load(path)
    assert TrainedModel.load(classifier).features.task.class_names == ("no", "yes")


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_is_refused(finished, paths, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(finished.folder, folder)
    (folder / "result.json").unlink()
    _change(folder / "last.safetensors", TRAININGS[name])
    with pytest.raises(ValueError, match=r"last\.safetensors: .* Without that file, the run begins anew\.$"):
        resume_run(folder, dataset=paths)


@pytest.mark.parametrize("text", ["", "3", "[]", "{", "[" * 100_000])
def test_a_description_that_is_not_one(tmp_path, monkeypatch, text):
    path = tmp_path / "best.safetensors"
    monkeypatch.setattr("crawl.training.checkpoint.json.dumps", lambda _: text)
    save_checkpoint(path, {"weight": torch.ones(2)}, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"^The description in the checkpoint .*best\.safetensors cannot be read"):
        load_checkpoint(path)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_kind_of_model_can_be_loaded(tiny, paths, tmp_path, name):
    layer = {"virtual_node": ("walk", "virtual_node"), "edge_update": ("edge_update", "gine")}.get(name, (name,))
    model = Model(layer, 8, 2)
    experiment = replace(tiny, model=model) if model.has_walks else tiny.without_walks(model)
    result = run_experiment(experiment, tmp_path / "run", dataset=paths)
    assert TrainedModel.load(result.folder).record == result.record


def test_what_is_not_changed_is_accepted(finished, paths, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished.folder, folder)
    (folder / "result.json").unlink()
    for name in ("best", "last"):
        _change(folder / f"{name}.safetensors", lambda *_: None)
    assert TrainedModel.load(folder).record == finished.record
    assert resume_run(folder, dataset=paths).record["scores"] == finished.record["scores"]
