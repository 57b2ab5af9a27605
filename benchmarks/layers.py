"""One training step with the shape of ZINC: our fast layers against their reference, and where the time goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import graphs
import torch
from measure import Spread, interleaved, peak_memory_mb, progress
from torch import nn
from torch_geometric.data import Batch

from crawl import CRaWl, Graph, OneHot

NUM_ROUNDS = 15
IMPLEMENTATIONS = ("fast", "reference")


class TrainingStep:
    """The model of the ZINC experiment, a batch of 50 molecules, and a step of Adam on it, sampling included."""

    def __init__(self, implementation: Any) -> None:
        torch.manual_seed(0)
        self.batch = Batch.from_data_list(graphs.molecules(50))
        self.model = CRaWl(
            OneHot(graphs.NUM_ATOM_TYPES),
            1,
            hidden_channels=147,
            num_layers=3,
            edge_dim=OneHot(graphs.NUM_BOND_TYPES),
            window_size=8,
            virtual_node=True,
            pool="sum",
            num_steps=50,
            implementation=implementation,
        )
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def __call__(self, seed: int) -> None:
        """Train on the batch once."""
        self.optimiser.zero_grad()
        loss = nn.functional.l1_loss(self.model(self.batch, seed=seed).squeeze(1), self.batch.y)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()

    def in_stages(self, seed: int, lap: Callable[[str], None]) -> None:
        """The same step, with a call of `lap` at the end of each stage."""
        walks = self.model.sample_walks(Graph.from_data(self.batch), seed=seed)
        lap("sampling")
        self.optimiser.zero_grad()
        loss = nn.functional.l1_loss(self.model(self.batch, walks=walks).squeeze(1), self.batch.y)
        lap("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        lap("backward")
        self.optimiser.step()
        lap("optimiser")


def benchmark() -> list[dict[str, Any]]:
    """Seconds for one training step of each implementation."""
    progress("ZINC-shaped training step")
    seconds = interleaved({name: TrainingStep(name) for name in IMPLEMENTATIONS}, NUM_ROUNDS)
    records: list[dict[str, Any]] = []
    for name, values in seconds.items():
        if isinstance(values, str):
            records.append({"implementation": name, "problem": values})
        else:
            records.append({"implementation": name, "seconds": values, "spread": asdict(Spread.of(values))})
    return records


def breakdown() -> dict[str, dict[str, float]]:
    """Seconds in each stage of a step of the fast implementation, and in each module of its forward pass."""
    progress("Where the time of a training step goes")
    step = TrainingStep("fast")
    stages: dict[str, list[float]] = defaultdict(list)
    modules = {f"forward: block {i + 1}, {type(block).__name__}": block for i, block in enumerate(step.model.blocks)}
    modules |= {"forward: readout": step.model.readout}
    for name, module in modules.items():
        _record_time(module, stages[name])
    for seed in range(NUM_ROUNDS + 2):
        last = time.perf_counter()

        def lap(name: str) -> None:
            nonlocal last
            now = time.perf_counter()
            stages[name].append(now - last)
            last = now

        step.in_stages(seed, lap)
    order = ["sampling", "forward", *modules, "backward", "optimiser"]
    return {name: asdict(Spread.of(stages[name][2:])) for name in order}  # the first two steps warm up


def memory(implementation: str) -> dict[str, float]:
    """Peak memory in MB before the first training step and after three; for a fresh process."""
    step = TrainingStep(implementation)
    before = peak_memory_mb()
    for seed in range(3):
        step(seed)
    return {"before": before, "after": peak_memory_mb()}


def _record_time(module: nn.Module, seconds: list[float]) -> None:
    """Append the duration of every forward pass of the module to the list."""
    begin = 0.0

    def before(*_: Any) -> None:
        nonlocal begin
        begin = time.perf_counter()

    def after(*_: Any) -> None:
        seconds.append(time.perf_counter() - begin)

    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)
