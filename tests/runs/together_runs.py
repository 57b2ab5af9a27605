"""What a process does that runs experiments with others; the environment has its rank."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from crawl.runs import Experiment, Model, resume_run, run, run_experiment
from crawl.runs.run import Stopped
from crawl.training import Evaluation, Training
from crawl.training.ranks import Ranks
from crawl.walks.plan import WalkPlan
from tests.training.together import dataset

EXPERIMENT = Experiment(
    walk=WalkPlan(num_steps=8, num_eval_steps=8, window_size=4),
    model=Model(("walk", "virtual_node"), hidden_channels=8, num_layers=2),
    training=Training(lr=0.01, batch_size=6, max_epochs=4, sync_norms=True),
    evaluation=Evaluation(num_val_repeats=1, num_test_repeats=2),
)


def float32_dataset():
    """The same graphs in single precision, in which networks of experiments are."""
    found = dataset()
    return replace(found, store=replace(found.store, x=found.store.x.float(), y=found.store.y.float()))


def after(num_epochs: int, then: Any) -> Any:
    """What `stop` asks: after this many epochs, what `then` says."""
    count = 0

    def stop() -> bool:
        nonlocal count
        count += 1
        return count == num_epochs and then()

    return stop


def kill() -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return True


def run_unlike(folder: Path) -> None:
    """Try to run experiments, or data, that differ between the processes, and say why that is refused."""
    rank, data = Ranks.of_this_process().rank, float32_dataset()
    other = replace(EXPERIMENT, walk=replace(EXPERIMENT.walk, num_steps=8 + rank))
    bent = replace(data, store=replace(data.store, x=data.store.x + rank))
    for name, experiment, given in (("walks", other, data), ("data", EXPERIMENT, bent)):
        try:
            run_experiment(experiment, folder / name, dataset=given)
        except ValueError as error:
            print(error, file=sys.stderr)


def run_tasks(folder: Path, *tasks: str) -> None:
    """Run experiments, or resume them, in folders named after the tasks."""
    run._SECONDS_BETWEEN_CHECKPOINTS = 0.0
    ranks, data = Ranks.of_this_process(), float32_dataset()
    for task in tasks:
        place = folder / task.split(":")[-1]
        if task.startswith("resume:"):
            resume_run(place, dataset=data)
        elif task == "whole":
            run_experiment(EXPERIMENT, place, dataset=data)
        elif task == "stopped":
            try:
                run_experiment(EXPERIMENT, place, dataset=data, stop=after(2, lambda: ranks.is_first))
            except Stopped:
                continue
            raise AssertionError("nobody stopped")
        elif task == "killed":
            run_experiment(EXPERIMENT, place, dataset=data, stop=after(2, kill if ranks.rank == 1 else bool))
