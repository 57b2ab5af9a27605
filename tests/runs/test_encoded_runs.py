"""Runs with structural encodings: recorded, resumed and computed again at prediction; others stay as they were."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from crawl.data import with_encodings
from crawl.encodings import Encodings
from crawl.nn import Dense, OneHot, WithEncodings
from crawl.runs import Experiment, Model, TrainedModel, resume_run, run_experiment
from crawl.runs.build import build_model
from crawl.runs.features import Features
from crawl.runs.run import Stopped
from crawl.training import Training
from crawl.training.evaluation import predict
from crawl.training.seeds import derive_seed

ENCODINGS = Encodings(return_steps=4, walk_steps=3, longest_cycle=5)


@pytest.fixture(scope="module")
def encoded(tiny):
    return replace(tiny, encodings=ENCODINGS)


@pytest.fixture(scope="module")
def categories(paths):
    """The example with categories instead of numbers."""
    x = torch.arange(len(paths.store.x)).remainder(3)[:, None]
    return replace(paths, store=replace(paths.store, x=x), node_categories=(3,))


@pytest.fixture(scope="module")
def run(encoded, categories, tmp_path_factory):
    return run_experiment(encoded, tmp_path_factory.mktemp("encoded") / "run", dataset=categories, device="cpu")


def test_a_configuration_names_encodings_if_there_are_any(tiny, encoded, finished, run):
    assert "encodings" not in json.loads(tiny.to_json())
    assert "encodings" not in finished.record["config"]
    expected = {"return_steps": 4, "walk_steps": 3, "longest_cycle": 5}
    assert json.loads(encoded.to_json())["encodings"] == run.record["config"]["encodings"] == expected
    assert Experiment.from_json(encoded.to_json()) == encoded
    assert Experiment.from_json(tiny.to_json()).encodings == Encodings()


def test_wrong_encodings_are_refused(tiny):
    with pytest.raises(ValueError, match=r"experiment\.encodings must be a Encodings, not 20"):
        replace(tiny, encodings=20)
    values = json.loads(tiny.to_json()) | {"encodings": {"return_step": 20}}
    with pytest.raises(ValueError, match=r"encodings\.return_step.*encodings\.return_steps"):
        Experiment.from_json(json.dumps(values))


def test_encoders_follow_the_encodings(encoded, categories):
    model = build_model(encoded, Features.of(categories))
    assert isinstance(model.node_encoder, WithEncodings)
    assert isinstance(model.node_encoder.encoder, OneHot)
    assert (model.node_encoder.width, model.edge_encoder.width) == (ENCODINGS.node_width, ENCODINGS.edge_width)
    assert model.edge_encoder.out_channels == ENCODINGS.edge_width  # there are no features of edges
    only_nodes = build_model(replace(encoded, encodings=Encodings(return_steps=4)), Features.of(categories))
    assert isinstance(only_nodes.edge_encoder, Dense)


def test_a_network_that_does_not_see_edges_refuses_encodings_of_edges_alone(tiny, categories):
    gcn = tiny.without_walks(Model(("gcn",), 8, 1))
    with pytest.raises(ValueError, match=r"gcn.*--encodings\.walk-steps 3: leave it out"):
        build_model(replace(gcn, encodings=Encodings(walk_steps=3)), Features.of(categories))
    model = build_model(replace(gcn, encodings=Encodings(longest_cycle=5)), Features.of(categories))
    assert model.node_encoder.width == 3


def test_predictions_are_answers_to_features_with_encodings(run, categories):
    trained = TrainedModel.load(run.folder, device="cpu")
    store = with_encodings(categories.store, ENCODINGS)
    settings = {"num_repeats": 1, "seed": derive_seed(0, "predict"), "scaling": trained.scaling}
    expected = predict(trained.model, categories.task, store, torch.arange(10), **settings)
    assert np.array_equal(trained.predict(categories.store, num_repeats=1).repeats, expected.repeats)
    norm = trained.model.node_norm
    means = store.x[:, 1:].mean(0) * (1 - 0.9 ** int(norm.num_batches_tracked))  # which all batches share
    assert torch.allclose(norm.running_mean, means)


def test_message_passing_learns_what_it_cannot_see_without_encodings(tmp_path):
    """CSL: graphs of ten classes in which all nodes look alike to message passing."""
    training = Training(lr=0.01, batch_size=10, max_epochs=30)
    without = Experiment(model=Model(("gin",), hidden_channels=32, num_layers=1), training=training)
    assert run_experiment(without, tmp_path / "without", device="cpu", quiet=True).score() == 0.1
    experiment = replace(without, encodings=Encodings(return_steps=12))
    assert run_experiment(experiment, tmp_path / "with", device="cpu", quiet=True).score() >= 0.7


def test_a_prediction_does_not_depend_on_the_other_graphs(run, categories):
    trained = TrainedModel.load(run.folder, device="cpu")
    every, alone = trained.predict(categories.store), trained.predict(categories.store.subset([6]))
    np.testing.assert_allclose(alone.mean[0], every.mean[6], rtol=1e-5, atol=1e-5)


def test_a_checkpoint_fits_the_data_without_encodings(run, categories):
    trained = TrainedModel.load(run.folder, device="cpu")
    trained.check_data(categories)
    assert trained.record["num_parameters"] == sum(p.numel() for p in trained.model.parameters())


def test_a_resumed_run_has_the_same_result(run, encoded, categories, tmp_path):
    stops = iter([True])
    with pytest.raises(Stopped):
        run_experiment(encoded, tmp_path / "run", dataset=categories, device="cpu", stop=lambda: next(stops, False))
    resumed = resume_run(tmp_path / "run", dataset=categories)
    assert resumed.record["scores"] == run.record["scores"]


class _Own(nn.Module):
    """A model of one's own, of PyG data."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2 + ENCODINGS.node_width, 2)

    def forward(self, data):
        out = self.linear(data.x)
        return out.new_zeros(data.num_graphs, 2).index_add(0, data.batch, out)


def test_a_model_of_ones_own_gets_encodings_after_the_features(tiny, paths, tmp_path):
    experiment = Experiment(training=tiny.training, evaluation=tiny.evaluation, encodings=ENCODINGS)
    run = run_experiment(experiment, tmp_path / "run", model=_Own(), dataset=paths, device="cpu")
    trained = TrainedModel.load(run.folder, device="cpu", model=_Own())
    assert np.isfinite(trained.predict(paths.store).mean).all()
