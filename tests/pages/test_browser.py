"""What a browser makes of a page. It is a test of the template, the style and the policy together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crawl.pages import Facts, Highlight, Section, Table, Text, page
from tests.browser import look_at, needs_chromium

pytestmark = needs_chromium


def pixels(path: Path) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    with image.open(path) as picture:
        return np.asarray(picture.convert("L")).astype(int)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    facts = Facts([(f"fact {i}", "value " * 5) for i in range(6)])
    table = Table([f"column {i}" for i in range(9)], [["a_long_word_without_blanks" * 3] * 9])
    sections = [Section("One", [Text("word " * 80), facts, table])]
    path = tmp_path / "page.html"
    path.write_text(page("A page", sections, highlights=[Highlight("score", "0.1", "± 0.01")]))
    return path


def test_a_page_is_not_blank_and_asks_for_nothing(example: Path, tmp_path: Path) -> None:
    light, dark = look_at(example, tmp_path), look_at(example, tmp_path, is_dark=True)
    assert light.messages == dark.messages == []
    seen, in_dark = pixels(light.picture), pixels(dark.picture)
    assert seen[0, 0] > 230 > 60 > in_dark[0, 0]
    for image in (seen, in_dark):
        assert np.mean(abs(image - image[0, 0]) > 100) > 0.01  # letters


def test_what_a_page_would_load_is_noticed_and_not_loaded(example: Path, tmp_path: Path) -> None:
    bad = "<img src='https://example.org/x.png'><script>console.log(1)</script></main>"
    example.write_text(example.read_text().replace("</main>", bad))
    messages = " ".join(look_at(example, tmp_path).messages)
    assert "https://example.org/x.png" in messages
    assert "script" in messages
