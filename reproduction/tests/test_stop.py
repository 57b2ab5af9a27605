"""Tables that are stopped while several runs are under way."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from crawl.runs import Experiment
from crawl.training import Cosine
from crawl.training.checkpoint import load_checkpoint
from tests.forks import processes
from tests.runs.test_kill import STOPPED_BY, num_epochs, wait_for


def endless(experiment: Experiment) -> Experiment:
    return replace(
        experiment,
        walk=replace(experiment.walk, num_steps=5, num_eval_steps=5, window_size=4),
        model=replace(experiment.model, hidden_channels=8, num_layers=1, kernel_size=None),
        training=replace(experiment.training, schedule=Cosine(), max_epochs=10**6, batch_size=100),
        evaluation=replace(experiment.evaluation, num_val_repeats=1),
    )


def run_tables(words: list[str], errors: Path) -> None:
    """`python -m reproduction WORDS` in a session of its own, of runs that do not end by themselves."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
    from reproduction import reproduce as module
    from reproduction.__main__ import main

    module.reproduce = functools.partial(module.reproduce, change=endless)
    sys.exit(main(words))


@pytest.mark.parametrize(("jobs", "number"), [(1, signal.SIGINT), (2, signal.SIGINT), (2, signal.SIGTERM)])
def test_tables_stopped_by_a_signal(tmp_path, jobs, number):
    code, what = STOPPED_BY[number]
    runs = [tmp_path / f"csl/crawl/seed-0-fold-{fold}" for fold in range(jobs)]
    words = ["csl", "--rows", "crawl", "--jobs", str(jobs), "--device", "cpu", "--out", str(tmp_path)]
    process = processes.Process(target=run_tables, args=(words, tmp_path / "errors"), daemon=True)
    process.start()
    try:
        wait_for(lambda: all(num_epochs(run) >= 2 for run in runs), process)
        assert process.pid is not None
        os.killpg(process.pid, number)  # as a terminal or a cluster does
        process.join(60)
    finally:
        process.kill()
    error = (tmp_path / "errors").read_text()
    assert process.exitcode == code, error
    *said, last = error.splitlines()
    assert last == f"python -m reproduction: {what}; the same command resumes where it was stopped"
    assert sum(line.endswith(": begins") for line in said) == jobs
    assert ("stopping at the end of the epoch; Ctrl-C again stops at once" in said) == (jobs > 1)
    for run in runs:
        assert not list(run.glob(".*.part*"))
        if jobs > 1:
            assert len(load_checkpoint(run / "last.safetensors")[1]["history"]) == num_epochs(run)


def run_asleep(words: list[str], errors: Path) -> None:
    """`python -m reproduction WORDS` of runs that do nothing and do not end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
    from reproduction import reproduce as module
    from reproduction.__main__ import main

    module.run_experiment = lambda *_, **__: time.sleep(600)
    sys.exit(main(words))


def test_a_second_interrupt_stops_at_once(tmp_path):
    errors = tmp_path / "errors"
    words = ["csl", "--jobs", "2", "--rows", "crawl", "--device", "cpu", "--out", str(tmp_path / "runs")]
    process = processes.Process(target=run_asleep, args=(words, errors), daemon=True)
    process.start()
    try:
        wait_for(lambda: errors.exists() and errors.read_text().count(": begins\n") == 2, process)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)
        wait_for(lambda: len(errors.read_text().splitlines()) > 2, process)
        os.kill(process.pid, signal.SIGINT)
        process.join(60)
    finally:
        process.kill()
    assert process.exitcode == 130
    assert errors.read_text().splitlines()[2].startswith("stopping at the end of the epoch")
