"""A graph of 10^7 nodes and 10^8 edges, from an edge list to embeddings: `python benchmarks/big_graph.py`.

Makes an edge list (1.6 GB of text; 6 GB of disk are needed in all) with features and labels (`planted.py`), and then
does what a user would do with them, by the commands of the library: builds a graph file, walks on it, trains a network
for an epoch on 10^5 labelled nodes, and embeds nodes. Every stage is a process of its own, whose time and memory are
recorded. Writes `results/big_graph.md`, which is also printed, and `results/big_graph.json`.

With `--folder`, what is made stays there, and stages that are done are not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import planted
import torch
from measure import HERE, environment, progress, watched

from crawl import Graph, sample_walks
from crawl.data.graph_folder import read_graph_folder
from crawl.runs import TrainedModel

NUM_NODES, NUM_STARTS, NUM_EMBEDDED = 10**7, 10**5, 10**6
SPLIT = {"train": 10**5, "val": 10**4, "test": 10**4}
MOST_GB = 8.0
BATCH_GB = 1.0
PYTHON, CRAWL = [sys.executable], [sys.executable, "-m", "crawl"]
IMPORTS = "import crawl.cli.train, crawl.runs, crawl.graph_files.build, crawl.walks.cpu, matplotlib.pyplot"
NETWORK = {  # eight short walks from each target, a walk convolution and message passing among what they visit
    "data.batches": ["closed"],
    "walk.no-centred": [],  # edges lead one way
    "walk.num-walks": ["8"],
    "walk.num-steps": ["6"],
    "walk.num-eval-steps": ["6"],
    "walk.window-size": ["4"],
    "model.layer": ["walk", "gine"],
    "model.hidden-channels": ["32"],
    "model.num-layers": ["2"],
    "model.padding": [],
    "training.lr": ["0.01"],
    "training.batch-size": ["200"],
    "training.max-epochs": ["1"],
    "evaluation.num-norm-graphs": ["0"],
    "evaluation.num-test-repeats": ["1"],
}
FLAGS = [word for name, values in NETWORK.items() for word in (f"--{name}", *values)]


def walk(path: str, num_starts: int) -> None:
    """Walks of 50 steps with a window of 8, from the map; some of them are compared with the reference."""
    graph = Graph.open(path, verify=False)
    start = torch.randint(graph.num_nodes, (num_starts,), generator=torch.Generator().manual_seed(0))
    sample_walks(graph, num_steps=50, window_size=8, start=start)
    few = start[:100].unique()
    slow = sample_walks(graph, num_steps=50, window_size=8, start=few, backend="reference")
    fast = sample_walks(graph, num_steps=50, window_size=8, start=few)
    assert torch.equal(slow.nodes, fast.nodes)
    assert torch.equal(slow.code, fast.code)


def compare(run: str, folder: str, only: str, num_targets: int = 50) -> None:
    """Print how far predictions of a batch are from those of the same targets one by one."""
    trained = TrainedModel.load(run, "cpu")
    store = read_graph_folder(folder, only).subset(torch.arange(num_targets))
    together = trained.predict(store, batch_size=num_targets, seed=3).repeats
    alone = [trained.predict(store.subset(torch.tensor([i])), batch_size=1, seed=3).repeats for i in range(num_targets)]
    print(float(np.abs(together - np.concatenate(alone, axis=1)).max()))


class Stages:
    """The commands, one after the other, with a record of each in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: dict[str, dict[str, Any]] = {}

    def run(self, name: str, command: list[str], facts: Callable[[Path], dict[str, Any]] = lambda _: {}) -> None:
        """Run a command, unless it is done; `facts` are what its log and its files say."""
        record, log = self.folder / f"{name}.json", self.folder / f"{name}.log"
        if not record.is_file():
            progress(f"{name}: {' '.join(command)}")
            found = watched(command, log)
            commit = environment([])["Commit"]
            record.write_text(json.dumps({**found, "commit": commit, **facts(log)}))
        self.records[name] = json.loads(record.read_text())


def measure(folder: Path, num_nodes: int, split: dict[str, int], num_starts: int, num_embedded: int) -> dict[str, Any]:
    """The records of all stages."""
    progress(f"{num_nodes:,} nodes: edge list, features and labels")
    planted.prepare(folder, num_nodes, split)
    data, edges, features = folder / "graph", folder / "edges.csv", folder / "features.npy"
    graph, run, only, embeddings = data / "graph.crawl", folder / "run", folder / "only.csv", folder / "embeddings.npy"
    only.write_text("\n".join(["id", *map(str, range(num_embedded))]) + "\n")
    stages = Stages(folder)

    def size_of(path: Path) -> dict[str, Any]:
        return {"bytes": path.stat().st_size}

    def result_of(log: Path) -> dict[str, Any]:
        result = json.loads((run / "result.json").read_text())
        epoch = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
        facts = {"num_targets": result["num_graphs"], "num_parameters": result["num_parameters"]}
        return {**facts, "test_accuracy": result["scores"]["test"]["mean"], "epoch_seconds": epoch["seconds"]}

    def embedded(log: Path) -> dict[str, Any]:
        found = np.load(embeddings, mmap_mode="r")
        assert np.isfinite(found).all()
        return {**size_of(embeddings), "shape": list(found.shape)}

    stages.run("imports", [*PYTHON, "-c", IMPORTS])
    build = [*CRAWL, "graph", "build", str(edges), "-o", str(graph), "--features", str(features)]
    stages.run("build", build, lambda _: {**size_of(graph), "edge_list_bytes": edges.stat().st_size})
    stages.run("check", [*CRAWL, "graph", "check", str(graph)])
    stages.run("walk", [*PYTHON, "-c", f"import big_graph; big_graph.walk({str(graph)!r}, {num_starts})"])
    train = [*CRAWL, "train", "nodes", "--data.path", str(data), *FLAGS, "--device", "cpu", "--out", str(run)]
    stages.run("train", train, result_of)
    apply = [str(run), str(data), "--only", str(only), "--device", "cpu"]
    stages.run("embed", [*CRAWL, "embed", *apply, "--memory", f"{BATCH_GB:g}", "-o", str(embeddings)], embedded)
    call = f"big_graph.compare({str(run)!r}, {str(data)!r}, {str(only)!r})"
    stages.run("compare", [*PYTHON, "-c", f"import big_graph; {call}"], lambda log: {"error": float(log.read_text())})
    return stages.records


def markdown(results: dict[str, Any]) -> str:
    stages, num_nodes = results["stages"], results["num_nodes"]
    of = stages["train"]["num_targets"]
    titles = {
        "imports": ("the packages alone, imported", ""),
        "build": ("`crawl graph build`", "{bytes_gb:.2f} GB on disk, from {list_gb:.2f} GB of text"),
        "check": ("`crawl graph check`", "reads all of it"),
        "walk": (f"{results['num_starts']:,} walks of 50 steps", "some compared with the reference"),
        "train": (
            "`crawl train nodes`, one epoch",
            f"{of['train']:,} nodes; then these and {of['val'] + of['test']:,} others are evaluated; "
            "test accuracy {test_accuracy:.1%}",
        ),
        "embed": ("`crawl embed`", "{shape[0]:,} nodes, {shape[1]} numbers each"),
        "compare": ("50 predictions in a batch and one by one", "largest difference {error:.1e}"),
    }
    rows = []
    for name, (title, about) in titles.items():
        stage = stages[name]
        sizes = {"bytes_gb": stage.get("bytes", 0) / 1e9, "list_gb": stage.get("edge_list_bytes", 0) / 1e9}
        memory = " | ".join(f"{stage[key] / 1e3:.2f}" for key in ("peak_mb", "peak_anonymous_mb", "peak_mapped_mb"))
        seconds = f"{stage['seconds']:,.0f} | {stage['cpu_seconds']:,.0f}"
        rows.append(f"| {title} | {seconds} | {memory} | {about.format(**stage, **sizes)} |")
    most = max(stages[name]["peak_mb"] for name in ("build", "train")) / 1e3
    train, embed = stages["train"], stages["embed"]
    each = embed["cpu_seconds"] / embed["shape"][0]
    return "\n".join(
        [
            "# A graph that need not fit into memory",
            "",
            "Generated by `python benchmarks/big_graph.py`; do not edit. Raw numbers: `big_graph.json`.",
            f"A directed graph of {num_nodes:,} nodes and {planted.MEAN_DEGREE * num_nodes:,} edges with "
            f"{planted.NUM_CHANNELS} features a node, from an edge list in no order; four classes, which take the "
            "edges and a feature to tell (`planted.py`).",
            "",
            *(f"- {name}: {value}" for name, value in results["environment"].items()),
            "",
            "| stage | seconds | CPU seconds | GB at its peak | anonymous | mapped | |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            "Every stage is a process of its own. Its peak is the kernel's count of resident memory (VmHWM). "
            "*Anonymous* is what the process has for itself, *mapped* are pages of files, those of the graph above "
            "all, which the system takes back when others need memory; both are the largest of 50 looks a second, at "
            "different times, and the peak includes both. Where seconds are many more than CPU seconds, the machine "
            "was busy.",
            *(["", f"Note: {results['note']}"] if results["note"] else []),
            "",
            f"Goal: at most {MOST_GB:g} GB to build and to train. Most: {most:.2f} GB, "
            f"{'met' if most <= MOST_GB else 'missed'}. "
            f"The epoch alone took {train['epoch_seconds']:,.0f} s. Embeddings took {each * 1e3:.2f} ms of one core "
            f"for each node, reading and measuring included: all {num_nodes:,} would take "
            f"{each * num_nodes / 3600:.1f} hours of one core. Closed batches of embeddings were allowed "
            f"{BATCH_GB:g} GB.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=float, default=NUM_NODES)
    parser.add_argument("--starts", type=float, default=NUM_STARTS)
    parser.add_argument("--labelled", type=float, default=SPLIT["train"], help="nodes to train on")
    parser.add_argument("--embedded", type=float, default=NUM_EMBEDDED, help="nodes to embed, 0, 1, …")
    parser.add_argument("--folder", type=Path, help="where the large files are made; they stay there")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder to write to")
    parser.add_argument("--note", default="", help="a sentence for the record about how this run was made")
    arguments = parser.parse_args()
    num_nodes, num_starts, num_embedded = (int(n) for n in (arguments.nodes, arguments.starts, arguments.embedded))
    num_train = int(arguments.labelled)
    split = {"train": num_train, "val": -(-num_train // 10), "test": -(-num_train // 10)}
    machine = environment(["torch", "numba", "numpy"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if arguments.folder is None else arguments.folder / str(num_nodes)
        stages = measure(folder.resolve(), num_nodes, split, num_starts, num_embedded)
    results = {"environment": machine, "num_nodes": num_nodes, "num_starts": num_starts, "stages": stages}
    results["note"] = arguments.note
    report = markdown(results)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "big_graph.md").write_text(report)
    (arguments.out / "big_graph.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report)


if __name__ == "__main__":
    main()
