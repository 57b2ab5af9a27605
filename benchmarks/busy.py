"""Speed on an idle and on a busy machine, as a Markdown table: `python benchmarks/busy.py`.

Takes the training step of the ZINC model on the CPU and measures it

* idle, in turns with the published arrangement (`published.py`),
* beside processes that do nothing but use a core, as many as there are cores,
* in two trainings side by side, each in a process of its own, against one alone.

Start it on a machine that does nothing else. Writes `results/busy.md`, which is also printed, and `results/busy.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import graphs
import torch
from layers import TrainingStep
from measure import HERE, Spread, environment, interleaved, progress, spread_cell
from published import Published
from torch import Tensor

from crawl import CRaWl, OneHot
from crawl.data import from_pyg
from crawl.training import Evaluation, Trainer, Training

NUM_ROUNDS, NUM_TRAINING_STEPS = 15, 20
BATCH_SIZE = 50
GOALS = {"idle": 4.0, "busy": 2.5, "together": 3.0}


def trainer_steps() -> Iterator[Tensor]:
    """Training steps of `Trainer`, without end."""
    torch.manual_seed(0)
    dataset = from_pyg(graphs.molecules(10 * BATCH_SIZE), fractions=(0.8, 0.1, 0.1))
    model = CRaWl(
        OneHot(graphs.NUM_ATOM_TYPES),
        1,
        hidden_channels=147,
        num_layers=3,
        edge_dim=OneHot(graphs.NUM_BOND_TYPES),
        virtual_node=True,
        pool="sum",
    )
    trainer = Trainer(model, dataset, Training(batch_size=BATCH_SIZE), Evaluation(), device="cpu")
    trainer.model.train()
    batches = list(dataset.split.train.split(BATCH_SIZE))
    for epoch in count():
        yield from trainer.steps(batches, seed=epoch)


def contestants() -> dict[str, Callable[[int], Any]]:
    """What is timed, by name; the last is the published arrangement."""
    ours, published = trainer_steps(), Published(graphs.molecules(10 * BATCH_SIZE), torch.device("cpu"), BATCH_SIZE)
    return {
        "ours, Trainer": lambda _: next(ours),
        "ours, a loop of one's own": TrainingStep("fast"),
        "published": lambda _: published.step(),
    }


@contextmanager
def busy_cores(number: int) -> Iterator[None]:
    """This many processes that use a core each."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        time.sleep(1)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def train(num_steps: int) -> list[float]:
    """Seconds of each training step, after those that compile; for a process of its own."""
    steps = trainer_steps()
    for _ in range(3):
        next(steps)
    print("ready", flush=True)
    sys.stdin.readline()
    seconds = []
    for _ in range(num_steps):
        began = time.perf_counter()
        next(steps)
        seconds.append(time.perf_counter() - began)
    return seconds


def train_together(number: int, num_steps: int) -> list[float]:
    """Seconds of the steps of this many trainings that begin at the same time, each in a process of its own."""
    command = [sys.executable, __file__, "--train", str(num_steps)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(number)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [second for process in running for second in json.loads(process.communicate()[0])]


def measure(num_rounds: int, num_steps: int) -> dict[str, Any]:
    """Seconds of every step."""
    num_cores = len(os.sched_getaffinity(0))
    calls = contestants()
    progress("idle")
    results: dict[str, Any] = {"idle": interleaved(calls, num_rounds)}
    progress(f"beside {num_cores} busy processes")
    with busy_cores(num_cores):
        results["busy"] = interleaved(calls, num_rounds)
    for number in (1, 2):
        progress(f"{number} training(s)")
        results[f"{number} at a time"] = train_together(number, num_steps)
    return results


def markdown(results: dict[str, Any]) -> str:
    seconds = results["seconds"]
    median = {
        (state, name): Spread.of(values).median for state in ("idle", "busy") for name, values in seconds[state].items()
    }
    rows = []
    for name, values in seconds["idle"].items():
        idle, busy = (asdict(Spread.of(part)) for part in (values, seconds["busy"][name]))
        rows.append(
            f"| {name} | {spread_cell(idle, 1e3)} | {median['idle', 'published'] / idle['median']:.2f}× "
            f"| {spread_cell(busy, 1e3)} | {busy['median'] / idle['median']:.2f}× |"
        )
    alone, together = (asdict(Spread.of(seconds[f"{number} at a time"])) for number in (1, 2))
    ours = next(iter(seconds["idle"]))
    reached = {
        "idle": median["idle", "published"] / median["idle", ours],
        "busy": median["busy", ours] / median["idle", ours],
        "together": together["median"] / alone["median"],
    }
    state = {
        name: "met" if (value >= GOALS[name] if name == "idle" else value <= GOALS[name]) else "missed"
        for name, value in reached.items()
    }
    return "\n".join(
        [
            "# Speed beside other work",
            "",
            "Generated by `python benchmarks/busy.py`; do not edit. Raw numbers: `busy.json`.",
            "A training step of the ZINC model on the CPU: 50 molecule-like graphs, walks of 50 steps.",
            "Every time is a median in milliseconds, with the 20th and 80th percentile in brackets, from one run.",
            "",
            *(f"- {name}: {value}" for name, value in results["environment"].items()),
            "",
            f"| step | idle | published over it | beside {results['num_busy']} busy processes | over its idle time |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            "| trainings at a time, a process each | step of each |",
            "| --- | --- |",
            f"| 1 | {spread_cell(alone, 1e3)} |",
            f"| 2 | {spread_cell(together, 1e3)} |",
            "",
            "| goal | reached | |",
            "| --- | --- | --- |",
            f"| idle, at least {GOALS['idle']}× as fast as published | {reached['idle']:.2f}× | {state['idle']} |",
            f"| busy, at most {GOALS['busy']}× its idle time | {reached['busy']:.2f}× | {state['busy']} |",
            f"| two trainings, at most {GOALS['together']}× one | {reached['together']:.2f}× | {state['together']} |",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=NUM_ROUNDS)
    parser.add_argument("--steps", type=int, default=NUM_TRAINING_STEPS, help="of each training")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder to write to")
    parser.add_argument("--train", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train is not None:
        print(json.dumps(train(arguments.train)))
        return
    results = {
        "environment": environment(["torch", "numba", "numpy", "torch-geometric"]),
        "num_busy": len(os.sched_getaffinity(0)),
        "seconds": measure(arguments.rounds, arguments.steps),
    }
    report = markdown(results)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "busy.md").write_text(report)
    (arguments.out / "busy.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report)


if __name__ == "__main__":
    main()
