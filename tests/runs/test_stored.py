"""Ensembles and calibrations in folders to share, and calibrations that do not belong to a model."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from path_graphs import make_dataset

import crawl
from crawl.data import Dataset, Split, Task
from crawl.runs import TrainedModel, run_ensemble, run_experiment
from crawl.runs.saved import read_weights
from crawl.training import Training
from crawl.training.checkpoint import load_checkpoint, save_weights


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Fifty paths with a number each."""
    targets = torch.randn(50, 1, generator=torch.Generator().manual_seed(0))
    made = make_dataset(Task(kind="regression", num_outputs=1, target_names=("a",)), targets)
    return replace(made, split=Split(*torch.arange(50).split([20, 22, 8])))


@pytest.fixture(scope="module")
def ensemble(tiny, dataset, tmp_path_factory) -> Path:
    experiment = replace(tiny, training=Training(max_epochs=1, batch_size=10, normalise_targets=True), seed=7)
    folder = tmp_path_factory.mktemp("stored") / "ensemble"
    return run_ensemble(experiment, folder, num_members=2, dataset=dataset, device="cpu", quiet=True).folder


def error(path: Path) -> str:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        TrainedModel.load(path, "cpu")
    return str(caught.value)


def test_intervals_survive_saving(ensemble, dataset, tmp_path):
    run = TrainedModel.load(ensemble / "member-1", "cpu")
    saved = crawl.from_pretrained(run.save_pretrained(tmp_path / "saved"), "cpu")
    before, after = run.predict(dataset.store), saved.predict(dataset.store)
    assert np.array_equal(before.mean, after.mean)
    assert np.array_equal(run.interval(before), saved.interval(after))
    assert saved.calibration == run.calibration
    assert "model.interval(model.predict(graphs))" in (tmp_path / "saved" / "README.md").read_text()
    assert saved.domain is None


def test_an_ensemble_is_saved_as_one(ensemble, dataset, tmp_path):
    run = TrainedModel.load(ensemble, "cpu")
    folder = run.save_pretrained(tmp_path / "saved", about="Two of them.")
    assert sorted(file.name for file in folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert str(ensemble) not in (folder / "config.json").read_text()
    saved = crawl.from_pretrained(folder, "cpu")
    before, after = run.predict(dataset.store), saved.predict(dataset.store)
    assert np.array_equal(before.repeats, after.repeats)
    assert np.array_equal(before.model_spread, after.model_spread)
    assert np.array_equal(run.interval(before), saved.interval(after))
    assert saved.record["scores"] == run.record["scores"]
    card = (folder / "README.md").read_text()
    assert "2 networks of" in card
    assert "2 models of seeds of their own, 2 epochs in all" in card
    again = saved.save_pretrained(tmp_path / "again", about="Two of them.")
    assert all((again / name).read_bytes() == (folder / name).read_bytes() for name in ("config.json",))
    with pytest.raises(ValueError, match="says how to build its models: leave out model"):
        TrainedModel.load(folder, "cpu", model=torch.nn.Linear(1, 1))
    tuned = run_experiment(run.experiment, tmp_path / "run", dataset=dataset, device="cpu", init=folder, quiet=True)
    assert tuned.record["init"]["run"] == f"{folder}, the first of its 2 models"
    first = load_checkpoint(tmp_path / "run" / "initial.safetensors")[0]
    assert all(torch.equal(first[name], tensor) for name, tensor in run.members[0].model.state_dict().items())


def _rename_target(member) -> None:
    for part in ("features", "data"):
        member[part]["task"]["target_names"] = ["b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values["members"].pop(), "The number of members must be a whole number from 2"),
        (lambda values: values["members"].append(values["members"][0]), "belong to another architecture"),
        (lambda values: values.update(extra=1), "extra"),
        (lambda values: values["calibration"].update(weights="f" * 32), "the calibration is of another model"),
        (lambda values: values["calibration"].update(kind="binary"), "not of a regression task with 1 target"),
        (lambda values: _rename_target(values["members"][1]), "Member 2 of"),
    ],
)
def test_damaged_ensembles(ensemble, tmp_path, change, message):
    folder = TrainedModel.load(ensemble, "cpu").save_pretrained(tmp_path / "saved")
    tensors, description, _ = read_weights(folder)
    change(description)
    save_weights(folder / "model.safetensors", tensors, description)
    (folder / "config.json").write_text(json.dumps(description))
    assert message in error(folder)


def test_a_calibration_of_another_model_is_refused(ensemble, tmp_path):
    folder = shutil.copytree(ensemble, tmp_path / "copy")
    first, second = (folder / f"member-{i}" / "calibration.json" for i in (1, 2))
    kept = first.read_text()
    first.write_text(second.read_text())
    assert "the calibration is of another model" in error(first.parent)
    first.write_text(kept)
    (folder / "calibration.json").write_text(kept)
    assert "the calibration is of another model" in error(folder)
    old = asdict(TrainedModel.load(ensemble, "cpu").calibration) | {"weights": ""}  # as older versions wrote it
    (folder / "calibration.json").write_text(json.dumps(old))
    assert TrainedModel.load(folder, "cpu").calibration.weights == ""


def test_a_copy_of_another_member_is_noticed(ensemble, tmp_path):
    folder = shutil.copytree(ensemble, tmp_path / "copy")
    shutil.rmtree(folder / "member-2")
    shutil.copytree(folder / "member-1", folder / "member-2")
    assert "member-2 holds a model of seed" in error(folder)


def test_intervals_are_of_walks_as_long_as_those_of_the_calibration(ensemble, dataset):
    trained = TrainedModel.load(ensemble, "cpu")
    own = trained.experiment.walk.num_eval_steps
    assert np.array_equal(
        trained.interval(trained.predict(dataset.store, num_steps=own)),
        trained.interval(trained.predict(dataset.store)),
    )
    longer = trained.predict(dataset.store, num_steps=own + 1)
    with pytest.raises(ValueError, match=f"with walks of {own} steps, not of {own + 1}: leave out num_steps"):
        trained.interval(longer)
