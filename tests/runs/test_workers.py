"""Real processes that die, break or are told to stop, with runs that do nothing else."""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crawl.runs import Experiment, workers
from crawl.runs.plan import PlannedRun
from crawl.runs.workers import Workers

_processes = multiprocessing.get_context("forkserver")  # real processes that need not import everything again
_processes.set_forkserver_preload(["crawl.runs.workers"])


@pytest.fixture(autouse=True)
def fast_processes(monkeypatch):
    monkeypatch.setattr(workers, "_CONTEXT", _processes)


def do(folder: Path, run: PlannedRun, is_asked_to_stop: Callable[[], bool]) -> str | None:
    """What the name of the run says; `folder` gets a file for each run that was begun, one more for each time."""
    kind, _, number = run.place.partition("-")
    num_times = len(list(folder.glob(f"{run.place}.*")))
    (folder / f"{run.place}.{num_times}").write_text(str(os.getpid()))
    if kind == "die":
        os._exit(7)
    if kind == "fail":
        return "it failed"
    if kind == "cuda":
        _wait_until(lambda: len(list(folder.glob("long-*.*"))) > int(number))
        return "CUDA error: an illegal memory access was encountered"
    if kind == "long" and (num_times == 0 or run.place == "long-always"):
        _wait_until(is_asked_to_stop)
        (folder / "stopped").touch()
    if kind == "stubborn":
        time.sleep(60)
    return None


def _wait_until(has_come: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not has_come():
        assert time.monotonic() < end
        time.sleep(0.01)


def planned(*places: str) -> list[PlannedRun]:
    return [PlannedRun(place, Experiment()) for place in places]


def run_all(folder: Path, *places: str, num_processes: int = 1, num_threads: int = 1) -> list[tuple[str, str | None]]:
    """What was reported of these runs, in its order."""
    reported = []
    Workers(
        planned(*places),
        functools.partial(do, folder),
        lambda run, problem: reported.append((run.place, problem)),
        lambda: False,
        [None] * num_processes,
        num_threads,
    ).run()
    assert not multiprocessing.active_children()
    return reported


def pids(folder: Path) -> set[str]:
    return {path.read_text() for path in folder.iterdir()}


def test_all_runs_are_done(tmp_path):
    places = [f"run-{i}" for i in range(9)]
    assert dict(run_all(tmp_path, *places, num_processes=2, num_threads=2)) == dict.fromkeys(places)
    assert len(list(tmp_path.iterdir())) == 9
    assert len(pids(tmp_path)) == 2
    assert run_all(tmp_path) == []


def test_a_run_that_fails_does_not_end_its_process(tmp_path):
    assert run_all(tmp_path, "fail-0", "run-0") == [("fail-0", "it failed"), ("run-0", None)]
    assert len(pids(tmp_path)) == 1


def test_runs_of_a_process_that_dies_have_failed_and_another_goes_on(tmp_path):
    assert run_all(tmp_path, "run-0", "die-0", "run-1", "die-1", "run-2") == [
        ("run-0", None),
        ("die-0", "its process ended with code 7"),
        ("run-1", None),
        ("die-1", "its process ended with code 7"),
        ("run-2", None),
    ]
    assert len(list(tmp_path.iterdir())) == 5  # none was begun twice
    assert len(pids(tmp_path)) == 3


def test_it_ends_when_every_process_dies(tmp_path):
    places = [f"die-{i}" for i in range(12)]
    reported = dict(run_all(tmp_path, *places, num_processes=2))
    assert reported == dict.fromkeys(places, "its process ended with code 7")
    assert len(pids(tmp_path)) == 12


def test_a_process_ends_after_a_cuda_error_and_what_else_it_had_open_is_tried_again(tmp_path):
    reported = run_all(tmp_path, "long-0", "cuda-0", "run-0", num_threads=2)
    assert reported[0] == ("cuda-0", "CUDA error: an illegal memory access was encountered")
    assert sorted(reported[1:]) == [("long-0", None), ("run-0", None)]
    first, second = ((tmp_path / f"long-0.{i}").read_text() for i in range(2))
    assert first == (tmp_path / "cuda-0.0").read_text()
    assert second == (tmp_path / "run-0.0").read_text() != first


def test_it_is_tried_again_only_once(tmp_path):
    reported = dict(run_all(tmp_path, "long-always", "cuda-0", "cuda-1", "run-0", num_threads=2))
    assert reported["long-always"] == f"its process ended with code {workers._BROKEN}"
    assert reported["run-0"] is None
    assert len(list(tmp_path.glob("long-always.*"))) == 2


def interrupt(folder: Path, *places: str) -> None:
    """Ctrl-C when the first run is done."""

    def report(run: PlannedRun, problem: str | None) -> None:
        if run.place == "run-0":
            _wait_until(lambda: (folder / f"{places[0]}.0").exists())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Workers(planned(*places), functools.partial(do, folder), report, lambda: False, [None], 2).run()
    assert not multiprocessing.active_children()


def test_processes_stop_at_the_end_of_an_epoch_after_an_interrupt(tmp_path, capsys):
    interrupt(tmp_path, "long-0", "run-0", "run-1")
    assert (tmp_path / "stopped").exists()
    assert not (tmp_path / "run-1.0").exists()
    assert (
        capsys.readouterr().err
        == "stopping at the end of the epoch, in 10 s at the latest; Ctrl-C again stops at once\n"
    )


def test_processes_that_do_not_stop_are_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS_TO_STOP", 0.1)
    began = time.monotonic()
    interrupt(tmp_path, "stubborn-0", "run-0")
    assert time.monotonic() - began < 30


def test_nothing_is_begun_when_time_is_over(tmp_path):
    reported = []
    work = functools.partial(do, tmp_path)
    Workers(
        planned("run-0", "run-1"), work, lambda run, _: reported.append(run.place), lambda: bool(reported), [None]
    ).run()
    assert reported == ["run-0"]
    assert not (tmp_path / "run-1.0").exists()


def test_each_run_gets_its_share_of_the_processor(tmp_path, monkeypatch):
    asked = []
    environment = workers._environment
    monkeypatch.setattr(workers, "_environment", lambda *wanted: asked.append(wanted) or environment(*wanted))
    run_all(tmp_path, *(f"run-{i}" for i in range(6)), num_threads=5)
    run_all(tmp_path, "run-0", "run-1", "run-2", num_processes=4)
    assert asked == [(5, None), *[(3, None)] * 3]
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    with environment(5, 1):
        assert (os.environ["OMP_NUM_THREADS"], os.environ["NUMBA_NUM_THREADS"]) == ("3", "3")
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    with environment(20, None):
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in os.environ


def test_it_can_be_started_in_a_thread(tmp_path):
    reported = []
    thread = threading.Thread(target=lambda: reported.extend(run_all(tmp_path, "run-0")))
    thread.start()
    thread.join()
    assert reported == [("run-0", None)]
