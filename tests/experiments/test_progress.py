from __future__ import annotations

import re

from crawl.experiments import progress as module
from crawl.experiments import run_experiment

NUMBER = r"[0-9.e+-]+"


def test_without_a_terminal_there_is_a_line_for_each_epoch(tiny, paths, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LINES", 0.0)
    run_experiment(tiny, tmp_path / "run", dataset=paths)
    *epochs, last = capsys.readouterr().err.splitlines()
    assert len(epochs) == 3
    for i, line in enumerate(epochs):
        begin = re.escape(f"{tmp_path / 'run'}: epoch {i + 1} of 3")
        numbers = rf"loss {NUMBER}, validation mae {NUMBER}, best {NUMBER}, {NUMBER} s an epoch"
        assert re.fullmatch(f"{begin}, {numbers}", line), line
    assert re.fullmatch(r".*: epoch 3 of 3 was the last; evaluating the weights of epoch \d", last)


def test_an_epoch_that_takes_minutes_says_so(tiny, paths, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS_WITHOUT_LINES", 0.0)
    run_experiment(tiny, tmp_path / "run", dataset=paths)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6  # two steps in each of three epochs
    assert re.fullmatch(rf".*: epoch 2 of 3, step 1 of 2, loss {NUMBER}", lines[2]), lines[2]


def test_lines_are_ten_seconds_apart(capsys, monkeypatch):
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    lines = module.Lines()
    for now in (105.0, 109.0, 110.0, 111.0, 119.9, 120.0):
        lines.show(lambda: f"{now}")  # noqa: B023
    assert capsys.readouterr().err.split() == ["110.0", "120.0"]


def test_quiet(tiny, paths, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LINES", 0.0)
    run_experiment(tiny, tmp_path / "run", dataset=paths, quiet=True)
    assert capsys.readouterr().err == ""
