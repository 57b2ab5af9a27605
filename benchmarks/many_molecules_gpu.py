"""Many molecules on a GPU: `python benchmarks/many_molecules_gpu.py --data FOLDER --out DIR`.

The folder has a small packed store and a model, which `many_molecules.py --small FOLDER` writes where rdkit is; here it
is not needed. Makes a store of five million molecules, those of the small one again and again, trains on it in captured
steps and predicts it. While that store is written, the same network is trained on batches of PyG's `OnDiskDataset`.
Every measurement ends after some seconds, and what was measured is written at once, to `many_molecules_gpu.json` in
DIR; `many_molecules.py` shows it.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measure import environment, error_line, progress
from molecule_stages import EXPERIMENT, FULL, OnDisk, stage
from torch_geometric.loader import DataLoader

from crawl.data import Dataset, open_packed
from crawl.runs import TrainedModel
from crawl.runs.build import build_model
from crawl.training import Trainer

_MEMORY = {"VmHWM": "peak_mb", "RssAnon": "anonymous_mb", "RssFile": "mapped_mb"}


class Record:
    """What was measured so far, on disk after every stage, also if one fails."""

    def __init__(self, path: Path, sizes: dict[str, Any], device: str) -> None:
        self.path, self.began, self.device = path, time.perf_counter(), device
        machine = environment(["torch", "triton", "torch_geometric", "numpy"])
        if device == "cuda":
            machine["GPU"] = torch.cuda.get_device_name()
        self.found: dict[str, Any] = {"environment": machine, "sizes": sizes, "stages": {}}

    def add(self, name: str, measured: Callable[[], dict[str, Any]]) -> None:
        """Measure, with the peaks of memory from now on, and write."""
        gc.collect()
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the kernel's peak begins anew
        if self.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        try:
            result = measured()
        except Exception as error:
            result = {"problem": error_line(error)}
        if self.device == "cuda":
            result["gpu_mb"] = torch.cuda.max_memory_reserved() / 1e6
        self.found["stages"][name] = result
        self.found["seconds"] = time.perf_counter() - self.began
        progress(f"{self.found['seconds']:6.1f} s  {name}: {json.dumps(result)}")
        self.path.write_text(json.dumps(self.found, indent=1) + "\n")

    def add_all(self, measured: Mapping[str, Callable[[], dict[str, Any]]], limit: float) -> None:
        """Measure one after the other, and begin nothing when this many seconds are over."""
        for name, each in measured.items():
            if time.perf_counter() - self.began > limit:
                progress(f"{name}: left out, since the time is over")
            else:
                self.add(name, each)


class Measured:
    """Counts molecules for some seconds, and looks at the memory of this process once in a while."""

    def __init__(self, seconds: float, device: str) -> None:
        self.most, self.device, self.number = seconds, device, 0
        self.anonymous = self.mapped = self.next_look = 0.0

    def run(self, sizes: Iterable[int]) -> dict[str, Any]:
        """Go through the numbers of molecules that each step was for, until the time is over; what there is to say."""
        self._wait()
        begin, cpu, steps = time.perf_counter(), time.process_time(), 0
        for size in sizes:
            self.number, steps = self.number + size, steps + 1
            now = time.perf_counter()
            if now > self.next_look:
                self.look()
                self.next_look = now + 0.2
            if now - begin > self.most:
                break
        self._wait()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        self.look()
        facts = {"number": self.number, "steps": steps, "work_seconds": seconds, "work_cpu_seconds": cpu}
        memory = {"peak_anonymous_mb": self.anonymous, "peak_mapped_mb": self.mapped}
        return {**facts, "peak_mb": memory_of_process()["peak_mb"], **memory}

    def look(self) -> None:
        """Remember the largest memory that was seen."""
        memory = memory_of_process()
        self.anonymous, self.mapped = (
            max(self.anonymous, memory["anonymous_mb"]),
            max(self.mapped, memory["mapped_mb"]),
        )

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def memory_of_process() -> dict[str, float]:
    """The peak of the memory of this process since it began anew, and what is anonymous and mapped now, in MB."""
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
    return {_MEMORY[name]: int(value.split()[0]) * 1024 / 1e6 for name, _, value in lines if name in _MEMORY}


def train(dataset: Dataset, features: Any, batch_size: int, seconds: float, device: str) -> dict[str, Any]:
    """Captured steps on a store in files, after those of two parts of it, in which most sizes of batches occur."""
    began = time.perf_counter()
    training = replace(EXPERIMENT.training, batch_size=batch_size)
    trainer = Trainer(build_model(EXPERIMENT, features), dataset, training, EXPERIMENT.evaluation, device=device)
    trainer.model.train()
    made = time.perf_counter() - began
    batches = list(torch.split(trainer._shuffled(1), batch_size))
    steps = trainer.steps(batches, 1)
    first = float(next(steps))
    to_first = time.perf_counter() - began - made
    warm = min(2 * trainer.runner.part_size // batch_size, len(batches) // 4)
    for _ in range(warm):
        next(steps)
    last = torch.zeros((), device=device)

    def sizes() -> Iterator[int]:
        for batch, loss in zip(batches[warm + 1 :], steps, strict=False):
            last.copy_(loss)
            yield len(batch)

    found = Measured(seconds, device).run(sizes())
    steps.close()  # type: ignore[attr-defined]
    facts = {"of": len(dataset), "batch_size": batch_size, "how": trainer.runner.how, "losses": [first, float(last)]}
    return {**found, **facts, "trainer_seconds": made, "first_step_seconds": to_first, "warm_steps": warm + 1}


def predict(trained: TrainedModel, dataset: Dataset, batch_size: int, seconds: float, device: str) -> dict[str, Any]:
    """Predictions of a store in files by the library, a piece of it after the other, without writing them."""
    pieces = trained.predictions_in_pieces(dataset.store, batch_size=batch_size)
    first = next(pieces).mean.shape[0]

    def sizes() -> Iterator[int]:
        for piece in pieces:
            mean = piece.mean
            assert not (mean != mean).any()
            yield len(mean)

    found = Measured(seconds, device).run(sizes())
    pieces.close()  # type: ignore[attr-defined]
    return {**found, "batch_size": batch_size, "piece": first}


def pyg_train(
    root: str, features: Any, batch_size: int, num_workers: int, seconds: float, device: str
) -> dict[str, Any]:
    """Steps of the same network on batches of PyG's loader, which is begun anew when all molecules were seen."""
    dataset = OnDisk(root)
    how: Any = {"num_workers": num_workers, "persistent_workers": num_workers > 0, "worker_init_fn": _own_connection}
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, **how)
    network = build_model(EXPERIMENT, features).to(device).train()
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)

    def sizes() -> Iterator[int]:
        while True:
            for batch in loader:
                batch = batch.to(device)
                loss = (network(batch) - batch.y.view(-1, 1)).abs().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                yield batch.num_graphs

    steps = sizes()
    for _ in range(5):
        next(steps)
    found = Measured(seconds, device).run(steps)
    steps.close()  # type: ignore[attr-defined]
    return {**found, "of": len(dataset), "batch_size": batch_size, "workers": num_workers}


def _own_connection(_: int) -> None:
    """Processes that read must not share a connection to sqlite."""
    info: Any = torch.utils.data.get_worker_info()
    info.dataset.db.connect()


def main() -> None:
    """Measure and write, one stage after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with a small packed store and a model")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--molecules", type=float, default=FULL)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--predict-sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--peer", type=float, default=20_000, help="molecules for PyG")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 4], help="processes of PyG's loader")
    parser.add_argument("--seconds", type=float, default=5, help="of every measurement")
    parser.add_argument("--limit", type=float, default=88, help="seconds after which nothing more is begun")
    arguments = parser.parse_args()
    number, peer, device, seconds = int(arguments.molecules), int(arguments.peer), arguments.device, arguments.seconds
    arguments.out.mkdir(parents=True, exist_ok=True)
    sizes = {"molecules": number, "peer": peer, "seconds": seconds}
    record = Record(arguments.out / "many_molecules_gpu.json", sizes, device)
    small, model = str((arguments.data / "store").resolve()), arguments.data / "model"
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(2) as makers:
        folder = Path(temporary)
        root, full = str(folder / "pyg"), str(folder / "full")
        making = {
            "repeat": makers.submit(stage, folder, "repeat", f"molecule_stages.repeat({small!r}, {full!r}, {number})"),
            "pyg_pack": makers.submit(
                stage, folder, "pyg_pack", f"molecule_stages.unpack({small!r}, {root!r}, {peer})"
            ),
        }
        dataset = open_packed(small, verify=False)
        trained = TrainedModel.load(model, device)
        how: Any = {"seconds": seconds / 20, "device": device}
        for size in arguments.batch_sizes:  # compiles kernels, while the stores are made
            record.add(f"warm_train_{size}", partial(train, dataset, trained.features, size, **how))
        how["seconds"] = seconds
        record.add("pyg_pack", making["pyg_pack"].result)
        rest = {
            f"pyg_train_{size}_{workers}": partial(pyg_train, root, trained.features, size, workers, **how)
            for workers in arguments.workers
            for size in arguments.batch_sizes
        }
        record.add_all(rest, arguments.limit)
        record.add("repeat", making["repeat"].result)
        if "problem" not in record.found["stages"]["repeat"]:
            dataset = open_packed(full, verify=False)
        rest = {
            f"train_{size}": partial(train, dataset, trained.features, size, **how) for size in arguments.batch_sizes
        }
        rest |= {f"predict_{size}": partial(predict, trained, dataset, size, **how) for size in arguments.predict_sizes}
        record.add_all(rest, arguments.limit)


if __name__ == "__main__":
    main()
