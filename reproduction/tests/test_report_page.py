"""The page of a report: what it marks, what it draws, and what a browser makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reproduction.page import report_page, verdict
from reproduction.plan import Published
from reproduction.report import write_report
from reproduction.summary import BY_VALIDATION, Line
from reproduction.tests.test_report import write_planned
from tests.browser import Browser, look_in_all_windows

_OF_WALKS = ["ZINC: test mae by number of walks: the paper and ours", "Training loss", "Validation MAE"]
LINE = Line("row", BY_VALIDATION, "mae", 5, 5, 0.10, 0.003, 0.001, Published(0.10, 0.004, 0.001))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (replace(LINE, mean=0.1039), "within"),
        (replace(LINE, mean=0.1041), "misses"),
        (replace(LINE, mean=0.0959), "better"),
        (replace(LINE, mean=0.1041, cross_deviation=0.005), "within"),
        (replace(LINE, mean=0.90, metric="accuracy", published=Published(0.95, 0.01)), "misses"),
        (replace(LINE, mean=0.97, metric="accuracy", published=Published(0.95, 0.01)), "better"),
        (replace(LINE, mean=0.5, metric="accuracy", published=Published(0.1, at_most=True)), ""),
        (replace(LINE, mean=9.0, metric="seconds"), ""),
        (replace(LINE, mean=None), ""),
        (replace(LINE, published=None), ""),
    ],
)
def test_what_misses_the_published_figure(line: Line, expected: str) -> None:
    assert verdict(line) == expected


def test_the_page_has_every_table_and_marks_misses(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("reproduction.report.report_page", report_page)
    write_planned(tmp_path, "zinc/crawl/seed-0", 0.2)
    for share, score in (("0.2", 0.05), ("1.0", 0.3)):
        write_planned(tmp_path, f"walks/{share}/seed-0", score)
    written = write_report([tmp_path], tmp_path / "report")
    page = tmp_path / "report" / "report.html"
    assert page in written
    rows = """[...document.querySelectorAll('tbody tr')].map(
        row => [row.className, ...[...row.cells].map(cell => cell.textContent)])"""
    pictures = "[...document.querySelectorAll('svg')].map(each => each.getAttribute('aria-label'))"
    seen = browser.look_at(page, tmp_path, questions=(rows, pictures))
    crawl, *walks = [row for row in seen.answers[0] if len(row) > 3]  # the others are notes
    assert crawl[:6] == ["warned", "CRaWl", "0.0846 ± 0.0035 (± 0.0012)", "0.2000", "+0.1154", "misses"]
    assert [(row[0], row[5]) for row in walks] == [("", "better"), *[("", "–")] * 3, ("warned", "misses")]
    assert seen.answers[1] == ["Training loss", "Validation MAE", *_OF_WALKS]
    for each in look_in_all_windows(browser, page, "reproduction", is_whole=True).values():
        assert each.requests == []
