"""Walks alone."""

from __future__ import annotations

import graphs as made
import torch
from measure import progress, spread_cell
from torch import Tensor

from crawl import Graph, sample_walks
from crawl.walks.strategies import StepLaw
from gpu.bench import Bench
from gpu.report import Section
from gpu.timing import in_turns


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
            cells = [spread_cell(spread, 1e3), f"{speed / 1e9:.2f}", f"{out / 1e9:,.0f}", share]
            rows.append([name, does, f"{len(start):,}", *cells])
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
