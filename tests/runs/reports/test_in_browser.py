"""What a browser makes of the pages of runs: nothing is blank, nothing fails, nothing is loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crawl.runs import Result
from crawl.runs.reports.compare import compare_page
from crawl.runs.reports.run_page import run_page
from tests.browser import Browser


@pytest.mark.parametrize("kind", ["run", "compare"])
def test_pages_are_seen_and_load_nothing(finished: Result, browser: Browser, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    shutil.copytree(finished.folder, tmp_path / "other")
    page = tmp_path / f"{kind}.html"
    page.write_text(run_page(finished.folder) if kind == "run" else compare_page([finished.folder, tmp_path / "other"]))
    seen = browser.look_at(page, tmp_path, width=1150, height=1500)
    seen.check()
    pixels = seen.pixels()
    is_text = abs(pixels - pixels[0, 0]).max(axis=2) > 150
    assert is_text.mean() > 0.005
    rows = is_text.any(axis=1)
    assert rows[:500].any()
    assert rows[-500:].any()  # also far below
    is_curve = (pixels[..., 1] - pixels[..., 0] > 60) & (pixels[..., 1] > pixels[..., 2])  # the green of first curves
    assert is_curve.sum() > 500
