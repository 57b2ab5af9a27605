"""Runs with a pre-training: recorded, drawn, resumed; others stay as they were."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from path_graphs import make_dataset
from torch import nn

from crawl import Network
from crawl.data import Task
from crawl.runs import Experiment, Model, resume_run, run_experiment
from crawl.runs.build import build_model
from crawl.runs.features import Features
from crawl.runs.run import Stopped
from crawl.training import Pretrainer, Pretraining, Trainer, Training
from crawl.training.checkpoint import load_checkpoint


@pytest.fixture(scope="module")
def dataset():
    return make_dataset(Task(kind="regression", num_outputs=1), torch.arange(10.0)[:, None])


@pytest.fixture(scope="module")
def pretrained(tiny):
    training = Training(max_epochs=3, batch_size=4, optimiser="adamw", weight_decay=0.1, average_decay=0.9)
    model = Model(("walk", "virtual_node"), hidden_channels=8, num_layers=2, dropout=0.1)
    return replace(tiny, model=model, training=training, pretraining=Pretraining(epochs=3, lr=0.01))


@pytest.fixture(scope="module")
def run(pretrained, dataset, tmp_path_factory):
    return run_experiment(pretrained, tmp_path_factory.mktemp("pretrained") / "run", dataset=dataset, device="cpu")


def without_times(history):
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


def test_a_configuration_names_a_pretraining_if_there_is_one(tiny, pretrained, finished, run):
    assert "pretraining" not in json.loads(tiny.to_json())
    assert "pretraining" not in finished.record
    assert not (finished.folder / "pretraining.jsonl").exists()
    expected = {"epochs": 3, "hidden_share": 0.5, "lr": 0.01}
    assert json.loads(pretrained.to_json())["pretraining"] == run.record["config"]["pretraining"] == expected
    assert Experiment.from_json(pretrained.to_json()) == pretrained
    assert Experiment.from_json(tiny.to_json()).pretraining is None


def test_the_run_is_a_training_of_what_was_pretrained(pretrained, dataset, run):
    features = Features.of(dataset)
    model = build_model(pretrained, features)
    settings = {"seed": pretrained.seed, "device": "cpu"}
    pretrainer = Pretrainer(model, dataset, pretrained.pretraining, pretrained.training, **settings)
    losses = [record["loss"] for record in pretrainer.epochs()]
    trainer = Trainer(model, dataset, pretrained.training, pretrained.evaluation, **settings)
    assert [record["loss"] for record in trainer.epochs()] == [
        json.loads(line)["loss"] for line in (run.folder / "metrics.jsonl").read_text().splitlines()
    ]
    best, _ = load_checkpoint(run.folder / "best.safetensors")
    assert all(torch.equal(best[name], tensor) for name, tensor in trainer.best_weights.items())
    assert best.keys() == trainer.best_weights.keys()
    assert [record["loss"] for record in run.record["pretraining"]] == losses
    lines = [json.loads(line) for line in (run.folder / "pretraining.jsonl").read_text().splitlines()]
    assert lines == run.record["pretraining"]
    assert run.record["num_epochs"] == 3
    assert run.record["wall_time_s"] > sum(record["seconds"] for record in lines)


def test_a_run_stopped_after_every_epoch_ends_as_if_it_had_not_been(pretrained, dataset, run, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Stopped, match="stopped after pre-training epoch 1; it can be resumed"):
        run_experiment(pretrained, folder, dataset=dataset, device="cpu", stop=lambda: True)
    stops = ["pre-training epoch 2", "epoch 1", "epoch 2"]
    for stop in stops:
        with pytest.raises(Stopped, match=f"stopped after {stop};"):
            resume_run(folder, dataset=dataset, stop=lambda: True)
    again = resume_run(folder, dataset=dataset)
    for key in ("config", "scores", "best_epoch", "num_epochs"):
        assert again.record[key] == run.record[key]
    assert without_times(again.record["pretraining"]) == without_times(run.record["pretraining"])
    for name in ("best", "last"):
        tensors, others = (load_checkpoint(each.folder / f"{name}.safetensors")[0] for each in (run, again))
        assert tensors.keys() == others.keys()
        assert all(torch.equal(tensors[key], others[key]) for key in tensors)


def test_a_run_killed_between_pretraining_and_training_is_resumed(pretrained, dataset, run, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("crawl.runs.run.Trainer", kill)
        with pytest.raises(Killed):
            run_experiment(pretrained, tmp_path / "run", dataset=dataset, device="cpu")
    assert resume_run(tmp_path / "run", dataset=dataset).record["scores"] == run.record["scores"]


@pytest.mark.usefixtures("with_pages")
def test_losses_are_drawn_in_a_panel_of_their_own(pretrained, dataset, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    saved = []
    monkeypatch.setattr("crawl.runs.curves.save_figure", lambda figure, path: saved.append(figure))
    result = run_experiment(pretrained, tmp_path / "run", dataset=dataset, device="cpu")
    *_, panel = saved[0].axes
    assert len(saved[0].axes) == 3
    assert list(panel.lines[0].get_ydata()) == [record["loss"] for record in result.record["pretraining"]]


def test_a_given_network_is_pretrained_and_another_model_refused(tiny, dataset, tmp_path):
    experiment = Experiment(training=tiny.training, evaluation=tiny.evaluation, pretraining=Pretraining(epochs=1))
    network = Network(2, 1, hidden_channels=8, num_layers=1, num_steps=5, num_eval_steps=5, window_size=4)
    result = run_experiment(experiment, tmp_path / "a", model=network, dataset=dataset, device="cpu")
    assert len(result.record["pretraining"]) == 1

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 1)

        def forward(self, data):
            return self.linear(data.x[data.ptr[:-1]])

    with pytest.raises(ValueError, match=r"a Own, which is not a crawl\.Network: leave out pretraining"):
        run_experiment(experiment, tmp_path / "b", model=Own(), dataset=dataset, device="cpu")
    assert not (tmp_path / "b").exists()


def test_experiments_without_bits_are_refused(pretrained):
    for change in (
        {"walk": replace(pretrained.walk, window_size=0)},
        {"model": replace(pretrained.model, identity=False, adjacency=False)},
        {"model": Model(("gin",)), "walk": None},
    ):
        with pytest.raises(ValueError, match=r"looks at no bits of walks, .*--pretraining: leave it out"):
            replace(pretrained, **change)
    assert pretrained.without_walks(Model(("gin",))).pretraining is None
    with pytest.raises(ValueError, match=r"experiment\.pretraining must be a Pretraining, not 50"):
        replace(pretrained, pretraining=50)
    values = json.loads(pretrained.to_json()) | {"pretraining": {"epoch": 20}}
    with pytest.raises(ValueError, match=r"pretraining\.epoch.*pretraining\.epochs"):
        Experiment.from_json(json.dumps(values))
