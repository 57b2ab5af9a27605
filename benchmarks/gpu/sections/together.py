"""Several trainings at the same time on one GPU, as `python -m reproduction --jobs` has them."""

from __future__ import annotations

import gc
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from threading import Barrier
from typing import Any

import torch
from measure import Spread, progress, spread_cell

from crawl import CRaWl
from crawl.ops.triton.streams import stream_of_thread
from gpu.bench import Bench
from gpu.report import Section
from gpu.steps import ZINC, build_model
from gpu.timing import allow_tf32, synchronize


def together(bench: Bench) -> Section:
    """Epochs of ZINC with more and more trainings at a time."""
    allow_tf32()
    num_epochs = 1 if bench.smoke else 4
    rows: list[list[str]] = []
    raw: dict[str, Any] = {}
    for num_trainings in (1, 2) if bench.smoke else (1, 2, 5, 8):
        progress(f"  {num_trainings} at a time")
        seconds, total_s = train_together(bench, num_trainings, num_epochs)
        spread, rate = asdict(Spread.of(seconds)), len(seconds) / total_s
        raw[str(num_trainings)] = {"epoch": {**spread, "num": len(seconds)}, "total_s": total_s, "epochs_per_s": rate}
        gain = rate / raw["1"]["epochs_per_s"]
        rows.append([str(num_trainings), spread_cell(spread), f"{rate:.2f}", f"{gain:.2f}×"])
    text = [
        f"{bench.zinc.name}: {num_epochs} epochs of each training, as above, after one to warm up. The clock starts",
        "when all have warmed up. They share a process, as with `python -m reproduction --jobs`, and each has a thread",
        "and a CUDA stream of its own.",
    ]
    header = ["trainings at a time", "epoch of each in s", "epochs per s in all", "times one alone"]
    return Section("Trainings at the same time", text, header, rows, raw)


def train_together(bench: Bench, num_trainings: int, num_epochs: int) -> tuple[list[float], float]:
    """The seconds of each epoch of each training, and those from the first begin to the last end.

    If one training fails, or the time of the section is over, the others stop after the epoch they are in.
    """
    models = [build_model(bench.zinc, ZINC) for _ in range(num_trainings)]
    gc.collect()  # earlier trainings, which would be found later
    synchronize(bench.device)  # the data are there for all streams
    began: list[float] = []
    ready = Barrier(num_trainings, action=lambda: began.append(time.perf_counter()))

    def train(model: CRaWl, seed: int) -> list[float]:
        with _own_stream(bench.device):
            epochs = bench.trainer(model, seed).epochs()
            next(epochs)
            ready.wait()
            seconds: list[float] = []
            while len(seconds) < num_epochs and not ready.broken:
                seconds.append(next(epochs)["seconds"])
            return seconds

    with ThreadPoolExecutor(num_trainings) as threads:
        trainings = [threads.submit(train, model, seed) for seed, model in enumerate(models)]
        try:
            done, _ = wait(trainings, return_when=FIRST_EXCEPTION)
            ended = time.perf_counter()
        finally:
            ready.abort()
        for training in done:
            training.result()  # raises what has failed
    return [value for training in trainings for value in training.result()], ended - began[0]


def _own_stream(device: torch.device) -> AbstractContextManager[Any]:
    return torch.cuda.stream(stream_of_thread(device, "main")) if device.type == "cuda" else nullcontext()
