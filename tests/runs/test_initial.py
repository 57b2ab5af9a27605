"""Runs that begin with the weights of another run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from crawl.runs import resume_run, run_experiment
from crawl.runs.build import build_model
from crawl.runs.features import Features
from crawl.runs.initial import InitialWeights
from crawl.runs.run import Stopped
from crawl.training.checkpoint import load_checkpoint


def test_all_weights_of_the_same_network_are_taken(tiny, paths, finished, tmp_path, capsys):
    result = run_experiment(tiny, tmp_path / "run", dataset=paths, device="cpu", init=finished.folder, quiet=False)
    line = f"11 of 11 modules begin with weights of {finished.folder}."
    assert line in capsys.readouterr().err
    about = result.record["init"]
    assert (about["run"], len(about["taken"]), about["fresh"]) == (str(finished.folder), 11, [])
    given, first = (
        load_checkpoint(path)[0]
        for path in (finished.folder / "best.safetensors", tmp_path / "run" / "initial.safetensors")
    )
    assert given.keys() == first.keys()
    assert all(torch.equal(given[name], first[name]) for name in given)
    assert "init" not in finished.record
    assert not (finished.folder / "initial.safetensors").exists()


def test_modules_of_other_shapes_and_names_are_fresh(tiny, paths, finished):
    features = Features.of(paths)
    for change, fresh in (
        ({"head": "linear"}, ["readout.head"]),
        ({"layer": ("walk", "feed_forward")}, ["blocks.1.first", "blocks.1.norm", "blocks.1.last"]),
    ):
        experiment = replace(tiny, seed=5, model=replace(tiny.model, **change))
        model, before = (build_model(experiment, features) for _ in range(2))
        found = InitialWeights.take(model, finished.folder)
        assert found.fresh == fresh
        assert str(found).endswith(f"; fresh: {', '.join(fresh)}.")
        best, old = load_checkpoint(finished.folder / "best.safetensors")[0], before.state_dict()
        for name, tensor in model.state_dict().items():
            is_fresh = name.rpartition(".")[0] in fresh
            assert torch.equal(tensor, old[name] if is_fresh else best[name]), name


def test_a_module_is_taken_as_a_whole(tiny, paths, finished):
    """The number of batches that a norm has seen has the same shape in all norms."""
    wider = replace(tiny, model=replace(tiny.model, hidden_channels=12))
    model = build_model(wider, Features.of(paths))
    with pytest.raises(ValueError, match=r"No weights of .*run fit the model in name and shape"):
        InitialWeights.take(model, finished.folder)
    assert int(model.readout.norm.num_batches_tracked) == 0


def test_a_run_is_resumed_without_the_one_it_began_with(tiny, paths, finished, tmp_path):
    whole = run_experiment(
        tiny, tmp_path / "whole", dataset=paths, device="cpu", init=finished.folder / "best.safetensors"
    )
    fresh = run_experiment(tiny, tmp_path / "fresh", dataset=paths, device="cpu")
    assert whole.record["scores"] != fresh.record["scores"]
    with pytest.raises(Stopped):
        run_experiment(
            tiny,
            tmp_path / "part",
            dataset=paths,
            device="cpu",
            init=finished.folder / "best.safetensors",
            stop=lambda: True,
        )
    again = resume_run(tmp_path / "part", dataset=paths)
    (tmp_path / "part" / "last.safetensors").unlink()  # as if it had been killed before its first checkpoint
    (tmp_path / "part" / "result.json").unlink()
    anew = resume_run(tmp_path / "part", dataset=paths)
    for result in (again, anew):
        assert result.record["scores"] == whole.record["scores"]
        assert result.record["init"] == whole.record["init"]


def test_what_cannot_be_begun_with_is_refused(tiny, paths, finished, tmp_path):
    for init, message in (
        (tmp_path / "nothing", "There is no checkpoint at"),
        (tmp_path, "is not the folder of a run"),
        (finished.folder / "last.safetensors", "No weights of"),
    ):
        with pytest.raises(ValueError, match=message):
            run_experiment(tiny, tmp_path / "run", dataset=paths, device="cpu", init=init)
    with pytest.raises(Stopped):
        run_experiment(tiny, tmp_path / "part", dataset=paths, device="cpu", stop=lambda: True)
    with pytest.raises(ValueError, match="is not finished: resume it with resume_run"):
        run_experiment(tiny, tmp_path / "run", dataset=paths, device="cpu", init=tmp_path / "part")
    assert not (tmp_path / "run").exists()
