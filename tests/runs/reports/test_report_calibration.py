from __future__ import annotations

from crawl.pages import Note, Table
from crawl.runs.reports.calibration import recorded_calibration


def test_coverage_of_each_target() -> None:
    of_target = {"val": {"count": 1200, "coverage": 0.9, "mean_width": 1.25}, "test": {"count": 0}}
    (table,) = recorded_calibration({"confidence": 0.9, "by_target": {"logS": of_target}})
    assert isinstance(table, Table)
    assert table.columns == ("target", "part", "number", "inside", "mean width")
    assert table.rows == [("logS", "validation", "1,200", "90.0%", "1.25"), ("logS", "test", "0", "–", "–")]
    assert "intervals of 90%" in table.caption


def test_reasons_and_records_without_it() -> None:
    (note,) = recorded_calibration({"reason": "there are too few"})
    assert isinstance(note, Note)
    assert "there are too few" in note.text
    assert list(recorded_calibration(None)) == list(recorded_calibration({})) == list(recorded_calibration([1])) == []
