"""Where the GPU spends the time of a step."""

from __future__ import annotations

import re
from collections import defaultdict

import torch
from measure import spread_cell
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity

from gpu.bench import Bench
from gpu.report import Section
from gpu.timing import allow_tf32, in_turns, synchronize


def profile(bench: Bench) -> Section:
    """Where the GPU spends the time of a step."""
    device, num_steps = bench.device, 2 if bench.smoke else 10
    allow_tf32()
    run = bench.ours()
    timing = in_turns({"ours": lambda: run}, device, seconds_each=0.5)["ours"]
    if isinstance(timing, str):
        raise RuntimeError(timing)
    is_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_gpu else [])]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(num_steps):
            run()
        synchronize(device)
    time_us: dict[str, float] = defaultdict(float)
    number: dict[str, int] = defaultdict(int)
    launches: dict[str, int] = defaultdict(int)
    for event in profiler.events():
        if event.device_type == (DeviceType.CUDA if is_gpu else DeviceType.CPU):
            if not (getattr(event, "is_user_annotation", False) or event.name.startswith("Optimizer.")):
                time_us[event.name] += event.time_range.elapsed_us() if is_gpu else event.self_cpu_time_total
                number[event.name] += 1
        elif re.match(r"cu(da)?(Launch|GraphLaunch|Memcpy|Memset)", event.name):
            launches[event.name] += 1
    total = sum(time_us.values())
    busy = total / num_steps / 1e6 / timing["median"]
    ranked = sorted(time_us, key=lambda name: -time_us[name])
    rows = [
        [
            f"**{_short(name)}**" if place < 3 else _short(name),
            f"{number[name] / num_steps:.1f}",
            f"{time_us[name] / num_steps:.1f}",
            f"{100 * time_us[name] / total:.1f} %",
        ]
        for place, name in enumerate(ranked[:10])
    ]
    num_kernels, num_launches = (sum(c.values()) / num_steps for c in (number, launches))
    started_by = ", ".join(f"{name} {calls / num_steps:.1f}" for name, calls in launches.items())
    text = [
        f"torch.profiler over {num_steps} steps of ours on {bench.zinc.name}. {num_kernels:.0f} kernels and copies a "
        f"step, started by {num_launches:.1f} calls of the host ({started_by}).",
        f"Kernels take {total / num_steps:.0f} µs a step; without the profiler a step takes "
        f"{spread_cell(timing, 1e6)} µs, so the GPU is busy {100 * busy:.0f} % of it.",
        f"The three largest: {'; '.join(_short(name) for name in ranked[:3])}.",
    ]
    raw = {
        "seconds": timing,
        "busy_share": busy,
        "kernels_per_step": num_kernels,
        "launches_per_step": {name: c / num_steps for name, c in launches.items()},
        "kernels": [{"name": n, "us": time_us[n] / num_steps, "count": number[n] / num_steps} for n in ranked],
    }
    return Section("Profile", text, ["kernel", "a step", "µs a step", "share"], rows, raw)


def _short(name: str) -> str:
    return re.sub(r"at::native::|\(anonymous namespace\)::|^void ", "", name)[:90]
