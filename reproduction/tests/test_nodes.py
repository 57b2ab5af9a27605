"""Tables about nodes of one graph: what they are made of, and what they show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawl.runs.recipes import RECIPES
from crawl.runs.records import RunRecord
from reproduction.summary import summarise, to_markdown
from reproduction.tables import TABLES
from tests.runs.fake_runs import make_record


@pytest.mark.parametrize("name", ["minesweeper", "tolokers", "cora"])
def test_the_recipe_stands_first_beside_message_passing(name: str) -> None:
    first, *others = TABLES[name]().rows
    assert replace(first.experiment, name=name) == RECIPES[name]()
    assert {"crawl", "gcn", "gine", "gated-gcn"} <= {row.name for row in others}
    for row in (first, *others):
        assert len(list(row.runs())) == 10
        assert row.published is None or row.published.mark in ("[G]", "[M]")


@pytest.mark.parametrize(("name", "end"), [("minesweeper", "-15"), ("tolokers", "")])
def test_message_passing_is_trained_as_the_recipe(name: str, end: str) -> None:
    rows = {row.name: row.experiment.training for row in TABLES[name]().rows}
    for network in ("gcn", "gine", "gated-gcn"):
        assert rows[f"{network}{end}"] == RECIPES[name]().training


def test_networks_on_cora_are_trained_as_validation_prefers() -> None:
    rows = {row.name: row.experiment.training for row in TABLES["cora"]().rows}
    assert rows["walk-appnp-l2"] == RECIPES["cora"]().training
    assert rows["gcn"] == rows["gine"] == rows["gated-gcn"]
    assert "which validation prefers for GCN" in TABLES["cora"]().note


def test_trials_share_the_runs_of_the_table() -> None:
    planned = {run.place: run.experiment for row in TABLES["minesweeper"]().rows for run in row.runs()}
    runs = [run for row in TABLES["search_minesweeper"]().rows for run in row.runs()]
    shared = [run for run in runs if run.place in planned]
    assert len(shared) == 8
    assert all(planned[run.place] == run.experiment for run in shared)
    assert all(
        row.part == "val"
        for name in ("search_minesweeper", "search_tolokers", "search_cora")
        for row in TABLES[name]().rows
    )


def test_closed_batches_are_compared_with_the_same_network_on_the_full_graph() -> None:
    full, *closed = TABLES["tolokers_batches"]().rows
    assert full.experiment.data.batches == "full"
    for row in closed:
        training = row.experiment.training
        changed = {"max_epochs": training.max_epochs, "lr": training.lr, "batch_size": 250}
        assert row.experiment.data.batches == "closed"
        assert row.experiment.model == full.experiment.model
        assert training == replace(full.experiment.training, **changed)
    numbers = [(row.experiment.walk.num_walks, row.experiment.walk.num_eval_walks) for row in closed]
    assert numbers == [(2, None), (8, 64)]


def test_time_memory_and_marks_are_shown() -> None:
    table = TABLES["minesweeper"]()
    runs = {}
    for run, seconds in zip(list(table.rows[0].runs())[:2], (60.0, 180.0), strict=True):
        record = make_record(run.experiment, 0.9) | {
            "wall_time_s": seconds,
            "peak_memory_mb": 10 * seconds,
            "num_parameters": 46017,
        }
        runs[run.place] = RunRecord(run.place, record, 3, 1.5, [], [])
    lines = summarise(table, runs)
    assert (lines[0].num_parameters, lines[0].seconds, lines[0].memory_mb) == (46017, 120.0, 1800.0)
    header, _, first, second = to_markdown(table, lines).splitlines()[2:6]
    assert "| published | ours |" in header
    assert "| parameters | time of a run | memory |" in header
    assert "| 0.978 [M] |" in to_markdown(table, lines).replace("0.9780", "0.978")
    assert "| 46,017 | 2.0 min | 1.76 GB |" in first
    assert "| – | – | – | not run |" in second


def test_other_tables_show_neither() -> None:
    table = TABLES["zinc"]()
    header = to_markdown(table, summarise(table, {})).splitlines()[2]
    assert "| paper | ours |" in header
    assert "memory" not in header
