from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fake_runs import make_record, write_run

from crawl.runs.records import is_finished, read_collected, read_run, read_runs, write_collected
from crawl.runs.summary import summarise
from crawl.runs.tables import TABLES


@pytest.fixture
def zinc():
    return TABLES["zinc"]()


@pytest.fixture
def run(zinc, tmp_path):
    """A finished run that tests may damage."""
    return write_run(tmp_path / "zinc/crawl/seed-0", next(zinc.rows[0].runs()).experiment, 0.08, 0.1)


def other_version(text: str) -> str:
    record = json.loads(text)
    record["config"]["walk"]["num_stepz"] = 3
    return json.dumps(record)


DAMAGES = {
    "truncated": (lambda text: text[: len(text) // 2], "Expecting|Unterminated"),
    "empty": (lambda text: "", "Expecting value"),
    "an empty record": (lambda text: "{}", "config is missing"),
    "null": (lambda text: "null", "not a record"),
    "without scores": (lambda text: text.replace('"scores"', '"points"'), "scores is missing"),
    "without a test part": (lambda text: text.replace('"test"', '"train"'), "scores.test is missing"),
    "a word for a number": (
        lambda text: text.replace('"mean": 0.09', '"mean": "low"'),
        "scores.test.mean is of a wrong",
    ),
    "a truth for a number": (
        lambda text: text.replace('"mean": 0.09', '"mean": true'),
        "scores.test.mean is of a wrong",
    ),
    **{
        f"targets: {targets}": (
            lambda text, targets=targets: text.replace('"mean": 0.09', f'"mean": 0.09, "by_target": {targets}'),
            reason,
        )
        for targets, reason in {
            "null": "scores.test.by_target is of a wrong kind",
            '["star"]': "scores.test.by_target is of a wrong kind",
            '{"star": 0.1}': "scores.test.by_target.star is of a wrong kind",
            '{"star": {"mean": 0.1}}': "scores.test.by_target.star.internal_deviation is missing",
        }.items()
    },
    "a word for a number of runs": (
        lambda text: text.replace('"device"', '"runs_at_a_time": "two", "device"'),
        "runs_at_a_time is of a wrong kind",
    ),
    "evaluations that are no list": (
        lambda text: text.replace('"mean": 0.09', '"mean": 0.09, "evaluations": 2'),
        "scores.test.evaluations is of a wrong kind",
    ),
    "nested": (lambda text: text.replace('"mean": 0.09', '"mean": ' + "[" * 100_000), "nested more than 100 deep"),
    "of another version": (other_version, "no key walk.num_stepz"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_named_and_does_not_cost_the_table(run, zinc, tmp_path, damage):
    write_run(tmp_path / "zinc/crawl/seed-1", list(zinc.rows[0].runs())[1].experiment, 0.2)
    change, reason = DAMAGES[damage]
    (run / "result.json").write_text(change((run / "result.json").read_text()))
    assert not is_finished(run)
    with pytest.raises(ValueError, match=rf"seed-0/result\.json is damaged or of another version \(.*({reason})"):
        read_run(run, "here")
    (line,) = summarise(zinc, read_runs(tmp_path, zinc))
    assert (line.mean, line.num_finished) == (pytest.approx(0.2), 1)
    assert line.notes[0] == "unfinished: 1 of 5 runs"
    assert f"{run / 'result.json'} is damaged" in line.notes[1]


def test_what_is_not_text_is_damaged(run):
    (run / "result.json").write_bytes(b"\xff\xfe{}")
    assert not is_finished(run)
    with pytest.raises(ValueError, match=r"seed-0/result\.json is damaged .*can't decode.*: run it again\.$"):
        read_run(run, "here")


@pytest.mark.parametrize("content", [None, "", '{"name": "zi'])
def test_a_result_does_not_need_the_configuration_beside_it(run, content):
    (run / "config.json").unlink()
    if content is not None:
        (run / "config.json").write_text(content)
    assert is_finished(run)
    assert read_run(run, "here").record["scores"]["test"]["mean"] == pytest.approx(0.09)


def test_an_unfinished_run_needs_its_configuration(run, zinc, tmp_path):
    (run / "result.json").unlink()
    assert not is_finished(run)
    assert read_run(run, "here").epochs == 3
    (run / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is damaged.*: remove the folder and run it again\.$"):
        read_run(run, "here")
    (line,) = summarise(zinc, read_runs(tmp_path, zinc))
    assert line.notes[0] == "unfinished: 0 of 5 runs"
    (run / "config.json").unlink()
    assert read_run(run, "here") is None


def test_half_a_line_at_the_end_does_not_count(run):
    (run / "result.json").unlink()
    text = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(text[:-20])
    record = read_run(run, "here")
    assert record.epochs == len(record.curve) == 2
    (run / "metrics.jsonl").write_text("half" + text)
    with pytest.raises(ValueError, match=r"seed-0/metrics\.jsonl is damaged"):
        read_run(run, "here")
    (run / "metrics.jsonl").write_text(text + '{"epoch": 4}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged .*line 4: loss is missing"):
        read_run(run, "here")
    (run / "metrics.jsonl").write_text(
        text.replace('"val_mae": 0.4, ', "", 3).replace('"lr"', '"val_mae": 0.4, "lr"', 1)
    )
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged .*line 2: val_mae is missing"):
        read_run(run, "here")
    (run / "metrics.jsonl").write_text(text.replace('"val_mae": 0.4', '"val_mae": "low"', 1))
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged .*line 1: val_mae is of a wrong kind"):
        read_run(run, "here")


def test_a_finished_run_has_all_epochs(run):
    text = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(text[:-20])
    assert not is_finished(run)
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged: it has 2 of 3 epochs"):
        read_run(run, "here")


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


def test_the_data_folder_of_a_machine_is_not_collected(zinc, tmp_path):
    experiment = zinc.rows[0].experiment
    experiment = replace(experiment, data=replace(experiment.data, root="/home/me/data"))
    record = read_run(write_run(tmp_path / "run", experiment, 0.1), "here").record
    assert record["config"]["data"]["root"] is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content.pop("format"), "it does not hold the results of a table"),
        (lambda content: content.pop("table"), "table is missing"),
        (lambda content: content["runs"].append(7), "a run: not a record"),
        (lambda content: content["runs"][0].pop("curve"), "a run: curve is missing"),
        (
            lambda content: content["runs"][0]["curve"].update(loss=7),
            "zinc/crawl/seed-0: curve.loss is of a wrong kind",
        ),
        (lambda content: content["runs"][0]["curve"].pop("loss"), "zinc/crawl/seed-0: curve.loss is missing"),
        (
            lambda content: content["runs"][0]["curve"].update(val=[0.5, "low", None]),
            "zinc/crawl/seed-0: point 2 of the curve: val is of a wrong kind",
        ),
        (lambda content: content["runs"][0]["record"].pop("scores"), "zinc/crawl/seed-0: scores is missing"),
        (
            lambda content: content["runs"][0].update(test_by_epoch=[0.5]),
            "zinc/crawl/seed-0: test_by_epoch has 1 of 3 epochs",
        ),
        (
            lambda content: content["runs"][0].update(test_by_epoch=[0.5, "x", None]),
            r"zinc/crawl/seed-0: test_by_epoch\[1\] is of a wrong kind",
        ),
    ],
)
def test_a_damaged_small_file_is_named(run, tmp_path, change, reason):
    path = tmp_path / "zinc.json"
    write_collected("zinc", [read_run(run, "zinc/crawl/seed-0")], path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"zinc\.json is damaged or of another version \({reason}\): make it again"):
        read_collected(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"zinc\.json .*does not hold the results of a table"):
        read_collected(path)


def test_what_later_versions_add_to_a_record_does_no_harm(run, zinc):
    record = make_record(zinc.rows[0].experiment, 0.1, colour="green")
    (run / "result.json").write_text(json.dumps(record))
    assert is_finished(run)
