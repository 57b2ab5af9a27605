"""Compiles the Triton kernels that trainings launch for a GPU that is not there, and says which do not compile.

    python -m tests.compile_kernels --record results/compiled_kernels.json     everything, in about a quarter of an hour
    python -m tests.compile_kernels paper hybrid                               some of the trainings

Triton's interpreter, in which the tests run without a GPU, takes more than its compiler does. Here each launch compiles
the kernel for an H100 or H200, with the types, constants and alignments of the launch, and computes nothing: what
kernels would write is zero. So this says nothing of their results.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)

import networkx as nx
import torch
import triton
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data
from triton.backends.compiler import GPUTarget
from triton.runtime import driver, jit

from crawl import Network
from crawl.data import from_pyg
from crawl.nn import BLOCKS
from crawl.nn.encoders import OneHot
from crawl.ops import backends
from crawl.training import Evaluation, Trainer, Training

TARGET = GPUTarget("cuda", 90, 32)
_COMPILE = jit.JITFunction.run


class NoGpu:
    """What Triton asks its driver before it compiles."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return TARGET


class Zeros(TorchDispatchMode):
    """Fills what kernels would write, since later operations take nodes and edges from it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made.zero_() if func.overloadpacket.__name__.startswith(("empty", "new_empty")) else made


class Compiled:
    """The kernels compiled so far, each once, and why others were not."""

    def __init__(self) -> None:
        self.kernels: dict[int, tuple[str, Any]] = {}
        self.failures: dict[str, str] = {}

    def launch(self, kernel: Any, *args: Any, grid: Any, warmup: bool, **how: Any) -> None:
        """Compile instead of a launch."""
        name = f"{kernel.fn.__module__}.{kernel.fn.__name__}"
        try:
            compiled = _COMPILE(kernel, *args, grid=grid, warmup=True, **how)
            self.kernels.setdefault(id(compiled), (name, compiled))
        except Exception as error:  # other kernels do not depend on it
            self.failures.setdefault(f"{name}: {type(error).__name__}", str(error))

    def facts(self) -> list[dict[str, Any]]:
        """What each kernel takes of a multiprocessor; `stack` is what did not fit into registers, in bytes."""
        found = []
        for name, kernel in self.kernels.values():
            facts = {"kernel": name, "num_warps": kernel.metadata.num_warps, "shared": kernel.metadata.shared}
            found.append(facts | _resources(kernel.asm["cubin"]))
        return sorted(found, key=lambda facts: json.dumps(facts))


def _resources(binary: bytes) -> dict[str, int]:
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    if not tool.is_file():
        return {}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        said = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    words = dict(word.split(":") for word in said.split() if word.startswith(("REG:", "STACK:")))
    return {"registers": int(words["REG"]), "stack": int(words["STACK"])}


def graphs(kind: str) -> list[Data]:
    """Small rings with a chord, with targets of this kind."""
    found = []
    for i in range(24):
        ring = nx.cycle_graph(8 + i % 5)
        ring.add_edge(0, 3)
        once = torch.tensor(list(ring.edges)).t()
        edges = torch.cat([once, once.flip(0)], dim=1)
        targets = {"regression": [i / 24], "multiclass": [i % 3], "labels": [[float(i % 2), float(i % 3 == 0)]]}
        x, edge_attr = torch.arange(len(ring)).view(-1, 1) % 5, torch.arange(edges.shape[1]).view(-1, 1) % 3
        found.append(Data(x, edges, edge_attr, torch.tensor(targets[kind])))
    return found


def train(kind: str = "regression", training: Training | None = None, **network: Any) -> None:
    """Two captured steps and an evaluation."""
    data = from_pyg(graphs(kind), split="random")
    model = Network(OneHot((5,)), data.task.num_outputs, edge_dim=OneHot((3,)), **network)
    trainer = Trainer(model, data, training or Training(batch_size=8), Evaluation(), device="cpu")
    trainer.model.train()
    trainer.update.begin_epoch(trainer.schedule.rates())
    for _ in trainer.steps(list(torch.split(trainer._shuffled(1), 8))[:2], 1):
        pass
    trainer.model.eval()
    trainer.runner.predict(torch.arange(8), 8, seed=0)
    if trainer.runner.reason is not None:
        raise ValueError(f"steps are not captured: {trainer.runner.reason}")


def plans() -> dict[str, dict[str, Any]]:
    """The trainings, by name: together they launch the kernels of all blocks, losses, optimisers and kinds of walks."""
    walks = {"layer": ("walk",), "num_layers": 1, "hidden_channels": 16}
    hybrid = ("walk", "edge_update", "gine", "virtual_node")
    adamw = Training(batch_size=8, optimiser="adamw", weight_decay=0.1, clip_norm=1.0, average_decay=0.99, accumulate=2)
    laws: list[dict[str, Any]] = [{"strategy": "node2vec", "p": 2.0, "q": 0.5}, {"centred": True, "num_walks": 2}]
    names = ("uniform", "restart", "depth_first", "min_degree", "min_degree_non_backtracking")
    laws += [{"strategy": name} for name in names]
    return {
        "paper": {"layer": ("walk", "virtual_node"), "num_layers": 3, "hidden_channels": 147, "pool": "sum"},
        "hybrid": {"layer": hybrid, "num_layers": 2, "hidden_channels": 80, "pool": "sum"},
        "wide": {"layer": ("walk", "virtual_node"), "num_layers": 2, "hidden_channels": 400},
        "adamw": {**walks, "training": adamw},
        "lion": {**walks, "training": Training(batch_size=8, optimiser="lion", weight_decay=0.1)},
        "squares": {**walks, "training": Training(batch_size=8, loss="mse"), "padding": True, "window_size": 4},
        "classes": {**walks, "kind": "multiclass", "window_size": 16},
        "labels": {**walks, "kind": "labels", "window_size": 32, "hidden_channels": 90},
        **{
            name: {"layer": ("walk", name), "num_layers": 2, "hidden_channels": 80} for name in BLOCKS if name != "walk"
        },
        **{law.get("strategy", "centred"): {**walks, **law} for law in laws},
    }


def main() -> int:
    """Compile, say what came of it, and write the record; 1 if something does not compile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="trainings; all when not given")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write what was compiled")
    arguments = parser.parse_args()
    chosen = plans()
    if unknown := set(arguments.names) - set(chosen):
        parser.error(f"there is no training {', '.join(sorted(unknown))}; choose from {', '.join(chosen)}")
    compiled = Compiled()
    driver.set_active(NoGpu())
    jit.JITFunction.run = lambda kernel, *args, **how: compiled.launch(kernel, *args, **how)
    backends._DEVICES = {"cuda", "cpu"}
    import crawl.walks.gpu

    crawl.walks.gpu.triton = _Anywhere  # the sampler takes no graphs of the CPU
    torch.set_num_threads(1)
    done: dict[str, str] = {}
    for name, settings in chosen.items():
        if arguments.names and name not in arguments.names:
            continue
        began, before = time.perf_counter(), len(compiled.kernels)
        try:
            with Zeros():
                train(**{"window_size": 8, **settings})
            done[name] = "ok"
        except Exception as error:
            done[name] = compiled.failures[f"training {name}"] = f"{type(error).__name__}: {error}"
        new = len(compiled.kernels) - before
        print(f"{name}: {done[name]}, {new} new kernels, {time.perf_counter() - began:.0f} s", flush=True)
    for name, problem in compiled.failures.items():
        print(f"FAILED {name}: {problem}")
    print(f"{len(compiled.kernels)} kernels compiled by Triton {triton.__version__} for {TARGET.arch / 10:.1f}")
    if arguments.record is not None:
        git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        record = {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": os.environ.get("CRAWL_COMMIT") or git or None,
            "triton": triton.__version__,
            "compute_capability": TARGET.arch / 10,
            "trainings": done,
            "failures": compiled.failures,
            "kernels": compiled.facts(),
        }
        arguments.record.write_text(json.dumps(record, indent=1) + "\n")
    return int(bool(compiled.failures))


class _Anywhere:
    """Triton, as the sampler sees it here."""

    JITFunction = type(None)
    cdiv, next_power_of_2 = staticmethod(triton.cdiv), staticmethod(triton.next_power_of_2)


if __name__ == "__main__":
    sys.exit(main())
