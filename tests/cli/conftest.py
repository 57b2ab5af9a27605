"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from crawl.cli import main
from tests.forks import Fork, run_command

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


def in_fork(*words: str | Path, **streams: Any) -> Done:
    """What `crawl WORDS` leaves behind in a process of its own, with what becomes of its streams (`run_command`)."""
    process = Fork(partial(run_command, **streams), [str(word) for word in words])
    out, err = process.communicate(timeout=120)
    assert process.returncode is not None
    return Done(process.returncode, out, err)


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
