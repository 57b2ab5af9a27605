"""What the machine can do, and the least time a ZINC step needs on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from measure import Spread, spread_cell

from crawl.data.dataset import Dataset
from gpu.bench import Bench
from gpu.report import Section
from gpu.steps import ZINC, Settings, build_model, num_parameters
from gpu.timing import seconds_of


def ceilings(bench: Bench) -> Section:
    """What the machine can do, and the least time a ZINC step needs on it."""
    device = bench.device
    size = 256 if bench.smoke else 8192
    raw: dict[str, Any] = {"copy": copy_rate(2**16 if bench.smoke else 2**29, device)}  # 2 GiB
    a, b = torch.randn(2, size, size, device=device)
    for name, precision, dtype in (
        ("float32", "highest", torch.float32),
        ("tf32", "high", torch.float32),
        ("bf16", "high", torch.bfloat16),
    ):
        torch.set_float32_matmul_precision(precision)
        left, right = a.to(dtype), b.to(dtype)
        seconds_of(lambda left=left, right=right: left @ right, 2, device)
        taken = seconds_of(lambda left=left, right=right: left @ right, 10, device)
        raw[name] = asdict(Spread.of([2 * size**3 / s for s in taken]))
    rows = [["copy bandwidth, bytes read and written", spread_cell(raw["copy"], 1e-12), "TB/s", ""]]
    for name, text in (("tf32", "float32 with TF32"), ("bf16", "bf16"), ("float32", "float32 without TF32")):
        rows.append([f"matrix product of {size}, {text}", spread_cell(raw[name], 1e-12), "TFLOP/s", ""])

    floor, lines = step_floor(bench.zinc, ZINC, bench.batch_size, {name: raw[name]["median"] for name in raw})
    raw["floor"] = floor
    rows += lines
    text = [
        "Ceilings are measured, the work of a ZINC training step is counted: the fewest operations (project, then",
        "gather; nothing computed twice) and the fewest bytes. The floor is the largest of the times.",
        f"Mean sizes of a batch: {floor['legend']}",
    ]
    return Section("Ceilings and the floor", text, ["what", "value", "unit", "formula"], rows, raw)


def copy_rate(num_values: int, device: torch.device) -> dict[str, float]:
    """Bytes read and written per second by a copy on the device."""
    source = torch.randn(num_values, device=device)
    target = torch.empty_like(source)
    seconds_of(lambda: target.copy_(source), 2, device)
    taken = seconds_of(lambda: target.copy_(source), 20, device)
    return asdict(Spread.of([2 * source.nbytes / s for s in taken]))


def step_floor(
    dataset: Dataset, settings: Settings, batch_size: int, rates: Mapping[str, float]
) -> tuple[dict[str, Any], list[list[str]]]:
    """The work of a training step in operations and bytes, with the time each takes at the measured rates."""
    sizes = torch.stack([dataset.store.node_ptr.diff(), dataset.store.edge_ptr.diff()]).double()
    N, E = (batch_size * float(mean) for mean in sizes[:, dataset.split.train.to(sizes.device)].mean(dim=1))
    G, W, T = batch_size, N, settings["num_steps"] + 1
    s, d, L = settings["window_size"], settings["hidden_channels"], settings["num_layers"]
    k, c_n, c_e = s + 1, sum(dataset.node_categories), sum(dataset.edge_categories)
    M = W * (T - k + 1)
    P = num_parameters(build_model(dataset, settings))
    # Products that pass a gradient on cost three times the forward pass, those with the data itself as input twice.
    inner = L * (2 * M * d**2 + 8 * N * d**2) + (L - 1) * (2 * N * d**2 + 4 * G * d**2) + 2 * G * (d**2 + d)
    outer = 4 * N * c_n * d + L * (2 * E * c_e * d + 2 * 512 * 8 * d)
    matrix = 3 * inner + 2 * outer
    vector = 3 * L * (3 * W * T * d + (2 * k + 8) * M * d) + 12 * P
    least = 24 * P + 4 * N + 12 * E + 4 * G
    stored = least + (1 + 2 * L) * W * (10 * T - 4) + 5 * L * 4 * M * d
    times = {
        "matrix": matrix / rates["tf32"],
        "vector": vector / rates["float32"],
        "bytes": least / rates["copy"],
        "bytes with stored windows": stored / rates["copy"],
    }
    floor = {
        "legend": f"N = {N:,.0f} nodes, E = {E:,.0f} edges, G = {G} graphs, W = {W:,.0f} walks of T = {T} nodes, "
        f"k = {k}, M = W·(T−k+1) = {M:,.0f} windows, d = {d}, L = {L}, P = {P:,} parameters, "
        f"c_n = {c_n} and c_e = {c_e} input channels.",
        "matrix_flops": matrix,
        "vector_flops": vector,
        "least_bytes": least,
        "stored_bytes": stored,
        "seconds": times,
        "floor_s": max(times["matrix"], times["vector"], times["bytes"]),
    }
    rows = [
        [
            f"matrix operations: {matrix / 1e9:.2f} GFLOP at the TF32 rate",
            f"{1e6 * times['matrix']:.1f}",
            "µs",
            "3·[L·(2Md² + 8Nd²) + (L−1)·(2Nd² + 4Gd²) + 2G(d²+d)] + 2·[4N·c_n·d + L·(2E·c_e·d + 2·512·8·d)]",
        ],
        [
            f"vector operations: {vector / 1e9:.2f} GFLOP at the float32 rate",
            f"{1e6 * times['vector']:.1f}",
            "µs",
            "3·L·(3WTd + (2k+8)·Md) + 12P: gather and add, depthwise convolution, norm, ReLU, pooling; Adam",
        ],
        [
            f"fewest bytes: {least / 1e6:.1f} MB at the copy bandwidth",
            f"{1e6 * times['bytes']:.1f}",
            "µs",
            "24P + 4N + 12E + 4G: weights and both moments read and written, the batch read",
        ],
        [
            f"bytes if walks and windows go through memory: {stored / 1e6:.0f} MB",
            f"{1e6 * times['bytes with stored windows']:.1f}",
            "µs",
            "fewest + (1+2L)·W·(10T−4) + 5·L·4Md: walks written once and read 2L times, windows before the norm "
            "written, read twice, their gradient written and read (part of it stays in the cache)",
        ],
        ["**floor of the step**", f"{1e6 * floor['floor_s']:.1f}", "µs", "the largest of the first three"],
    ]
    return floor, rows
