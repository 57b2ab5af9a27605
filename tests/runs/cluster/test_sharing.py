"""Real workers of Ray on this machine, with work that takes no time."""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crawl.runs.cluster import sharing
from crawl.runs.cluster.connection import Cluster, OnRay, connect
from crawl.runs.cluster.sharing import DEATHS, Job, Outcome, described, share_out
from crawl.runs.folder import RunFolder
from crawl.runs.several import share_jobs
from tests.runs.cluster.counting import counts, path_for_workers

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path_for_workers())
        yield from _connected()


def _connected() -> Iterator[Cluster]:
    with connect(OnRay(at_a_time=2), "cpu") as cluster:
        assert (cluster.device, cluster.room()) == ("cpu", 2)
        yield cluster
    assert not ray.is_initialized()


@pytest.fixture
def said(monkeypatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(sharing, "say", lambda text, quiet: said.append(text))
    return said


def job(folder: Path, name: str = "run", **task: Any) -> Job:
    return Job(name, folder / name, task)


def test_runs_are_done(cluster, tmp_path, said):
    jobs = [job(tmp_path, f"run-{i}") for i in range(3)] + [job(tmp_path, "wrong", fails_at=2)]
    outcomes = share_jobs(counts, jobs, cluster, quiet=True)
    wrong = Outcome("failed", None, "it is wrong")
    assert outcomes == {**{f"run-{i}": Outcome("done", 5) for i in range(3)}, "wrong": wrong}
    assert [(tmp_path / f"run-{i}" / "last.safetensors").read_text() for i in range(3)] == ["5"] * 3
    assert "wrong: failed: it is wrong" in said
    assert not list(tmp_path.rglob(".shared*"))


def test_an_interrupt_leaves_what_can_be_resumed(cluster, tmp_path, said):
    def interrupt(name: str, news: dict[str, Any]) -> bool:
        if not any("stopping" in line for line in said):
            raise KeyboardInterrupt
        return False

    jobs = [job(tmp_path, f"run-{i}", until=10**9, seconds=0.01) for i in range(5)]
    with pytest.raises(KeyboardInterrupt):
        share_jobs(counts, jobs, cluster, heard=interrupt, quiet=True)
    assert said.count("stopping at the end of the epoch; Ctrl-C again stops at once") == 1
    assert {line.partition(": left for now: ")[0] for line in said if "left for now" in line} == {"run-0", "run-1"}
    assert any(line.endswith(": left for now: it can be resumed") for line in said)
    counted = {path.parent.name: path.read_text() for path in tmp_path.rglob("last.safetensors")}
    assert set(counted) <= {"run-0", "run-1"}
    time.sleep(0.1)  # no worker goes on
    assert {path.parent.name: path.read_text() for path in tmp_path.rglob("last.safetensors")} == counted
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(counted)  # nothing of those that did not begin


def test_one_run_is_stopped_and_another_takes_its_place(cluster, tmp_path):
    jobs = [job(tmp_path, "endless", until=10**9, seconds=0.01), job(tmp_path, "other", until=2)]
    outcomes = share_jobs(counts, jobs, cluster, heard=lambda name, news: news["epoch"] > 3, quiet=True)
    assert {name: outcome.state for name, outcome in outcomes.items()} == {"endless": "stopped", "other": "done"}


def test_the_time_is_over(cluster, tmp_path):
    heard: set[str] = set()

    def hear(name: str, news: dict[str, Any]) -> bool:
        heard.add(name)
        return False

    jobs = [job(tmp_path, f"run-{i}", until=10**9, seconds=0.01) for i in range(3)]
    outcomes = share_jobs(counts, jobs, cluster, heard=hear, is_over=lambda: len(heard) == 2, quiet=True)
    assert {name: outcome.state for name, outcome in outcomes.items()} == {"run-0": "stopped", "run-1": "stopped"}


def test_jobs_that_depend_on_what_was_heard(cluster, tmp_path):
    ended: list[str] = []

    def another() -> Job | None:
        return job(tmp_path, f"run-{len(ended)}", until=1) if len(ended) < 3 else None

    one = replace(cluster, how=replace(cluster.how, at_a_time=1))
    share_out(counts, another, one, ended=lambda name, outcome: ended.append(name), quiet=True)
    assert ended == ["run-0", "run-1", "run-2"]


def test_another_process_collects_into_the_folder(cluster, tmp_path):
    where = replace(cluster, how=replace(cluster.how, collect=True))
    (tmp_path / "run").mkdir()
    with RunFolder(tmp_path / "run").locked():
        (outcome,) = share_jobs(counts, [job(tmp_path)], where, quiet=True).values()
    assert outcome == Outcome("in use", None, f"Another process is training in {tmp_path / 'run'}.")


def test_what_workers_cannot_import(cluster, tmp_path, monkeypatch):
    module = types.ModuleType("nowhere_to_be_found")
    exec("def missing(folder, task, tell):\n    pass", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (outcome,) = share_jobs(module.missing, [job(tmp_path)], cluster, quiet=True).values()
    assert outcome.state == "failed"
    assert outcome.problem.startswith("a worker cannot run it, install the same packages there: ")
    assert "nowhere_to_be_found" in outcome.problem


def test_news_in_words():
    assert described({"epoch": 3, "loss": 0.51234, "lr": 0.1, "seconds": 2.0, "val_mae": None}) == (
        "epoch 3, loss 0.5123, val_mae None"
    )


@pytest.mark.parametrize("collect", [False, True])
def test_a_worker_dies(cluster, tmp_path, said, collect):
    where = replace(cluster, how=replace(cluster.how, collect=collect))
    (outcome,) = share_jobs(counts, [job(tmp_path, until=4, dies_at=[2])], where, quiet=True).values()
    assert outcome == Outcome("done", 4)  # by the second, which resumes
    assert (tmp_path / "run" / "last.safetensors").read_text() == "4"
    assert [line.partition(" on ")[0] for line in said] == [
        "run: begins",
        "run: its worker died (WorkerCrashedError); another one resumes it",
        "run: resumes",
        "run: done",
    ]


def test_too_many_workers_die(cluster, tmp_path, said, monkeypatch):
    assert DEATHS == 3
    monkeypatch.setattr(sharing, "DEATHS", 1)
    (outcome,) = share_jobs(counts, [job(tmp_path, dies_at=[1, 2])], cluster, quiet=True).values()
    problem = "2 workers died of it, the last with WorkerCrashedError; the same command resumes it"
    assert outcome == Outcome("lost", None, problem)
    assert (tmp_path / "run" / "last.safetensors").read_text() == "2"
