from __future__ import annotations

from typing import Any

import pytest

from crawl.pages import plot
from crawl.pages.figures import short

pytest.importorskip("matplotlib")


def draw(figure: Any) -> None:
    axes = figure.subplots()
    axes.plot([1, 2, 3], [3, 1, 2], label="<b> $x$ \u6f22")
    axes.legend()


def test_a_plot_is_the_same_each_time_and_has_its_text() -> None:
    first, second = plot(draw, "curve", "a curve"), plot(draw, "curve", "a curve")
    assert first == second
    assert "&lt;b&gt; $x$ \u6f22" in first
    assert "var(--series-1)" in first
    assert "#0103" not in first  # all colours are variables of the page
    assert "<style" not in first


def test_two_plots_share_no_id() -> None:
    ids = [{part.split('"')[0] for part in plot(draw, name, "x").split('id="')[1:]} for name in ("a", "b")]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_settings_of_matplotlib_are_as_before() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot(draw, "curve", "a curve")
    assert dict(matplotlib.rcParams) == before


def test_names_are_shortened_to_one_line() -> None:
    assert short("a\nb\x00 c\ud800") == "a b c"
    assert short("x" * 50, 11) == "xxxxx…xxxxx"
