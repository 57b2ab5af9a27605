"""What a finished run says about how far to trust its predictions, and that older runs do without."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from path_graphs import make_dataset

from crawl.data import Dataset, Split, Task
from crawl.runs import Result, TrainedModel, run_experiment
from crawl.runs.records import check_record, read_run
from crawl.training import Evaluation, Training


def dataset_of(kind: str) -> Dataset:
    """Sixty paths with two numbers, or with one of three classes."""
    generator = torch.Generator().manual_seed(0)
    split = Split(*torch.arange(60).split([20, 25, 15]))
    if kind == "regression":
        targets = torch.randn(60, 2, generator=generator) * torch.tensor([1.0, 50.0])
        task = Task(kind=kind, num_outputs=2, target_names=("a", "b"))
    else:
        targets = torch.arange(60) % 3
        task = Task(kind=kind, num_outputs=3, target_names=("c",))
    return replace(make_dataset(task, targets), split=split)


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("calibrated")
    training = Training(max_epochs=2, batch_size=10)
    experiments = {
        "regression": replace(tiny, training=replace(training, loss="beta_nll", normalise_targets=True)),
        "multiclass": replace(tiny, training=replace(training, class_weights="balanced")),
    }
    return {
        kind: run_experiment(experiment, folder / kind, dataset=dataset_of(kind), device="cpu", quiet=True)
        for kind, experiment in experiments.items()
    }


def test_intervals_of_a_run(runs):
    record = runs["regression"].record
    assert record["calibration"]["num_val"] == [25, 25]
    assert record["calibration"]["spreads"] == ["noise"]
    of_b = record["calibration"]["by_target"]["b"]["test"]
    trained, dataset = TrainedModel.load(runs["regression"].folder, "cpu"), dataset_of("regression")
    found = trained.predict(dataset.store)
    assert found.noise.shape == (60, 2)
    assert found.noise[:, 1].mean() > 10 * found.noise[:, 0].mean()  # in the unit of each target
    lower, upper = trained.interval(found)
    assert (lower < found.mean).all()
    assert (found.mean < upper).all()
    test = dataset.split.test
    assert of_b["mean_width"] == pytest.approx((upper - lower)[test, 1].mean(), rel=0.2)
    assert of_b["count"] == 15
    wider = trained.interval(found, 0.95)
    assert (wider[1] >= upper).all()
    with pytest.raises(ValueError, match="temperatures are for probabilities"):
        trained.calibrated(found)
    with pytest.raises(ValueError, match="means of 2 evaluations, and these are of 1"):
        trained.interval(trained.predict(dataset.store, num_repeats=1))
    header = (runs["regression"].folder / "predictions.csv").read_text().splitlines()[0]
    assert header == "id,target_a,target_b,mean_a,mean_b,walk_spread_a,walk_spread_b,noise_a,noise_b"


def test_sets_of_a_run(runs):
    record = runs["multiclass"].record["calibration"]["by_target"]["c"]
    assert {"temperature", "val", "test"} == set(record)
    assert record["val"]["nll_scaled"] <= record["val"]["nll"]
    trained, store = TrainedModel.load(runs["multiclass"].folder, "cpu"), dataset_of("multiclass").store
    found = trained.predict(store)
    assert trained.sets(found, 0.8).shape == (60, 1, 3)
    assert trained.calibrated(found).mean.sum(axis=1) == pytest.approx(1)
    with pytest.raises(ValueError, match="predictions must be a Predictions, not"):
        trained.sets(store)


def test_predictions_of_another_model_are_refused(runs, tmp_path):
    trained, store = TrainedModel.load(runs["multiclass"].folder, "cpu"), dataset_of("multiclass").store
    found = trained.predict(store)
    saved = TrainedModel.load(trained.save_pretrained(tmp_path / "saved"), "cpu")
    assert np.array_equal(saved.sets(found), trained.sets(found))  # the same weights
    with torch.no_grad():
        next(trained.model.parameters()).add_(1)
    for function in (saved.sets, saved.calibrated):
        with pytest.raises(ValueError, match="of another model: give what predict of this one has found"):
            function(trained.predict(store))


def test_distances_of_a_run(runs):
    trained, store = TrainedModel.load(runs["regression"].folder, "cpu"), dataset_of("regression").store
    found = trained.distances(store)
    assert found.percentile.shape == found.is_far.shape == (60,)
    assert not found.has_unknown.any()
    assert len(trained.distances(store.subset([])).is_far) == 0
    with pytest.raises(ValueError, match="Distances are of one evaluation: leave out num_repeats"):
        trained.distances(store, num_repeats=2)
    with pytest.raises(TypeError, match="has no setting 'unreadable' of distances"):
        trained.distances(store, unreadable="nan")
    domain = runs["regression"].record["domain"]
    assert domain["num_train"] == 20
    assert domain["test"]["count"] == 15


def test_records_hold_it(runs):
    for result in runs.values():
        assert check_record(result.record)["calibration"] == result.record["calibration"]
        assert read_run(result.folder, "run").is_finished


def test_runs_without_it_still_load_and_predict(runs, tmp_path):
    """As runs of older versions, and checkpoints that were copied."""
    run, store = runs["regression"].folder, dataset_of("regression").store
    copy = shutil.copytree(run, tmp_path / "old")
    (copy / "calibration.json").unlink()
    (copy / "domain.safetensors").unlink()
    for path in (copy, run / "best.safetensors"):
        trained = TrainedModel.load(path, "cpu")
        found = trained.predict(store)
        assert np.isfinite(found.mean).all()
        assert (trained.calibration, trained.domain, trained.knows_distances) == (None, None, False)
        with pytest.raises(ValueError, match=r"no calibration: train one .* \(of an estimator, see validation_fr"):
            trained.interval(found)
        with pytest.raises(ValueError, match="does not know how far"):
            trained.distances(store)


def test_damaged_files_are_refused_by_name(runs, tmp_path):
    copy: Path = shutil.copytree(runs["regression"].folder, tmp_path / "run")
    content = json.loads((copy / "calibration.json").read_text())
    (copy / "calibration.json").write_text(json.dumps(content | {"scores": []}))
    with pytest.raises(ValueError, match=r"calibration\.json is damaged .* remove it to predict without intervals"):
        TrainedModel.load(copy, "cpu")
    (copy / "calibration.json").unlink()
    shutil.copy(copy / "best.safetensors", copy / "domain.safetensors")
    with pytest.raises(ValueError, match=r"domain\.safetensors does not hold"):
        TrainedModel.load(copy, "cpu")


def test_a_small_validation_part_says_why_there_is_no_calibration(finished):
    assert "values of a, and at least 20 are needed" in finished.record["calibration"]["reason"]
    assert "at least 20 are needed" in finished.record["domain"]["reason"]
    trained = TrainedModel.load(finished.folder, "cpu")
    with pytest.raises(ValueError, match="The model has no calibration: the validation part has"):
        trained.known_calibration()


def test_a_given_model_without_embeddings_has_intervals_all_the_same(tiny, tmp_path):
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(2))

        def forward(self, x, edge_index, batch):
            return self.bias.expand(int(batch.max()) + 1, 2)

    experiment = replace(tiny, walk=None, evaluation=Evaluation(), training=Training(max_epochs=1))
    experiment = replace(experiment, model=type(tiny.model)())
    dataset = dataset_of("regression")
    dataset = replace(dataset, store=replace(dataset.store, x=torch.ones(dataset.store.num_nodes, 1)))
    result = run_experiment(experiment, tmp_path / "run", model=Plain(), dataset=dataset, device="cpu", quiet=True)
    assert result.record["domain"] == {"reason": "Plain has no embeddings"}
    assert "by_target" in result.record["calibration"]
