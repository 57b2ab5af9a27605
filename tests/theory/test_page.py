"""The tables of `docs/expressiveness.md` are what the code says."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_expressiveness", ROOT / "docs" / "make_expressiveness.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("part", ["cycles", "paths", "trained", "deep"])
def test_quick_parts_are_up_to_date(maker, part):
    page = maker.PAGE.read_text()
    assert maker.fill(page, {part: maker.PARTS[part]}) == page


@pytest.mark.slow
@pytest.mark.parametrize("part", ["overview", "distances", "cover"])
def test_other_parts_are_up_to_date(maker, part, tmp_path, monkeypatch):
    monkeypatch.setattr(maker, "IMAGES", tmp_path)
    page = maker.PAGE.read_text()
    assert maker.fill(page, {part: maker.PARTS[part]}) == page


def test_every_part_has_its_place(maker):
    page = maker.PAGE.read_text()
    for part in maker.PARTS:
        assert page.count(f"<!-- made: {part} -->") == 1
    for image in ("three_paths.svg", "rook_shrikhande.png"):
        assert f"(images/{image})" in page
        assert (maker.IMAGES / image).stat().st_size < 200_000


def test_the_record_says_how_it_was_made(maker):
    record = json.loads(maker.RECORD.read_text())
    assert record["device"] == "cpu (1 thread)"
    assert {"python", "torch", "numba"} <= set(record["versions"])
    for run in record["runs"]:
        assert {"name", "graphs", "network", "settings", "results"} <= set(run)
        assert all("seed" in result for result in run["results"])


def test_the_record_shows_what_networks_tell_apart(maker):
    """CRaWl all that its window holds, a GIN nothing."""
    for run in json.loads(maker.RECORD.read_text())["runs"]:
        accuracies = [result["accuracy"] for result in run["results"]]
        chance = run["results"][0]["chance"]
        if run["network"] == "gin":
            assert max(abs(accuracy - chance) for accuracy in accuracies) < 0.1
        elif run["name"] in ("the ten CSL classes", "rook, shrikhande (cfi:K4:compact)", "cfi:C3:compact and twin"):
            assert min(accuracies) > 0.95
        elif run["graphs"] == maker.DEEP:
            num_layers, strategy = run["settings"]["num_layers"], run["settings"]["strategy"]
            if strategy == "uniform" and num_layers == 4:
                assert min(accuracies) > 0.8
            elif strategy == "non_backtracking" or num_layers == 1:
                assert max(accuracies) < 0.65
