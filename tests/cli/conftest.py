"""What the tests of the command line share."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from crawl.cli import main

TINY = [
    *("--model.hidden-channels", "8", "--model.num-layers", "1"),
    *("--walk.num-steps", "8", "--walk.num-eval-steps", "8"),
    *("--evaluation.num-val-repeats", "1", "--evaluation.num-test-repeats", "2"),
    *("--training.max-epochs", "2", "--device", "cpu"),
]

MOLECULES = """id,SMILES,logS,active,kind
1,C,0.5,0,a
2,CC,1.1,0,b
3,CCC,1.4,0,c
4,nonsense,1.0,0,a
5,CCCC,2.1,0,a
6,CCO,1.6,0,b
7,CCCCC,2.5,1,c
8,"C1CCCCC1",3.1,1,a
9,c1ccccc1,2.9,1,b
10,CCCCCCO,3.2,1,c
11,CCCCN,2.4,1,a
12,CCCCCl,2.6,1,b
"""


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Crawl:
    """Runs command lines in this process."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], main: Callable[[list[str]], int] = main, prog: str = "crawl"
    ) -> None:
        self.capsys, self.main, self.prog = capsys, main, prog

    def __call__(self, *words: str | Path) -> Done:
        self.capsys.readouterr()
        code = self.main([str(word) for word in words])
        return Done(code, *self.capsys.readouterr())

    def error(self, *words: str | Path) -> str:
        """The one line that a command fails with."""
        done = self(*words)
        assert done.code == 2, done
        assert done.out == ""
        *_, last = done.err.splitlines()
        assert last.startswith(f"{self.prog}: error: ")
        assert "Traceback" not in done.err
        return last.removeprefix(f"{self.prog}: error: ")


@pytest.fixture
def crawl(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    """`crawl("train", "csl")` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Crawl(capsys)


# A new Python whose streams are those of the shell: it imports once and forks for each command, which ends as `crawl`
# does, with what Python does at its end. Each writes its errors to a file of its own, if they go anywhere.
FORKING = """
import json, os, sys, warnings
from pathlib import Path

warnings.simplefilter("ignore")  # about forks: no thread is started before
folder, imports, *commands = sys.argv[1:]
for name in imports.split():
    __import__(name)
from crawl.cli import main

codes = []
for i, command in enumerate(commands):
    sys.stdout and sys.stdout.flush()
    if not (child := os.fork()):
        if sys.stderr:
            os.dup2(os.open(f"{folder}/{i}", os.O_WRONLY | os.O_CREAT), 2)
        sys.exit(main(command.split()))
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
Path(folder, "codes").write_text(json.dumps(codes))
"""


def in_shell(streams: str, commands: list[str], folder: Path, *, imports: str = "", code: str = FORKING) -> list[Done]:
    """What commands leave behind, each `crawl WORDS` in a process whose streams a shell has redirected.

    Args:
        streams: The redirections, such as `>&-`.
        commands: The words of each command.
        folder: Where they run; `streams` may name files there.
        imports: Modules to import only once.
        code: The program that runs them.
    """
    errors = folder / "errors"
    errors.mkdir(exist_ok=True)
    line = ["bash", "-c", f'exec "$@" {streams}', "bash", sys.executable, "-c", code, str(errors), imports, *commands]
    done = subprocess.run(line, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    texts = [file.read_text() if (file := errors / str(i)).exists() else "" for i in range(len(commands))]
    codes = json.loads((errors / "codes").read_text())
    return [Done(number, done.stdout, text) for number, text in zip(codes, texts, strict=True)]


@pytest.fixture
def tiny() -> list[str]:
    """Flags for a model that trains in a second."""
    return TINY


@pytest.fixture
def molecules(tmp_path: Path) -> Path:
    path = tmp_path / "molecules.csv"
    path.write_text(MOLECULES)
    return path


@pytest.fixture(scope="session")
def csl_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "csl"
    assert main(["train", "csl", "--out", str(run), *TINY]) == 0
    return run


@pytest.fixture(scope="session")
def molecule_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run for each kind of target: `logS` (numbers), `active` (yes or no), `kind` (a, b or c)."""
    pytest.importorskip("rdkit")
    folder = tmp_path_factory.mktemp("molecule_runs")
    (folder / "molecules.csv").write_text(MOLECULES)
    for target in ("logS", "active", "kind"):
        data = ["--data.path", str(folder / "molecules.csv"), "--data.targets", target]
        data += [] if target == "logS" else ["--data.metric", "accuracy"]
        assert main(["train", "csv", *data, "--out", str(folder / target), *TINY]) == 0
    return {target: folder / target for target in ("logS", "active", "kind")}
