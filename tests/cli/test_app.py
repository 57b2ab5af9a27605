from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import crawl as package
from crawl.cli import app
from crawl.cli.describe import Datasets

COMMANDS = ["train", "evaluate", "predict", "info", "datasets", "reproduce", "report", "walk", "distinguish"]


def test_without_arguments_there_is_help(crawl):
    done = crawl()
    assert done.code == 0
    for command in COMMANDS:
        assert f"• {command}" in done.out
    assert crawl("--help") == done


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(crawl, command):
    done = crawl(command, "--help")
    assert done.code == 0
    assert f"usage: crawl {command}" in done.out


def test_version(crawl):
    assert crawl("--version").out == f"crawl {package.__version__}\n"


def test_an_unknown_command_is_refused(crawl):
    done = crawl("trian", "csl")
    assert done.code == 2
    assert "train, evaluate, predict" in done.err


def test_a_mistyped_flag_is_refused_with_the_right_one(crawl):
    done = crawl("walk", "edges.txt", "--num-stesp", "3")
    assert done.code == 2
    assert "--num-steps" in done.err


def test_a_traceback_only_with_debug(crawl):
    assert crawl.error("walk", "missing.txt") == "missing.txt: No such file or directory"
    done = crawl("walk", "missing.txt", "--debug")
    assert done.code == 2
    assert done.err.startswith("Traceback")
    assert done.err.endswith("crawl: error: missing.txt: No such file or directory\n")


def _raising(error: BaseException):
    def run(self: Datasets) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("lines\n  are joined"), "lines are joined"),
        (ImportError("Molecules need rdkit."), "Molecules need rdkit."),
        (OSError(28, "No space left on device", "best.safetensors"), "best.safetensors: No space left on device"),
        (OSError("no number"), "no number"),
    ],
)
def test_what_a_user_can_mend_is_one_line(crawl, monkeypatch, error, line):
    monkeypatch.setattr(Datasets, "run", _raising(error))
    assert crawl.error("datasets") == line


def test_what_is_our_fault_says_how_to_see_more(crawl, monkeypatch):
    monkeypatch.setattr(Datasets, "run", _raising(RuntimeError("oh")))
    assert crawl("datasets") == (app.BUG, "", "crawl: error: RuntimeError: oh (--debug shows where)\n")


def test_ctrl_c(crawl, monkeypatch):
    monkeypatch.setattr(Datasets, "run", _raising(KeyboardInterrupt()))
    assert crawl("datasets") == (130, "", "crawl: interrupted\n")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path):
    edges = tmp_path / "edges.txt"
    edges.write_text("".join(f"{i} {i + 1}\n" for i in range(3000)))
    command = f"{sys.executable} -m crawl walk {edges} | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert done.stdout.startswith("node_0,node_1")
    assert done.stderr == ""
    assert done.returncode == app.BROKEN_PIPE


def test_warnings_are_remarks(crawl, monkeypatch):
    def warns(self: object) -> None:
        print(warnings.formatwarning(UserWarning("look"), UserWarning, "file.py", 7), file=sys.stderr, end="")

    monkeypatch.setattr("crawl.cli.describe.Datasets.run", warns)
    assert crawl("datasets").err == "crawl: warning: look\n"
    assert "file.py:7" in warnings.formatwarning(UserWarning("look"), UserWarning, "file.py", 7)
