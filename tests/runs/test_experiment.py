from __future__ import annotations

import json
from dataclasses import replace

import pytest

from crawl import WalkPlan
from crawl.choices import WITH_WALKS, BlockName
from crawl.data import Task
from crawl.nn import BLOCKS, BatchNorm
from crawl.runs import Benchmark, Csl, Csv, Experiment, GivenModel, Model, Social
from crawl.runs.build import build_model
from crawl.runs.experiment import settled
from crawl.runs.features import Features
from crawl.runs.recipes import RECIPES
from crawl.training import Cosine, Evaluation, Plateau, Step, Training

GIN = Experiment(model=Model(("gin",)))
NUMBERS = Task(kind="regression", num_outputs=1)
CLASSES = Task(kind="multiclass", num_outputs=3)
NODES = Task(kind="multiclass", num_outputs=3, level="node")


def changed(**leaves) -> str:
    """The JSON of an experiment with leaves changed; `data__fold=1` changes data.fold."""
    values = json.loads(Experiment(data=Csv()).to_json())
    for name, value in leaves.items():
        *sections, leaf = name.split("__")
        place = values
        for section in sections:
            place = place[section]
        place[leaf] = value
    return json.dumps(values)


def error(text: str) -> str:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        Experiment.from_json(text)
    return str(caught.value)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_survive_json(name):
    experiment = RECIPES[name]()
    assert experiment.name == name
    others = {"csl_lap": "csl", "peptides_hybrid": "peptides_func", "counting_hybrid": "counting_all"}
    assert experiment.data.name == others.get(name, name.removesuffix("_hybrid"))
    assert Experiment.from_json(experiment.to_json()) == experiment
    assert RECIPES[name].__doc__


@pytest.mark.parametrize(
    "experiment",
    [
        Experiment(
            name="other",
            data=Csv(targets=("a", "b"), smiles="s", metric="rmse", fractions=(0.5, 0.25, 0.25), bad_rows="refuse"),
            walk=WalkPlan("node2vec", 3, 4, 0.5, 0.25, 2, p=0.5, q=2.0),
            model=Model(("walk+gine", "attention"), 8, 2, kernel_size=3, identity=False, num_heads=2, dropout=0.1),
            training=Training(lr=0.1, schedule=Step(3, factor=0.1), early_stop=3, clip_norm=1.0),
            evaluation=Evaluation(num_val_repeats=7),
            seed=5,
        ),
        Experiment(data=Social("imdb_multi", fold=3, has_validation=False), training=Training(schedule=Cosine())),
        Experiment(model=GivenModel("here.Mine")),
        GIN,
    ],
    ids=lambda experiment: experiment.model.title,
)
def test_every_leaf_survives_json(experiment):
    assert Experiment.from_json(experiment.to_json()) == experiment
    assert hash(experiment) == hash(replace(experiment))


def test_what_json_says():
    values = json.loads(Experiment(model=GivenModel("here.Mine"), training=Training(schedule=Cosine())).to_json())
    assert values["model"] == {"name": "given", "class": "here.Mine"}
    assert values["data"] == {"name": "csl", "fold": 0, "laplacian": 0}
    assert values["training"]["schedule"] == {"name": "cosine"}
    assert values["walk"] is None
    assert "device" not in json.dumps(values)
    assert "path" not in json.dumps(values)


def test_records_from_before_centred_walks_are_the_same():
    values = json.loads(Experiment().to_json())
    assert values["walk"].keys() == {
        *("strategy", "num_steps", "num_eval_steps", "start_share", "eval_start_share", "window_size"),
        *("p", "q", "restart"),
    }
    centred = Experiment(walk=WalkPlan(centred=True, num_walks=2))
    assert json.loads(centred.to_json())["walk"] == values["walk"] | {"centred": True, "num_walks": 2}
    assert Experiment.from_json(centred.to_json()) == centred
    more = Experiment(walk=WalkPlan(num_eval_walks=4))
    assert json.loads(more.to_json())["walk"] == values["walk"] | {"num_eval_walks": 4}
    assert Experiment.from_json(more.to_json()) == more
    assert Experiment.from_json(Experiment().to_json()) == Experiment(walk=WalkPlan(centred=False, num_walks=1))


def test_unknown_keys_suggest_the_right_one():
    assert error(changed(sead=1)) == "The configuration has no key sead. Did you mean seed?"
    assert error(changed(model__hidden_chanels=1)).endswith("Did you mean model.hidden_channels?")
    assert error(changed(training__schedule__patienc=1)).endswith("Did you mean training.schedule.patience?")
    assert "Known are: strategy, num_steps" in error(changed(walk__zzz=1))
    assert "no key data.laplacian" in error(changed(data__laplacian=1))


@pytest.mark.parametrize(
    ("leaf", "value", "message"),
    [
        ("seed", "1", "seed must be of type int, not '1'."),
        ("seed", True, "seed must be of type int, not True."),
        ("seed", 1.5, "seed must be of type int, not 1.5."),
        ("seed", None, "seed must be of type int, not None."),
        ("model__identity", 1, "model.identity must be of type bool, not 1."),
        ("model__kernel_size", "9", "model.kernel_size must be of type int, not '9'."),
        ("model__layer", "walk", "model.layer must be a list, not 'walk'."),
        ("model__layer", ["wlk"], "A block of model.layer must be one of walk, walk_edges, gru, "),
        ("model__layer", [], "model.layer must be a list of blocks"),
        ("model__name", "forest", "model.name must be one of network, given, not 'forest'."),
        ("data__name", "zink", "data.name must be one of"),
        ("training__lr", "fast", "training.lr must be a number, not 'fast'."),
        (
            "training__schedule__name",
            "cosin",
            "training.schedule.name must be one of plateau, constant, step, interval, cosine, ",
        ),
        ("training__optimiser", "sgd", "training.optimiser must be one of adam, adamw, lion, not 'sgd'."),
        ("training__weight_decay", -0.1, "training.weight_decay must be a number from 0"),
        ("walk__strategy", 3, "walk.strategy must be one of"),
        ("training__lr", -1, "training.lr must be a positive number"),
        ("data__targets", "logS", "data.targets must be a list, not 'logS'."),
        ("data__targets", [1], "data.targets must be of type str, not 1."),
        ("data__fractions", [0.5, 0.5], "data.fractions must have 3 items, not 2."),
        ("data__fractions", [0.5, "x", 0.5], "data.fractions must be a number, not 'x'."),
        ("data", [], "data must be a dictionary, not []."),
    ],
)
def test_wrong_values(leaf, value, message):
    assert error(changed(**{leaf: value})).startswith(message)


def test_not_a_configuration():
    assert "not valid JSON" in error("{")
    assert "must be a dictionary, not []" in error("[]")
    assert "nested more than 100 deep" in error("[" * 100_000)
    assert error(changed(training__lr=10**400)).startswith("training.lr must be a number, not 1000")


def test_names_are_those_of_the_blocks():
    from typing import get_args

    assert get_args(BlockName) == tuple(BLOCKS)
    assert set(WITH_WALKS) == {name for name, block in BLOCKS.items() if block.uses_walks}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": ("gin",), "kernel_size": 3}, r"gin cannot be changed by model\.kernel_size=3: leave it out"),
        ({"layer": ("gin",), "identity": False}, r"gin cannot be changed by model\.identity=False: leave it out"),
        ({"layer": ("gru",), "kernel_size": 3}, r"gru cannot be changed by model\.kernel_size=3: leave it out"),
        ({"num_heads": 2}, r"crawl cannot be changed by model\.num_heads=2: leave it out"),
        ({"dropout": 1.0}, r"model\.dropout must be 0 or more and below 1, not 1\.0"),
        ({"input_dropout": 1.0}, r"model\.input_dropout must be 0 or more and below 1, not 1\.0"),
        ({"norm": "bach"}, r"model\.norm must be one of batch, layer, none, not 'bach'"),
        ({"residual": False}, r"crawl cannot be changed by model\.residual=False: leave it out"),
        ({"hidden_channels": 0}, r"model\.hidden_channels must be a whole number from 1 .*, not 0"),
        ({"pool": "max"}, r"model\.pool must be one of sum, mean, not 'max'"),
    ],
)
def test_models_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        Model(**settings)


def test_networks_without_walks_have_none():
    assert GIN.walk is None
    assert (GIN.evaluation.num_val_repeats, GIN.evaluation.num_test_repeats) == (1, 1)
    with pytest.raises(ValueError, match=r"^gin does not walk, .* --walk: leave it out"):
        replace(GIN, walk=WalkPlan())
    with pytest.raises(ValueError, match=r"gin does not walk, .* --evaluation\.num-val-repeats 7: leave it out"):
        replace(GIN, evaluation=Evaluation(num_val_repeats=7))
    assert Experiment().walk == WalkPlan()
    assert Experiment(model=Model(("gru", "gine"))).walk == WalkPlan()


@pytest.mark.parametrize(
    ("walk", "message"),
    [
        (WalkPlan("node2vec"), r"^node2vec walks need --walk\.p and --walk\.q"),
        (WalkPlan(p=2.0), r"non_backtracking walks cannot be changed by --walk\.p 2\.0: leave it out"),
        (WalkPlan("depth_first", p=2.0), r"depth_first walks cannot be changed by --walk\.p 2\.0: leave it out"),
        (WalkPlan("uniform", q=2.0), r"uniform walks cannot be changed by --walk\.q 2\.0: leave it out"),
    ],
)
def test_node2vec(walk, message):
    with pytest.raises(ValueError, match=message):
        Experiment(walk=walk)


@pytest.mark.parametrize(
    ("experiment", "task", "flag"),
    [
        (Experiment(training=Training(loss="l1")), CLASSES, "training.loss"),
        (Experiment(training=Training(normalise_targets=True)), CLASSES, "training.normalise-targets"),
        (Experiment(model=Model(pool="sum")), NODES, "model.pool"),
        (
            Experiment(data=Social(has_validation=False), evaluation=Evaluation(num_val_repeats=5)),
            CLASSES,
            "evaluation.num-val-repeats",
        ),
        (Experiment(model=Model(("walk", "virtual_node"), num_layers=1)), CLASSES, "model.layer"),
        (Experiment(model=Model(("virtual_node+walk", "edge_update"), num_layers=1)), CLASSES, "model.layer"),
        (
            Experiment(model=Model(identity=False, adjacency=False, kernel_size=9), walk=WalkPlan(window_size=4)),
            CLASSES,
            "walk.window-size",
        ),
        (Experiment(model=Model(precision="bf16")), NUMBERS, "model.precision"),
        (
            Experiment(model=Model(("gcn",), norm="layer"), evaluation=Evaluation(num_norm_graphs=9)),
            CLASSES,
            "evaluation.num-norm-graphs",
        ),
        (
            Experiment(model=Model(("walk", "appnp"), norm="none"), evaluation=Evaluation(num_norm_graphs=9)),
            CLASSES,
            "evaluation.num-norm-graphs",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_settings_without_effect_are_refused_or_dropped(experiment, task, flag):
    with pytest.raises(ValueError, match=rf"cannot be changed by --{flag} \(.*\): leave it out\.$"):
        settled(experiment, task, "cpu")
    group, setting = flag.replace("-", "_").split(".")
    plain = settled(experiment, task, "cpu", experiment)  # as in a recipe, so nobody chose it
    assert getattr(getattr(plain, group), setting) in (getattr(type(getattr(plain, group)), setting), ("walk",))
    assert settled(plain, task, "cpu") == plain


@pytest.mark.parametrize("layer", [("walk", "virtual_node", "gine"), ("virtual_node", "walk+gine"), ("walk", "gine")])
def test_a_single_layer_keeps_what_is_heard(layer):
    experiment = Experiment(model=Model(layer, num_layers=1))
    assert settled(experiment, CLASSES, "cpu") == experiment


def test_a_single_virtual_node_is_refused():
    experiment = Experiment(model=Model(("virtual_node",), num_layers=1))
    with pytest.raises(ValueError, match=r"A model of one layer cannot be changed by --model.layer"):
        settled(experiment, CLASSES, "cpu")


@pytest.mark.parametrize("layer", [("walk",), ("gcn", "feed_forward")])
def test_batch_norms_that_are_left_can_be_measured(layer):
    model = Model(layer, norm="layer")
    experiment = Experiment(model=model, evaluation=Evaluation(num_norm_graphs=9))
    assert settled(experiment, CLASSES, "cpu") == experiment
    features = Features(CLASSES)
    assert any(isinstance(module, BatchNorm) for module in build_model(experiment, features).modules())
    none = replace(experiment, model=replace(model, layer=("walk", "gcn"), norm="none"))
    assert not any(isinstance(module, BatchNorm) for module in build_model(none, features).modules())


def test_precision_is_for_gpus():
    assert settled(Experiment(model=Model(precision="bf16")), NUMBERS, "cuda").model.precision == "bf16"


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_say_nothing_without_effect(name):
    from crawl.data.benchmarks import BENCHMARKS

    recipe = RECIPES[name]()
    if recipe.data.name in BENCHMARKS:
        assert settled(recipe, BENCHMARKS[recipe.data.name].task, "cpu") == recipe


def test_parts_of_a_wrong_kind_are_refused():
    with pytest.raises(ValueError, match=r"experiment\.data must be a Csl or .*, not 'zinc'"):
        Experiment(data="zinc")
    with pytest.raises(ValueError, match=r"experiment\.model must be a Model or GivenModel, not 'gin'"):
        Experiment(model="gin")
    with pytest.raises(ValueError, match=r"experiment\.training must be a Training, not Plateau"):
        Experiment(training=Plateau())
    assert Experiment(data=Benchmark("molpcba")) != Experiment(data=Csl())
