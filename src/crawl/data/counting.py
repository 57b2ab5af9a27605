"""A synthetic set for counting small subgraphs, made in code.

Random graphs as in Chen et al., Can Graph Neural Networks Count Substructures?, NeurIPS 2020: a random regular graph
with one edge for each of its nodes taken away.
"""

from __future__ import annotations

import random
from typing import Literal, get_args

import networkx as nx
import torch
from torch import Tensor

from crawl.checks import MAX_SEED, check_choice, whole_number
from crawl.data.dataset import Dataset
from crawl.data.splits import random_split
from crawl.data.store import GraphStore, as_ptr
from crawl.data.task import Task

Pattern = Literal["triangle", "tailed_triangle", "star", "cycle4"]

NODES_AND_DEGREE = ((10, 6), (15, 6), (20, 5), (30, 5))


def counting(target: Pattern = "triangle", num_graphs: int = 5000, seed: int = 0) -> Dataset:
    """Random graphs of 10 to 30 nodes with the number of times a pattern occurs in each; 30 % are for training.

    Patterns count as subgraphs, induced or not. The numbers are divided by their standard deviation over the training
    graphs, as in the literature; `task.target_names` holds the divisor, too. Nodes and edges have no features.

    Args:
        target: `triangle`; `tailed_triangle`, with one more edge at a corner; `star`, a node with three others; or
            `cycle4`.
        num_graphs: The number of graphs (G), 20 % of which are for validation and 50 % for the test.
        seed: Fixes the graphs and the split.

    Raises:
        ValueError: For an unknown target, or if there are too few graphs.
    """
    check_choice("target", target, get_args(Pattern))
    seed = whole_number("seed", seed, 0, MAX_SEED)
    num_graphs = whole_number("num_graphs", num_graphs, 10, 10_000_000)
    rng = random.Random(seed)
    graphs = [_random_edges(rng) for _ in range(num_graphs)]
    sizes = torch.tensor([[num_nodes, 2 * len(edges)] for num_nodes, edges in graphs])
    node_ptr, edge_ptr = as_ptr(sizes[:, 0]), as_ptr(sizes[:, 1])
    edge_index = torch.tensor([(u, v) for _, edges in graphs for a, b in edges for u, v in ((a, b), (b, a))]).t()

    counts = _counts(target, sizes[:, 0], edge_ptr, edge_index)
    split = random_split(num_graphs, (0.3, 0.2, 0.5), seed)
    scale = counts[split.train].std(correction=0)
    if scale == 0:
        raise ValueError(f"All training graphs have the same number of patterns; use more than {num_graphs} graphs.")
    y = (counts / scale).float().unsqueeze(1)
    store = GraphStore(node_ptr=node_ptr, edge_ptr=edge_ptr, edge_index=edge_index.contiguous(), y=y)
    task = Task(kind="regression", num_outputs=1, metric="mae", target_names=(f"{target} / {float(scale):.4g}",))
    return Dataset(name=f"counting-{target}", store=store, task=task, split=split)


def _random_edges(rng: random.Random) -> tuple[int, list[tuple[int, int]]]:
    num_nodes, degree = rng.choice(NODES_AND_DEGREE)
    edges = sorted((min(edge), max(edge)) for edge in nx.random_regular_graph(degree, num_nodes, seed=rng).edges)
    return num_nodes, sorted(rng.sample(edges, len(edges) - num_nodes))


def _counts(target: str, num_nodes: Tensor, edge_ptr: Tensor, edge_index: Tensor) -> Tensor:
    """`[G]` how often the pattern occurs, for all graphs with equally many nodes at once."""
    counts = torch.zeros(len(num_nodes), dtype=torch.float64)
    graph_of_edge = torch.repeat_interleave(edge_ptr.diff())
    for n in num_nodes.unique().tolist():  # type: ignore[no-untyped-call]
        ids = (num_nodes == n).nonzero().flatten()
        chosen = num_nodes[graph_of_edge] == n
        adjacency = torch.zeros(len(ids), n, n, dtype=torch.float64)
        adjacency[torch.searchsorted(ids, graph_of_edge[chosen]), edge_index[0, chosen], edge_index[1, chosen]] = 1
        counts[ids] = _count(target, adjacency)
    return counts


def _count(target: str, adjacency: Tensor) -> Tensor:
    """`[G]` how often the pattern occurs in graphs given by their adjacency matrices, `[G, n, n]`."""
    degree, num_common = adjacency.sum(dim=2), adjacency @ adjacency
    triangles_at = (num_common * adjacency).sum(dim=2) / 2
    pairs = (num_common * (num_common - 1) / 2).triu(1)  # of common neighbours of two nodes: each closes a 4-cycle
    return {
        "triangle": triangles_at.sum(dim=1) / 3,
        "tailed_triangle": (triangles_at * (degree - 2)).sum(dim=1),
        "star": (degree * (degree - 1) * (degree - 2)).sum(dim=1) / 6,
        "cycle4": pairs.sum(dim=(1, 2)) / 2,
    }[target]
