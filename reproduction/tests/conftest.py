"""What the tests of the reproduction share; some of it with those of the library."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reproduction.__main__ import main
from tests.browser import browser  # noqa: F401
from tests.cli.conftest import Crawl, crawl, csl_run, tiny  # noqa: F401
from tests.conftest import (  # noqa: F401
    _runs_without_pages,
    interruptible,
    pytest_collection,
    pytest_configure,
    pytest_configure_node,
    wide_tiles,
)
from tests.data.benchmarks.conftest import shrink  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def _reports_without_pages() -> Iterator[None]:
    """Let reports have an empty `report.html`: its figures would take longer than all else. Its own test has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reproduction.report.report_page", lambda *_: "")
        yield


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    """`command("zinc", "--list")` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Crawl(capsys, main, "python -m reproduction")
