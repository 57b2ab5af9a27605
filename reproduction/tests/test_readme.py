"""The Python on the page of the reproduction runs, and its links lead somewhere."""

import pytest

from reproduction.tables import GROUPS, TABLES
from tests import test_readme as pages

PAGE = pages.ROOT / "reproduction/README.md"


def test_python_blocks_run(capsys: pytest.CaptureFixture[str]) -> None:
    pages.test_python_blocks_run_in_order(PAGE, capsys)


def test_links_lead_to_files() -> None:
    pages.test_links_lead_to_files(PAGE)


def test_every_table_is_on_the_page() -> None:
    text = PAGE.read_text()
    for name in (*TABLES, *GROUPS):
        assert f"reproduction {name}`" in text or f"`{name}`" in text, name
