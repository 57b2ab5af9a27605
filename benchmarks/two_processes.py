"""One training by two processes on one GPU: `PYTHONPATH=src python benchmarks/two_processes.py --data DIR`.

Two processes on one GPU are not faster than one; this measures what it costs them to train together, and shows that
captured steps of shares are those of the whole batch. gloo sums through the host. NCCL refuses two processes on one GPU
of a machine, so here they say that they are on two machines, and NCCL sums through the network of this one: it sums
within the captured step, as it does on several GPUs, but its speed here says nothing of theirs. Writes
`results/two_processes.md`, which is also printed, and `results/two_processes.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from gpu.bench import Bench
from measure import HERE, Spread, environment, progress, spread_cell
from torch import Tensor, distributed

from crawl import Network
from crawl.data.dataset import Dataset
from crawl.nn.encoders import OneHot
from crawl.training import Evaluation, Trainer, Training
from crawl.training import ranks as ranks_module
from crawl.training.ranks import Ranks

BATCH = 50
SIZES = {"ZINC": 497_743, "MOLPCBA": 6_115_728}  # parameters of the paper's networks
APART = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}


def trainer(data: Dataset, ranks: Ranks, norm: str, device: str) -> Trainer:
    """The paper's network for ZINC; without batch norms, shares of a batch make the step of the batch."""
    torch.manual_seed(0)
    network = Network(
        OneHot((21,)), 1, layer=("walk", "virtual_node") if norm == "batch" else ("walk",), num_layers=3,
        hidden_channels=147, edge_dim=OneHot((4,)), window_size=8, pool="sum", norm=norm,
    )  # fmt: skip
    return Trainer(network, data, Training(batch_size=BATCH), Evaluation(), device=device, ranks=ranks)


def timed(call: Callable[[], Any], number: int, device: str) -> list[float]:
    """Seconds of each of some calls."""
    found = []
    for _ in range(number):
        _wait(device)
        begin = time.perf_counter()
        call()
        _wait(device)
        found.append(time.perf_counter() - begin)
    return found


def steps(data: Dataset, ranks: Ranks, norm: str, arguments: argparse.Namespace) -> tuple[Trainer, list[float]]:
    """A trainer after some epochs without validation, and the seconds of a step in each epoch after the first."""
    device, num_epochs = arguments.device, arguments.epochs
    training = trainer(data, ranks, norm, device)
    training.model.train()
    numbers = iter(range(num_epochs + 1))

    def epoch() -> None:
        number = next(numbers)
        batches = list(torch.split(training._shuffled(number)[: arguments.graphs], BATCH))
        training.update.begin_epoch(training.schedule.rates())
        for _ in training.steps(batches, number):
            pass

    seconds = timed(epoch, num_epochs + 1, device)[1:]
    return training, [value * BATCH / arguments.graphs for value in seconds]


def work(backend: str, arguments: argparse.Namespace) -> None:
    """What one process does; `alone` is one without another."""
    out, device = arguments.out, arguments.device
    if backend == "nccl":
        ranks_module.backend_for_gpus = lambda _: "nccl"  # type: ignore[assignment]
    ranks, data = Ranks.of_this_process(), Bench(torch.device(device), arguments.data, smoke=False).zinc
    found: dict[str, Any] = {}
    for norm in ("batch", "none"):
        training, seconds = steps(data, ranks, norm, arguments)
        found[norm] = {"step": seconds, "how": training.runner.how, "sums_in_step": ranks.sum_in_captured_steps}
        weights = torch.cat([parameter.detach().flatten().cpu() for parameter in training.model.parameters()])
        torch.save(weights, out / f"{backend}-{norm}-{ranks.rank}.pt")
    if ranks.size > 1:
        found["sum"] = {name: timed(_sum_of(ranks, size, device), 30, device)[10:] for name, size in SIZES.items()}
        distributed.barrier()
    (out / f"{backend}-{ranks.rank}.json").write_text(json.dumps(found))


def _sum_of(ranks: Ranks, size: int, device: str) -> Callable[[], Tensor]:
    flat = torch.randn(size + 2, device=device)
    return lambda: ranks.sum_(flat)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def start(backend: str, size: int, arguments: argparse.Namespace, out: Path) -> None:
    """Run the processes of a row to their end."""
    progress(f"{backend}, {size} processes")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(size):
        own = {**os.environ, **APART, "NCCL_HOSTID": f"process-{rank}"}
        if size > 1:
            own |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
            own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        command = [sys.executable, __file__, "--worker", backend, "--data", str(arguments.data), "--out", str(out)]
        command += ["--device", arguments.device, "--epochs", str(arguments.epochs), "--graphs", str(arguments.graphs)]
        started.append(subprocess.Popen(command, env=own))
    for process in started:
        if process.wait(timeout=arguments.seconds):
            raise RuntimeError(f"{backend}: a process ended with {process.returncode}")


def compared(out: Path) -> dict[str, Any]:
    """Times of the first process of each row, and how far its weights are from those of one process."""
    found: dict[str, Any] = {}
    for record in sorted(out.glob("*-0.json")):
        backend = record.stem.removesuffix("-0")
        raw = json.loads(record.read_text())
        row: dict[str, Any] = {"captured": raw["batch"]["how"], "sums_in_step": raw["batch"]["sums_in_step"]}
        for norm in ("batch", "none"):
            row[norm] = asdict(Spread.of(raw[norm]["step"]))
        for name, seconds in raw.get("sum", {}).items():
            row[f"sum {name}"] = asdict(Spread.of(seconds))
        if backend != "alone":
            own, other = (torch.load(out / f"{backend}-none-{rank}.pt") for rank in (0, 1))
            alone = torch.load(out / "alone-none-0.pt")
            row["largest_difference"] = float((own - alone).abs().max())
            row["relative_difference"] = float((own - alone).norm() / alone.norm())
            row["processes_are_equal"] = bool(torch.equal(own, other))
        found[backend] = row
    return found


def markdown(results: dict[str, Any]) -> str:
    """The report."""
    rows, titles = results["rows"], {"alone": "one process", "gloo": "two, gloo", "nccl": "two, NCCL"}
    lines = [
        "# One training by two processes on one GPU",
        "",
        "Generated by `python benchmarks/two_processes.py`; do not edit. Raw numbers: `two_processes.json`.",
        f"ZINC, batches of {BATCH} graphs, of which each of two processes takes half. Both share one GPU, so that "
        "together they are slower than one: what the table shows is that captured steps of shares are right, and what "
        "it costs to meet. gloo copies the sum through the host. NCCL is made to believe in two machines and sums "
        "through the network of this one, within the captured step; on several GPUs it would be many times faster.",
        "",
        *(f"- {name}: {value}" for name, value in results["environment"].items()),
        "",
        "| processes | steps | sum in the captured step | step in ms | without batch norms | sum for ZINC in ms "
        "| for MOLPCBA | weights after the steps |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for backend, row in rows.items():
        times = [spread_cell(row[key], 1e3) if key in row else "–" for key in ("batch", "none")]
        times += [spread_cell(row[f"sum {name}"], 1e3) if f"sum {name}" in row else "–" for name in SIZES]
        said = "–"
        if "largest_difference" in row:
            same = "the same in both processes" if row["processes_are_equal"] else "**not the same in both**"
            said = f"{same}; {row['relative_difference']:.1e} from those of one process, relative"
        inside = "yes" if row["sums_in_step"] else "no"
        lines.append(f"| {titles[backend]} | {row['captured']} | {inside} | {' | '.join(times)} | {said} |")
    lines += [
        "",
        f"Times are medians over {results['epochs']} epochs of {results['steps']} steps, with the 20th and 80th "
        "percentile; sums are of one array with all gradients of the paper's network for ZINC and for MOLPCBA. Weights "
        "are compared without batch norms, which see the share of their process; float32, products in TF32, after "
        f"{results['steps'] * (results['epochs'] + 1)} steps.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE, help="the folder with zinc12k.npz")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder to write to")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--epochs", type=int, default=3, help="epochs that are timed")
    parser.add_argument("--graphs", type=int, default=10_000, help="graphs of an epoch")
    parser.add_argument("--seconds", type=float, default=200, help="the most that the processes of a row may take")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker, arguments)
        return
    machine = environment(["torch", "triton", "numpy"])
    if arguments.device == "cuda":
        machine = {"GPU": torch.cuda.get_device_name(), **machine}
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        start("alone", 1, arguments, out)
        for backend in ("gloo", "nccl") if arguments.device == "cuda" else ("gloo",):
            try:
                start(backend, 2, arguments, out)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                progress(f"{backend} failed: {error}")
        rows = compared(out)
    results = {"environment": machine, "rows": rows, "epochs": arguments.epochs, "steps": arguments.graphs // BATCH}
    report = markdown(results)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "two_processes.md").write_text(report)
    (arguments.out / "two_processes.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report)


if __name__ == "__main__":
    main()
