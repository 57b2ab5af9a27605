"""The settings that say which encodings a training uses."""

from __future__ import annotations

import pytest

from crawl.encodings import Encodings


def test_widths():
    assert (Encodings().node_width, Encodings().edge_width) == (0, 0)
    assert (Encodings(20, 8).node_width, Encodings(20, 8).edge_width) == (20, 8)
    assert (Encodings(20, 8, 6).node_width, Encodings(20, 8, 6).edge_width) == (24, 12)
    assert (Encodings(20, degree=True).node_width, Encodings(degree=True).edge_width) == (21, 0)


def test_in_words():
    assert str(Encodings()) == ""
    assert str(Encodings(20, 0, 6)) == "return probabilities of 20 steps, cycles of 3 to 6 edges"
    assert str(Encodings(degree=True)) == "degrees"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"return_steps": -1}, r"encodings\.return_steps.*0 to 1000.*-1"),
        ({"walk_steps": 2.5}, r"encodings\.walk_steps.*2\.5"),
        ({"longest_cycle": 33}, r"encodings\.longest_cycle.*32.*33"),
        ({"degree": 3}, r"encodings\.degree.*3"),
        ({"longest_cycle": 2}, r"encodings\.longest_cycle.*3 or more, or 0.*2"),
    ],
)
def test_refuses_wrong_values(settings, message):
    with pytest.raises(ValueError, match=message):
        Encodings(**settings)
