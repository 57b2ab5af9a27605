from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from crawl.data.dataset import Dataset
from crawl.runs.build import build_model, count_parameters
from crawl.runs.experiment import Experiment, Model, settled
from crawl.runs.features import Features
from crawl.runs.recipes import RECIPES
from crawl.runs.tuning.space import Choice, Range, Space, search_space, values_of, variant, within


def drawn(space: Space, rng: random.Random) -> dict[str, Any]:
    """Values of a space, as Optuna would choose them."""
    values: dict[str, Any] = {}
    for name, part in space.items():
        if isinstance(part, Choice):
            values[name] = rng.choice(part.values)
        elif isinstance(part.low, int):
            values[name] = rng.randrange(part.low, int(part.high) + 1, int(part.step or 1))
        else:
            values[name] = rng.uniform(part.low, part.high)
    return values


@pytest.mark.parametrize("name", ["csv", "zinc", "peptides_func", "nodes", "tolokers", "csl", "tu"])
def test_the_settings_of_a_recipe_are_in_its_space(name: str) -> None:
    recipe = RECIPES[name]()
    space = search_space(recipe, recipe)
    values = values_of(recipe, space)
    assert {"training.lr", "model.hidden_channels", "model.num_layers", "walk.num_steps"} <= set(space)
    assert all(space[each].holds(value) for each, value in values.items()), values
    assert variant(recipe, values) == recipe


def test_what_a_person_has_changed_is_not_searched() -> None:
    recipe = RECIPES["csv"]()
    base = replace(recipe, training=replace(recipe.training, lr=0.01), walk=replace(recipe.walk, num_steps=30))  # type: ignore[type-var]
    space = search_space(base, recipe)
    assert "training.lr" not in space
    assert "walk.num_steps" not in space
    assert "walk.window_size" in space


def test_networks_without_walks_have_no_settings_of_walks() -> None:
    recipe = RECIPES["csv"]()
    base = recipe.without_walks(Model(("gin",)))
    assert not [name for name in search_space(base, recipe) if name.startswith("walk") or name == "model.layer"]


def test_an_l2_penalty_stays_one() -> None:
    recipe = RECIPES["csv"]()
    recipe = replace(recipe, training=replace(recipe.training, optimiser="adam", weight_decay=0.005))
    space = search_space(recipe, recipe)
    values = values_of(recipe, space)
    assert values["training.weight_decay"] == 0.005
    assert variant(recipe, values).training == recipe.training
    assert {drawn(space, random.Random(i))["training.weight_decay"] for i in range(60)} == {
        0,
        0.0005,
        0.001,
        0.005,
        0.01,
    }


def test_all_values_make_networks(paths: Dataset, tiny: Experiment) -> None:
    features, rng = Features.of(paths), random.Random(0)
    recipe = replace(RECIPES["csv"](), data=tiny.data)
    recipe = replace(recipe, training=replace(recipe.training, optimiser="adam", weight_decay=0.0))
    space = search_space(recipe, recipe)
    for _ in range(40):
        values = drawn(space, rng)
        experiment = variant(recipe, values)
        experiment = settled(experiment, paths.task, "cpu", experiment)
        assert (experiment.training.optimiser == "adamw") == (values["training.weight_decay"] > 0)
        assert experiment.walk is not None
        assert experiment.walk.num_steps == values["walk.num_steps"]
        narrow = replace(experiment, model=replace(experiment.model, hidden_channels=4))
        build_model(narrow, features)


def test_layers_are_narrowed_to_the_limit(paths: Dataset, tiny: Experiment) -> None:
    features = Features.of(paths)
    wide = replace(tiny, model=replace(tiny.model, hidden_channels=100))
    assert within(wide, features, None, count_parameters) == wide
    most = count_parameters(replace(tiny, model=replace(tiny.model, hidden_channels=48)), features)
    narrow = within(wide, features, most, count_parameters)
    assert isinstance(narrow.model, Model)
    assert narrow.model.hidden_channels == 48
    with pytest.raises(ValueError, match="have more than 10 parameters"):
        within(wide, features, 10, count_parameters)


def test_ranges_hold_their_steps() -> None:
    assert Range(0.0, 0.5, 0.05).holds(0.1)
    assert not Range(0.0, 0.5, 0.05).holds(0.12)
    assert not Range(16, 256, 16).holds(100)
    assert Range(1e-4, 1e-2, is_log=True).holds(0.003)
