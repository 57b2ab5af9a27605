"""The tables in `results` against the records beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproduction.brec_report import brec_page
from reproduction.brec_runs import read_rows
from reproduction.links import links_page, read_trials
from reproduction.links import read_rows as read_link_rows
from reproduction.report import write_report

RESULTS = Path(__file__).parents[2] / "results"
BREC, LINKS = RESULTS / "brec", RESULTS / "links"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:  # of plots, only their names are looked at here
        for module in ("crawl.runs.curves", "reproduction.report"):
            patch.setattr(f"{module}.save_figure", lambda figure, path: path.touch())
        write_report([RESULTS], folder, collect=True)
    return folder


@pytest.mark.parametrize("name", ["tables.md", "tables.csv"])
def test_tables_are_what_the_records_say(made, name):
    assert (made / name).read_text() == (RESULTS / name).read_text()


def test_no_plot_is_missing_or_left_over(made):
    assert {path.name for path in made.glob("*.png")} == {path.name for path in RESULTS.glob("*.png")}


def test_records_are_kept_as_they_are(made):
    names = [path.name for path in made.glob("*.json")]
    assert len(names) == 20
    for name in names:
        assert (made / name).read_text() == (RESULTS / name).read_text()


@pytest.mark.skipif(not BREC.is_dir(), reason="BREC was not run")
def test_the_table_of_brec_is_what_its_rows_say():
    assert brec_page(read_rows(BREC)) == (BREC / "brec.md").read_text()


def test_the_table_of_links_is_what_its_rows_say():
    rows = read_link_rows(LINKS)
    assert len(rows) == 14
    assert links_page(rows, read_trials(LINKS)) == (LINKS / "links.md").read_text()
