from __future__ import annotations

import io
import re
import sys
import threading
import time
from dataclasses import replace

import pytest

from crawl.data import csl
from crawl.runs import Csl, run_experiment
from crawl.runs import progress as module
from crawl.runs import run as run_module
from crawl.training.trainer import Trainer

NUMBER = r"[0-9.e+-]+"
SOON = 0.05


@pytest.fixture
def soon(monkeypatch):
    """Lines come twenty times a second."""
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LINES", SOON)


def slowed(monkeypatch, owner, name, when=lambda *_: True):
    """Let a function take as long as four lines."""
    original = getattr(owner, name)

    def slow(*arguments, **options):
        if when(*arguments):
            time.sleep(4.5 * SOON)
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, slow)


def test_lines_come_however_long_a_step_takes(tiny, paths, tmp_path, capsys, monkeypatch, soon):
    slowed(monkeypatch, Trainer, "_step")
    run_experiment(tiny, tmp_path / "run", dataset=paths)
    lines = capsys.readouterr().err.splitlines()
    begin = re.escape(f"{tmp_path / 'run'}: epoch 2 of 3, step 1 of 2, loss ")
    last = rf"epoch 1: loss {NUMBER}, validation mae {NUMBER}, best {NUMBER}, {NUMBER} s"
    assert any(re.fullmatch(f"{begin}{NUMBER}; {last}", line) for line in lines), lines
    assert sum(": epoch " in line for line in lines) > 12  # two steps in each of three epochs


def test_lines_tell_of_reading_data(tiny, tmp_path, capsys, monkeypatch, soon):
    slowed(monkeypatch, run_module, "load_dataset")
    experiment = replace(tiny, data=Csl(), training=replace(tiny.training, max_epochs=1))
    run_experiment(experiment, tmp_path / "run")
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["reading csl"] * 3


def test_lines_tell_of_reading_data_on_the_command_line(capsys, monkeypatch, soon, tmp_path):
    from crawl.cli import main

    slowed(monkeypatch, run_module, "load_dataset")
    words = ["train", "csl", "--training.max-epochs", "1", "--model.hidden-channels", "8", "--out", str(tmp_path / "r")]
    assert main(words) == 0
    assert "reading csl" in capsys.readouterr().err.splitlines()
    assert main(["evaluate", str(tmp_path / "r"), "--num-repeats", "1"]) == 0
    assert "reading csl" in capsys.readouterr().err.splitlines()


def test_lines_tell_of_validation_and_of_the_evaluation_in_the_end(tiny, paths, tmp_path, capsys, monkeypatch, soon):
    slowed(monkeypatch, Trainer, "evaluate")
    run_experiment(tiny, tmp_path / "run", dataset=paths)
    err = capsys.readouterr().err
    assert f"{tmp_path / 'run'}: epoch 1 of 3, validating" in err
    assert "preparing" not in err.partition("validating")[2]
    for part in ("train", "val", "test"):
        assert re.search(rf"run: evaluating epoch \d on its {part} split\n", err)


def test_lines_are_ten_seconds_apart():
    assert module._SECONDS_BETWEEN_LINES == 10.0


def test_one_line_at_a_time_whatever_is_within(capsys, soon):
    with module.lines("outer"):
        began = time.monotonic()
        with module.lines(lambda: "inner"):
            time.sleep(10 * SOON)
        time.sleep(5 * SOON)
        seconds = time.monotonic() - began
    lines = capsys.readouterr().err.split()
    assert lines == sorted(lines)  # the inner ones first
    assert {"inner", "outer"} == set(lines)
    assert len(lines) <= seconds / SOON
    time.sleep(3 * SOON)
    assert capsys.readouterr().err == ""


def test_lines_of_threads_do_not_mix(capsys, soon):
    def show(name):
        with module.lines(name):
            time.sleep(4 * SOON)

    threads = [threading.Thread(target=show, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {"first", "second"} == set(capsys.readouterr().err.split())


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_an_error_stream_that_is_closed(tiny, tmp_path, monkeypatch, soon, stream):
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    with module.lines("hello"):
        time.sleep(3 * SOON)
    if stream is None:
        training = replace(tiny.training, max_epochs=1)
        assert run_experiment(replace(tiny, training=training), tmp_path / "run", dataset=csl()).record["num_epochs"]


def test_quiet(tiny, tmp_path, capsys, monkeypatch, soon):
    slowed(monkeypatch, Trainer, "evaluate")
    slowed(monkeypatch, run_module, "load_dataset")
    experiment = replace(tiny, data=Csl(), training=replace(tiny.training, max_epochs=1))
    run_experiment(experiment, tmp_path / "run", quiet=True)
    assert capsys.readouterr().err == ""
