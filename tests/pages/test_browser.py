"""What a browser makes of a page. It is a test of the template, the style and the policy together."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawl.pages import Facts, Highlight, Section, Table, Text, page
from tests.browser import PHONE, Browser


@pytest.fixture
def example(tmp_path: Path) -> Path:
    facts = Facts([(f"fact {i}", "value " * 5) for i in range(6)])
    table = Table([f"column {i}" for i in range(9)], [["a_long_word_without_blanks" * 3] * 9])
    sections = [Section("One", [Text("word " * 80), facts, table])]
    path = tmp_path / "page.html"
    path.write_text(page("A page", sections, highlights=[Highlight("score", "0.1", "± 0.01")]))
    return path


def test_a_page_is_not_blank_and_asks_for_nothing(example: Path, browser: Browser, tmp_path: Path) -> None:
    light, dark = browser.look_at(example, tmp_path), browser.look_at(example, tmp_path, is_dark=True)
    for seen in (light, dark, browser.look_at(example, tmp_path, width=PHONE, is_whole=True)):
        seen.check()
        assert seen.requests == []
    assert light.pixels()[0, 0].min() > 230 > 60 > dark.pixels()[0, 0].max()


def test_what_a_page_would_load_is_noticed_and_not_loaded(example: Path, browser: Browser, tmp_path: Path) -> None:
    bad = "<img src='https://example.org/x.png'><script>console.log(1)</script></main>"
    example.write_text(example.read_text().replace("</main>", bad))
    messages = " ".join(browser.look_at(example, tmp_path).messages)
    assert "https://example.org/x.png" in messages
    assert "script" in messages


def test_what_the_browser_would_notice(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<p style='width: 2000px'>x</p><script>console.log('hello'); fetch('https://example.org/y')</script>"
    )
    seen = browser.look_at(page, tmp_path, questions=("document.querySelectorAll('p').length",))
    assert seen.answers == [1]
    assert "2008 wide" in seen.too_wide[0]
    assert "https://example.org/y" in seen.requests
    assert "hello" in seen.messages
    page.write_text("<p>.</p>")
    with pytest.raises(AssertionError, match="is blank"):
        browser.look_at(page, tmp_path).check()
