"""Steps with the shapes of other experiments, against the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure import progress

from gpu.bench import Bench
from gpu.peak_memory import peak_or_error
from gpu.report import Section, time_cells
from gpu.shapes import cifar_shape, molpcba_shape, peptides_shape
from gpu.steps import Step, build_model, num_parameters, our_step, reference_step
from gpu.timing import allow_tf32, in_turns


def other_shapes(bench: Bench) -> Section:
    """Steps with the shapes of other experiments, against the reference."""
    device = bench.device
    allow_tf32()
    rows, raw = [], {}
    for shape in (molpcba_shape(), cifar_shape(), peptides_shape()):
        batch_size = 4 if bench.smoke else shape.batch_size
        dataset = shape.dataset(2 * batch_size if bench.smoke else 8 * batch_size, device)
        size = num_parameters(build_model(dataset, shape.settings))
        assert size == shape.num_parameters, f"{shape.name} has {size:,} parameters, not {shape.num_parameters:,}"
        builds: dict[str, Callable[[], Step]] = {
            "ours": lambda d=dataset, s=shape, b=batch_size: our_step(d, s.settings, batch_size=b, device=device),
            "reference": lambda d=dataset, s=shape, b=batch_size: reference_step(
                d, s.settings, batch_size=b, device=device
            ),
        }
        record: dict[str, Any] = {"parameters": size, "nodes": dataset.store.num_nodes / len(dataset)}
        record["edges"] = dataset.store.num_edges / len(dataset)
        peaks: dict[str, float | str] = {}
        for name, build in builds.items():
            progress(f"  {shape.name}: memory of {name}")
            peaks[name] = peak_or_error(build, device)
        seconds = in_turns(builds, device, seconds_each=0.8)
        raw[shape.name] = record | {"seconds": seconds, "peak_mb": peaks}
        for name, spread in seconds.items():
            cells = time_cells(spread, seconds["ours"])
            peak = peaks[name]
            rows.append([shape.name, name, f"{size:,}", *cells, peak if isinstance(peak, str) else f"{peak:,.0f}"])
    text = [
        "Synthetic graphs with the mean sizes of the data sets, models of the paper (their parameter counts are",
        "checked). Memory is the peak of running a step five times, beyond the data set and the model.",
        "; ".join(f"{n}: {r['nodes']:.1f} nodes, {r['edges']:.1f} arcs a graph" for n, r in raw.items()) + ".",
    ]
    header = ["shape", "step", "parameters", "time in ms", "times ours", "peak memory in MB"]
    return Section("Other shapes", text, header, rows, raw)
