"""All edges among some nodes of a graph, on the CPU: the fast twin of `crawl.data.closed.induced_edges`.

The neighbours of a node and the visited nodes of a target are both ascending. Where a node has far more neighbours than
there are visited nodes, each of these is looked for among the neighbours; else both lists are read side by side. So a
node of very many neighbours costs little.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor


def induced_edges_on_cpu(
    rowptr: Tensor, col: Tensor, edge_id: Tensor, node: Tensor, ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """`[2, e]` rows of `node`, and `[e]` edges; the nodes `node[ptr[i]:ptr[i + 1]]` of target i are ascending."""
    arrays = tuple(tensor.numpy() for tensor in (rowptr, col, node, ptr))
    count = np.zeros(len(node) + 1, np.int64)
    nothing = np.empty(0, np.int64)
    _arcs(*arrays, count, nothing, nothing, nothing, False)
    begin = count.cumsum()
    source, stop, arc = (np.empty(begin[-1], np.int64) for _ in range(3))
    _arcs(*arrays, begin, source, stop, arc, True)
    edges = edge_id[torch.from_numpy(arc)].long()
    return torch.from_numpy(np.stack([source, stop])), edges


@njit(nogil=True, cache=True)
def _arcs(
    rowptr: Any,
    col: Any,
    node: Any,
    ptr: Any,
    begin: Any,
    source: Any,
    stop: Any,
    arc: Any,
    is_written: bool,
) -> None:
    """Count the arcs of row i in `begin[i + 1]`, or write them from `begin[i]` on."""
    for target in range(len(ptr) - 1):
        low, high = ptr[target], ptr[target + 1]
        for i in range(low, high):
            first, last = np.int64(rowptr[node[i]]), np.int64(rowptr[node[i] + 1])
            at = begin[i]
            num = 0
            is_large = last - first > 16 * (high - low)
            a, j = first, low
            while a < last and j < high:
                wanted = node[j]
                if is_large:
                    a += np.searchsorted(col[a:last], wanted)
                    if a == last:
                        break
                if col[a] < wanted:
                    a += 1
                elif col[a] > wanted:
                    j += 1
                else:
                    if is_written:
                        source[at + num], stop[at + num], arc[at + num] = i, j, a
                    num += 1
                    a += 1
            if not is_written:
                begin[i + 1] = num
