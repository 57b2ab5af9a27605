"""Models in folders to share: what is saved is loaded again, and what was changed is refused."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import crawl
from crawl.runs import TrainedModel, run_experiment
from crawl.runs.saved import read_weights

FILES = ["README.md", "config.json", "model.safetensors"]


@pytest.fixture
def folder(finished, tmp_path):
    return TrainedModel.load(finished.folder, "cpu").save_pretrained(tmp_path / "saved", about="About paths.")


def error(path) -> str:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        TrainedModel.load(path, "cpu")
    return str(caught.value)


def test_what_is_saved_is_loaded_again(folder, finished, paths):
    assert sorted(file.name for file in folder.iterdir()) == FILES
    before, after = TrainedModel.load(finished.folder, "cpu"), TrainedModel.load(folder, "cpu")
    assert np.array_equal(before.predict(paths.store).repeats, after.predict(paths.store).repeats)
    assert (after.experiment, after.features, after.scaling) == (before.experiment, before.features, before.scaling)
    after.check_data(paths)
    assert after.record["scores"] == before.record["scores"]
    assert "where" not in after.record
    again = after.save_pretrained(folder.parent / "again", about="About paths.")
    assert all((again / name).read_bytes() == (folder / name).read_bytes() for name in FILES[1:])


def test_the_card(folder, finished):
    text = (folder / "README.md").read_text()
    assert "About paths." in text
    assert "it predicts a, b" in text
    assert f"| test | {finished.record['scores']['test']['mean']:.4f} |" in text
    assert finished.record["commit"] in text
    record = finished.record
    assert f"{record['num_epochs']} epochs; the best by validation was epoch {record['best_epoch']}" in text
    assert str(finished.folder) not in text + (folder / "config.json").read_text()


def test_a_fitted_estimator_can_be_saved(tmp_path):
    small = {"hidden_channels": 8, "num_layers": 1, "window_size": 4, "num_steps": 6, "num_eval_steps": 6}
    graphs = [nx.cycle_graph(n) for n in range(4, 10)]
    fitted = crawl.CRaWlRegressor(**small, max_epochs=1, device="cpu").fit(graphs, range(6))
    folder = fitted.model_.save_pretrained(tmp_path / "saved")
    assert "which keeps no record" in (folder / "README.md").read_text()
    found = crawl.from_pretrained(folder, "cpu").predict(graphs, seed=fitted.model_.experiment.seed)
    assert np.array_equal(found.mean[:, 0], fitted.predict(graphs))


def test_folders_in_use(folder, finished, tmp_path):
    model = TrainedModel.load(finished.folder, "cpu")
    with pytest.raises(ValueError, match=r"exists already: choose another folder, or say overwrite=True\."):
        model.save_pretrained(folder)
    (folder / "README.md").write_text("old")
    model.save_pretrained(folder, overwrite=True)
    assert (folder / "README.md").read_text() != "old"
    with pytest.raises(ValueError, match=r"exists already: choose another folder\."):
        model.save_pretrained(finished.folder, overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="exists already"):
        model.save_pretrained(tmp_path / "file")


def test_changed_bytes(folder):
    weights = folder / "model.safetensors"
    good = bytearray(weights.read_bytes())
    bad = bytearray(good)
    bad[-5] ^= 1
    weights.write_bytes(bad)
    assert error(folder).endswith("do not match their checksum: one was changed or damaged.")
    weights.write_bytes(good[:-8])
    assert "truncated or damaged" in error(folder)
    weights.write_bytes(pickle.dumps({"weight": 1}))
    assert "truncated or damaged" in error(folder)
    weights.unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(1))  # which nobody reads
    assert "config.json is damaged or of another version" in error(folder)  # it is not that of a run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values["experiment"].update(seed=99), "do not match their checksum"),
        (lambda values: values.update(extra=1), "do not match their checksum"),
        (lambda values: values.pop("features"), "do not match their checksum"),
        (lambda values: values.update(format="other"), "does not describe a model that was saved"),
        (lambda values: values.clear(), "does not describe a model that was saved"),
    ],
)
def test_another_configuration(folder, change, message):
    values = json.loads((folder / "config.json").read_text())
    change(values)
    (folder / "config.json").write_text(json.dumps(values))
    assert message in error(folder)


def test_space_in_the_configuration_does_not_count(folder):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text())))
    assert TrainedModel.load(folder, "cpu").features.task.num_outputs == 2


def test_text_that_is_not_json(folder):
    for text in ("{", "[" * 200 + "]" * 200, "\x00"):
        (folder / "config.json").write_text(text)
        assert "config.json is damaged or of another version" in error(folder)


def test_a_part_of_a_saved_model(folder):
    assert error(folder / "model.safetensors").endswith(f"is a part of a saved model: give its folder, {folder}.")


def test_a_valid_checksum_does_not_make_a_description_valid(folder):
    from crawl.training.checkpoint import save_weights

    tensors, description, _ = read_weights(folder)
    description["scaling"] = [[1.0], [1.0]]
    save_weights(folder / "model.safetensors", tensors, description)
    (folder / "config.json").write_text(json.dumps(description))
    assert "scaling must have a mean and a positive deviation for each target" in error(folder)


def test_fine_tuning_from_a_saved_model(folder, tiny, paths, tmp_path):
    run = run_experiment(replace(tiny, seed=3), tmp_path / "run", dataset=paths, device="cpu", init=folder)
    assert run.record["init"] == {"run": str(folder), "taken": run.record["init"]["taken"], "fresh": []}
