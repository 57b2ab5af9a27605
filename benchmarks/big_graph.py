"""A graph that need not fit into memory, as a Markdown table: `python benchmarks/big_graph.py`.

Makes an edge list of 10^7 nodes and 10^8 directed edges (1.6 GB of text; 5 GB of disk are needed in all), builds a
graph file, opens it, and samples walks from 10^5 nodes. Every stage is a process of its own; its time and its peak
memory are recorded. Start it on a machine that does nothing else. Writes `results/big_graph.md`, which is also printed,
and `results/big_graph.json`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import HERE, environment, in_fresh_process, peak_memory_mb, progress

from crawl import Graph, build_graph_file, sample_walks

NUM_NODES, NUM_EDGES, NUM_STARTS = 10**7, 10**8, 10**5
MOST_GB = 8.0
EDGES_AT_ONCE = 10**6


def measured(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a stage says about itself, with its seconds, and memory in MB at the beginning and at its peak."""
    before = peak_memory_mb()
    begin = time.perf_counter()
    result = work()
    return {"seconds": time.perf_counter() - begin, "before_mb": before, "peak_mb": peak_memory_mb(), **result}


def make(path: str, num_nodes: int, num_edges: int) -> dict[str, Any]:
    """An edge list in no order: an edge from every node, and others between nodes of which some are far likelier."""

    def work() -> dict[str, Any]:
        rng = np.random.default_rng(0)
        first = rng.permutation(num_nodes)
        with open(path, "w") as file:
            for begin in range(0, num_edges, EDGES_AT_ONCE):
                size = min(EDGES_AT_ONCE, num_edges - begin)
                ends = (num_nodes * rng.random((size, 2)) ** 2).astype(np.int64)
                given = first[begin : begin + size]
                ends[: len(given), 0] = given
                file.write("\n".join(f"{u},{v}" for u, v in ends.tolist()) + "\n")
        return {"bytes": Path(path).stat().st_size}

    return measured(work)


def build(edges: str, path: str, memory_gb: float) -> dict[str, Any]:
    """The graph file of the list. What numba compiles, or reads from its cache, is there before."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "edges").write_text("0 0\n")
        build_graph_file(Path(folder, "edges"), Path(folder, "graph.crawl"))

    def work() -> dict[str, Any]:
        build_graph_file(edges, path, memory_gb=memory_gb)
        return {"bytes": Path(path).stat().st_size}

    return measured(work)


def open_file(path: str) -> dict[str, Any]:
    """The graph, with checksums compared and all numbers looked at."""

    def work() -> dict[str, Any]:
        graph = Graph.open(path)
        return {"num_nodes": graph.num_nodes, "num_edges": graph.num_edges, "num_arcs": graph.num_arcs}

    return measured(work)


def walk(path: str, num_starts: int) -> dict[str, Any]:
    """Walks of 50 steps with a window of 8, from the map; some of them are compared with the reference."""
    sample_walks(Graph.from_edge_index(torch.tensor([[0], [0]])), num_steps=1)

    def work() -> dict[str, Any]:
        graph = Graph.open(path, verify=False)
        start = torch.randint(graph.num_nodes, (num_starts,), generator=torch.Generator().manual_seed(0))
        begin = time.perf_counter()
        walks = sample_walks(graph, num_steps=50, window_size=8, start=start)
        seconds = time.perf_counter() - begin
        few = slice(0, 100)
        slow = sample_walks(graph, num_steps=50, window_size=8, start=start[few].unique(), backend="reference")
        fast = sample_walks(graph, num_steps=50, window_size=8, start=start[few].unique())
        assert torch.equal(slow.nodes, fast.nodes)
        assert torch.equal(slow.code, fast.code)
        return {"num_walks": walks.num_walks, "steps_per_second": walks.edges.numel() / seconds}

    return measured(work)


def measure(num_nodes: int, num_edges: int, num_starts: int, memory_gb: float, folder: Path) -> dict[str, Any]:
    """The records of all stages."""
    edges, graph = str(folder / "edges.csv"), str(folder / "graph.crawl")
    calls = {
        "make the edge list": f"big_graph.make({edges!r}, {num_nodes}, {num_edges})",
        "build the graph file": f"big_graph.build({edges!r}, {graph!r}, {memory_gb})",
        "open and verify it": f"big_graph.open_file({graph!r})",
        f"{num_starts:,} walks of 50 steps from the map": f"big_graph.walk({graph!r}, {num_starts})",
    }
    return {name: in_fresh_process(call) for name, call in calls.items()}


def markdown(results: dict[str, Any]) -> str:
    stages = results["stages"]
    rows = [
        f"| {name} | {stage['seconds']:,.1f} | {stage['before_mb'] / 1e3:.2f} | {stage['peak_mb'] / 1e3:.2f} "
        f"| {_more(stage)} |"
        for name, stage in stages.items()
    ]
    most = max(stage["peak_mb"] for name, stage in stages.items() if not name.startswith("make")) / 1e3
    reached = "met" if most <= MOST_GB else "missed"
    return "\n".join(
        [
            "# A graph that need not fit into memory",
            "",
            "Generated by `python benchmarks/big_graph.py`; do not edit. Raw numbers: `big_graph.json`.",
            f"A directed graph of {results['num_nodes']:,} nodes and {results['num_edges']:,} edges, from an edge list "
            "in no order.",
            "Every stage is a process of its own. Memory is resident memory, pages of mapped files included; `before` "
            "is what the imports take.",
            "",
            *(f"- {name}: {value}" for name, value in results["environment"].items()),
            "",
            "| stage | seconds | GB before | GB at its peak | |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            f"Goal: at most {MOST_GB:g} GB to build and to walk. Most: {most:.2f} GB, {reached}.",
            "",
        ]
    )


def _more(stage: dict[str, Any]) -> str:
    if "bytes" in stage:
        return f"{stage['bytes'] / 1e9:.2f} GB on disk"
    if "num_arcs" in stage:
        return f"{stage['num_arcs']:,} arcs"
    return f"{stage['steps_per_second'] / 1e6:,.1f} million steps/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=float, default=NUM_NODES)
    parser.add_argument("--edges", type=float, default=NUM_EDGES)
    parser.add_argument("--starts", type=float, default=NUM_STARTS)
    parser.add_argument("--memory-gb", type=float, default=1.0, help="that sorting may take")
    parser.add_argument("--folder", type=Path, help="where the large files are made, and removed in the end")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder to write to")
    arguments = parser.parse_args()
    num_nodes, num_edges, num_starts = (int(n) for n in (arguments.nodes, arguments.edges, arguments.starts))
    assert num_edges >= num_nodes, "every node needs an edge, so that no walk ends"
    machine = environment(["torch", "numba", "numpy"])
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        progress(f"{num_nodes:,} nodes, {num_edges:,} edges")
        stages = measure(num_nodes, num_edges, num_starts, arguments.memory_gb, Path(folder))
    results = {"environment": machine, "num_nodes": num_nodes, "num_edges": num_edges, "stages": stages}
    report = markdown(results)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "big_graph.md").write_text(report)
    (arguments.out / "big_graph.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report)


if __name__ == "__main__":
    main()
