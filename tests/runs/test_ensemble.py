"""Ensembles: members with seeds of their own on one split, resumed as a whole, that predict together."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from path_graphs import make_dataset

from crawl.data import Dataset, Split, Task
from crawl.runs import Csv, Experiment, GivenModel, TrainedModel, resume_ensemble, run_ensemble
from crawl.runs.ensemble import Ensemble, member_results, read_ensemble
from crawl.runs.protocol import result_cells, runs_in
from crawl.runs.records import check_record, read_run
from crawl.runs.run import Stopped
from crawl.training import Training


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Fifty paths with a number each."""
    targets = torch.randn(50, 1, generator=torch.Generator().manual_seed(0))
    made = make_dataset(Task(kind="regression", num_outputs=1, target_names=("a",)), targets)
    return replace(made, split=Split(*torch.arange(50).split([20, 22, 8])))


@pytest.fixture(scope="module")
def experiment(tiny: Experiment) -> Experiment:
    training = Training(max_epochs=2, batch_size=10, loss="beta_nll", normalise_targets=True)
    return replace(tiny, training=training, seed=7)


@pytest.fixture(scope="module")
def ensemble(experiment, dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensembles") / "whole"
    return run_ensemble(experiment, folder, num_members=3, dataset=dataset, device="cpu", quiet=True)


def test_its_record_has_members_and_what_they_say_together(ensemble, dataset):
    record = check_record(ensemble.record)
    assert json.loads((ensemble.folder / "result.json").read_text()) == ensemble.record
    members = record["ensemble"]["members"]
    assert [member["folder"] for member in members] == ["member-1", "member-2", "member-3"]
    assert len({member["seed"] for member in members}) == 3
    scores = [member["scores"]["test"] for member in members]
    assert scores == [result.score() for result in member_results(ensemble.folder)]
    assert record["ensemble"]["test"]["mean"] == pytest.approx(np.mean(scores))
    assert record["ensemble"]["test"]["deviation"] == pytest.approx(np.std(scores))
    assert np.std(scores) > 0
    assert len({(ensemble.folder / member["folder"] / "split.json").read_text() for member in members}) == 1
    assert record["scores"]["test"]["of_mean_prediction"] <= max(scores) + 1e-3
    header, *lines = (ensemble.folder / "predictions.csv").read_text().splitlines()
    assert header == "id,target,mean_a,walk_spread_a,model_spread_a,noise_a"
    assert len(lines) == len(dataset.split.test)
    assert record["calibration"]["spreads"] == ["noise", "model_spread"]
    assert read_run(ensemble.folder, "ensemble").is_finished
    assert result_cells(record)["model"] == "CRaWl, 3 models together"
    assert runs_in(ensemble.folder) == ["member-1", "member-2", "member-3"]


def test_it_is_loaded_as_one_model_whose_spreads_are_apart(ensemble, dataset):
    trained = TrainedModel.load(ensemble.folder, "cpu")
    members = [TrainedModel.load(ensemble.folder / f"member-{i}", "cpu") for i in (1, 2, 3)]
    found, each = trained.predict(dataset.store), [member.predict(dataset.store) for member in members]
    assert found.mean == pytest.approx(np.mean([one.mean for one in each], axis=0))
    assert found.model_spread == pytest.approx(np.std([one.mean for one in each], axis=0))
    assert found.walk_spread == pytest.approx(np.mean([one.repeats for one in each], axis=0).std(axis=0))
    assert found.noise == pytest.approx(np.sqrt(np.mean([one.noise**2 for one in each], axis=0)))
    assert trained.spread_names == tuple(found.spreads) == ("walk_spread", "model_spread", "noise")
    lower, upper = trained.interval(found)
    assert (lower < upper).all()
    distances = trained.distances(dataset.store)
    percentiles = [member.distances(dataset.store).percentile for member in members]
    assert distances.percentile == pytest.approx(np.mean(percentiles, axis=0))
    expected = [member.embed(dataset.store) for member in members]
    assert np.array_equal(trained.embed(dataset.store), np.concatenate(expected, axis=1))
    with pytest.raises(ValueError, match="says how to build its models: leave out model"):
        TrainedModel.load(ensemble.folder, "cpu", model=torch.nn.Linear(1, 1))


def test_one_that_was_stopped_is_resumed_to_the_same_result(ensemble, experiment, dataset, tmp_path):
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) == 2  # in the second member: its members have two epochs, and the last does not ask

    how = {"num_members": 3, "dataset": dataset, "device": "cpu", "quiet": True}
    with pytest.raises(Stopped):
        run_ensemble(experiment, tmp_path / "run", stop=stop, **how)
    assert (tmp_path / "run" / "member-1" / "result.json").is_file()
    assert not (tmp_path / "run" / "member-2" / "result.json").exists()
    with pytest.raises(ValueError, match=r"The ensemble .* is not finished: resume it with crawl train --resume"):
        TrainedModel.load(tmp_path / "run", "cpu")
    result = resume_ensemble(tmp_path / "run", dataset=dataset, quiet=True)
    assert result.record["scores"] == ensemble.record["scores"]
    assert result.record["ensemble"] == ensemble.record["ensemble"]
    assert resume_ensemble(tmp_path / "run", dataset=dataset).record["scores"] == ensemble.record["scores"]
    again = run_ensemble(experiment, tmp_path / "run", **how)
    assert again.record["scores"] == ensemble.record["scores"]
    with pytest.raises(ValueError, match="holds another ensemble: choose another folder"):
        run_ensemble(replace(experiment, seed=8), tmp_path / "run", **how)


def test_members_differ_in_their_seeds_and_share_a_split_that_is_drawn(experiment):
    drawn = replace(experiment, data=Csv(targets=("a",)), seed=3)
    members = Ensemble(drawn, 4).members
    assert {member.data_seed for member in members.values()} == {3}
    assert len({member.seed for member in members.values()}) == 4
    assert {replace(member, seed=3, split_seed=None) for member in members.values()} == {drawn}
    again = Ensemble(replace(drawn, split_seed=5), 2).members
    assert {member.split_seed for member in again.values()} == {5}
    given = replace(drawn, data=Csv(targets=("a",), split="part"))
    assert {member.split_seed for member in Ensemble(given, 2).members.values()} == {None}
    assert Experiment.from_json(members["member-1"].to_json()) == members["member-1"]


def test_what_is_not_an_ensemble_is_refused(ensemble, experiment, dataset, tmp_path):
    for number in (0, 1, -3, 1.5, True, "5", None):
        with pytest.raises(ValueError, match="num_members must be"):
            run_ensemble(experiment, tmp_path / "run", num_members=number, dataset=dataset)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match=r"experiment\.model must be a Model"):
        Ensemble(replace(experiment, walk=None, model=GivenModel("a.B")), 2)
    with pytest.raises(ValueError, match=r"it has no ensemble\.json"):
        resume_ensemble(tmp_path)
    with pytest.raises(ValueError, match="cannot be changed by split_seed=1"):
        replace(experiment, split_seed=1)
    with pytest.raises(ValueError, match="split_seed must be"):
        replace(experiment, data=Csv(targets=("a",)), split_seed=-1)
    copy = shutil.copytree(ensemble.folder, tmp_path / "copy")
    content = json.loads((copy / "ensemble.json").read_text())
    for wrong in ({"num_members": 1}, {"experiment": {}, "num_members": "3"}, {"colour": 1}):
        (copy / "ensemble.json").write_text(json.dumps(content | wrong))
        with pytest.raises(ValueError, match=r"ensemble\.json is damaged or of another version"):
            read_ensemble(copy)
    record = json.loads((copy / "result.json").read_text())
    (copy / "result.json").write_text(json.dumps(record | {"ensemble": {"num_members": 10**9}}))
    with pytest.raises(ValueError, match=r"ensemble\.num_members must be"):
        TrainedModel.load(copy, "cpu")
    (copy / "result.json").write_text(json.dumps(record | {"ensemble": {"num_members": 4}}))
    with pytest.raises(ValueError, match=r"There is no checkpoint at .*member-4"):
        TrainedModel.load(copy, "cpu")
    (copy / "result.json").write_text(json.dumps(record | {"ensemble": {}}))
    with pytest.raises(ValueError, match=r"ensemble\.num_members must be"):
        TrainedModel.load(copy, "cpu")
