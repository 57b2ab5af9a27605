from __future__ import annotations

import pytest

from crawl.data.benchmarks import BENCHMARKS
from crawl.runs.build import Features, build_model, count_parameters
from crawl.runs.recipes import RECIPES

PUBLISHED = {
    "zinc": 497_743,
    "cifar10": 109_660,
    "mnist": 109_360,
    "csl": 104_140,
    "molpcba": 6_115_728,
    "pascalvoc_sp": 495_021,
    "peptides_func": 510_910,
    "peptides_struct": 511_011,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_models_have_the_published_number_of_parameters(name):
    assert count_parameters(RECIPES[name](), Features.of_benchmark(name)) == PUBLISHED[name]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_a_recipe(name):
    experiment = RECIPES[name]()
    assert experiment.training.lr == 1e-3
    num_steps = 150 if name.startswith("counting") else 50  # the paper has 50 for all
    assert (experiment.walk.strategy, experiment.walk.num_steps) == ("non_backtracking", num_steps)
    assert build_model(experiment, Features.of_benchmark(name)).num_eval_steps in (100, 150)


# Steps in evaluation, p*, r_val, r_test, dropout, batch, virtual node, schedule and epochs: the table of the paper.
SETTINGS = {
    "zinc": (150, 1.0, 2, 10, 0.0, 50, True, "plateau", None),
    "cifar10": (150, 1.0, 2, 10, 0.0, 50, False, "plateau", None),
    "mnist": (150, 1.0, 2, 10, 0.0, 50, False, "plateau", None),
    "csl": (150, 1.0, 5, 10, 0.0, 50, False, "plateau", None),
    "molpcba": (100, 0.2, 2, 10, 0.25, 100, True, "step", 60),
    "pascalvoc_sp": (150, 0.2, 2, 5, 0.1, 50, True, "cosine", 300),
    "peptides_func": (150, 0.2, 2, 5, 0.1, 50, True, "cosine", 500),
    "peptides_struct": (150, 0.2, 2, 5, 0.2, 50, True, "cosine", 500),
    "collab": (150, 1.0, 2, 10, 0.5, 100, False, "interval", 200),
    "imdb_multi": (150, 1.0, 2, 10, 0.5, 100, False, "interval", 500),
    "reddit_binary": (150, 1.0, 2, 10, 0.5, 100, False, "interval", 200),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_those_of_the_paper(name):
    experiment = RECIPES[name]()
    training, evaluation, model = experiment.training, experiment.evaluation, experiment.model
    epochs = None if training.schedule == "plateau" else training.max_epochs
    found = (
        *(experiment.walk.num_eval_steps, experiment.walk.start_share),
        *(evaluation.num_val_repeats, evaluation.num_test_repeats),
        *(model.dropout, training.batch_size, model.virtual_node, training.schedule, epochs),
    )
    assert found == SETTINGS[name]
    if training.schedule == "plateau":
        assert (training.factor, training.min_lr) == (0.5, 1e-6)
        assert training.patience == (20 if name == "csl" else 10)
    if name == "molpcba":
        assert (training.step_epoch, training.factor) == (50, 0.1)
    if training.schedule == "interval":
        assert (training.interval, training.factor) == (50 if name == "imdb_multi" else 20, 0.5)
        assert evaluation.track_test
