from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import crawl as package
from crawl.cli import app
from crawl.cli.describe import Datasets
from tests.cli.conftest import Done, in_fork
from tests.forks import Fork, run_command

COMMANDS = ["train", "evaluate", "predict", "info", "datasets", "report", "walk", "distinguish"]


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


# A new Python that imports next to nothing and forks for each command, whose errors go to a file.
_WITHOUT_TORCH = """
import os, sys
from crawl.cli import main

heavy = {"torch", "numpy", "networkx", "sklearn", "rich", "numba"}
codes = []
for i, command in enumerate(sys.argv[1:]):
    if not (child := os.fork()):
        os.dup2(os.open(str(i), os.O_WRONLY | os.O_CREAT), 2)
        code = main(command.split())
        sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
open("codes", "w").write(" ".join(map(str, codes)))
"""
_WITHOUT_TORCH_ARE = {
    "--help": 0,
    "--version": 0,
    "train --help": 0,
    "train zinc --help": 0,
    "predict --help": 0,
    "distinguish --help": 0,
    "trian csl": 2,
    "train csl --training.lrr 1": 2,
    "train csl --training.lr fast": 2,
    "train csl --training.lr -1": 2,
    "train csl --model.num-layers 0": 2,
    "train csl --walk.window-size 33": 2,
    "train zinc --data.split nonsense": 2,
    "train csl --model.layer gin --walk.num-steps 7": 2,
    "train csv": 2,
    "train csv --data.path missing.csv": 2,
    "train tu --data.path missing": 2,
    "train folder --data.path missing": 2,
    "evaluate RUN --num-repeats 0": 2,
    "predict RUN missing.csv": 2,
    "graph build --help": 0,
    "graph build edges.csv -o graph.txt": 2,
    "walk edges.txt --num-walks 0": 2,
    "distinguish rook shrikhande --confidence 2": 2,
    "reproduce zinc": 2,
    "report": 2,
}


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory) -> dict[str, Done]:
    folder = tmp_path_factory.mktemp("without_torch")
    subprocess.run([sys.executable, "-c", _WITHOUT_TORCH, *_WITHOUT_TORCH_ARE], check=True, cwd=folder)
    codes = map(int, (folder / "codes").read_text().split())
    errors = [(folder / str(i)).read_text() for i in range(len(_WITHOUT_TORCH_ARE))]
    return {words: Done(code, "", error) for words, code, error in zip(_WITHOUT_TORCH_ARE, codes, errors, strict=True)}


@pytest.mark.parametrize("words", _WITHOUT_TORCH_ARE)
def test_help_and_mistakes_need_no_torch(words, without_torch):
    done, code = without_torch[words], _WITHOUT_TORCH_ARE[words]
    assert done.code == code, done.err
    assert done.err.startswith("" if code == 0 else ("crawl: error: ", "╭"))


@pytest.mark.parametrize(
    "words",
    [
        *("train csl --training.lr nan", "train csl --training.lr inf", "train csl --training.min-lr -1"),
        *("train csl --model.num-layers 99999999999999999999", "train csl --model.num-layers -1"),
        *("train csl --model.hidden-channels 99999999999999999999", "train csl --model.hidden-channels 0"),
        *("train csl --model.kernel-size 99999999999999999999", "train csl --model.dropout nan"),
        *("train csl --walk.num-steps 99999999999999999999", "train csl --walk.num-steps -5"),
        *("train csl --walk.start-share nan", "train csl --walk.start-share 0", "train csl --walk.start-share 1.5"),
        *("train csl --training.batch-size 99999999999999999999", "train csl --training.max-epochs 1e400"),
        *("train csl --training.clip-norm nan", "train csl --training.early-stop -1", "train csl --threads 0"),
        *("train csl --evaluation.batch-size 99999999999999999999", "train csl --evaluation.val-every 0"),
        *("train csl --data.fold 99999999999999999999", "train csl --data.fold -1", "train csl --data.laplacian -1"),
        *("train csl --data.laplacian 99999999999999999999", "train csl --training.factor nan"),
        *("train csl --walk.strategy node2vec --walk.p nan --walk.q 1", "train csl --training.step-epoch -1"),
        *("train csl --walk.strategy node2vec --walk.p 1 --walk.q -1", "train csl --threads 99999999999999999999"),
        *("train counting --seed -99999999999999999999999999999999999999999999999", "walk E --seed -1"),
        *("walk E --num-steps 99999999999999999999", "walk E --num-steps -1", "walk E --share nan", "walk E --p 0.5"),
        *("walk E --centred --directed", "walk E --centred --strategy restart", "train csl --walk.num-walks 0"),
        *("walk E --restart 0.5", "walk E --strategy restart --restart 1"),
        *("walk E --seed 99999999999999999999", "walk E --window-size 99999999999999999999", "walk E --share -1"),
        *("walk E --num-walks 99999999999999999999", "walk E --strategy node2vec --p nan", "walk E --start nobody"),
        *("distinguish rook shrikhande --num-steps 99999999999999999999", "distinguish rook shrikhande --max-k 0"),
        *("distinguish rook shrikhande --max-k 99999999999999999999", "distinguish rook shrikhande --seed -1"),
        *("distinguish rook shrikhande --num-walks 99999999999999999999", "distinguish rook shrikhande --windows -1"),
        *("distinguish rook shrikhande --confidence nan", "distinguish rook shrikhande --windows 99999999999999999999"),
        *("evaluate RUN --batch-size 99999999999999999999", "evaluate RUN --seed -1", "evaluate RUN --num-steps -1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(crawl, words):
    Path("E").write_text("a b\nb c\n")
    done = crawl(*words.split())
    assert done.code == 2, done
    assert done.out == ""
    assert "Traceback" not in done.err
    assert not Path("runs").exists()


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
    edges, pipe = tmp_path / "edges.txt", tmp_path / "pipe"
    edges.write_text("".join(f"{i} {i + 1}\n" for i in range(3000)))
    os.mkfifo(pipe)
    walk = Fork(run_command, ["walk", str(edges)], str(pipe))
    with open(pipe) as reader:
        assert reader.readline().startswith("node_0,node_1")
    assert walk.communicate(timeout=120) == ("", "")
    assert walk.returncode == app.BROKEN_PIPE


class TestClosedStreams:
    @pytest.mark.parametrize("line", ["crawl --version >&-", "crawl --version >&- 2>&-", "crawl --help >&- <&-"])
    def test_nobody_reads(self, tmp_path, line):
        command = line.replace("crawl", f"{sys.executable} -m crawl", 1)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_a_run_is_a_folder_and_predictions_need_a_place(self, tmp_path, tiny, molecule_runs, molecules):
        trained = in_fork("train", "csl", "--out", tmp_path / "run", *tiny, closed=("stdout",))
        assert trained.code == 0
        assert trained.err.startswith("Task: multiclass per graph")
        assert len(trained.err.splitlines()) == 1
        assert (tmp_path / "run/result.json").is_file()
        predicted = in_fork("predict", molecule_runs["logS"], molecules, closed=("stdout",))
        assert predicted.code == 2
        assert predicted.err == "crawl: error: The standard output is closed: name a file to write to.\n"

    def test_predictions_have_no_remarks_among_them(self, crawl, molecule_runs, molecules):
        whole = crawl("predict", molecule_runs["logS"], molecules)
        assert whole.code == 0
        assert in_fork("predict", molecule_runs["logS"], molecules, closed=("stderr",)) == (0, whole.out, "")

    def test_a_file_gets_the_predictions_that_nobody_else_reads(self, tmp_path, molecule_runs, molecules):
        out = tmp_path / "out.csv"
        done = in_fork("predict", molecule_runs["logS"], molecules, "-o", out, closed=("stdout", "stderr"))
        assert done == (0, "", "")
        assert len(out.read_text().splitlines()) == 13


def test_warnings_are_remarks(crawl, monkeypatch):
    def warns(self: object) -> None:
        print(warnings.formatwarning(UserWarning("look"), UserWarning, "file.py", 7), file=sys.stderr, end="")

    monkeypatch.setattr("crawl.cli.describe.Datasets.run", warns)
    assert crawl("datasets").err == "crawl: warning: look\n"
    assert "file.py:7" in warnings.formatwarning(UserWarning("look"), UserWarning, "file.py", 7)
