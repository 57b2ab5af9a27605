"""Pairs of neighbours counted on the CPU with numba, row by row; `coverage.Seen.pairs` says what is counted."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from torch import Tensor

from crawl.graph import Graph
from crawl.walks.cpu_rows import lower_bound


def pairs(graph: Graph, is_walked: Tensor) -> tuple[Tensor, Tensor]:
    """The number of pairs of neighbours in each graph, and of those that an edge in `is_walked` joins."""
    total, seen = np.zeros(graph.num_graphs, np.int64), np.zeros(graph.num_graphs, np.int64)
    arrays = (graph.rowptr, graph.col, graph.edge_id, graph.batch, is_walked)
    _count(*(array.numpy() for array in arrays), total, seen)
    return torch.from_numpy(total), torch.from_numpy(seen)


@njit(nogil=True, cache=True, boundscheck=False)
def _count(rowptr, col, edge_id, batch, is_walked, total, seen):
    for node in range(rowptr.size - 1):
        arc = rowptr[node]
        while arc < rowptr[node + 1]:
            other = col[arc]
            is_seen = False
            while arc < rowptr[node + 1] and col[arc] == other:
                is_seen |= is_walked[edge_id[arc]]
                arc += 1
            back, end = rowptr[other], rowptr[other + 1]
            back = lower_bound(col, back, end, node)
            if other < node and back < end and col[back] == node:
                continue  # the pair was counted there
            while back < end and col[back] == node:
                is_seen |= is_walked[edge_id[back]]
                back += 1
            total[batch[node]] += 1
            seen[batch[node]] += is_seen
