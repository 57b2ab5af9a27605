"""The searches for hybrids: trials that differ from the base, within the budget of their benchmark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawl.runs.build import Features, count_parameters
from reproduction.search import SEARCHES, ablation_hybrid

BUDGETS = {"zinc": 500_000, "peptides_func": 510_910, "mnist": 100_000, "cifar10": 100_000}


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.__name__)
def test_each_trial_changes_something(search):
    rows = search().rows
    settings = [replace(row.experiment, name="").to_json() for row in rows]
    assert len(set(settings)) == len(rows)
    assert all(row.part == "val" for row in rows)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.__name__)
def test_trials_keep_to_the_budget_of_their_benchmark(search):
    for row in search().rows:
        experiment = row.experiment
        features = Features.of_benchmark(experiment.data.name)
        if getattr(experiment.data, "has_positions", False):
            features = replace(features, num_node_features=features.num_node_features + 2)
        budget = BUDGETS.get(experiment.data.name, 2_000_000)
        assert count_parameters(experiment, features) <= budget, row.name


def test_the_ablation_leaves_out_one_part_at_a_time():
    rows = ablation_hybrid().rows
    settings = [replace(row.experiment, name="").to_json() for row in rows]
    assert len(set(settings)) == len(rows)
