from __future__ import annotations

import random
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from test_space import drawn

from crawl.cli.app import parse
from crawl.runs.experiment import Experiment
from crawl.runs.recipes import RECIPES
from crawl.runs.tuning.command import train_command
from crawl.runs.tuning.space import search_space, variant
from crawl.runs.where import Where
from crawl.training.settings import Cosine, Step


def parsed(command: str) -> tuple[Experiment, dict[str, Path | None]]:
    words = shlex.split(command)
    assert words[0] == "crawl"
    settings = parse(words[1:]).recipe  # type: ignore[attr-defined]
    return settings.experiment(), settings.where


@pytest.mark.parametrize("name", ["csv", "csl"])
def test_the_command_means_the_experiment(name: str) -> None:
    recipe, rng = RECIPES[name](), random.Random(1)
    space = search_space(recipe, recipe)
    for _ in range(4):
        experiment = variant(recipe, drawn(space, rng))
        found, _ = parsed(train_command(name, recipe, experiment, Where()))
        assert found == experiment


def test_words_that_a_shell_would_take_apart(tmp_path: Path) -> None:
    recipe = RECIPES["csv"]()
    experiment = replace(
        recipe,
        seed=7,
        data=replace(recipe.data, targets=("log S", "$x; rm")),  # type: ignore[type-var]
        model=replace(recipe.model, identity=False, padding=True),  # type: ignore[type-var]
        training=replace(recipe.training, schedule=Step(30, factor=0.2), normalise_targets=False),
    )
    path = tmp_path / "a file.csv"
    found, where = parsed(train_command("csv", recipe, experiment, Where(path=str(path), device="cpu")))
    assert found == experiment
    assert where["path"] == path


def test_another_schedule_and_what_no_flag_can_say() -> None:
    recipe = RECIPES["csl"]()
    experiment = replace(recipe, training=replace(recipe.training, schedule=Cosine()))
    assert parsed(train_command("csl", recipe, experiment, Where()))[0] == experiment
    with pytest.raises(ValueError, match="Only settings of a recipe"):
        train_command("csl", recipe, RECIPES["csv"](), Where())
