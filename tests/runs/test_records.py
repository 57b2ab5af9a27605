from __future__ import annotations

import json

import pytest
from fake_runs import make_record, write_run

from crawl.runs.recipes import RECIPES
from crawl.runs.records import is_finished, read_run


@pytest.fixture
def run(tmp_path):
    """A finished run that tests may damage."""
    return write_run(tmp_path / "zinc/crawl/seed-0", RECIPES["zinc"](), 0.08, 0.1)


def other_version(text: str) -> str:
    record = json.loads(text)
    record["config"]["walk"]["num_stepz"] = 3
    return json.dumps(record)


DAMAGES = {
    "truncated": (lambda text: text[: len(text) // 2], "Expecting|Unterminated"),
    "empty": (lambda text: "", "Expecting value"),
    "an empty record": (lambda text: "{}", "lacks config"),
    "null": (lambda text: "null", "expected a mapping, not NoneType"),
    "without scores": (lambda text: text.replace('"scores"', '"points"'), "lacks scores"),
    "without a test part": (lambda text: text.replace('"test"', '"train"'), "lacks scores.test"),
    "a word for a number": (
        lambda text: text.replace('"mean": 0.09', '"mean": "low"'),
        "scores.test.mean must be a number, not 'low'",
    ),
    "a truth for a number": (
        lambda text: text.replace('"mean": 0.09', '"mean": true'),
        "scores.test.mean must be a number, not True",
    ),
    **{
        f"targets: {targets}": (
            lambda text, targets=targets: text.replace('"mean": 0.09', f'"mean": 0.09, "by_target": {targets}'),
            reason,
        )
        for targets, reason in {
            "null": "scores.test.by_target must be a dictionary, not None",
            '["star"]': "scores.test.by_target must be a dictionary, not",
            '{"star": 0.1}': "scores.test.by_target.star: expected a mapping, not float",
            '{"star": {"mean": 0.1}}': "lacks scores.test.by_target.star.internal_deviation",
        }.items()
    },
    "a word for a number of runs": (
        lambda text: text.replace('"device"', '"runs_at_a_time": "two", "device"'),
        "runs_at_a_time must be of type int, not 'two'",
    ),
    "evaluations that are no list": (
        lambda text: text.replace('"mean": 0.09', '"mean": 0.09, "evaluations": 2'),
        "scores.test.evaluations must be a list, not 2",
    ),
    "nested": (lambda text: text.replace('"mean": 0.09', '"mean": ' + "[" * 100_000), "nested more than 100 deep"),
    "of another version": (other_version, "no key walk.num_stepz"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_named(run, damage):
    change, reason = DAMAGES[damage]
    (run / "result.json").write_text(change((run / "result.json").read_text()))
    assert not is_finished(run)
    with pytest.raises(ValueError, match=rf"seed-0/result\.json is damaged or of another version \(.*({reason})"):
        read_run(run, "here")


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


def test_an_unfinished_run_needs_its_configuration(run):
    (run / "result.json").unlink()
    assert not is_finished(run)
    assert read_run(run, "here").epochs == 3
    (run / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is damaged.*: remove the folder and run it again\.$"):
        read_run(run, "here")
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
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged .*line 4 lacks loss"):
        read_run(run, "here")
    (run / "metrics.jsonl").write_text(
        text.replace('"val_mae": 0.4, ', "", 3).replace('"lr"', '"val_mae": 0.4, "lr"', 1)
    )
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged .*line 2 lacks val_mae"):
        read_run(run, "here")
    (run / "metrics.jsonl").write_text(text.replace('"val_mae": 0.4', '"val_mae": "low"', 1))
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged .*val_mae must be a number, not 'low'"):
        read_run(run, "here")


def test_a_finished_run_has_all_epochs(run):
    text = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(text[:-20])
    assert not is_finished(run)
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged: it has 2 of 3 epochs"):
        read_run(run, "here")


def test_the_data_folder_of_a_machine_is_not_kept(tmp_path):
    zinc = RECIPES["zinc"]()
    record = read_run(write_run(tmp_path / "run", zinc, 0.1, where={"root": "/home/me/data"}), "here").record
    assert "/home/me" not in json.dumps(record)
    config = json.loads(zinc.to_json())
    config["model"] = {"name": "crawl", "virtual_node": True}
    config["data"] |= {"root": "/home/me/data", "path": None}  # as older versions wrote it
    record = read_run(write_run(tmp_path / "old", zinc, 0.1, config=config), "here").record
    assert record["config"]["data"] == {"name": "zinc", "root": None, "path": None}


def test_what_later_versions_add_to_a_record_does_no_harm(run):
    record = make_record(RECIPES["zinc"](), 0.1, colour="green")
    (run / "result.json").write_text(json.dumps(record))
    assert is_finished(run)
