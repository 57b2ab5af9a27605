from __future__ import annotations

import io
import sys

from rich.console import Console

from crawl.runs import progress
from crawl.runs.cluster.table import ProgressTable


def filled(num_runs: int) -> ProgressTable:
    table = ProgressTable(10)
    for i in range(num_runs):
        table.tell(f"run-{i}", "begins", f"machine-{i}")
        table.tell(f"run-{i}", f"epoch {i}")
    return table


def test_the_line():
    table = filled(6)
    table.end("run-0", is_done=True)
    assert table.line() == (
        "1 of 10 runs done, 5 under way; run-1: epoch 1; run-2: epoch 2; run-3: epoch 3; run-4: epoch 4; and 1 more"
    )
    table.end("run-1", is_done=False)
    assert table.line().startswith("1 of 10 runs done, 1 not finished, 4 under way; run-2: epoch 2;")
    assert ProgressTable().line() == "0 runs done, 0 under way"


def test_the_table():
    console = Console(file=io.StringIO(), width=80)
    console.print(filled(40))
    text = console.file.getvalue()
    assert "0 of 10 runs done, 40 under way" in text
    assert "machine-29" in text
    assert "machine-30" not in text
    assert "and 10 more" in text


def test_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    table = filled(1)
    with table.shown(None):
        while not (text := capsys.readouterr().err):
            pass
    assert text.splitlines()[0] == table.line()
    with table.shown(True):
        pass
    assert capsys.readouterr().err.replace(table.line(), "").strip() == ""


def test_a_table_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with filled(2).shown(None):
        pass
    assert "machine-1" in sys.stderr.getvalue()
