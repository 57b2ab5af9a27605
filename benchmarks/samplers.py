"""Walk sampling: our backends and the packages people use today, each called the way its users call it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import graphs
import numpy as np
import scipy.sparse
import torch
from measure import Spread, error_line, interleaved, peak_memory_mb, progress
from torch import Tensor
from torch_geometric.data import Batch

from crawl import Graph, sample_walks

NUM_STEPS = 50
MEMORY_GOAL_MB = 1500
PEER = "torch-cluster"  # ratios are to this row
PEERS_LOG = Path(__file__).parents[1] / ".venv" / "peers" / "install.log"


@dataclass(frozen=True, eq=False)
class Case:
    """A graph to walk on, in the forms that the samplers expect."""

    name: str
    edge_index: Tensor
    num_nodes: int
    num_rounds: int
    is_large: bool = False

    @cached_property
    def graph(self) -> Graph:
        """Ours."""
        return Graph.from_edge_index(self.edge_index, self.num_nodes)

    @cached_property
    def starts(self) -> Tensor:
        """The nodes that have an edge: one walk from each."""
        return (self.graph.degree > 0).nonzero().squeeze(1)

    @cached_property
    def matrix(self) -> scipy.sparse.csr_matrix:
        """The adjacency matrix."""
        ones = np.ones(self.graph.num_arcs, dtype=np.float32)
        shape = (self.num_nodes, self.num_nodes)
        return scipy.sparse.csr_matrix((ones, self.graph.col.numpy(), self.graph.rowptr.numpy()), shape=shape)


Run = Callable[[int], Any]  # samples all walks with the given seed, where the package takes one


@dataclass(frozen=True)
class Sampler:
    """One row of the table.

    Attributes:
        name: How the row is called.
        does: What one call computes.
        prepare: From a case and the start nodes to the timed call.
        needs: What to install and what to import; None for ours.
        large_starts: How many walks to sample on the large graph; None for all, 0 for not at all.
    """

    name: str
    does: str
    prepare: Callable[[Case, Tensor], Run]
    needs: tuple[str, str] | None = None
    large_starts: int | None = None


def cases() -> list[Case]:
    batch = Batch.from_data_list(graphs.molecules(1_000))
    return [
        Case("1,000 molecules", batch.edge_index, batch.num_nodes, num_rounds=15),
        Case("Erdős–Rényi, 10 k nodes, 100 k edges", graphs.erdos_renyi(10_000, 100_000), 10_000, num_rounds=15),
        Case(
            "Erdős–Rényi, 1 M nodes, 10 M edges",
            graphs.erdos_renyi(1_000_000, 10_000_000),
            1_000_000,
            num_rounds=5,
            is_large=True,
        ),
    ]


def crawl(backend: Any, strategy: Any, window_size: int) -> Callable[[Case, Tensor], Run]:
    def prepare(case: Case, starts: Tensor) -> Run:
        start = None if starts is case.starts else starts
        return lambda seed: sample_walks(
            case.graph, NUM_STEPS, strategy, start=start, window_size=window_size, seed=seed, backend=backend
        )

    return prepare


def torch_cluster(case: Case, starts: Tensor) -> Run:
    from torch_cluster import random_walk

    row, col = case.edge_index
    return lambda seed: random_walk(row, col, starts, NUM_STEPS, num_nodes=case.num_nodes)


def torch_cluster_operator(case: Case, starts: Tensor) -> Run:
    rowptr, col = case.graph.rowptr.long(), case.graph.col.long()
    return lambda seed: torch.ops.torch_cluster.random_walk(rowptr, col, starts, NUM_STEPS, 1.0, 1.0)


def graph_walker(case: Case, starts: Tensor) -> Run:
    import networkx as nx
    from walker import random_walks

    graph = nx.from_scipy_sparse_array(case.matrix)
    return lambda seed: random_walks(graph, 1, NUM_STEPS + 1, start_nodes=starts.numpy(), verbose=False)


def graph_walker_operator(case: Case, starts: Tensor) -> Run:
    from _walker import random_walks

    degree = case.graph.degree.numpy()
    share = (1 / np.repeat(degree, degree)).astype(np.float32)
    rowptr, col, start = (t.numpy().astype(np.uint32) for t in (case.graph.rowptr, case.graph.col, starts))
    return lambda seed: random_walks(rowptr, col, share, start, 1, NUM_STEPS + 1)


def csrgraph(case: Case, starts: Tensor) -> Run:
    from csrgraph import csrgraph

    graph = csrgraph(case.matrix)
    return lambda seed: graph.random_walks(walklen=NUM_STEPS + 1, epochs=1, start_nodes=starts.numpy())


def fastnode2vec(case: Case, starts: Tensor) -> Run:
    from fastnode2vec import Graph as Node2VecGraph

    row, col = case.edge_index
    graph = Node2VecGraph(zip(row.tolist(), col.tolist(), strict=True), directed=True, weighted=False, verbose=False)
    number = {node: i for i, node in enumerate(graph.node_names.tolist())}
    start = [number[node] for node in starts.tolist()]
    return lambda seed: [graph.generate_random_walk(NUM_STEPS + 1, 1, 1, node) for node in start]


SAMPLERS = [
    Sampler(
        "crawl numba, non-backtracking, s = 8",
        "non-backtracking; nodes, edge ids, identity and adjacency bits",
        crawl("numba", "non_backtracking", 8),
    ),
    Sampler("crawl numba, uniform, s = 0", "uniform; nodes, edge ids", crawl("numba", "uniform", 0)),
    Sampler(
        "crawl reference, non-backtracking, s = 8",
        "the same walks as the first row, in plain torch",
        crawl("reference", "non_backtracking", 8),
        large_starts=2_000,
    ),
    Sampler(PEER, "uniform; nodes; sorts the edges in every call", torch_cluster, ("torch-cluster", "torch_cluster")),
    Sampler(
        "torch-cluster, operator alone",
        "uniform; nodes, edge ids; sorted graph given",
        torch_cluster_operator,
        ("torch-cluster", "torch_cluster"),
    ),
    Sampler(
        "graph-walker",
        "uniform; nodes; converts a networkx graph in every call",
        graph_walker,
        ("graph-walker", "walker"),
        large_starts=0,
    ),
    Sampler(
        "graph-walker, operator alone",
        "uniform (general weights); nodes; normalised matrix given",
        graph_walker_operator,
        ("graph-walker", "walker"),
        large_starts=250_000,
    ),
    Sampler(
        "csrgraph",
        "uniform (general weights); nodes; normalises the matrix in every call",
        csrgraph,
        ("csrgraph", "csrgraph"),
        large_starts=250_000,
    ),
    Sampler(
        "fastnode2vec",
        "uniform; nodes; one walk a call, one thread",
        fastnode2vec,
        ("fastnode2vec", "fastnode2vec"),
        large_starts=20_000,
    ),
]


def benchmark(case: Case) -> list[dict[str, Any]]:
    """A record for every sampler: what it does, the walks sampled, steps per second, or why there are none."""
    progress(case.name)
    torch.manual_seed(0)
    rows: dict[str, dict[str, Any]] = {}
    calls: dict[str, Run] = {}
    for sampler in SAMPLERS:
        limit = sampler.large_starts if case.is_large else None
        starts = case.starts if limit is None else case.starts[torch.randperm(len(case.starts))[:limit]]
        row = rows[sampler.name] = {"case": case.name, "sampler": sampler.name, "does": sampler.does}
        row["num_walks"] = len(starts)
        reason = why_missing(*sampler.needs) if sampler.needs else None
        if reason is not None:
            row["problem"] = f"not installed: {reason}"
        elif limit == 0:
            row["problem"] = "not run: its networkx graph takes too much memory at this size"
        else:
            try:
                calls[sampler.name] = sampler.prepare(case, starts)
            except Exception as error:
                row["problem"] = error_line(error)
    for name, seconds in interleaved(calls, case.num_rounds).items():
        if isinstance(seconds, str):
            rows[name]["problem"] = seconds
        else:
            speeds = [rows[name]["num_walks"] * NUM_STEPS / s for s in seconds]
            rows[name] |= {"seconds": seconds, "steps_per_s": asdict(Spread.of(speeds))}
    return list(rows.values())


def build_time(case: Case) -> dict[str, Any]:
    """Seconds to make a `Graph` from the edges."""
    progress(f"{case.name}: building the graph")
    calls = {"build": lambda _: Graph.from_edge_index(case.edge_index, case.num_nodes)}
    seconds = interleaved(calls, min(case.num_rounds, 5))["build"]
    assert not isinstance(seconds, str)
    return {"case": case.name, "seconds": asdict(Spread.of(seconds))}


def memory(num_nodes: int, num_edges: int) -> dict[str, float]:
    """Peak memory in MB so far, at each stage of walking on an Erdős–Rényi graph; for a fresh process."""
    stages = {"imports": peak_memory_mb()}
    edge_index = graphs.erdos_renyi(num_nodes, num_edges)
    stages["edge list"] = peak_memory_mb()
    graph = Graph.from_edge_index(edge_index, num_nodes)
    stages["graph"] = peak_memory_mb()
    walks = sample_walks(graph, NUM_STEPS)
    assert len(walks)
    stages["walks"] = peak_memory_mb()
    return stages


def why_missing(package: str, module: str) -> str | None:
    """Why a peer cannot be imported, from the log of its installation if that tells; None if it can."""
    try:
        importlib.import_module(module)
    except Exception as error:
        log = PEERS_LOG.read_text() if PEERS_LOG.exists() else ""
        section = log.partition(f"== {package}\n")[2].partition("\n== ")[0]
        errors = re.findall(r"^.*error: .+$", section, flags=re.MULTILINE | re.IGNORECASE)
        specific = [line for line in errors if "Error: " in line]
        return str((specific or errors or [error_line(error)])[-1]).strip()
    return None
