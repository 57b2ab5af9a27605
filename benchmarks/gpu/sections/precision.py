"""The three precisions."""

from __future__ import annotations

from typing import Any

from gpu.bench import Bench
from gpu.report import Section, time_cells
from gpu.timing import allow_tf32, in_turns


def precision(bench: Bench) -> Section:
    """The three precisions."""
    seconds: dict[str, Any] = {}
    for name in ("tf32", "bf16", "float32"):  # one after the other: torch's own setting is global
        allow_tf32(name != "float32")
        build = lambda name=name: bench.ours(precision=name)  # noqa: E731
        seconds |= in_turns({name: build}, bench.device, seconds_each=0.8)
    allow_tf32()
    rows = [[name, *time_cells(spread, seconds["tf32"])] for name, spread in seconds.items()]
    header = ["precision", "time in ms", "times tf32"]
    return Section("Precision", ["Our ZINC step."], header, rows, {"seconds": seconds})
