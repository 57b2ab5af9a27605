from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from crawl.runs import Data, Experiment, Model, Walk
from crawl.runs.recipes import RECIPES
from crawl.training import Evaluation, Training
from crawl.training.schedule import Schedule


def changed(**leaves) -> str:
    """The JSON of an experiment with leaves changed; `data__fold=1` changes data.fold."""
    values = json.loads(Experiment().to_json())
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
    assert experiment.data.name == {"csl_lap": "csl"}.get(name, name)
    assert Experiment.from_json(experiment.to_json()) == experiment
    assert RECIPES[name].__doc__


def test_every_leaf_survives_json():
    experiment = Experiment(
        name="other",
        data=Data(name="csv", path="a.csv", targets=("a", "b"), smiles="s", metric="rmse", fractions=(0.5, 0.25, 0.25)),
        walk=Walk(strategy="uniform", num_steps=3, num_eval_steps=4, start_share=0.5, window_size=2),
        model=Model(name="gin", kernel_size=3, identity=False, pool="sum", head="linear", dropout=0.1),
        training=Training(lr=0.1, schedule="step", early_stop=3, clip_norm=1.0, normalise_targets=True, device="cpu"),
        evaluation=Evaluation(num_val_repeats=7),
        seed=5,
    )
    assert Experiment.from_json(experiment.to_json()) == experiment
    assert hash(experiment) == hash(replace(experiment))


def test_missing_keys_take_their_defaults():
    old = {"name": "csl", "path": None, "split": "given", "fold": 2, "laplacian": 0}  # before there was a data root
    assert Experiment.from_json(json.dumps({"data": old})).data == Data(split="given", fold=2)
    assert Experiment.from_json('{"seed": 3, "model": {"dropout": 0}}') == Experiment(seed=3, model=Model(dropout=0.0))


def test_a_record_from_before_there_were_rates_per_step_means_what_it_meant():
    records = json.loads((Path(__file__).parents[2] / "results" / "peptides.json").read_text())["runs"]
    training = Experiment.from_json(json.dumps(records[0]["record"]["config"])).training
    schedule = Schedule(training, True, steps_per_epoch=3)
    assert (training.optimiser, training.accumulate, training.average_decay) == ("adam", 1, None)
    for epoch in range(training.max_epochs):
        rate = 1e-3 * (1 + math.cos(math.pi * epoch / 500)) / 2
        assert schedule.rates() == [rate] * 3
        schedule.update(1.0)
    assert schedule.is_over


def test_a_setting_of_older_versions_is_read_where_it_changed_nothing():
    assert Experiment.from_json('{"data": {"is_synthetic": false}}') == Experiment()
    with pytest.raises(ValueError, match=r"no key data\.is_synthetic"):
        Experiment.from_json('{"data": {"is_synthetic": true}}')


def test_unknown_keys_suggest_the_right_one():
    assert error(changed(sead=1)) == "The configuration has no key sead. Did you mean seed?"
    assert error(changed(model__hidden_chanels=1)).endswith("Did you mean model.hidden_channels?")
    assert "Known are: strategy, num_steps" in error(changed(walk__zzz=1))


@pytest.mark.parametrize(
    ("leaf", "value", "message"),
    [
        ("seed", "1", "seed must be of type int, not '1'."),
        ("seed", True, "seed must be of type int, not True."),
        ("seed", 1.5, "seed must be of type int, not 1.5."),
        ("seed", None, "seed must be of type int, not None."),
        ("model__identity", 1, "model.identity must be of type bool, not 1."),
        ("model__kernel_size", "9", "model.kernel_size must be of type int, not '9'."),
        ("training__lr", "fast", "training.lr must be of type float, not 'fast'."),
        ("training__schedule", "cosin", "training.schedule must be one of plateau, step, cosine, interval, "),
        ("training__optimiser", "sgd", "training.optimiser must be one of adam, adamw, lion, not 'sgd'."),
        ("training__weight_decay", 0.1, "training.weight_decay=0.1 is not for adam: use training.optimiser='adamw'."),
        ("walk__strategy", 3, "walk.strategy must be one of"),
        ("training__lr", -1, "training.lr must be a positive number"),
        ("data__targets", "logS", "data.targets must be a list, not 'logS'."),
        ("data__targets", [1], "data.targets[0] must be of type str, not 1."),
        ("data__fractions", [0.5, 0.5], "data.fractions must have 3 items, not 2."),
        ("data__fractions", [0.5, "x", 0.5], "data.fractions[1] must be of type float, not 'x'."),
        ("data", [], "The configuration needs a dictionary at data., not []."),
    ],
)
def test_wrong_values(leaf, value, message):
    assert error(changed(**{leaf: value})).startswith(message)


def test_not_a_configuration():
    assert "not valid JSON" in error("{")
    assert "a dictionary at its top" in error("[]")
    assert "nested more than 100 deep" in error("[" * 100_000)
    assert error(changed(training__lr=10**400)).startswith("training.lr must be a number, not 1000")
