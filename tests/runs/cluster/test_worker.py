from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from crawl.runs.cluster import worker
from crawl.runs.cluster.box import Box
from crawl.runs.cluster.worker import Order, files_of, keep_files, mark_file, work
from crawl.runs.folder import InUse
from crawl.runs.run import Stopped

ray = pytest.importorskip("ray")


def order(folder: Path, **changes: Any) -> Order:
    values = {"name": "run", "folder": str(folder), "attempt": 0, "cpus": torch.get_num_threads(), "mark": "abc"}
    return Order(**{**values, "files": None, **changes})


@pytest.fixture
def box(monkeypatch) -> Box:
    """A box in this process; calls of it are as those of an actor."""
    box = Box()
    monkeypatch.setattr(ray, "get", lambda value: value)
    monkeypatch.setattr(box, "tell", SimpleNamespace(remote=box.tell))
    return box


@pytest.fixture
def shared(tmp_path) -> Path:
    mark_file(tmp_path, "abc").touch()
    return tmp_path


def tells(folder: Path, task: dict[str, Any], tell) -> str:
    (folder / "metrics.jsonl").write_text("{}\n")
    (folder / "last.safetensors").write_bytes(b"1")
    is_stopped = tell({"epoch": 1})
    tell({"epoch": 2})
    if is_stopped:
        raise Stopped("it can be resumed")
    (folder / "result.json").write_text("done")
    return task["answer"]


def fails(folder: Path, task: dict[str, Any], tell) -> None:
    raise task["error"]


def test_a_run_on_a_shared_disk(shared, box, monkeypatch):
    for variable in (own := ("WORLD_SIZE", "MASTER_ADDR")):
        monkeypatch.setenv(variable, "4")
    end = work(tells, {"answer": "yes"}, order(shared), box)
    assert end == {"state": "done", "value": "yes", "files": {}}
    first, *others = box.take()
    assert first[2]["process"] == os.getpid()
    assert others == [("run", 0, {"epoch": 1}, {}), ("run", 0, {"epoch": 2}, {})]
    assert box.take() == []
    assert (shared / "result.json").is_file()
    assert not {*own} & os.environ.keys()


def test_a_run_is_collected(tmp_path, box):
    end = work(tells, {"answer": 3}, order(tmp_path / "run", attempt=2, files={"config.json": b"{}"}), box)
    assert set(end["files"]) == {"config.json", "metrics.jsonl", "last.safetensors", "result.json"}
    sent = [set(files) for name, attempt, _, files in box.take() if attempt == 2]
    assert sent == [set(), {"config.json", "metrics.jsonl", "last.safetensors"}, set()]  # each checkpoint once
    assert not (tmp_path / "run").exists()
    keep_files(tmp_path, end["files"])
    assert files_of(tmp_path) == end["files"]


@pytest.mark.parametrize("name", [None, "run"])
def test_a_run_is_stopped(shared, box, name):
    box.stop(name)
    assert work(tells, {}, order(shared), box) == {"state": "stopped", "problem": "it can be resumed", "files": {}}


def test_another_run_is_stopped(shared, box):
    box.stop("other")
    assert work(tells, {"answer": 1}, order(shared), box)["state"] == "done"


@pytest.mark.parametrize(
    ("error", "state", "problem"),
    [
        (ValueError("the data\nare wrong"), "failed", "the data are wrong"),
        (KeyError(), "failed", "KeyError"),
        (InUse("another process"), "in use", "another process"),
    ],
)
def test_errors_become_words(shared, box, error, state, problem):
    assert work(fails, {"error": error}, order(shared), box) == {"state": state, "problem": problem, "files": {}}


def test_the_lock_of_a_dead_worker_is_waited_for(shared, box, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    left = [InUse("still locked")] * 3

    def locked(folder, task, tell):
        if left:
            raise left.pop()
        return 1

    assert work(locked, {}, order(shared, attempt=1), box)["value"] == 1


def test_a_disk_that_is_not_shared(tmp_path, box, monkeypatch):
    monkeypatch.setattr(worker, "_SECONDS_TO_SEE", 0.0)
    mark_file(tmp_path, "of another head").touch()
    end = work(tells, {}, order(tmp_path), box)
    assert f"does not see {tmp_path}: choose a folder on a disk that all machines share, or collect" in end["problem"]
    assert box.take() == []


def test_the_same_command_started_twice(shared, box):
    mark_file(shared, "of another head").touch()
    assert work(tells, {"answer": "yes"}, order(shared), box)["state"] == "done"


def test_another_version(shared, box):
    assert "not 0.0: install the same there" in work(tells, {}, order(shared, version="0.0"), box)["problem"]


@pytest.mark.parametrize("name", ["../up", "a/b", ".lock", "/etc/x", ".."])
def test_files_with_names_that_lead_elsewhere(tmp_path, name):
    with pytest.raises(ValueError, match="A worker sent the file"):
        keep_files(tmp_path, {name: b""})
    assert list(tmp_path.iterdir()) == []
