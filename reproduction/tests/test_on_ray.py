"""A table on Ray, with real workers, of which one is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crawl.runs import Experiment, run_experiment
from crawl.runs.cluster import sharing
from crawl.runs.cluster.connection import OnRay
from crawl.runs.folder import RunFolder
from crawl.runs.run import Stopped
from crawl.training.checkpoint import load_checkpoint
from reproduction.__main__ import main
from reproduction.reproduce import choose_tables, reproduce
from reproduction.tests.test_reproduce import small
from tests.runs.cluster.counting import path_for_workers
from tests.runs.test_kill import num_epochs

pytest.importorskip("ray")
KILLED = "csl/crawl/seed-0-fold-0"
CSL: dict[str, Any] = {"num_seeds": 1, "rows": ("crawl",), "device": "cpu", "threads": 1}


def longer(experiment: Experiment) -> Experiment:
    changed = small(experiment)
    return replace(changed, training=replace(changed.training, max_epochs=25))


def wait_for(condition: Callable[[], Any], seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.005)
    return found


def without_seconds(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) | {"seconds": None} for line in RunFolder(run).metrics.read_text().splitlines()]


def test_a_worker_that_is_killed_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", path_for_workers())
    said: list[str] = []
    monkeypatch.setattr(sharing, "say", lambda text, quiet: said.append(text))
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    reproduce("csl", alone, change=longer, **CSL)
    first = next(iter(choose_tables("csl", ["crawl"])[0].rows[0].runs()))
    assert first.place == KILLED
    with pytest.raises(Stopped):  # so that there is a checkpoint, and the killed worker resumes from it
        run_experiment(longer(first.experiment), shared / KILLED, device="cpu", quiet=True, stop=lambda: True)
    before = RunFolder(shared / KILLED).metrics.read_text()
    killed: list[int] = []

    def kill() -> None:
        lines = wait_for(lambda: [line for line in said if line.startswith(f"{KILLED}: begins on ")])
        wait_for(lambda: num_epochs(shared / KILLED) >= 3)
        killed.append(int(re.findall(r"process (\d+)$", lines[0])[0]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    (done,) = reproduce("csl", shared, change=longer, **{**CSL, "threads": None}, ray=OnRay(at_a_time=2))
    killer.join()

    assert done.problems == {}
    assert [line for line in said if "died" in line] == [
        f"{KILLED}: its worker died (WorkerCrashedError); another one resumes it"
    ]
    (resumed,) = [line for line in said if line.startswith(f"{KILLED}: resumes on ")]
    assert not resumed.endswith(f"process {killed[0]}")
    assert sorted(line for line in said if line.endswith(": done")) == [
        f"csl/crawl/seed-0-fold-{fold}: done" for fold in range(5)
    ]
    assert RunFolder(shared / KILLED).metrics.read_text().startswith(before)  # not begun anew, seconds tell
    for fold in range(5):
        ours, theirs = (RunFolder(folder / f"csl/crawl/seed-0-fold-{fold}") for folder in (shared, alone))
        records = [json.loads(run.result.read_text()) for run in (ours, theirs)]
        for name in ("config", "scores", "best_epoch", "num_epochs", "data"):
            assert records[0][name] == records[1][name]
        assert without_seconds(ours.path) == without_seconds(theirs.path)
        assert ours.predictions.read_text() == theirs.predictions.read_text()
        tensors = [load_checkpoint(run.best)[0] for run in (ours, theirs)]
        assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[1])
        assert not (ours.path / ".shared").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--ray-gpus", "0.5"], "--ray-gpus is for runs that Ray shares out: give --ray, too."),
        (["--ray", "--jobs", "2"], "--jobs 2 is for threads of one process: use --ray-jobs 2."),
        (["--ray", "csl"], "The address of Ray (--ray) must be local, auto, HOST:PORT or ray://HOST:PORT, not 'csl'."),
        (["--ray", "auto", "zinc"], "--ray takes one address, not auto zinc: put other words before it."),
        (["--ray", "--ray-gpus", "1.5"], "gpus (--ray-gpus) must be a part of one GPU or a whole number, not 1.5."),
    ],
)
def test_flags_that_do_not_go_together(capsys, words, problem):
    assert main(["csl", *words]) == 2
    assert capsys.readouterr().err == f"python -m reproduction: error: {problem}\n"


def test_runs_that_are_timed_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"is timed, so nothing may run beside it: leave out --ray"):
        reproduce("runtime", tmp_path, device="cpu", ray=OnRay())
