"""Speed and memory on one NVIDIA GPU: `PYTHONPATH=src python benchmarks/gpu.py --data DIR --out DIR`.

Writes `gpu.md`, which is also printed, and the raw numbers, `gpu.json`, after every section. `--only NAME` runs one
section, `--smoke` tries everything on a CPU in a minute with sizes that mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import inspect
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import count, cycle, pairwise
from pathlib import Path
from typing import Any

import graphs as made
import message_passing
import numpy as np
import published
import torch
from torch import Tensor
from torch_geometric.data import Data

from crawl import CRaWl, Dense, Graph, OneHot, sample_walks
from crawl.data.dataset import Dataset
from crawl.data.identity import graph_keys
from crawl.data.splits import Split
from crawl.data.store import GraphStore
from crawl.data.task import Task
from crawl.walks.reference import StepLaw

try:
    import numba  # noqa: F401
except ModuleNotFoundError:  # a GPU needs none, and `measure` asks it for its number of threads only
    sys.modules["numba"] = types.ModuleType("numba")
    sys.modules["numba"].get_num_threads = lambda: 0  # type: ignore[attr-defined]
    importlib.import_module("measure")
    del sys.modules["numba"]
from measure import HERE, Spread, environment, error_line, peak_memory_mb, progress

VERSIONS_OF = ["torch", "triton", "torch-geometric", "numpy"]
SECTION_LIMIT_S, RUN_LIMIT_S = 100, 345

Step = Callable[[], Any]
Settings = Mapping[str, Any]  # keyword arguments of `crawl.CRaWl`

ZINC: Settings = {
    "hidden_channels": 147,
    "num_layers": 3,
    "window_size": 8,
    "virtual_node": True,
    "pool": "sum",
    "num_steps": 50,
    "num_eval_steps": 150,
}
ZINC_BATCH = 50


# ---------------------------------------------------------------------------------------------------------------------
# What is measured of ours


def our_step(
    dataset: Dataset, settings: Settings, *, batch_size: int, device: torch.device, precision: str | None = None
) -> Step:
    """A call that runs one whole training step as `Trainer` runs them; compiled and recorded in its first calls."""
    from crawl.training import Evaluation, Trainer, Training
    from crawl.training.seeds import derive_seed

    model = build_model(dataset, settings, precision=precision)
    trainer = Trainer(model, dataset, Training(batch_size=batch_size, device=str(device)), Evaluation())
    trainer.model.train()
    order = dataset.split.train[torch.randperm(len(dataset.split.train))]
    batches = [ids for ids in torch.split(order, batch_size) if len(ids) == batch_size]

    def steps() -> Iterator[Tensor]:
        for epoch in count():
            yield from trainer.steps(batches, derive_seed(0, "walks", epoch))

    running = steps()
    return lambda: next(running)


def reference_step(dataset: Dataset, settings: Settings, *, batch_size: int, device: torch.device) -> Step:
    """The same with our reference implementation, eagerly."""
    return eager_step(dataset, build_model(dataset, settings, implementation="reference"), batch_size, device)


def eager_step(dataset: Dataset, model: CRaWl, batch_size: int, device: torch.device) -> Step:
    """A training step as `Trainer` does it: cut a batch from the store, model, loss, Adam."""
    from crawl.training.seeds import derive_seed
    from crawl.training.trainer import Scaling, task_loss

    model = model.to(device).train()
    store = dataset.store.to(device)
    keys = graph_keys(store)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    order = dataset.split.train[torch.randperm(len(dataset.split.train))]
    batches = cycle([ids for ids in torch.split(order, batch_size) if len(ids) == batch_size])
    number = 0

    def step() -> None:
        nonlocal number
        number += 1
        ids = next(batches)
        batch = store.batch(ids)
        batch.graph_keys = keys[ids]
        output = model(batch, seed=derive_seed(0, "walks", number))
        loss = task_loss(dataset.task, "auto", output, batch.y, Scaling())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()

    return step


def build_model(dataset: Dataset, settings: Settings, **more: Any) -> CRaWl:
    """The model for a data set; arguments that `CRaWl` does not have or that are None are left out."""
    known = inspect.signature(CRaWl.__init__).parameters
    more = {name: value for name, value in more.items() if value is not None and name in known}
    torch.manual_seed(0)
    return CRaWl(
        OneHot(dataset.node_categories) if dataset.node_categories else Dense(max(dataset.num_node_features, 1)),
        dataset.task.num_outputs,
        edge_dim=OneHot(dataset.edge_categories) if dataset.edge_categories else Dense(dataset.num_edge_features),
        **settings,
        **more,
    )


# ---------------------------------------------------------------------------------------------------------------------
# How it is measured


@dataclass
class Bench:
    """The device, the data, and what the sections so far have found."""

    device: torch.device
    data: Path
    smoke: bool
    results: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def zinc(self) -> Dataset:
        """ZINC on the device; molecule-like graphs of the same sizes if the file is not there."""
        file = self.data / "zinc12k.npz"
        num_graphs = (200, 40, 40) if self.smoke else (10_000, 1_000, 1_000)
        if file.exists():
            store = zinc_store(file, num_graphs)
        else:
            store = GraphStore.from_graphs(made.molecules(sum(num_graphs)))
        assert store.y is not None
        train, val, test = torch.arange(sum(num_graphs)).split(num_graphs)
        return Dataset(
            name="ZINC" if file.exists() else "synthetic molecules in the sizes of ZINC",
            store=replace(store, y=store.y.view(-1, 1)).to(self.device),
            task=Task(kind="regression", num_outputs=1),
            split=Split(train, val, test),
            node_categories=(made.NUM_ATOM_TYPES,),
            edge_categories=(made.NUM_BOND_TYPES,),
        )

    @property
    def batch_size(self) -> int:
        """Graphs per step on ZINC."""
        return 10 if self.smoke else ZINC_BATCH

    @property
    def copy_bytes_per_s(self) -> float | None:
        """The copy bandwidth, if the section `ceilings` has run."""
        ceilings = self.results.get("ceilings", {}).get("raw", {})
        return ceilings["copy"]["median"] if "copy" in ceilings else None

    def some_graphs(self) -> list[Data]:
        """The first 2,000 graphs of the training part, one by one, on the CPU."""
        store = self.zinc.store.to("cpu")
        return [store.graph(i) for i in range(min(2_000, len(self.zinc.split.train)))]

    def ours(self, **more: Any) -> Step:
        """Our training step on ZINC."""
        return our_step(self.zinc, ZINC, batch_size=self.batch_size, device=self.device, **more)


def zinc_store(file: Path, num_graphs: tuple[int, ...]) -> GraphStore:
    """Training, validation and test graphs of `zinc12k.npz`, one after the other; the first ones of each part."""
    with np.load(file) as arrays:
        parts = []
        for part, count in zip(("train", "val", "test"), num_graphs, strict=True):
            node_ptr, edge_ptr = (torch.from_numpy(arrays[f"{part}_{k}_ptr"]).long() for k in ("node", "edge"))
            store = GraphStore(
                node_ptr=node_ptr,
                edge_ptr=edge_ptr,
                edge_index=torch.from_numpy(arrays[f"{part}_edge_index"]).long(),
                x=torch.from_numpy(arrays[f"{part}_x"]).long().unsqueeze(1),
                edge_attr=torch.from_numpy(arrays[f"{part}_edge_attr"]).long().unsqueeze(1),
                y=torch.from_numpy(arrays[f"{part}_y"]),
            )
            parts.append(store if count == len(store) else store.subset(range(count)))
    return GraphStore.concatenate(parts)


def seconds_of(call: Step, num_calls: int, device: torch.device) -> list[float]:
    """Seconds of each of so many calls in a row.

    On a GPU an event is recorded between two calls and nothing waits before the end. Where the host is slower than the
    GPU, these are the host's times; where it runs ahead, the GPU's. The first call, before which the GPU idles, is left
    out.
    """
    if device.type == "cpu":
        marks = [time.perf_counter()]
        for _ in range(num_calls):
            call()
            marks.append(time.perf_counter())
        return [end - begin for begin, end in pairwise(marks)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(num_calls + 2)]
    torch.cuda.synchronize()
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) / 1e3 for begin, end in pairwise(events)][1:]


def in_turns(
    builds: Mapping[str, Callable[[], Step]], device: torch.device, *, seconds_each: float = 1.5, num_rounds: int = 3
) -> dict[str, dict[str, float] | str]:
    """The spread of the seconds of each call that the functions build, or the last line of its error.

    Each call is warmed up. Then they take turns, and in each turn a call runs as often as its share of the time allows.
    """
    found: dict[str, list[float] | str] = {}
    calls: dict[str, Step] = {}
    num_calls: dict[str, int] = {}
    for name, build in builds.items():
        progress(f"  warm-up: {name}")
        try:
            calls[name] = build()
            num_calls[name] = _warm_up(calls[name], device, seconds_each / num_rounds)
            found[name] = []
        except Exception as error:
            found[name] = error_line(error)
    for _ in range(num_rounds):
        for name, call in calls.items():
            values = found[name]
            if isinstance(values, str):
                continue
            try:
                values += seconds_of(call, num_calls[name], device)
            except Exception as error:
                found[name] = error_line(error)
    return {name: v if isinstance(v, str) else {**asdict(Spread.of(v)), "num": len(v)} for name, v in found.items()}


def _warm_up(call: Step, device: torch.device, seconds: float) -> int:
    """Calls until compilation and capture should be over; how many calls fit into the given time."""
    is_cpu = device.type == "cpu"
    began, num_calls = time.perf_counter(), 0
    while num_calls < (1 if is_cpu else 3) or (num_calls < 250 and time.perf_counter() - began < 0.7 and not is_cpu):
        call()
        num_calls += 1
        synchronize(device)
    each = min(seconds_of(call, 1 if is_cpu else 3, device))
    return 1 if is_cpu else max(3, min(200, round(seconds / each)))


def peak_mb(build: Callable[[], Step], device: torch.device, num_calls: int = 5) -> float:
    """MB of the GPU taken at most by running a step, beyond the data set and the model.

    It is built and run once in advance: a compiler that tries variants takes memory that is not the step's.
    """
    build()()
    step = build()
    gc.collect()
    if device.type == "cpu":
        before = peak_memory_mb()
    else:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() / 1e6
    for _ in range(num_calls):
        step()
    synchronize(device)
    return (peak_memory_mb() if device.type == "cpu" else torch.cuda.max_memory_allocated() / 1e6) - before


def allow_tf32(allowed: bool = True) -> None:
    """Let torch use TF32 for products of float32 matrices, or not."""
    settings = torch.backends.cuda.matmul
    if hasattr(settings, "fp32_precision"):
        settings.fp32_precision = "tf32" if allowed else "ieee"
    else:  # before torch 2.9
        settings.allow_tf32 = allowed


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


# ---------------------------------------------------------------------------------------------------------------------
# The sections


@dataclass
class Section:
    """A part of the report.

    Attributes:
        title: Its heading.
        text: Lines above the table.
        header: Of the table.
        rows: Of the table.
        raw: The numbers, for `gpu.json`.
        goals: What the issue asks for: work, goal, what was measured, whether it is met.
    """

    title: str
    text: list[str]
    header: list[str]
    rows: list[list[str]]
    raw: dict[str, Any]
    goals: list[tuple[str, str, str, bool]] = field(default_factory=list)


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
    rows = [["copy bandwidth, bytes read and written", _spread(raw["copy"], 1e-12), "TB/s", ""]]
    for name, text in (("tf32", "float32 with TF32"), ("bf16", "bf16"), ("float32", "float32 without TF32")):
        rows.append([f"matrix product of {size}, {text}", _spread(raw[name], 1e-12), "TFLOP/s", ""])

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
    P = sum(p.numel() for p in build_model(dataset, settings).parameters())
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


def step(bench: Bench) -> Section:
    """A ZINC training step against the published arrangement and message passing."""
    device = bench.device
    allow_tf32()
    sizes = {"ours": _num_parameters(build_model(bench.zinc, ZINC))}
    assert sizes["ours"] == published.NUM_PARAMETERS
    theirs = published.Published(bench.some_graphs(), device, bench.batch_size)
    builds: dict[str, Callable[[], Step]] = {"ours": bench.ours}
    builds["published arrangement"] = lambda: theirs.step
    builds["of which walks"] = theirs.sampling
    sizes["published arrangement"] = published.NUM_PARAMETERS
    train = bench.zinc.split.train[: 20 * bench.batch_size]
    batches = [bench.zinc.store.batch(ids) for ids in torch.split(train, bench.batch_size)]
    for kind, make_conv in message_passing.LAYERS.items():
        for num_layers in (16, 4):
            model, width, size = message_passing.with_budget(make_conv, num_layers)
            name = f"PyG {kind}, {num_layers} layers of width {width}"
            builds[name] = lambda model=model: message_passing.training_step(model.to(device), batches)
            sizes[name] = size
    builds["reference"] = lambda: reference_step(bench.zinc, ZINC, batch_size=bench.batch_size, device=device)
    sizes["reference"] = sizes["ours"]
    seconds = in_turns(builds, device)

    rows, ours = [], seconds["ours"]
    for name, spread in seconds.items():
        size = f"{sizes[name]:,}" if name in sizes else ""
        cells = _timed(spread, ours)
        rows.append([name, size, *cells] if size else [name, size, cells[0], ""])
    raw: dict[str, Any] = {"seconds": seconds, "parameters": sizes}
    text = [
        f"Batch of {bench.batch_size}, {bench.zinc.name}. Ours, the reference and the published arrangement do it all:",
        "assembly of the batch, walks, forward, backward, Adam. The published arrangement is our transcription",
        "(`published.py`), collated by PyG's `DataLoader` in the same process. The PyG networks find their batches on",
        "the GPU; 16 layers are what the literature",
        "takes for this budget, 4 are the shallow alternative, and goals are held against the faster of the two.",
        "Matrix products of all rows use TF32, optimisers are `torch.optim.Adam` as it comes.",
    ]
    medians = {name: math.nan if isinstance(v, str) else v["median"] for name, v in seconds.items()}
    floor = bench.results.get("ceilings", {}).get("raw", {}).get("floor")
    if floor:
        raw["times_floor"] = medians["ours"] / floor["floor_s"]
        text.append(f"Ours takes {raw['times_floor']:.1f} times the floor of {1e6 * floor['floor_s']:.0f} µs.")
    # What could not be measured is NaN, and no goal is met by that.
    goals = [("ZINC step", "≤ 1.2 ms", f"{1e3 * medians['ours']:.2f} ms", medians["ours"] <= 1.2e-3)]
    for peer, least in (("published arrangement", 40), ("PyG GINE", 1), ("PyG GatedGCN", 1)):
        ratio = float(np.min([v for name, v in medians.items() if name.startswith(peer)])) / medians["ours"]
        goal = f"{least}× faster" if least > 1 else "faster"
        goals.append((f"ZINC step against {peer}", goal, f"{ratio:.2f}×", ratio >= least))
    header = ["step", "parameters", "time in ms", "times ours"]
    return Section("ZINC training step", text, header, rows, raw, goals)


def epoch(bench: Bench) -> Section:
    """An epoch of ZINC, training and validation as in the paper."""
    from crawl.training import Evaluation, Trainer, Training

    device = bench.device
    allow_tf32()
    training = Training(batch_size=bench.batch_size, device=str(device))
    trainer = Trainer(build_model(bench.zinc, ZINC), bench.zinc, training, Evaluation(num_val_repeats=2))
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
        ["ours, `Trainer`", _spread(ours), ""],
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


def sampling(bench: Bench) -> Section:
    """Walks alone."""
    device, num_steps, window_size = bench.device, 50, 8
    num_walks = 2_000 if bench.smoke else 1_000_000
    if device.type == "cpu":
        from crawl.walks import cpu as sampler
    else:
        from crawl.walks import gpu as sampler  # type: ignore[no-redef]
    law = StepLaw.named("non_backtracking", 1.0, 1.0)
    copy = bench.copy_bytes_per_s
    rows, raw, goals = [], {}, []
    for name, make in (("Erdős–Rényi, 1 M nodes, 10 M arcs", _erdos_renyi), ("ZINC", _zinc_graph)):
        progress(f"  {name}")
        graph = make(bench)
        walkable = (graph.degree > 0).nonzero().squeeze(1)
        start = walkable.repeat(-(-num_walks // len(walkable)))[:num_walks]
        nodes, keys = start.int(), torch.arange(len(start), device=device)

        def kernel(graph: Graph = graph, start: Tensor = nodes, keys: Tensor = keys) -> None:
            sampler.sample(graph, start, keys, num_steps, law, window_size, 1)

        def public(graph: Graph = graph, start: Tensor = start, keys: Tensor = keys) -> None:
            sample_walks(graph, num_steps, start=start, window_size=window_size, seed=1, keys=keys)

        for call, does in ((kernel, "sampler alone"), (public, "`sample_walks`, with checks")):
            spread = in_turns({does: lambda call=call: call}, device, seconds_each=0.6)[does]
            record = raw[f"{name}, {does}"] = {"num_walks": len(start), "seconds": spread}
            if isinstance(spread, str):
                rows.append([name, does, f"{len(start):,}", spread, "", "", ""])
                continue
            speed = len(start) * num_steps / spread["median"]
            out = len(start) * (4 * (num_steps + 1) + 4 * num_steps + 2 * (num_steps + 1)) / spread["median"]
            record |= {"steps_per_s": speed, "output_bytes_per_s": out, "share_of_copy": copy and out / copy}
            share = f"{100 * out / copy:.0f} %" if copy else ""
            rows.append(
                [name, does, f"{len(start):,}", _spread(spread, 1e3), f"{speed / 1e9:.2f}", f"{out / 1e9:,.0f}", share]
            )
            if name == "ZINC" and call is kernel:
                goals.append(("walks on ZINC", "≥ 10⁹ steps/s", f"{speed / 1e9:.2f}·10⁹", speed >= 1e9))
    text = [
        f"Non-backtracking walks of {num_steps} steps with both encodings, s = {window_size}: nodes, edge ids, codes,",
        "10 bytes a position. The last column is output bytes over the copy bandwidth (which counts reads and writes).",
        f"ZINC: all training graphs as one `Graph` ({bench.zinc.name}), starts repeated.",
    ]
    header = ["graph", "call", "walks", "time in ms", "10⁹ steps/s", "output GB/s", "of the copy bandwidth"]
    return Section("Walk sampling", text, header, rows, raw, goals)


def _erdos_renyi(bench: Bench) -> Graph:
    num_nodes = 1_000 if bench.smoke else 1_000_000
    return Graph.from_edge_index(made.erdos_renyi(num_nodes, 10 * num_nodes).to(bench.device), num_nodes)


def _zinc_graph(bench: Bench) -> Graph:
    return Graph.from_data(bench.zinc.store.batch(bench.zinc.split.train))


def shapes(bench: Bench) -> Section:
    """Steps with the shapes of other experiments, against the reference."""
    device = bench.device
    allow_tf32()
    rows, raw = [], {}
    for shape in (molpcba_shape(), cifar_shape(), peptides_shape()):
        batch_size = 4 if bench.smoke else shape.batch_size
        dataset = shape.dataset(2 * batch_size if bench.smoke else 8 * batch_size, device)
        size = _num_parameters(build_model(dataset, shape.settings))
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
            peaks[name] = _attempt(lambda build=build: peak_mb(build, device))
        seconds = in_turns(builds, device, seconds_each=0.8)
        raw[shape.name] = record | {"seconds": seconds, "peak_mb": peaks}
        for name, spread in seconds.items():
            cells = _timed(spread, seconds["ours"])
            peak = peaks[name]
            rows.append([shape.name, name, f"{size:,}", *cells, peak if isinstance(peak, str) else f"{peak:,.0f}"])
    text = [
        "Synthetic graphs with the mean sizes of the data sets, models of the paper (their parameter counts are",
        "checked). Memory is the peak of running a step five times, beyond the data set and the model.",
        "; ".join(f"{n}: {r['nodes']:.1f} nodes, {r['edges']:.1f} arcs a graph" for n, r in raw.items()) + ".",
    ]
    header = ["shape", "step", "parameters", "time in ms", "times ours", "peak memory in MB"]
    return Section("Other shapes", text, header, rows, raw)


@dataclass(frozen=True)
class Shape:
    """A model of the paper and graphs that look like its data."""

    name: str
    settings: Settings
    batch_size: int
    num_parameters: int
    task: Task
    make_graph: Callable[[random.Random, torch.Generator], Data]
    node_categories: tuple[int, ...] = ()
    edge_categories: tuple[int, ...] = ()

    def dataset(self, num_graphs: int, device: torch.device) -> Dataset:
        """So many graphs, all of them for training."""
        rng, generator = random.Random(0), torch.Generator().manual_seed(0)
        store = GraphStore.from_graphs(self.make_graph(rng, generator) for _ in range(num_graphs)).to(device)
        nothing = torch.empty(0, dtype=torch.long)
        split = Split(torch.arange(num_graphs), nothing, nothing)
        return Dataset(self.name, store, self.task, split, self.node_categories, self.edge_categories)


ATOMS, BONDS = (46, 4, 6, 7, 5, 4, 2, 2, 2), (4, 3, 2)  # nine and three columns, 78 and 9 values


def _molecule(num_atoms: int, num_rings: int, num_labels: int, rng: random.Random, generator: torch.Generator) -> Data:
    pairs = torch.tensor(made._bonds(rng, num_atoms=num_atoms, num_rings=num_rings)).t()
    num_nodes = int(pairs.max()) + 1
    x = [torch.randint(n, (num_nodes,), generator=generator) for n in ATOMS]
    bonds = torch.stack([torch.randint(n, (pairs.shape[1],), generator=generator) for n in BONDS], dim=1)
    return Data(
        x=torch.stack(x, dim=1),
        edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
        edge_attr=torch.cat([bonds, bonds]),
        y=torch.randint(2, (1, num_labels), generator=generator).float(),
    )


def molpcba_shape() -> Shape:
    return Shape(
        "MOLPCBA",
        {
            "hidden_channels": 400,
            "num_layers": 5,
            "window_size": 8,
            "virtual_node": True,
            "pool": "mean",
            "head": "linear",
            "dropout": 0.25,
            "start_share": 0.2,
        },
        100,
        6_115_728,
        Task(kind="multilabel", num_outputs=128),
        lambda rng, generator: _molecule(rng.randint(22, 30), 3, 128, rng, generator),
        ATOMS,
        BONDS,
    )


def peptides_shape() -> Shape:
    return Shape(
        "Peptides",
        {
            "hidden_channels": 100,
            "num_layers": 6,
            "window_size": 16,
            "kernel_size": 9,
            "virtual_node": True,
            "pool": "sum",
            "dropout": 0.1,
            "start_share": 0.2,
        },
        50,
        510_910,
        Task(kind="multilabel", num_outputs=10),
        lambda rng, generator: _molecule(rng.randint(101, 201), rng.choice((3, 4, 4)), 10, rng, generator),
        ATOMS,
        BONDS,
    )


def cifar_shape() -> Shape:
    def nearest_neighbours(rng: random.Random, generator: torch.Generator) -> Data:
        place = torch.rand(rng.randint(110, 125), 2, generator=generator)
        distance = torch.cdist(place, place).fill_diagonal_(math.inf)
        near = distance.topk(8, largest=False)
        source = torch.arange(len(place)).repeat_interleave(8)
        return Data(
            x=torch.rand(len(place), 3, generator=generator),
            edge_index=torch.stack([source, near.indices.flatten()]),
            edge_attr=near.values.reshape(-1, 1),
            y=torch.randint(10, (1,), generator=generator),
        )

    settings = {"hidden_channels": 75, "num_layers": 3, "window_size": 8, "pool": "mean"}
    task = Task(kind="multiclass", num_outputs=10)
    return Shape("CIFAR10", settings, 50, 109_660, task, nearest_neighbours)


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
                peaks[name].append(_attempt(lambda build=build: peak_mb(build, device)))
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
        "for ours with what is recorded at the first.",
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


def profile(bench: Bench) -> Section:
    """Where the GPU spends the time of a step."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity

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
        f"{_spread(timing, 1e6)} µs, so the GPU is busy {100 * busy:.0f} % of it.",
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


def precision(bench: Bench) -> Section:
    """The three precisions."""
    has_precision = "precision" in inspect.signature(CRaWl.__init__).parameters
    names = ("tf32", "bf16", "float32") if has_precision else ("tf32", "float32")
    seconds: dict[str, Any] = {}
    for name in names:  # one after the other: the setting is global where the model has none
        allow_tf32(name != "float32")
        build = lambda name=name: bench.ours(precision=name)  # noqa: E731
        seconds |= in_turns({name: build}, bench.device, seconds_each=0.8)
    allow_tf32()
    rows = [[name, *_timed(spread, seconds["tf32"])] for name, spread in seconds.items()]
    text = ["Our ZINC step."]
    if not has_precision:
        text.append("`CRaWl` takes no `precision`: torch's setting for matrix products was changed instead.")
    return Section("Precision", text, ["precision", "time in ms", "times tf32"], rows, {"seconds": seconds})


def compile_time(bench: Bench) -> Section:
    """The first use, with nothing compiled, and the second."""
    rows, raw = [], {}
    command = [sys.executable, str(HERE / "gpu.py"), "--first-step", "--data", str(bench.data)]
    command += ["--smoke"] if bench.smoke else []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold Triton cache", "warm Triton cache"):
            progress(f"  {name}")
            began = time.perf_counter()
            run = subprocess.run(
                command, capture_output=True, text=True, check=False, env={**os.environ, "TRITON_CACHE_DIR": folder}
            )
            if run.returncode:
                raise RuntimeError((run.stderr.strip().splitlines() or ["no message"])[-1])
            record = raw[name] = json.loads(run.stdout.splitlines()[-1])
            record["process_s"] = time.perf_counter() - began
            rows.append([name, *(f"{record[key]:.2f}" for key in ("first_step_s", "ten_steps_s", "process_s"))])
        raw["cache_files"] = sum(path.is_file() for path in Path(folder).rglob("*"))
    first = raw["cold Triton cache"]["first_step_s"]
    text = [
        "A fresh process each: from data on the device and a CUDA context to the end of the first ZINC step (of the",
        f"first ten; of the whole process, imports included). The cache then held {raw['cache_files']} files.",
    ]
    header = ["", "first step in s", "ten steps in s", "whole process in s"]
    goals = [("first use", "< 60 s", f"{first:.1f} s", first < 60)]
    return Section("Compilation", text, header, rows, raw, goals)


def first_step(bench: Bench) -> dict[str, float]:
    """Seconds to the end of the first training step and of the tenth, in this process; for `compile_time`."""
    assert len(bench.zinc)
    matrix = torch.randn(64, 64, device=bench.device)
    assert float((matrix @ matrix).sum()) != 0  # the context and the libraries are there
    began = time.perf_counter()
    run = bench.ours()
    run()
    synchronize(bench.device)
    first = time.perf_counter() - began
    for _ in range(9):
        run()
    synchronize(bench.device)
    return {"first_step_s": first, "ten_steps_s": time.perf_counter() - began}


SECTIONS: dict[str, Callable[[Bench], Section]] = {
    "ceilings": ceilings,
    "step": step,
    "epoch": epoch,
    "sampling": sampling,
    "profile": profile,
    "precision": precision,
    "shapes": shapes,
    "memory": memory,
    "compile": compile_time,
}


# ---------------------------------------------------------------------------------------------------------------------
# The run and the report


def main() -> None:
    arguments = parsed_arguments()
    device = torch.device("cpu" if arguments.smoke else "cuda")
    bench = Bench(device, arguments.data, arguments.smoke)
    if arguments.first_step:
        print(json.dumps(first_step(bench)))
        return
    if arguments.smoke:
        progress(published.check_against_reference(device))
    arguments.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"environment": facts(device, arguments.commit), "smoke": arguments.smoke}
    results |= {"began": time.time(), "sections": {}}
    if arguments.resume:
        results = json.loads((arguments.out / "gpu.json").read_text())
    bench.results = results["sections"]
    for name in arguments.only or SECTIONS:
        if name in bench.results:
            continue
        left = RUN_LIMIT_S - (time.time() - results["began"])
        progress(f"{name} ({time.time() - results['began']:.0f} s)")
        began = time.perf_counter()
        try:
            bench.results[name] = asdict(limited(SECTIONS[name], bench, min(SECTION_LIMIT_S, left)))
        except (Exception, OutOfTime) as error:
            progress("".join(traceback.format_exception(error)))
            bench.results[name] = {"problem": error_line(error)}
        bench.results[name]["took_s"] = time.perf_counter() - began
        (arguments.out / "gpu.json").write_text(json.dumps(results, indent=1) + "\n")
        (arguments.out / "gpu.md").write_text(markdown(results))
        release_memory(device)
    print(markdown(results))


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE, help="the folder with zinc12k.npz")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder to write to")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="run this section; may be repeated")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on a CPU, to try the script")
    parser.add_argument("--commit", help="the commit, where the folder is not a repository")
    parser.add_argument("--resume", action="store_true", help="keep the sections that OUT/gpu.json has")
    parser.add_argument("--first-step", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


class OutOfTime(BaseException):
    """A section has taken too long. Not an `Exception`: no row of it may take this for an error of its own."""


def limited(section: Callable[[Bench], Section], bench: Bench, seconds: float) -> Section:
    """The section, or `OutOfTime` if it takes longer."""
    if seconds < 1:
        raise OutOfTime("not run: the time of the whole run is over")

    def stop(*_: Any) -> None:
        raise OutOfTime(f"stopped after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(int(seconds))
    try:
        return section(bench)
    finally:
        signal.alarm(0)


def release_memory(device: torch.device) -> None:
    """Free what a section has left. A GPU that an error has made unusable is only usable in a fresh process."""
    gc.collect()
    if device.type == "cpu":
        return
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except Exception as error:
        progress(f"The GPU is lost ({error_line(error)}): going on in a fresh process.")
        more = [] if "--resume" in sys.argv else ["--resume"]
        os.execv(sys.executable, [sys.executable, *sys.argv, *more])


def facts(device: torch.device, commit: str | None) -> dict[str, str]:
    found = environment(VERSIONS_OF)
    if commit:
        found["Commit"] = commit
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        name = f"{gpu.name}, {gpu.multi_processor_count} multiprocessors, {gpu.total_memory / 1e9:.0f} GB"
        found = {"GPU": f"{name}, CUDA {torch.version.cuda}", **found}
    else:
        found = {"GPU": "none: a smoke run, whose numbers mean nothing", **found}
    return found


def markdown(results: dict[str, Any]) -> str:
    sections = results["sections"]
    lines = [
        "# Speed and memory on a GPU",
        "",
        "Generated by `benchmarks/gpu.py`; do not edit. Raw numbers: `gpu.json`. Every time is a median, with the 20th",
        "and 80th percentile in brackets, after a warm-up; all come from one run, in which contestants take turns.",
        "",
        *(f"- {name}: {value}" for name, value in results["environment"].items()),
        "",
    ]
    goals = [goal for section in sections.values() for goal in section.get("goals", [])]
    if goals:
        words = ("(smoke run)", "(smoke run)") if results["smoke"] else ("**missed**", "met")
        rows = [[work, goal, measured, words[bool(met)]] for work, goal, measured, met in goals]
        lines += ["## Goals", "", *_table(["work", "goal", "measured", ""], rows), ""]
    for name, section in sections.items():
        if "problem" in section:
            lines += [f"## {name}", "", f"Failed: {section['problem']}", ""]
        else:
            lines += [f"## {section['title']}", "", *section["text"], ""]
            lines += [*_table(section["header"], section["rows"]), ""]
    return "\n".join(lines)


def _num_parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def _attempt(call: Callable[[], float]) -> float | str:
    try:
        return call()
    except Exception as error:
        return error_line(error)


def _timed(spread: dict[str, float] | str, ours: dict[str, float] | str) -> list[str]:
    """A time in ms and how many times longer than ours it is; or an error."""
    if isinstance(spread, str):
        return [spread, ""]
    return [_spread(spread, 1e3), "" if isinstance(ours, str) else f"{spread['median'] / ours['median']:.2f}×"]


def _spread(spread: dict[str, float], scale: float = 1.0) -> str:
    median, low, high = (_three_digits(spread[key] * scale) for key in ("median", "low", "high"))
    return f"{median} ({low} to {high})"


def _three_digits(value: float) -> str:
    decimals = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{decimals}f}"


def _short(name: str) -> str:
    return re.sub(r"at::native::|\(anonymous namespace\)::|^void ", "", name)[:90]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    rows = [[cell.replace("|", "/") for cell in row] for row in rows]
    return ["| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows]]


if __name__ == "__main__":
    main()
