from __future__ import annotations

import json
from dataclasses import replace

import pytest

from crawl.runs.records import read_run
from reproduction.records import read_collected, read_runs, write_collected
from reproduction.summary import summarise
from reproduction.tables import TABLES
from tests.runs.fake_runs import write_run


@pytest.fixture
def zinc():
    return TABLES["zinc"]()


@pytest.fixture
def run(zinc, tmp_path):
    """A finished run that tests may damage."""
    return write_run(tmp_path / "zinc/crawl/seed-0", next(zinc.rows[0].runs()).experiment, 0.08, 0.1)


@pytest.mark.parametrize("file", ["result.json", "metrics.jsonl"])
def test_a_damaged_run_is_named_and_does_not_cost_the_table(run, zinc, tmp_path, file):
    write_run(tmp_path / "zinc/crawl/seed-1", list(zinc.rows[0].runs())[1].experiment, 0.2)
    (run / file).write_text("{}\n")
    (line,) = summarise(zinc, read_runs(tmp_path, zinc))
    assert (line.mean, line.num_finished) == (pytest.approx(0.2), 1)
    assert line.notes[0] == "unfinished: 1 of 5 runs"
    assert f"{run / file} is damaged" in line.notes[1]


def test_collected_runs_come_back(run, tmp_path):
    found = read_run(run, "zinc/crawl/seed-0")
    begun = replace(found, place="zinc/crawl/seed-1", record=None)
    damaged = replace(found, place="zinc/crawl/seed-2", record=None, problem="It is damaged.")
    write_collected("zinc", [found, begun, damaged], tmp_path / "zinc.json")
    name, runs = read_collected(tmp_path / "zinc.json")
    assert (name, runs) == ("zinc", {found.place: found, begun.place: begun})


@pytest.mark.parametrize(
    ("num_epochs", "every", "num_kept", "num_scored"),
    [(500, 5, 40, 40), (500, 50, 50, 10), (7, 3, 7, 2), (30, 1, 30, 30)],
)
def test_of_a_curve_points_with_a_score_are_kept(run, tmp_path, num_epochs, every, num_kept, num_scored):
    curve = [{"epoch": i, "loss": 1.0, "val": 0.5 if i % every == 0 else None} for i in range(1, num_epochs + 1)]
    whole = replace(read_run(run, "here"), curve=curve, epochs=num_epochs)
    write_collected("zinc", [whole], tmp_path / "zinc.json")
    _, runs = read_collected(tmp_path / "zinc.json")
    kept = runs["here"].curve
    assert len(kept) == pytest.approx(num_kept, abs=2 if num_kept > 40 else 0)  # some of the even ones have a score
    assert sum(point["val"] is not None for point in kept) == num_scored
    assert kept[-1]["epoch"] == num_epochs
    assert kept == sorted(kept, key=lambda point: point["epoch"])
    write_collected("zinc", runs.values(), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "zinc.json").read_text()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content.pop("format"), "it does not hold the results of a table"),
        (lambda content: content.pop("table"), "a table lacks table"),
        (lambda content: content["runs"].append(7), "a run: it: expected a mapping, not int"),
        (lambda content: content["runs"][0].pop("curve"), "zinc/crawl/seed-0: it lacks curve"),
        (
            lambda content: content["runs"][0]["curve"].update(loss=7),
            "zinc/crawl/seed-0: curve.loss must be a list, not 7",
        ),
        (
            lambda content: content["runs"][0]["curve"].pop("loss"),
            "its curve has not a number for each epoch",
        ),
        (
            lambda content: content["runs"][0]["curve"].update(val=[0.5, "low", None]),
            "zinc/crawl/seed-0: curve.val must be a number, not 'low'",
        ),
        (lambda content: content["runs"][0]["record"].pop("scores"), "zinc/crawl/seed-0 lacks scores"),
        (
            lambda content: content["runs"][0].update(test_by_epoch=[0.5]),
            "zinc/crawl/seed-0: test_by_epoch has 1 of 3 epochs",
        ),
        (
            lambda content: content["runs"][0].update(test_by_epoch=[0.5, "x", None]),
            "zinc/crawl/seed-0: test_by_epoch must be a number, not 'x'",
        ),
    ],
)
def test_a_damaged_small_file_is_named(run, tmp_path, change, reason):
    path = tmp_path / "zinc.json"
    write_collected("zinc", [read_run(run, "zinc/crawl/seed-0")], path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"zinc\.json is damaged or of another version \(.*{reason}\): make it again"):
        read_collected(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"zinc\.json .*does not hold the results of a table"):
        read_collected(path)
