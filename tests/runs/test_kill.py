"""Real processes, really killed: a resumed run ends as if nothing had happened."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

from crawl.training.checkpoint import load_checkpoint
from tests.forks import processes

TINY = [
    *("--model.hidden-channels", "8", "--model.num-layers", "1", "--model.dropout", "0.2"),
    *("--walk.num-steps", "6", "--walk.num-eval-steps", "6", "--walk.window-size", "4", "--walk.start-share", "0.5"),
    *("--evaluation.num-val-repeats", "1", "--evaluation.num-test-repeats", "2"),
    *("--training.max-epochs", "5", "--training.batch-size", "40", "--device", "cpu", "--quiet"),
    *("--training.optimiser", "adamw", "--training.weight-decay", "0.01", "--training.warmup-epochs", "1.5"),
    *("--training.accumulate", "2", "--training.average-decay", "0.9"),
]
LONG = [*TINY, "--training.max-epochs", "100000", "--training.early-stop", "None", "--training.min-lr", "1e-300"]


def run_crawl(
    words: list[str], output: str, slowly: bool, seconds_between_checkpoints: float, ignores_hangup: bool
) -> None:
    """`crawl WORDS` in this process; slowly, so that there is time to kill it at a certain moment."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores_hangup else signal.SIG_DFL)  # nohup ignores it
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    from crawl.cli import main
    from crawl.runs import run
    from crawl.runs.folder import RunFolder

    torch.set_num_threads(1)
    run._SECONDS_BETWEEN_CHECKPOINTS = seconds_between_checkpoints
    run.write_run_page = lambda _: None  # it would take longer than the run
    if slowly:
        os.fsync = _then_wait(os.fsync)
        RunFolder.append_metrics = _then_wait(RunFolder.append_metrics)  # type: ignore[method-assign]
    sys.exit(main(words))


def _then_wait(function: Callable) -> Callable:
    @functools.wraps(function)
    def slow(*arguments):
        result = function(*arguments)
        time.sleep(0.1)
        return result

    return slow


def start(
    folder: Path,
    *words: str,
    slowly: bool = False,
    seconds_between_checkpoints: float = 10.0,
    ignores_hangup: bool = False,
) -> BaseProcess:
    output = str(folder.with_suffix(".log"))
    arguments = (list(words), output, slowly, seconds_between_checkpoints, ignores_hangup)
    process = processes.Process(target=run_crawl, args=arguments, daemon=True)
    process.start()
    return process


def finish(process: BaseProcess, folder: Path) -> None:
    process.join(60)
    assert process.exitcode == 0, folder.with_suffix(".log").read_text()


def train(folder: Path, *words: str) -> Path:
    finish(start(folder, "train", "csl", "--out", str(folder), *TINY, *words), folder)
    return folder


def wait_for(moment: Callable[[], bool], process: BaseProcess | subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not moment():
        running = process.is_alive() if isinstance(process, BaseProcess) else process.poll() is None
        assert running, "the process ended before the moment came"
        assert time.monotonic() < deadline
        time.sleep(0.001)


def num_epochs(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_text().count("\n") if path.is_file() else 0


def is_writing(folder: Path, name: str) -> bool:
    return any(folder.glob(f".{name}.*.part"))


def weights(folder: Path, name: str = "best") -> dict[str, torch.Tensor]:
    return load_checkpoint(folder / f"{name}.safetensors")[0]


def same_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def metrics(folder: Path) -> list[dict]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]


def assert_same_run(a: Path, b: Path) -> None:
    assert same_bits(weights(a), weights(b))
    assert same_bits(weights(a, "last"), weights(b, "last"))
    assert metrics(a) == metrics(b)
    assert (a / "predictions.csv").read_text() == (b / "predictions.csv").read_text()
    results = [json.loads((folder / "result.json").read_text()) for folder in (a, b)]
    for key in ("config", "scores", "best_epoch", "num_epochs"):
        assert results[0][key] == results[1][key]
    assert {path.name for path in b.iterdir()} == {path.name for path in a.iterdir()}  # nothing is left lying about


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nobody disturbed."""
    return train(tmp_path_factory.mktemp("kill") / "whole")


def test_the_same_seed_gives_the_same_bits_and_another_does_not(whole, tmp_path):
    assert len(metrics(whole)) == 5
    assert_same_run(whole, train(tmp_path / "again"))
    other = train(tmp_path / "other", "--seed", "1")
    assert not same_bits(weights(whole), weights(other))
    assert metrics(whole) != metrics(other)


MOMENTS: dict[str, tuple[Callable[[Path], bool], float]] = {
    "before there is a configuration": (lambda folder: is_writing(folder, "config.json"), 0),
    "before the split is written": (lambda folder: is_writing(folder, "split.json"), 0),
    "before the first checkpoint": (lambda folder: num_epochs(folder) == 2, 1e9),
    "while the first checkpoint is written": (lambda folder: is_writing(folder, "last.safetensors"), 0),
    "while a checkpoint is replaced": (
        lambda folder: (folder / "last.safetensors").is_file() and is_writing(folder, "last.safetensors"),
        0,
    ),
    "between checkpoints": (lambda folder: num_epochs(folder) == 3, 0),
    "while predictions are written": (lambda folder: is_writing(folder, "predictions.csv"), 0),
    "while the best weights are written": (lambda folder: is_writing(folder, "best.safetensors"), 0),
    "while the result is written": (lambda folder: is_writing(folder, "result.json"), 0),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_and_resumed(whole, tmp_path, moment):
    folder = tmp_path / "run"
    has_come, seconds = MOMENTS[moment]
    new_run = ("train", "csl", "--out", str(folder), *TINY)
    process = start(folder, *new_run, slowly=True, seconds_between_checkpoints=seconds)
    wait_for(lambda: has_come(folder), process)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (folder / "result.json").exists()
    if (folder / "last.safetensors").exists():
        assert load_checkpoint(folder / "last.safetensors")[1]["history"]

    has_begun = (folder / "config.json").is_file()
    assert has_begun == (moment != "before there is a configuration")
    finish(start(folder, *(("train", "--resume", str(folder)) if has_begun else new_run)), folder)
    assert_same_run(whole, folder)


def test_killed_again_and_again(whole, tmp_path):
    folder = tmp_path / "run"
    words = ["train", "csl", "--out", str(folder), *TINY]
    for epoch in (1, 2, 4):
        process = start(folder, *words, slowly=True, seconds_between_checkpoints=0)
        wait_for(lambda: num_epochs(folder) >= epoch and is_writing(folder, "last.safetensors"), process)  # noqa: B023
        time.sleep(0.15)  # let that one through
        process.kill()
        process.join()
        words = ["train", "--resume", str(folder)]
    finish(start(folder, *words), folder)
    assert_same_run(whole, folder)


def test_a_second_process_is_refused_in_the_same_folder(tmp_path):
    folder = tmp_path / "run"
    process = start(folder, "train", "csl", "--out", str(folder), *LONG)
    wait_for(lambda: num_epochs(folder) >= 1, process)
    try:
        log = tmp_path / "second"
        for words in (["--resume", str(folder)], ["csl", "--out", str(folder), *TINY]):
            second = start(log, "train", *words)
            second.join(60)
            assert second.exitcode == 2
        errors = log.with_suffix(".log").read_text().splitlines()
        assert [line.partition(str(folder))[0] for line in errors] == [
            "crawl: error: Another process is training in ",
            "crawl: error: ",
        ]
        assert process.is_alive()
    finally:
        process.kill()
        process.join()


STOPPED_BY = {
    signal.SIGINT: (130, "interrupted"),
    signal.SIGTERM: (143, "stopped by SIGTERM"),
    signal.SIGHUP: (129, "stopped by SIGHUP"),
}


@pytest.mark.usefixtures("interruptible")
def test_a_command_line_is_interrupted(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "crawl", "train", "csl", "--out", str(folder), *LONG]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: num_epochs(folder) >= 1, process)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 130
    assert error.splitlines()[-1] == f"crawl: interrupted; resume with: crawl train --resume {folder}"


@pytest.mark.parametrize("number", STOPPED_BY)
def test_stopped_by_a_signal(whole, tmp_path, number):
    folder = tmp_path / "run"
    code, what = STOPPED_BY[number]
    process = start(folder, "train", "csl", "--out", str(folder), *LONG)
    try:
        wait_for(lambda: num_epochs(folder) >= 5, process)
        assert process.pid is not None
        os.kill(process.pid, number)
        process.join(20)
    finally:
        process.kill()
    assert process.exitcode == code
    task, stopped = folder.with_suffix(".log").read_text().splitlines()
    assert task.startswith("Task: multiclass per graph")
    assert stopped == f"crawl: {what}; resume with: crawl train --resume {folder}"
    assert not list(folder.glob(".*.part*"))

    config = json.loads((folder / "config.json").read_text())
    config["training"] = json.loads((whole / "config.json").read_text())["training"]  # let it end
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "last.safetensors").unlink(missing_ok=True)
    finish(start(folder, "train", "--resume", str(folder)), folder)
    assert_same_run(whole, folder)


@pytest.mark.parametrize("name", ["config.json", "last.safetensors", "predictions.csv", "best.safetensors"])
def test_terminated_while_a_file_is_written(whole, tmp_path, name):
    folder = tmp_path / "run"
    new_run = ("train", "csl", "--out", str(folder), *TINY)
    process = start(folder, *new_run, slowly=True, seconds_between_checkpoints=0)
    wait_for(lambda: is_writing(folder, name), process)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    os.kill(process.pid, signal.SIGHUP)  # a shell that ends may send both
    process.join(60)
    assert process.exitcode in (129, 143), folder.with_suffix(".log").read_text()  # the one that Python looks at first
    assert not list(folder.glob(".*.part*"))
    if name == "config.json":
        assert not folder.exists() or not (folder / "config.json").exists()
        return
    finish(start(folder, "train", "--resume", str(folder)), folder)
    assert_same_run(whole, folder)


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    folder = tmp_path / "run"
    process = start(folder, "train", "csl", "--out", str(folder), *LONG, ignores_hangup=True)
    try:
        wait_for(lambda: num_epochs(folder) >= 1, process)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGHUP)
        before = num_epochs(folder)
        wait_for(lambda: num_epochs(folder) > before + 3, process)
        process.terminate()
        process.join(20)
    finally:
        process.kill()
    assert process.exitcode == 143
