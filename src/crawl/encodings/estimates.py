"""The same probabilities estimated from walks, for graphs that are too large for the exact ones."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from crawl.checks import whole_number
from crawl.encodings.probabilities import mean_of_arcs
from crawl.encodings.settings import MAX_STEPS
from crawl.graph import Graph
from crawl.tensor_checks import in_memory
from crawl.walks.checks import check_graph
from crawl.walks.sampling import sample_walks

_MOST_POSITIONS = 2**24  # of the walks that are in memory at once


def estimate_return_probabilities(graph: Graph, num_steps: int = 20, *, num_walks: int = 100, seed: int = 0) -> Tensor:
    """`[N, num_steps]` float32: the share of `num_walks` walks from each node that are back after 1, 2, … steps.

    An estimate of `return_probabilities` without bias, whose standard deviation is at most 0.5 / √num_walks.

    Args:
        graph: The walks are drawn on its device.
        num_steps: The number of columns.
        num_walks: Walks from each node.
        seed: Of the walks. They also depend on the place of a graph in the batch.

    Raises:
        ValueError: If the walks of a single node are too many for the memory.
    """
    num_steps, num_walks = _checked(graph, num_steps, num_walks)
    with in_memory(f"A table of {num_steps} steps on {graph}"):
        out = torch.zeros(graph.num_nodes, num_steps, device=graph.device)
    for start, nodes in _walks(graph, num_steps, num_walks, seed):
        out[start] = (nodes[:, :, 1:] == start.view(-1, 1, 1)).float().mean(dim=1)
    return out


def estimate_walk_probabilities(graph: Graph, num_steps: int = 20, *, num_walks: int = 100, seed: int = 0) -> Tensor:
    """`[E, num_steps]` float32: for each edge (u, v) the share of walks from u that are at v after 1, 2, … steps.

    An estimate of `walk_probabilities` without bias. The arguments are those of `estimate_return_probabilities`.
    """
    num_steps, num_walks = _checked(graph, num_steps, num_walks)
    with in_memory(f"A table of {num_steps} steps on {graph}"):
        of_arcs = torch.zeros(graph.num_arcs, num_steps, device=graph.device)
    at_once = max(_MOST_POSITIONS // (num_walks * (num_steps + 1)), 1)
    for start, nodes in _walks(graph, num_steps, num_walks, seed):
        row, degree = graph.rowptr[start].long(), graph.degree[start].long()
        owner = torch.repeat_interleave(degree)
        arc = row[owner] + torch.arange(owner.numel(), device=graph.device) - (degree.cumsum(0) - degree)[owner]
        for some_owners, some_arcs in zip(torch.split(owner, at_once), torch.split(arc, at_once), strict=True):
            is_there = nodes[some_owners, :, 1:] == graph.col[some_arcs].view(-1, 1, 1)
            of_arcs[some_arcs] = is_there.float().mean(dim=1)
    return mean_of_arcs(of_arcs, graph)


def _checked(graph: Graph, num_steps: int, num_walks: int) -> tuple[int, int]:
    check_graph(graph)
    num_steps = whole_number("num_steps", num_steps, 1, MAX_STEPS)
    return num_steps, whole_number("num_walks", num_walks, 1, _MOST_POSITIONS // (num_steps + 1))


def _walks(graph: Graph, num_steps: int, num_walks: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Some start nodes, and the nodes of the walks from them, `[n, num_walks, num_steps + 1]`; until every node that
    has an edge was a start."""
    starts = (graph.degree > 0).nonzero().flatten()
    at_once = max(_MOST_POSITIONS // (num_walks * (num_steps + 1)), 1)
    for start in torch.split(starts, at_once):
        repeated = start.repeat_interleave(num_walks)
        keys = repeated * num_walks + torch.arange(num_walks, device=start.device).repeat(len(start))
        walks = sample_walks(graph, num_steps, "uniform", repeated, window_size=0, seed=seed, keys=keys)
        yield start, walks.nodes.view(len(start), num_walks, num_steps + 1)
