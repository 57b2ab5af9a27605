from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest
import torch
from torch_geometric.data import Data

from crawl.data import Task, csl, from_graph
from crawl.graph import Graph
from crawl.nn import BLOCKS, GIN, Affine, Parallel
from crawl.nn.encoders import Dense, OneHot
from crawl.plain import structure
from crawl.runs import TU, Csl, Csv, Folder, GivenModel, Model, Social
from crawl.runs.build import Features, build_model, load_dataset
from crawl.runs.protocol import as_baseline

TASK = Task(kind="regression", num_outputs=2, target_names=("a", "b"))


@pytest.mark.parametrize(
    "features",
    [Features(TASK), Features(TASK, (3, 4), (2,)), Features(TASK, num_node_features=5, num_edge_features=2)],
)
def test_features_survive_json(features):
    assert structure(Features, json.loads(json.dumps(asdict(features))), "It") == features


def test_encoders_follow_the_features(tiny):
    model = build_model(tiny, Features(TASK))
    assert (model.node_encoder.out_channels, model.edge_encoder.out_channels) == (1, 1)
    model = build_model(tiny, Features(TASK, (3, 4), (2,)))
    assert isinstance(model.node_encoder, OneHot)
    assert (model.node_encoder.out_channels, model.edge_encoder.out_channels) == (7, 2)
    model = build_model(tiny, Features(TASK, num_node_features=5, num_edge_features=2))
    assert isinstance(model.node_encoder, Dense)
    assert (model.node_encoder.out_channels, model.edge_encoder.out_channels) == (5, 2)


def test_settings_reach_the_model(tiny):
    layer = ("walk", "virtual_node")
    settings = replace(tiny.model, layer=layer, num_layers=3, dropout=0.25, head="linear", identity=False)
    walk = replace(tiny.walk, start_share=0.5, strategy="uniform")
    model = build_model(replace(tiny, model=settings, walk=walk), Features(TASK))
    assert model.walk_plan == walk
    assert [type(block) for block in model.blocks] == [BLOCKS[name] for name in (*layer, *layer, "walk")]
    assert model.hidden_channels == 8
    assert model.readout.dropout.p == 0.25
    assert isinstance(model.readout.head, torch.nn.Linear)
    node_task = Task(kind="binary", level="node", num_outputs=1)
    assert build_model(tiny, Features(node_task)).readout.pool is None
    gin = build_model(as_baseline(tiny), Features(TASK))
    assert [type(block) for block in gin.blocks] == [GIN] * tiny.model.num_layers


def test_settings_for_few_labels_reach_the_model(tiny):
    layer, features = ("walk", "gcn", "appnp"), Features(TASK, num_node_features=5)
    settings = {"layer": layer, "norm": "none", "residual": False, "dropout": 0.5, "input_dropout": 0.25}
    model = build_model(replace(tiny, model=replace(tiny.model, normalise_features=True, **settings)), features)
    assert model.node_encoder.normalised
    assert model.input_dropout.p == 0.25
    walk, gcn, appnp = model.blocks[:3]
    assert {type(norm) for norm in (walk.conv.norm, walk.conv.update[1], gcn.norm, model.readout.norm)} == {Affine}
    assert (gcn.residual, gcn.dropout.p, appnp.dropout.p) == (False, 0.5, 0.5)


@pytest.mark.parametrize(
    ("features", "what"), [(Features(TASK, (3, 4)), "categories"), (Features(TASK), "not there")], ids=["3", "0"]
)
def test_features_that_are_not_numbers_are_not_normalised(tiny, features, what):
    with pytest.raises(ValueError, match=rf"are {what}, .* --model\.normalise-features: leave it out"):
        build_model(replace(tiny, model=replace(tiny.model, normalise_features=True)), features)


@pytest.mark.parametrize("short", ["num_steps", "num_eval_steps"])
def test_walks_shorter_than_a_window_are_refused_before_anything_is_trained(tiny, short):
    walk = replace(tiny.walk, num_steps=20, num_eval_steps=20, window_size=8)
    build_model(replace(tiny, walk=replace(walk, **{short: 8})), Features(TASK))
    with pytest.raises(ValueError, match="Walks of 7 steps are shorter than one window of 9 nodes: take more"):
        build_model(replace(tiny, walk=replace(walk, **{short: 7})), Features(TASK))


def test_padding_reaches_the_blocks_and_lets_walks_be_short(tiny):
    walk = replace(tiny.walk, num_steps=2, num_eval_steps=2)
    experiment = replace(tiny, model=replace(tiny.model, padding=True), walk=walk)
    model = build_model(experiment, Features(TASK))
    assert all(block.conv.padding for block in model.blocks)
    assert type(tiny).from_json(experiment.to_json()) == experiment
    with pytest.raises(ValueError, match=r"gru cannot be changed by model\.padding=True: leave it out"):
        Model(("gru",), padding=True)


@pytest.mark.parametrize(
    ("data", "place", "flag"),
    [
        (Social("imdb_multi"), {"path": "graphs"}, "data.path"),
        (Csl(), {"path": "graphs"}, "data.path"),
        (Csl(), {"root": "/nope"}, "data.root"),
        (Csv(), {"root": "/nope"}, "data.root"),
    ],
)
def test_places_that_are_not_looked_at_are_refused(data, place, flag):
    with pytest.raises(ValueError, match=rf"^{data.name} cannot be changed by --{flag} .*: leave it out\.$"):
        load_dataset(data, **place)


def test_a_layer_of_several_blocks(tiny):
    model = Model(("walk+gine", "edge_update", "virtual_node"), 8, 2)
    network = build_model(replace(tiny, model=model), Features(TASK, (3, 4), (2,)))
    parallel, update, node, *last = network.blocks
    assert isinstance(parallel, Parallel)
    assert [type(block) for block in parallel.blocks] == [BLOCKS["walk"], BLOCKS["gine"]]
    assert [type(block) for block in (update, node)] == [BLOCKS["edge_update"], BLOCKS["virtual_node"]]
    assert [type(block) for block in last] == [Parallel]  # nothing in the last layer would hear the others


def test_node2vec_reaches_the_walks(tiny):
    graph = Graph.from_edge_index(torch.tensor([[0, 0, 1, 1, 2], [1, 2, 2, 3, 3]]), undirected=True)
    shares = []
    for p in (0.001, 1000.0):
        walk = replace(tiny.walk, strategy="node2vec", p=p, q=1.0, num_steps=50)
        model = build_model(replace(tiny, walk=walk), Features(TASK))
        nodes = model.sample_walks(graph, 50, seed=1).nodes
        shares.append((nodes[:, 2:] == nodes[:, :-2]).float().mean())
    assert shares[0] > 0.9
    assert shares[1] < 0.1


def test_a_given_model_cannot_be_built(tiny):
    given = replace(tiny, model=GivenModel("here.Mine"), walk=None)
    with pytest.raises(ValueError, match=r"a model of its own, here\.Mine: give the model again, with model="):
        build_model(given, Features(TASK))


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
    assert load_dataset(Csl(fold=2, laplacian=3)).num_node_features == 3
    with pytest.raises(ValueError, match="fold"):
        load_dataset(Csl(fold=5))


@pytest.mark.parametrize("data", [Csv(), TU(), Folder()], ids=lambda data: data.name)
def test_data_that_are_not_there(data, tmp_path):
    with pytest.raises(ValueError, match=r"need --data\.path"):
        load_dataset(data)
    with pytest.raises(ValueError, match="There is no file or folder"):
        load_dataset(data, path=tmp_path / "missing")


def test_degrees_are_those_of_the_training_graphs(paths):
    assert Features.of(csl()).mean_log_degree == pytest.approx(math.log(5))
    assert Features.of(paths).mean_log_degree == pytest.approx((2 * math.log(2) + math.log(3)) / 3)


def test_degrees_of_one_graph_are_read_in_pieces(monkeypatch):
    star = Data(edge_index=torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]), y=torch.arange(5) % 2, num_nodes=5)
    dataset = from_graph(star, fractions=(0.6, 0.2, 0.2))
    for rows in (2, 100):
        monkeypatch.setattr("crawl.runs.features._ROWS", rows)
        assert Features.of(dataset).mean_log_degree == pytest.approx((math.log(4) + 3 * math.log(2)) / 5)


def test_benchmarks_come_from_the_data_root(tmp_path, monkeypatch):
    asked = []

    def load(name, root, **choices):
        asked.append((name, root, choices))
        return csl()

    monkeypatch.setattr("crawl.runs.build.load_benchmark", load)
    data = Social("collab", fold=3, has_validation=False)
    assert load_dataset(data, root=tmp_path).source == data
    assert asked == [("collab", tmp_path, {"fold": 3, "has_validation": False})]
