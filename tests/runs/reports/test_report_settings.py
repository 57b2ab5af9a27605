from __future__ import annotations

from dataclasses import replace

from crawl.data.task import Task
from crawl.runs.experiment import Experiment
from crawl.runs.recipes import RECIPES
from crawl.runs.reports.settings import differences, flat_settings, recipe_of


def test_settings_have_full_names_and_no_places() -> None:
    found = flat_settings(RECIPES["csv"]())
    assert found["training.lr"] == "0.002"
    assert found["training.schedule.name"] == "cosine_per_step"
    assert found["model.layer"] == "walk virtual_node"
    assert found["model.identity"] == "yes"
    assert found["model.kernel_size"] == "–"
    assert not [name for name in found if name.endswith(("path", "root"))]


def test_what_differs_from_the_recipe() -> None:
    base = RECIPES["csv"]()
    changed = replace(base, training=replace(base.training, lr=0.01))
    assert differences([flat_settings(changed), flat_settings(base)]) == [("training.lr", "0.01", "0.002")]


def test_the_recipe_is_settled_as_the_run_is() -> None:
    experiment = RECIPES["csv"]()
    settled = replace(experiment, training=replace(experiment.training, normalise_targets=False))
    task = Task(kind="binary", num_outputs=1)
    name, base = recipe_of(settled, task, "cpu (1 threads)")
    assert name == "csv"
    assert differences([flat_settings(settled), flat_settings(base)]) == []
    assert recipe_of(replace(experiment, name="mine"), None, "cpu")[0] == "csv"  # by its data
    assert recipe_of(Experiment(name="mine"), None, "cpu")[0] == "csl"
