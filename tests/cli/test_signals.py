from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl.cli.describe import Datasets
from crawl.cli.signals import as_interrupts, ignore
from crawl.cli.train import _resumable as resumable
from crawl.training.ranks import RankLost


@pytest.fixture(autouse=True)
def _hangups_are_not_ignored() -> Iterator[None]:
    """Not even where these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


NUMBERS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])


@NUMBERS
def test_a_signal_is_an_interrupt_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), as_interrupts() as came:
        os.kill(os.getpid(), number)
    assert came == [number]
    assert signal.getsignal(number) == before


@NUMBERS
def test_the_command_ends_with_its_code(crawl, monkeypatch, number):
    monkeypatch.setattr(Datasets, "run", lambda self: os.kill(os.getpid(), number))
    assert crawl("datasets") == (128 + number, "", f"crawl: stopped by {number.name}\n")


def test_the_second_of_two_signals_does_not_disturb_the_end():
    ended = []

    def stopped_twice():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            ended.append(True)

    with pytest.raises(KeyboardInterrupt), as_interrupts() as came:
        stopped_twice()
    assert (ended, came) == ([True], [signal.SIGTERM])


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with as_interrupts() as came:
            os.kill(os.getpid(), signal.SIGHUP)
        assert (came, signal.getsignal(signal.SIGHUP)) == ([], signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_changes_nothing():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def look():
        with as_interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


@NUMBERS
def test_a_process_that_is_ending_is_not_interrupted(number):
    before = signal.getsignal(number)
    with as_interrupts() as came:
        ignore()
        os.kill(os.getpid(), number)
    assert (came, signal.getsignal(number)) == ([], before)


@NUMBERS
def test_a_signal_while_an_error_is_told_does_not_hide_it(crawl, monkeypatch, number):
    def fail(self):
        try:
            raise ValueError("rank 0 is gone")
        finally:
            ignore()
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Datasets, "run", fail)
    assert crawl("datasets") == (2, "", "crawl: error: rank 0 is gone\n")


def test_a_signal_after_the_loss_of_a_rank_does_not_hide_how_to_resume(crawl, monkeypatch, tmp_path):
    (tmp_path / "config.json").touch()
    usual = Path.is_file

    def is_file(self):
        os.kill(os.getpid(), signal.SIGTERM)
        return usual(self)

    def lose(self):
        with resumable(tmp_path):
            monkeypatch.setattr(Path, "is_file", is_file)
            raise RankLost("rank 0 is gone", is_told_here=True)

    monkeypatch.setattr(Datasets, "run", lose)
    done = crawl("datasets")
    assert (done.code, done.err) == (
        2,
        f"crawl: error: rank 0 is gone; resume with: crawl train --resume {tmp_path}\n",
    )
