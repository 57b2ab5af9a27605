"""An epoch of ZINC, training and validation as in the paper."""

from __future__ import annotations

import time
from dataclasses import asdict

import published
from measure import Spread, progress, spread_cell

from gpu.bench import Bench
from gpu.report import Section
from gpu.steps import ZINC, build_model
from gpu.timing import allow_tf32, seconds_of, synchronize


def epoch(bench: Bench) -> Section:
    """An epoch of ZINC, training and validation as in the paper."""
    device = bench.device
    allow_tf32()
    trainer = bench.trainer(build_model(bench.zinc, ZINC))
    epochs = trainer.epochs()
    values: list[float] = []
    began = time.perf_counter()
    while len(values) < 2 or (len(values) < 8 and time.perf_counter() - began < 10):
        progress("  epoch")
        synchronize(device)
        begin = time.perf_counter()
        next(epochs)
        synchronize(device)
        values.append(time.perf_counter() - begin)
    first, values = values[0], values[1:]
    ours = {**asdict(Spread.of(values)), "num": len(values)}

    progress("  published arrangement")
    num_timed = 1 if bench.smoke else 10
    num_train, eval_batch = trainer.num_batches, trainer.evaluation.batch_size
    num_val = -(-len(bench.zinc.split.val) // eval_batch)
    graphs = bench.some_graphs()
    calls = [published.Published(graphs, device, bench.batch_size).step]
    calls.append(published.Published(graphs, device, eval_batch).evaluate)
    for call in calls:
        call()
    train_step, eval_step = (Spread.of(seconds_of(call, num_timed, device)) for call in calls)
    theirs_s = num_train * train_step.median + 2 * num_val * eval_step.median
    rows = [
        ["ours, `Trainer`", spread_cell(ours), ""],
        ["published arrangement", f"{theirs_s:.2f}", f"{theirs_s / ours['median']:.1f}×"],
    ]
    text = [
        f"{bench.zinc.name}: {num_train} training steps of {bench.batch_size} graphs with walks of 50 steps, then "
        f"{len(bench.zinc.split.val):,} validation graphs in batches of {eval_batch}, twice, with walks of 150.",
        f"Ours: median of {len(values)} epochs after one to warm up, which took {first:.1f} s.",
        f"The published arrangement is extrapolated from {num_timed} steps of each kind: {num_train} × "
        f"{1e3 * train_step.median:.1f} ms + {2 * num_val} × {1e3 * eval_step.median:.1f} ms.",
    ]
    raw = {"ours": ours, "first_s": first, "published_s": theirs_s}
    raw |= {"published_train_step": asdict(train_step), "published_eval_step": asdict(eval_step)}
    goals = [("ZINC epoch", "≤ 0.4 s", f"{ours['median']:.2f} s", ours["median"] <= 0.4)]
    return Section("ZINC epoch", text, ["epoch", "time in s", "times ours"], rows, raw, goals)
