from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from crawl.data import csl
from crawl.runs import Benchmark, Counting, Csl, GivenModel, Model, Result, Social
from crawl.runs.formats import format_score, model_title
from crawl.runs.protocol import Summary, _left_out, as_baseline, num_folds, results_table, run_folds, runs_in


def fake(*evaluations: float | None) -> Result:
    values = [np.nan if value is None else value for value in evaluations]
    mean, deviation = float(np.mean(values)), float(np.std(values))
    score = {"mean": None if np.isnan(mean) else mean, "internal_deviation": None if np.isnan(mean) else deviation}
    return Result(None, {"scores": {"test": score}})


def test_both_spreads_by_hand():
    summary = Summary.of([fake(0.5, 0.7), fake(0.9, 0.9), fake(0.4, 0.8)])
    assert summary.mean == pytest.approx((0.6 + 0.9 + 0.6) / 3)
    assert summary.internal_deviation == pytest.approx((0.1 + 0.0 + 0.2) / 3)
    assert summary.cross_deviation == pytest.approx(np.std([0.6, 0.9, 0.6]))


def test_a_model_without_a_score():
    assert np.isnan(Summary.of([fake(0.5), fake(None)]).mean)


@pytest.fixture
def on_csl(tiny):
    training = replace(tiny.training, max_epochs=1, batch_size=90)
    return replace(tiny, data=Csl(), training=training)


def test_folds(on_csl, tmp_path):
    results = run_folds(on_csl, tmp_path)
    assert [result.folder.name for result in results] == [f"fold-{k}" for k in range(5)]
    assert [result.record["config"]["data"]["fold"] for result in results] == [0, 1, 2, 3, 4]
    assert (tmp_path / "fold-2/split.json").read_text() == csl(2).split.to_json()
    (tmp_path / "fold-4/result.json").unlink()
    again = run_folds(on_csl, tmp_path)  # four are read, the fifth is resumed
    assert again[:4] == results[:4]
    assert again[4].record["scores"] == results[4].record["scores"]
    with pytest.raises(ValueError, match="other settings"):
        run_folds(replace(on_csl, seed=1), tmp_path)
    for k in reversed(range(5)):
        (tmp_path / f"fold-{k}").rename(tmp_path / f"fold-{k + 1}")
    for call in (lambda: run_folds(on_csl, tmp_path), lambda: runs_in(tmp_path)):
        with pytest.raises(ValueError, match=r"named from fold-1 on.*rename each to one less"):
            call()
    text = StringIO()
    Console(file=text, width=200).print(results_table(results))
    assert text.getvalue().count("CRaWl fold") == 5
    assert "test accuracy" in text.getvalue()


def test_a_run_without_folds_may_have_the_name_of_one(tiny, tmp_path):
    (tmp_path / "fold-1").mkdir()
    (tmp_path / "fold-1" / "config.json").write_text(replace(tiny, data=Counting()).to_json())
    assert runs_in(tmp_path) == []


def test_data_without_folds(tiny, tmp_path):
    with pytest.raises(ValueError, match="counting has no folds: leave out --protocol folds"):
        run_folds(replace(tiny, data=Counting()), tmp_path)
    assert num_folds(replace(tiny, data=Social("collab"))) == 10
    assert num_folds(replace(tiny, data=Benchmark("zinc"))) == 0


def test_the_baseline_differs_in_its_model_only(tiny):
    baseline = as_baseline(tiny)
    assert (baseline.name, baseline.model.title, baseline.walk) == ("tiny-gin", "gin", None)
    changed = {"name": "tiny", "model": tiny.model, "walk": tiny.walk, "evaluation": tiny.evaluation}
    assert replace(baseline, **changed) == tiny
    wide = replace(tiny, model=replace(tiny.model, hidden_channels=90))
    assert as_baseline(wide, "gat").model.hidden_channels == 92  # four heads
    assert as_baseline(wide, "pna").model.hidden_channels == 90


def test_titles_of_models():
    titles = {
        ("walk",): "CRaWl",
        ("walk", "virtual_node"): "CRaWl",
        ("gated_gcn",): "GatedGCN (message passing)",
        ("walk+gine", "edge_update"): "walk+gine edge_update",
    }
    assert {layer: model_title(Model(layer)) for layer in titles} == titles
    assert model_title(GivenModel("here.Mine")) == "Mine"


def test_scores_as_people_write_them():
    assert format_score("accuracy", 1.0) == "100.00 %"
    assert format_score("mae", 0.12345) == "0.1235"  # rounded to even
    assert format_score("mae", None) == "–"


def test_what_a_mean_score_leaves_out():
    by_target = {"a": {"mean": 0.5}, **{name: {"mean": None} for name in "bcdefgh"}}
    said = _left_out("val", {"mean": 0.5, "by_target": by_target})
    assert said == "The val score leaves out b, c, d, e, f and 2 more, for which there is none."
    assert _left_out("train", {"mean": 0.5, "by_target": by_target}) == ""
    assert _left_out("test", {"mean": 0.5, "by_target": {"a": {"mean": 0.5}}}) == ""
    assert _left_out("test", {"mean": 0.5}) == ""
