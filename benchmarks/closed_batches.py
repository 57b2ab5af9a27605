"""Closed batches on graphs of 10^4 to 10^7 nodes, as a table and a plot: `python benchmarks/closed_batches.py`.

Graphs of one family (`planted.py`), ten edges from a node in the mean, are built into files and mapped. A hybrid of
walk convolution and message passing takes training steps, and predicts, with closed batches of 200 targets: memory
besides the graph, and seconds for a target, should not depend on the size of the graph. Beside it, training steps with
the full graph, as long as they fit. Every size is a process of its own. Writes `results/closed_batches.md`, which is
also printed, `results/closed_batches.json` and `results/closed_batches.png`.

With `--folder`, graph files and measurements stay there and are not made again; graph files of `big_graph.py` are used.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import planted
import torch
from measure import HERE, environment, in_fresh_process, progress
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crawl import Graph, Network, build_graph_file
from crawl.data import OneGraph, Task, WalkLoader
from crawl.data.graph_folder import GRAPH, read_graph_folder
from crawl.training.memory_bound import check_full_graph, peak_bytes
from crawl.training.runner import Runner

CLOSED_SIZES, FULL_SIZES, REFUSED_SIZE = (10**4, 10**5, 10**6, 10**7), (10**4, 10**5), 10**6
BATCH_SIZE, NUM_BATCHES = 200, 10
MOST_GB = 8.0
MOST_GROWTH = 1.5  # from the smallest graph to the largest
CPU = torch.device("cpu")


def network() -> Network:
    """The network of `big_graph.py`: eight walks of six steps from each target."""
    torch.manual_seed(0)
    walks: dict[str, Any] = {"num_walks": 8, "num_steps": 6, "num_eval_steps": 6, "window_size": 4}
    size: dict[str, Any] = {"hidden_channels": 32, "num_layers": 2, "pool": None, "padding": True}
    return Network(planted.NUM_CHANNELS, len(planted.CLASSES), layer=("walk", "gine"), **walks, **size)


def build(folder: Path, num_nodes: int) -> None:
    """A graph file with features, if it is not there."""
    path = folder / "graph" / GRAPH
    if path.is_file():
        return
    progress(f"{num_nodes:,} nodes: graph file")
    path.parent.mkdir(parents=True, exist_ok=True)
    edges, x = folder / "edges.npy", folder / "features.npy"
    numbers = np.lib.format.open_memmap(edges, "w+", np.int32, (2, planted.MEAN_DEGREE * num_nodes))
    end = 0
    for block in planted.edge_blocks(num_nodes):
        numbers[:, end : end + len(block)] = block.T
        end += len(block)
    numbers.flush()
    planted.write_features(x, num_nodes)
    build_graph_file(edges, path, features=x)
    edges.unlink()


def closed(folder: str, num_nodes: int) -> dict[str, Any]:
    """Training steps and predictions with closed batches of a mapped graph."""
    store = read_graph_folder(folder)
    generator = torch.Generator().manual_seed(0)
    owners = torch.randint(num_nodes, (NUM_BATCHES * BATCH_SIZE,), generator=generator)
    y = torch.randint(len(planted.CLASSES), owners.shape, generator=generator)
    store = OneGraph(store.graph, owners, store.x, y=y)
    model = network()
    plan = model.walk_plan
    assert plan is not None

    loaders = {
        is_training: WalkLoader(store, plan, batch_size=BATCH_SIZE, is_training=is_training)
        for is_training in (True, False)
    }

    def passes(work: Callable[[Any], None], is_training: bool) -> None:
        loaders[is_training].num_passes = 0  # the same walks again
        model.train(is_training)
        for batch in loaders[is_training]:
            work(batch)

    def predict(batch: Any) -> None:
        with torch.no_grad():
            model(batch)

    train = partial(passes, partial(_step, model, torch.optim.Adam(model.parameters())), True)
    return {"train": _measured(train, len(owners)), "predict": _measured(partial(passes, predict, False), len(owners))}


def full(num_nodes: int) -> dict[str, Any]:
    """A training step with the full graph, in memory, and all nodes as targets."""
    model, data = network().train(), _data(num_nodes)
    optimiser = torch.optim.Adam(model.parameters())
    _step(model, optimiser, _data(100))  # compiles what has to be
    return {"train": _measured(partial(_step, model, optimiser, data, seed=0), num_nodes, warm=False)}


def refused(num_nodes: int) -> dict[str, Any]:
    """What the library says to predictions with the full graph within the bound of memory."""
    data = _data(num_nodes)
    store = OneGraph(Graph.from_data(data), torch.arange(num_nodes), data.x, None, None, data.edge_index, "full")
    task = Task(kind="multiclass", level="node", num_outputs=len(planted.CLASSES))
    runner = Runner(network().eval(), task, store, CPU, largest_batch=num_nodes)
    try:
        check_full_graph(runner, MOST_GB, num_steps=None)
    except ValueError as error:
        return {"message": str(error)}
    return {"message": "It fits."}


def _data(num_nodes: int) -> Data:
    edges = torch.from_numpy(np.concatenate([*planted.edge_blocks(num_nodes)]).T.copy())
    x = torch.from_numpy(np.concatenate([*planted.features(num_nodes)]))
    return Data(x=x, edge_index=edges, y=torch.arange(num_nodes) % len(planted.CLASSES))


def _step(model: Network, optimiser: torch.optim.Optimizer, batch: Any, **how: Any) -> None:
    optimiser.zero_grad()
    loss: Tensor = cross_entropy(model(batch, **how), batch.y.long())
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def _measured(work: Callable[[], None], num_targets: int, *, warm: bool = True) -> dict[str, float]:
    """Wall and CPU seconds for each target, and the memory that the work takes beyond what was there before.

    The work is done before, so that everything is compiled and what it needs of a mapped file is there: the pages of
    the file then do not count.
    """
    if warm:
        work()
    wall, cpu = time.perf_counter(), time.process_time()
    peak = peak_bytes(work, CPU)
    assert peak is not None
    seconds = {"wall_ms": time.perf_counter() - wall, "cpu_ms": time.process_time() - cpu}
    return {**{name: 1e3 * value / num_targets for name, value in seconds.items()}, "memory_mb": peak / 1e6}


def once(record: Path, call: str) -> dict[str, Any]:
    """What the call returns in a process of its own; if there is a record of it, what that says."""
    if not record.is_file():
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(in_fresh_process(call)))
    found: dict[str, Any] = json.loads(record.read_text())
    return found


def plot(results: dict[str, Any], path: Path) -> None:
    """Memory and CPU time against the number of nodes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for label, records, kind, style in (
        ("closed batches, training", results["closed"], "train", "o-"),
        ("closed batches, prediction", results["closed"], "predict", "s--"),
        ("full graph, training", results["full"], "train", "^:"),
    ):
        sizes = [int(size) for size in records]
        for axes, key in ((left, "memory_mb"), (right, "cpu_ms")):
            axes.plot(sizes, [record[kind][key] for record in records.values()], style, label=label)
    left.axhline(1e3 * MOST_GB, color="grey", linewidth=0.8)
    left.annotate(f"{MOST_GB:g} GB", (float(min(CLOSED_SIZES)), 1.1e3 * MOST_GB), color="grey")
    for axes, title in ((left, "MB of a step, besides the graph"), (right, "CPU milliseconds for a target")):
        axes.set(xscale="log", xlabel="nodes", title=title)
        axes.grid(alpha=0.3)
    left.set(yscale="log", ylim=(10, 2e3 * MOST_GB))
    right.set_ylim(bottom=0)
    left.legend(loc="center right")
    figure.savefig(path, dpi=120)


def markdown(results: dict[str, Any]) -> str:
    rows = []
    for title, records in (("closed", results["closed"]), ("full", results["full"])):
        for size, record in records.items():
            for kind, found in record.items():
                numbers = f"{found['memory_mb']:,.0f} | {found['cpu_ms']:.3f} | {found['wall_ms']:.3f}"
                rows.append(f"| {title} | {int(size):,} | {kind} | {numbers} |")
    growth = {key: _growth(results["closed"], key) for key in ("memory_mb", "cpu_ms")}
    reached = "met" if max(growth.values()) <= MOST_GROWTH else "missed"
    return "\n".join(
        [
            "# Closed batches in graphs of any size",
            "",
            "Generated by `python benchmarks/closed_batches.py`; do not edit. Raw numbers: `closed_batches.json`.",
            f"Directed graphs of one family with ten edges a node (`planted.py`); closed batches of {BATCH_SIZE} "
            "targets of a mapped graph file, and steps with the full graph in memory, all of whose nodes are targets.",
            "",
            "![Memory and time against the number of nodes](closed_batches.png)",
            "",
            *(f"- {name}: {value}" for name, value in results["environment"].items()),
            "",
            "| batches | nodes | | MB besides the graph | CPU ms for a target | wall ms for a target |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            "Memory is the peak of resident memory within steps, less that before them. Steps are measured when they "
            "are repeated, so that pages of the mapped file are there already and do not count. Wall time is that of a "
            "machine with the load above; CPU time is what to compare.",
            *(["", f"Note: {results['note']}"] if results["note"] else []),
            "",
            f"Goal: at most {MOST_GROWTH:g} times as much in the largest graph as in the smallest. Memory of a "
            f"training step: {growth['memory_mb']:.2f} times; CPU time for a target: {growth['cpu_ms']:.2f} times; "
            f"{reached}. A step with the full graph, where it fits, takes less for a target, since targets share what "
            f"walks from all nodes see: {_cheaper(results):.1f} times less in the largest such graph here.",
            "",
            f"The full graph with {int(results['refused']['num_nodes']):,} nodes and a bound of {MOST_GB:g} GB, in the "
            f"library's words: “{results['refused']['message']}”",
            "",
        ]
    )


def _cheaper(results: dict[str, Any]) -> float:
    """How many times the CPU time for a target is less with the full graph, in the largest graph that has both."""
    size = max((size for size in results["full"] if size in results["closed"]), key=int)
    return float(results["closed"][size]["train"]["cpu_ms"] / results["full"][size]["train"]["cpu_ms"])


def _growth(records: dict[str, Any], key: str) -> float:
    values = [record["train"][key] for record in records.values()]
    return float(values[-1] / values[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=CLOSED_SIZES, help="of graphs for closed batches")
    parser.add_argument("--full", type=float, nargs="+", default=FULL_SIZES, help="of graphs for full batches")
    parser.add_argument("--refused", type=float, default=REFUSED_SIZE, help="of a graph that does not fit")
    parser.add_argument("--folder", type=Path, help="where graph files are made; they stay there")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder to write to")
    parser.add_argument("--note", default="", help="a sentence for the record about how this run was made")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"environment": environment(["torch", "numba", "numpy"]), "note": arguments.note}
    results |= {"closed": {}, "full": {}}
    with tempfile.TemporaryDirectory() as temporary:
        root = (Path(temporary) if arguments.folder is None else arguments.folder).resolve()
        for size in map(int, arguments.sizes):
            build(root / str(size), size)
            call = f"closed_batches.closed({str(root / str(size) / 'graph')!r}, {size})"
            results["closed"][str(size)] = once(root / str(size) / "closed.json", call)
        for size in map(int, arguments.full):
            results["full"][str(size)] = once(root / str(size) / "full.json", f"closed_batches.full({size})")
        size = int(arguments.refused)
        found = once(root / str(size) / "refused.json", f"closed_batches.refused({size})")
        results["refused"] = {"num_nodes": size, **found}
    arguments.out.mkdir(parents=True, exist_ok=True)
    plot(results, arguments.out / "closed_batches.png")
    report = markdown(results)
    (arguments.out / "closed_batches.md").write_text(report)
    (arguments.out / "closed_batches.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report)


if __name__ == "__main__":
    main()
