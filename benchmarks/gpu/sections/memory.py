"""Peak memory of a step as the batch and the walks grow."""

from __future__ import annotations

import math

import numpy as np
from measure import progress

from gpu.bench import Bench
from gpu.peak_memory import peak_or_error
from gpu.report import Section
from gpu.steps import ZINC, our_step, reference_step
from gpu.timing import allow_tf32


def memory(bench: Bench) -> Section:
    """Peak memory of a step as the batch and the walks grow."""
    device = bench.device
    allow_tf32()
    values = (5, 10) if bench.smoke else (25, 50, 100, 200, 400)
    usual = values[1]
    rows, raw, goals = [], {}, []
    all_shares, fits = [], []
    for axis in ("batch", "walk length"):
        peaks: dict[str, list[float | str]] = {"ours": [], "reference": []}
        for value in values:
            progress(f"  {axis} {value}")
            batch_size, num_steps = (value, 50) if axis == "batch" else (usual, value)
            settings = {**ZINC, "num_steps": max(num_steps, 10)}
            for name, make in (("ours", our_step), ("reference", reference_step)):
                build = lambda make=make, s=settings, b=batch_size: make(bench.zinc, s, batch_size=b, device=device)  # noqa: E731
                peaks[name].append(peak_or_error(build, device))
        fit = {name: _line(values, mb) for name, mb in peaks.items()}
        shares = [
            math.nan if isinstance(ours, str) or isinstance(ref, str) else ours / max(ref, 1e-9)
            for ours, ref in zip(peaks["ours"], peaks["reference"], strict=True)
        ]
        all_shares += shares
        fits.append(fit["ours"]["r2"])
        raw[axis] = {"values": values, "peak_mb": peaks, "fit": fit, "share": shares}
        for name, mb in peaks.items():
            line = f"{fit[name]['slope']:.2f} MB each + {fit[name]['offset']:.0f} MB, R² = {fit[name]['r2']:.4f}"
            rows.append([axis, name, *(m if isinstance(m, str) else f"{m:,.0f}" for m in mb), line])
        rows.append([axis, "ours / reference", *(f"{share:.2f}" for share in shares), ""])
    least, worst = float(np.min(fits)), float(np.max(all_shares))  # NaN if a point failed, and then no goal is met
    goals.append(("memory of a step", "linear, R² ≥ 0.99", f"R² = {least:.4f} at worst", least >= 0.99))
    goals.append(("memory against the reference", "≤ 1/3", f"{worst:.2f} at worst", worst <= 1 / 3))
    text = [
        f"MB at most of running a ZINC step ({bench.zinc.name}) five times, beyond the data set and the model;",
        "for ours with what is captured at the first.",
        f"The batch grows with walks of 50 steps, the walks grow with a batch of {usual}.",
    ]
    header = ["what grows", "step", *map(str, values), "straight line"]
    return Section("Memory", text, header, rows, raw, goals)


def _line(values: tuple[int, ...], peaks: list[float | str]) -> dict[str, float]:
    """The straight line through the points, and the share of their variance it explains; NaN with fewer than two."""
    points = [(value, peak) for value, peak in zip(values, peaks, strict=True) if not isinstance(peak, str)]
    if len(points) < 2:
        return {"slope": math.nan, "offset": math.nan, "r2": math.nan}
    x, y = zip(*points, strict=True)
    slope, offset = np.polyfit(x, y, 1)
    spread = float(np.var(y))
    r2 = 1 - float(np.mean((np.polyval([slope, offset], x) - np.array(y)) ** 2)) / spread if spread else 1.0
    return {"slope": float(slope), "offset": float(offset), "r2": r2}
