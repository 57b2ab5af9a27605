"""The tables in `results` against the records beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawl.experiments.report import write_report

RESULTS = Path(__file__).parents[1] / "results"


@pytest.mark.parametrize("name", ["tables.md", "tables.csv"])
def test_tables_are_what_the_records_say(tmp_path, name):
    write_report([RESULTS], tmp_path)
    assert (tmp_path / name).read_text() == (RESULTS / name).read_text()
