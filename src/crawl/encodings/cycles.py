"""Counts of short cycles through nodes and edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from crawl.checks import whole_number
from crawl.encodings.settings import LONGEST_CYCLE
from crawl.graph import Graph
from crawl.threads import share_out
from crawl.walks.checks import check_graph

_NODES_AT_ONCE = 1024
_MOST_PATHS = 10**10  # that are followed in one piece of work; a minute on a core


class CycleCounts(NamedTuple):
    """How many simple cycles of each length, 3 to the largest, go through each node, `[N, …]`, and edge, `[E, …]`."""

    nodes: Tensor
    edges: Tensor


def cycle_counts(graph: Graph, longest: int = 8) -> CycleCounts:
    """The number of simple cycles of length 3 to `longest` through each node and each edge, int64.

    A cycle visits no node twice, and counts once, whichever way it is walked. Parallel edges and self-loops count as
    one edge and as none.

    Args:
        graph: Edges count in both directions. On any device; computed on the CPU.
        longest: The length of the longest cycles.

    Raises:
        ValueError: If there are so many paths that it would take hours.
    """
    check_graph(graph)
    longest = whole_number("longest", longest, 3, LONGEST_CYCLE)
    device, graph = graph.device, graph.to("cpu")
    source = torch.repeat_interleave(graph.degree.long())
    target = graph.col.long()
    key = torch.minimum(source, target) * graph.num_nodes + torch.maximum(source, target)
    pairs, pair_of_arc = torch.unique(key[source != target], return_inverse=True)
    low, high = pairs // max(graph.num_nodes, 1), pairs % max(graph.num_nodes, 1)
    both = torch.cat([low, high])
    order = torch.argsort(both * graph.num_nodes + torch.cat([high, low]))
    rowptr = torch.zeros(graph.num_nodes + 1, dtype=torch.int64, device="cpu")
    rowptr[1:] = torch.bincount(both, minlength=graph.num_nodes).cumsum(0)
    col, pair = torch.cat([high, low])[order].numpy(), torch.arange(len(pairs), device="cpu").repeat(2)[order].numpy()
    of_nodes = torch.zeros(graph.num_nodes, longest - 2, dtype=torch.int64, device="cpu")
    of_pairs = torch.zeros(len(pairs), longest - 2, dtype=torch.int64, device="cpu")
    # Pieces of whole graphs: what is counted in one of them is written by nobody else.
    last = graph.graph_ptr[1:] // _NODES_AT_ONCE
    is_end = torch.cat([last[1:] != last[:-1], torch.ones(min(len(last), 1), dtype=torch.bool, device="cpu")])
    ends = graph.graph_ptr[1:][is_end].tolist()
    begins = [0, *ends[:-1]]

    def work(piece: int) -> None:
        nodes = (begins[piece], ends[piece])
        counts = (of_nodes.numpy(), of_pairs.numpy())
        if not _count(rowptr.numpy(), col, pair, longest, *nodes, _MOST_PATHS, *counts):
            raise ValueError(
                f"There are more than {_MOST_PATHS:.0e} paths of {longest} edges to follow in some graphs of {graph}: "
                "count shorter cycles."
            )

    share_out(work, len(ends))
    of_edges = torch.zeros(graph.num_edges, longest - 2, dtype=torch.int64, device="cpu")
    of_edges[graph.edge_id.long()[source != target]] = of_pairs[pair_of_arc]
    return CycleCounts(of_nodes.to(device), of_edges.to(device))


@njit(nogil=True, cache=True)
def _count(rowptr, col, pair, longest, begin, end, most_paths, of_nodes, of_edges):
    """Follow all paths from each start over larger nodes; a cycle is found at its smallest node, once each way."""
    path, next_arc = np.zeros(longest + 1, np.int64), np.zeros(longest + 1, np.int64)
    taken = np.zeros(longest + 1, np.int64)
    num_paths = 0
    for start in range(begin, end):
        path[0], next_arc[0], length = start, rowptr[start], 0
        while length >= 0:
            node = path[length]
            if next_arc[length] >= rowptr[node + 1]:
                length -= 1
                continue
            arc = next_arc[length]
            next_arc[length] += 1
            target = col[arc]
            num_paths += 1
            if num_paths > most_paths:
                return False
            # each cycle is met in both directions; of these, count the one whose second node is the smaller
            if target == start and length >= 2 and path[1] < node:
                column = length - 2
                of_edges[pair[arc], column] += 1
                for i in range(length + 1):
                    of_nodes[path[i], column] += 1
                    if i > 0:
                        of_edges[pair[taken[i]], column] += 1
            if target <= start or length + 1 >= longest:
                continue
            is_new = True
            for i in range(1, length + 1):
                if path[i] == target:
                    is_new = False
                    break
            if is_new:
                length += 1
                path[length], taken[length], next_arc[length] = target, arc, rowptr[target]
    return True
