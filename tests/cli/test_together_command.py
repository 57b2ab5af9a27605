"""Several processes that share one training, from the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from crawl.cli.describe import Datasets
from crawl.training.ranks import Ranks
from tests.forks import run_command
from tests.training.test_ranks import start


def test_from_the_command_line(tmp_path):
    small = ["--model.hidden-channels", "4", "--training.max-epochs", "1", "--walk.num-steps", "10"]
    small += ["--walk.num-eval-steps", "10", "--evaluation.num-test-repeats", "1", "--evaluation.num-val-repeats", "1"]
    words = ["train", "csl", "--out", str(tmp_path / "run"), "--device", "cpu", *small]
    first, second = start(2, run_command, words)
    shown, said = first.communicate(timeout=300)
    hidden, nothing = second.communicate(timeout=300)
    assert (first.returncode, second.returncode) == (0, 0), said + nothing
    assert "Everything about it is in" in shown
    assert (hidden, nothing) == ("", "")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["num_processes"] == 2


def test_refuses_several_trainings_from_the_command_line(monkeypatch, crawl):
    monkeypatch.setattr(Ranks, "of_this_process", classmethod(lambda cls: cls(0, 2)))
    done = crawl("train", "csl", "--protocol", "folds")
    assert done.code == 2
    assert "2 processes share one training" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("predict", "run", "in.csv", "-o", "out.csv"), r"crawl predict works in one process, not 2.*--jobs"),
        (("data", "pack", "in.csv", "-o", "out"), r"crawl data works in one process, not 2.*--jobs"),
        (("data", "check", "out"), r"without torchrun and srun\.$"),
        (("embed", "run", "in.csv", "-o", "out.npy"), r"crawl embed works in one process, not 2"),
    ],
)
def test_other_commands_refuse_several_processes(crawl, monkeypatch, words, message):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert re.search(message, crawl.error(*words))


def test_what_is_wrong_in_all_processes_is_said_by_the_first(crawl, monkeypatch, as_rank):
    commands = [("train", "csv", "--data.path", "nowhere.csv"), ("train", "csl", "--training.lr", "fast")]
    for words in commands:
        as_rank(0)
        said = crawl(*words)
        assert said.code == 2
        assert "nowhere.csv" in said.err or "--training.lr" in said.err
        as_rank(1)
        assert crawl(*words) == (2, "", "")
    monkeypatch.setattr(Datasets, "run", fail_alone)
    monkeypatch.setattr("crawl.training.said._PATIENCE", timedelta(seconds=0.1))
    monkeypatch.setattr("crawl.cli.app.started_together", lambda: 1)
    assert crawl("datasets") == (2, "", "crawl: rank 1: error: the disk of this machine is full\n")


def fail_alone(_: object) -> None:
    raise ValueError("the disk of this machine is full")


def test_wrong_flags_of_tasks_of_srun_are_told_once(crawl, monkeypatch):
    for name, value in {"SLURM_STEP_NUM_TASKS": "4", "MASTER_ADDR": "first", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    for rank, is_said in (("0", True), ("3", False)):
        monkeypatch.setenv("SLURM_PROCID", rank)
        said = crawl("train", "csl", "--training.lr", "fast")
        assert (said.code, bool(said.err)) == (2, is_said)


@pytest.mark.parametrize(("rank", "is_said"), [("0", True), ("1", False)])
def test_tasks_that_train_apart_are_told_once(crawl, monkeypatch, rank, is_said):
    monkeypatch.setenv("SLURM_PROCID", rank)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    for name in ("MASTER_ADDR", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    said = crawl("train", "csv", "--data.path", "nowhere.csv").err
    assert ("srun has started 4 tasks, and without MASTER_ADDR and MASTER_PORT each of them" in said) == is_said


def test_an_interrupt_of_all_processes_is_told_by_the_first(crawl, monkeypatch, as_rank):
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Datasets, "run", interrupt)
    monkeypatch.setattr("crawl.cli.app.started_together", lambda: 1)
    for rank, said in enumerate(("crawl: interrupted\n", "")):
        as_rank(rank)
        assert crawl("datasets") == (130, "", said)


def process_of(rank: int, torchrun: int) -> int:
    """The number of the process with this rank, of those that torchrun has started."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == torchrun and f"RANK={rank}".encode() in (path / "environ").read_bytes().split(b"\0"):
                return int(path.name)
        except OSError:  # it has just ended
            continue
    raise AssertionError(f"there is no rank {rank}")


def training_in(run: Path) -> list[str]:
    small = ["--model.hidden-channels", "4", "--training.max-epochs", "500"]
    return ["train", "csl", "--device", "cpu", "--out", str(run), *small]


def wait_for_an_epoch(run: Path) -> None:
    metrics, until = run / "metrics.jsonl", time.monotonic() + 120
    while not (metrics.is_file() and metrics.read_text()) and time.monotonic() < until:
        time.sleep(0.02)


def assert_one_tells(said: str, killed: int | None, run: Path) -> None:
    lines = [line for line in said.splitlines() if line.startswith("crawl: ")]
    told = [line for line in lines if "died" in line or "is gone" in line]
    if killed is None:  # all were stopped, and nobody died
        assert told == []
        assert any("stopped by SIGTERM" in line for line in lines), lines
        return
    assert len(told) == 1, lines
    assert f"rank {killed} " in told[0]
    assert told[0].endswith(f"resume with: crawl train --resume {run}")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux, to find the process of a rank")
def test_torchrun_stops_all_and_a_line_names_the_rank_that_died(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "crawl", *training_in(tmp_path / "run")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    torchrun = subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    wait_for_an_epoch(tmp_path / "run")
    os.kill(process_of(0, torchrun.pid), signal.SIGKILL)
    said = torchrun.communicate(timeout=120)[1]
    assert_one_tells(said, 0, tmp_path / "run")
    assert "frame #" not in said  # where in C++ torch saw it


@pytest.mark.parametrize(("size", "killed"), [(2, 1), (3, 0), (2, None)])
def test_a_line_names_the_rank_that_died(tmp_path, size, killed):
    """Processes that are stopped as torchrun does: all, or the others once one died."""
    started = start(size, run_command, training_in(tmp_path / "run"))
    wait_for_an_epoch(tmp_path / "run")
    others = list(started)
    if killed is not None:
        others.pop(killed).process.kill()
        started[killed].process.join()
    for other in others:
        other.process.terminate()
    assert_one_tells("".join(process.communicate(timeout=120)[1] for process in started), killed, tmp_path / "run")
