"""Every block by itself: forward and backward pass, captured and eager, and the memory of a step."""

from __future__ import annotations

from typing import Any

from crawl.nn import BLOCKS
from gpu.bench import Bench
from gpu.peak_memory import peak_or_error
from gpu.report import Section, time_cells
from gpu.steps import Settings, build_model, forward_and_backward, num_parameters, training_step
from gpu.timing import allow_tf32, in_turns

_NUM_LAYERS = 4


def blocks(bench: Bench) -> Section:
    """Every block by itself: forward and backward pass, captured and eager, and the memory of a step."""
    allow_tf32()
    device = bench.device
    rows: list[list[str]] = []
    raw: dict[str, Any] = {}
    for name in BLOCKS:
        settings: Settings = {"layer": (name,), "num_layers": _NUM_LAYERS, "hidden_channels": 80, "pool": "sum"}
        if not BLOCKS[name].sees_edges:
            settings = {**settings, "edge_dim": None}
        builds = {}
        for how in ("captured", "eager"):
            for what in ("forward", "forward and backward"):
                builds[f"{what}, {how}"] = lambda what=what, how=how, s=settings: forward_and_backward(
                    bench.zinc, build_model(bench.zinc, s), bench.batch_size, device, is_captured=how == "captured"
                )[what]
        seconds = in_turns(builds, device, seconds_each=0.3, num_rounds=1)
        size = num_parameters(build_model(bench.zinc, settings))
        memory = peak_or_error(
            lambda s=settings: training_step(bench.zinc, build_model(bench.zinc, s), bench.batch_size, device), device
        )
        cells = [time_cells(seconds[key], "")[0] for key in builds]
        rows.append([name, f"{size:,}", *cells, memory if isinstance(memory, str) else f"{memory:,.0f}"])
        raw[name] = {"parameters": size, "seconds": seconds, "peak_mb": memory}
    text = [
        f"Networks of {_NUM_LAYERS} layers of width 80 of each block alone. Batches of {bench.batch_size},",
        f"{bench.zinc.name}: assembly of the batch and walks included, no optimiser. Times in ms. Memory is what a",
        "captured training step takes at most, in MB, beyond the data set and the model.",
    ]
    header = ["block", "parameters", *builds, "memory in MB"]
    return Section("Blocks", text, header, rows, raw)
