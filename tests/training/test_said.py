"""What goes wrong in several processes alike is said once; what goes wrong in one is said by that one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from crawl.training import said


def test_the_same_words_are_said_once(as_rank) -> None:
    as_rank(0)
    assert not said.has_first_failed()
    assert not said.is_said_by_first("no such file")
    as_rank(1)
    assert said.has_first_failed()
    assert said.is_said_by_first("no such file")
    assert not said.is_said_by_first("no memory")


def test_one_that_fails_alone_speaks_for_itself(as_rank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(said, "_PATIENCE", timedelta(seconds=0.2))
    as_rank(1)
    assert not said.is_said_by_first("no memory")


def test_without_a_common_place_each_speaks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not said.is_said_by_first("alone")
    for rank in ("0", "1"):
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", rank)
        assert not said.is_said_by_first("no such file")
        assert not said.has_first_failed()
