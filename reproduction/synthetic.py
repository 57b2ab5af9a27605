"""Random graphs of the size of a benchmark, for measuring time and memory where its data are not at hand."""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.data.benchmarks.packed import split_in_order
from crawl.data.benchmarks.record import Benchmark
from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.data.store import GraphStore, as_ptr


def synthetic(benchmark: Benchmark, num_graphs: int | None = None, seed: int = 0) -> Dataset:
    """Connected random graphs, about as large as those of the benchmark, with random features and targets.

    There is nothing to learn from them. Graphs that are dense, as COLLAB's, get fewer edges. Where the benchmark has
    folds, eight tenths are for training.

    Args:
        benchmark: The benchmark.
        num_graphs: The number of graphs, in the published proportions of the parts; as many as published when None.
        seed: Fixes the graphs.
    """
    generator = torch.Generator().manual_seed(seed)
    statistics = benchmark.statistics
    total = statistics.total if num_graphs is None else num_graphs
    mean = statistics.mean_nodes
    sizes = (mean * (0.5 + torch.rand(total, generator=generator))).round().long().clamp_min(2)
    node_ptr = as_ptr(sizes)
    num_edges, edge_index = _edges(sizes, node_ptr, statistics.mean_edges / mean, generator)
    node_categories, edge_categories = (
        _categories(width, len(sizes)) for width, sizes in zip(benchmark.widths, benchmark.categories, strict=True)
    )
    x = _features(int(node_ptr[-1]), benchmark.widths[0], node_categories, generator)
    edge_attr = _features(edge_index.shape[1], benchmark.widths[1], edge_categories, generator)
    y = _targets(benchmark, total, int(node_ptr[-1]), generator)
    store = GraphStore(
        node_ptr, as_ptr(num_edges), edge_index, x, edge_attr, y, y_per_node=benchmark.task.level == "node"
    )
    return Dataset(
        f"{benchmark.title} (synthetic)",
        store,
        benchmark.task,
        _split(benchmark, total),
        node_categories=node_categories,
        edge_categories=edge_categories,
    )


def _features(num_rows: int, width: int, categories: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if not categories:
        return torch.rand(num_rows, width, generator=generator)
    return torch.stack([torch.randint(size, (num_rows,), generator=generator) for size in categories], dim=1)


def _categories(width: int, num_columns: int) -> tuple[int, ...]:
    """How many values each column of categories takes: two, except in the first; () for numbers."""
    return (width - 2 * (num_columns - 1), *(num_columns - 1) * (2,)) if num_columns else ()


def _edges(sizes: Tensor, node_ptr: Tensor, degree: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The number of edges of each graph and `edge_index`: a tree, and random pairs until nodes have the mean degree."""
    graph = torch.arange(len(sizes)).repeat_interleave(sizes)
    place = torch.arange(len(graph)) - node_ptr[:-1][graph]
    near = torch.rand(len(graph), generator=generator) * place.clamp(max=8)  # an earlier node, not far away
    pairs = torch.stack([place, place - 1 - near.long()])[:, place > 0]
    owner = graph[place > 0]
    num_more = max(0, round(len(graph) * degree / 2) - len(owner))
    chosen = torch.randint(len(graph), (num_more,), generator=generator)
    other = (torch.rand(num_more, generator=generator) * sizes[graph[chosen]]).long()
    pairs = torch.cat([pairs, torch.stack([place[chosen], other])], dim=1)
    owner = torch.cat([owner, graph[chosen]])
    kept = pairs[0] != pairs[1]
    pairs, owner = pairs[:, kept], owner[kept]
    widest = int(sizes.max())
    low, high = pairs.amin(0), pairs.amax(0)
    keys = ((owner * widest + low) * widest + high).unique()  # type: ignore[no-untyped-call]
    owner, low, high = keys // widest**2, keys // widest % widest, keys % widest
    owner = torch.cat([owner, owner])
    order = owner.argsort(stable=True)
    edge_index = torch.stack([torch.cat([low, high]), torch.cat([high, low])])[:, order]
    return owner.bincount(minlength=len(sizes)), edge_index


def _targets(benchmark: Benchmark, num_graphs: int, num_nodes: int, generator: torch.Generator) -> Tensor:
    task = benchmark.task
    num_rows = num_nodes if task.level == "node" else num_graphs
    if task.kind in ("binary", "multiclass"):
        return torch.randint(max(2, task.num_outputs), (num_rows,), generator=generator)
    values = torch.rand(num_rows, task.num_outputs, generator=generator)
    return values.round() if task.kind == "multilabel" else values


def _split(benchmark: Benchmark, num_graphs: int) -> Split:
    counts = benchmark.statistics.num_graphs
    parts = counts if len(counts) > 1 else (8, 1, 1)
    val, test = (max(1, num_graphs * part // sum(parts)) for part in parts[1:])
    return split_in_order([num_graphs - val - test, val, test])
