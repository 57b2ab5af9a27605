"""How many targets of one graph fit into memory at a time, from what a few of them take."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from crawl.checks import positive_number
from crawl.data.one_graph import OneGraph
from crawl.data.store import GraphStore
from crawl.memory import free_units
from crawl.training.runner import Runner

_FEW_TARGETS = 64  # of the first closed batch that is measured
_GROWTH = 4  # from one such batch to the next
_FEW_NODES = 512  # of a graph that is measured in place of a large one
_MOST_TARGETS = 2**16  # per batch, however much memory there is
_SMALL = 2_000_000  # positions of walks on a graph that is not worth a look at the memory
_SPARE = 1.25  # times what was measured
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def targets_within(runner: Runner, memory_gb: float, *, num_steps: int | None) -> int:
    """The number of targets of a closed batch that takes at most this much memory, besides the graph.

    Raises:
        ValueError: If a single one takes more.
    """
    limit = positive_number("memory_gb", memory_gb) * 2**30
    num_targets = len(runner.store)
    if not num_targets:
        return 1
    store = runner.store
    run = runner.predict if isinstance(store, OneGraph) and store.are_pairs else _run(runner)
    run(torch.zeros(1, dtype=torch.long), 1, seed=0, num_steps=num_steps)  # compiles what has to be
    size, each = min(_FEW_TARGETS, num_targets), _least_bytes(runner, num_steps)
    while True:  # more targets tell more: small tensors may find memory that was freed before
        batch = partial(run, torch.arange(size), size, seed=0, num_steps=num_steps)
        batch()  # reads what it needs of a graph that is mapped from a file, which is not memory that the batch takes
        found = peak_bytes(batch, runner.device)
        each = max(each, (found or 0) / size)
        if _GROWTH * size > min(num_targets, _MOST_TARGETS) or _GROWTH * size * each > limit / 2:
            break
        size *= _GROWTH
    each *= _SPARE
    if each > limit:
        raise ValueError(
            f"One target takes about {each / 2**30:.2g} GB, more than memory_gb={memory_gb:g}: allow more."
        )
    return min(int(limit / each), _MOST_TARGETS)


def check_full_graph(runner: Runner, memory_gb: float | None, *, num_steps: int | None) -> None:
    """Refuse a batch of a full graph that would take more memory than there is, or than `memory_gb`.

    What it takes is measured on a small graph of the same degree. Nothing is refused where the system does not tell.
    """
    store = runner.store
    assert isinstance(store, OneGraph)
    if memory_gb is not None:
        limit: float | None = positive_number("memory_gb", memory_gb) * 2**30
        what = f"memory_gb={memory_gb:g}"
    else:
        if store.num_nodes * (_steps(runner, num_steps) + 1) < _SMALL:
            return
        limit = free_bytes(runner.device)
        what = "" if limit is None else f"the {limit / 2**30:.2g} GB that are free"
    if limit is None or store.num_nodes == 0:
        return
    small = Runner(
        runner.model,
        replace(runner.task, level="node"),
        _like(store),
        runner.device,
        largest_batch=1,
        has_noise=runner.has_noise,
    )
    run, only = _run(small), torch.zeros(1, dtype=torch.long)
    run(only, 1, seed=0, num_steps=num_steps)  # compiles what has to be
    found = peak_bytes(lambda: run(only, 1, seed=0, num_steps=num_steps), runner.device) or 0
    num_nodes = small.store.num_nodes
    least = num_nodes * _least_bytes(runner, num_steps)
    needed = _SPARE * max(found, least) * store.num_nodes / num_nodes
    if needed > limit:
        raise ValueError(
            f"A batch of this graph of {store.num_nodes:,} nodes would take about {needed / 2**30:.2g} GB, more than "
            f"{what}: train with batches='closed' (--data.batches closed), whose predictions take as much as you allow."
        )


def peak_bytes(function: Callable[[], object], device: torch.device) -> int | None:
    """The memory that a call takes beyond what was taken before; None where the system does not tell."""
    gc.collect()
    free_units()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        return int(torch.cuda.max_memory_allocated(device)) - before
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system
    with suppress(OSError):
        _RESET.write_text("5")  # forget the peak so far
        first = _status("VmRSS")
        function()
        peak = _status("VmHWM")
        return None if first is None or peak is None else peak - first
    return None


def free_bytes(device: torch.device) -> int | None:
    """The memory that nobody uses; None where the system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return _kilobytes(Path("/proc/meminfo"), "MemAvailable")


def _run(runner: Runner) -> Callable[..., object]:
    """What a pass of the model over nodes is, up to its head, which may be for pairs."""
    return runner.embed if hasattr(runner.model, "embed") else runner.predict


def _status(name: str) -> int | None:
    return _kilobytes(_STATUS, name)


def _kilobytes(path: Path, name: str) -> int | None:
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _steps(runner: Runner, num_steps: int | None) -> int:
    if num_steps is not None or runner.plan is None:
        return num_steps or 0
    return runner.plan.steps(is_training=False)


def _least_bytes(runner: Runner, num_steps: int | None) -> float:
    """What the walks of a target, or from a node, take at least: memory that was freed before hides from a measure."""
    widest = max((parameter.shape[0] for parameter in runner.model.parameters() if parameter.dim()), default=1)
    num_walks = 1 if runner.plan is None else runner.plan.in_mode(is_training=False).num_walks
    return 4.0 * widest * num_walks * (_steps(runner, num_steps) + 1)


def _like(store: OneGraph) -> GraphStore:
    """A ring of few nodes, of about the mean degree and with features like those of a graph."""
    num_nodes = min(_FEW_NODES, max(store.num_nodes, 3))
    reach = max(1, min(round(store.num_edges / max(store.num_nodes, 1) / 2), (num_nodes - 1) // 2))
    node = torch.arange(num_nodes).repeat_interleave(reach)
    other = (node + torch.arange(1, reach + 1).repeat(num_nodes)) % num_nodes
    edge_index = torch.stack([torch.cat([node, other]), torch.cat([other, node])])
    x = None if store.x is None else store.x[:1].cpu().expand(num_nodes, *store.x.shape[1:]).clone()
    edge_attr = store.edge_attr
    if edge_attr is not None:
        edge_attr = edge_attr.cpu().new_zeros(edge_index.shape[1], *edge_attr.shape[1:])
    return GraphStore(torch.tensor([0, num_nodes]), torch.tensor([0, edge_index.shape[1]]), edge_index, x, edge_attr)
