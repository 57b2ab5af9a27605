from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from crawl.pages import Code, Facts, Figure, Fold, Gallery, Highlight, Note, Section, Table, Text, clean_svg, page

EVIL = "<script>alert('x')</script>\" onload=\"alert(1)"


def picture(name: str = "one") -> Figure:
    square = clean_svg('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect/></svg>', name, EVIL)
    return Figure(square, EVIL, EVIL)


def test_every_part_is_shown_and_nothing_in_it_is_obeyed() -> None:
    parts: list[Any] = [Text(EVIL), Note(EVIL), Note(EVIL, "warning"), Code(EVIL), Facts([(EVIL, EVIL)])]
    parts += [Table((EVIL,), [(EVIL,)], EVIL), picture(), Gallery([picture("two")])]
    sections = [Section(EVIL, [*parts, Fold(EVIL, parts[:3])])] * 3
    text = page(EVIL, sections, subtitle=EVIL, highlights=[Highlight(EVIL, EVIL, EVIL)], footer=EVIL)
    assert "<script" not in text
    assert not re.search(r'onload="alert', text)
    assert text.count("&lt;script&gt;") == 2 + 3 + 1 + 1 + 3 + 3 * (1 + 4 + 2 + 3 + 3 + 3 + 1 + 3)


def test_the_page_needs_nothing_else() -> None:
    text = page("A", [Section("B", [Text("C"), picture()])])
    assert text.startswith("<!DOCTYPE html>\n")
    links = re.findall(r"(?:src|href)=[\"']?([^\"' >]*)", text)
    assert links == ["data:,"]
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_sections_without_parts_are_left_out() -> None:
    text = page("A", [Section("full", [Text("C")]), Section("empty", [])])
    assert "full" in text
    assert "empty" not in text


def test_mistakes_are_refused() -> None:
    @dataclass(frozen=True)
    class Other:
        text: str

    other: Any = Other("x")
    with pytest.raises(ValueError, match="A part of a page must be one of Text, Note"):
        page("A", [Section("B", [other])])
    with pytest.raises(ValueError, match="A table of 2 columns has rows"):
        Table(("a", "b"), [("1",)])
    with pytest.raises(ValueError, match="A table of 2 columns has rows"):
        Table(("a", "b"), [("1", "2")], align="l")
    with pytest.raises(ValueError, match=r"must come from crawl\.pages\.plot"):
        Figure("<svg/>")  # type: ignore[arg-type]
