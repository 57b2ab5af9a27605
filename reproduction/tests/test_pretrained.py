"""The models of the package can be made again."""

from __future__ import annotations

from dataclasses import replace

import pytest

import crawl
from crawl.runs import Experiment
from crawl.runs.packaged import packaged_models
from reproduction.pretrained import PLANNED, make_pretrained


def test_all_are_planned_as_they_were_trained():
    assert packaged_models().keys() == PLANNED.keys()
    for name, planned in PLANNED.items():
        trained = crawl.from_pretrained(name, "cpu")
        assert trained.record["seed"] == planned.experiment.seed
        assert max(1, len(trained.members)) == planned.num_members
        for part in ("name", "data", "walk", "model", "training", "evaluation", "encodings"):
            assert getattr(trained.experiment, part) == getattr(planned.experiment, part), (name, part)


def _quick(experiment: Experiment) -> Experiment:
    model = replace(experiment.model, hidden_channels=8, num_layers=1)
    evaluation = replace(experiment.evaluation, num_val_repeats=1, num_test_repeats=1)
    training = replace(experiment.training, max_epochs=1)
    return replace(experiment, model=model, training=training, evaluation=evaluation)


def test_they_are_made_and_only_saved_again(tmp_path):
    plans = {"csl": replace(PLANNED["csl"], experiment=_quick(PLANNED["csl"].experiment))}
    how = {"package": tmp_path / "package", "device": "cpu", "planned": plans}
    (saved,) = make_pretrained((), tmp_path / "runs", **how)
    weights = (saved / "model.safetensors").read_bytes()
    assert make_pretrained(("csl",), tmp_path / "runs", **how) == [saved]
    assert (saved / "model.safetensors").read_bytes() == weights
    assert "It tells apart the ten classes" in (saved / "README.md").read_text()


def test_what_is_missing(tmp_path):
    with pytest.raises(ValueError, match=r"esol needs esol\.csv\.gz, molecules with a split: give the folder"):
        make_pretrained(("esol",), tmp_path)
    with pytest.raises(ValueError, match="it is not in"):
        make_pretrained(("lipo",), tmp_path, data=tmp_path)
    with pytest.raises(ValueError, match="A model for the package must be one of csl, esol, lipo, zinc, not 'gin'"):
        make_pretrained(("gin",), tmp_path)
