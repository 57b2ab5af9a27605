from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from crawl.data import Task, csl
from crawl.models import CRaWl
from crawl.nn import GIN
from crawl.nn.encoders import Dense, OneHot
from crawl.runs import Data
from crawl.runs.build import Features, build_model, load_dataset

TASK = Task(kind="regression", num_outputs=2, target_names=("a", "b"))


@pytest.mark.parametrize(
    "features",
    [Features(TASK), Features(TASK, (3, 4), (2,)), Features(TASK, num_node_features=5, num_edge_features=2)],
)
def test_features_survive_json(features):
    assert Features.from_dict(json.loads(json.dumps(features.to_dict()))) == features


def test_encoders_follow_the_features(tiny):
    model = build_model(tiny, Features(TASK))
    assert isinstance(model, CRaWl)
    assert (model.node_encoder.out_channels, model.edge_encoder.out_channels) == (1, 1)
    model = build_model(tiny, Features(TASK, (3, 4), (2,)))
    assert isinstance(model.node_encoder, OneHot)
    assert (model.node_encoder.out_channels, model.edge_encoder.out_channels) == (7, 2)
    model = build_model(tiny, Features(TASK, num_node_features=5, num_edge_features=2))
    assert isinstance(model.node_encoder, Dense)
    assert (model.node_encoder.out_channels, model.edge_encoder.out_channels) == (5, 2)


def test_settings_reach_the_model(tiny):
    settings = replace(tiny.model, virtual_node=True, num_layers=3, dropout=0.25, head="linear", identity=False)
    walk = replace(tiny.walk, start_share=0.5, strategy="uniform")
    model = build_model(replace(tiny, model=settings, walk=walk), Features(TASK))
    assert (model.num_steps, model.num_eval_steps, model.start_share, model.strategy) == (5, 5, 0.5, "uniform")
    assert (len(model.convs), len(model.virtual_nodes), model.hidden_channels) == (3, 2, 8)
    assert model.readout.dropout.p == 0.25
    assert isinstance(model.readout.head, torch.nn.Linear)
    node_task = Task(kind="binary", level="node", num_outputs=1)
    assert build_model(tiny, Features(node_task)).readout.pool is None
    gin = build_model(replace(tiny, model=replace(tiny.model, name="gin")), Features(TASK))
    assert [type(block) for block in gin.blocks] == [GIN] * tiny.model.num_layers


@pytest.mark.parametrize("short", ["num_steps", "num_eval_steps"])
def test_walks_shorter_than_a_window_are_refused_before_anything_is_trained(tiny, short):
    walk = replace(tiny.walk, num_steps=20, num_eval_steps=20, window_size=8)
    build_model(replace(tiny, walk=replace(walk, **{short: 8})), Features(TASK))
    with pytest.raises(ValueError, match="Walks of 7 steps are shorter than one window of 9 nodes: take more"):
        build_model(replace(tiny, walk=replace(walk, **{short: 7})), Features(TASK))


@pytest.mark.parametrize(
    ("data", "setting"),
    [
        (Data(name="counting_all", targets=("star",)), "targets"),
        (Data(name="counting_all", target="star"), "target"),
        (Data(name="zinc", metric="rmse"), "metric"),
        (Data(name="csl", task="regression"), "task"),
        (Data(name="counting", metric="rmse"), "metric"),
        (Data(name="csv", path="molecules.csv", target="star"), "target"),
        (Data(name="zinc", fold=3), "fold"),
        (Data(name="zinc", fractions=(0.5, 0.25, 0.25)), "fractions"),
        (Data(name="imdb_multi", laplacian=5), "laplacian"),
        (Data(name="tu", path="graphs", bad_rows="refuse"), "bad-rows"),
        (Data(name="csl", has_validation=False), "no-has-validation"),
        (Data(name="zinc", has_validation=False), "no-has-validation"),
        (Data(name="zinc", has_positions=True), "has-positions"),
        (Data(name="imdb_multi", path="graphs"), "path"),
    ],
)
def test_settings_that_would_change_nothing_are_refused(data, setting):
    with pytest.raises(ValueError, match=rf"^{data.name} cannot be changed by --data\.{setting}: leave it out\.$"):
        load_dataset(data)


def test_weights_come_from_the_seed_alone(tiny):
    torch.manual_seed(1)
    a = build_model(tiny, Features(TASK)).state_dict()
    state = torch.random.get_rng_state()
    b = build_model(tiny, Features(TASK)).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)
    c = build_model(replace(tiny, seed=1), Features(TASK)).state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a)


def test_embedded_data():
    assert load_dataset(Data(name="csl", fold=2, laplacian=3)).num_node_features == 3
    with pytest.raises(ValueError, match="fold"):
        load_dataset(Data(name="csl", fold=5))


@pytest.mark.parametrize("name", ["csv", "tu", "folder"])
def test_data_that_are_not_there(name, tmp_path):
    with pytest.raises(ValueError, match=r"need --data\.path"):
        load_dataset(Data(name=name))
    with pytest.raises(ValueError, match="There is no file or folder"):
        load_dataset(Data(name=name, path=str(tmp_path / "missing")))


def test_degrees_are_those_of_the_training_graphs(paths):
    assert Features.of(csl()).mean_log_degree == pytest.approx(math.log(5))
    assert Features.of(paths).mean_log_degree == pytest.approx((2 * math.log(2) + math.log(3)) / 3)


def test_benchmarks_come_from_the_data_root(tmp_path, monkeypatch):
    asked = []

    def load(name, root, **choices):
        asked.append((name, root, choices))
        return csl()

    monkeypatch.setattr("crawl.runs.build.load_benchmark", load)
    data = Data(name="collab", root=str(tmp_path), fold=3, has_validation=False)
    choices = {"fold": 3, "has_validation": False, "has_positions": False}
    assert load_dataset(data).source["root"] == str(tmp_path)
    assert asked == [("collab", str(tmp_path), choices)]
