"""Whether all arcs lead both ways, on the CPU: the fast twin of `crawl.compressed_rows.one_way_arc_by_search`.

Sources ascend, and so do the targets in a row. So a place in each row, which only moves ahead, is enough to find the
arcs that lead back: every arc is looked at twice, and memory is needed for a number per node.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from torch import Tensor


def one_way_arc_on_cpu(rowptr: Tensor, col: Tensor) -> tuple[int, int] | None:
    """Source and target of the first arc that no arc leads back along; None if each has one."""
    source, target = _one_way_arc(rowptr.numpy(), col.numpy(), rowptr[:-1].numpy().copy())
    return None if source < 0 else (int(source), int(target))


@njit(nogil=True, cache=True)
def _one_way_arc(rowptr, col, place):
    """`place` begins as the first arc of each row."""
    for source in range(len(rowptr) - 1):
        for arc in range(rowptr[source], rowptr[source + 1]):
            target = col[arc]
            back, end = place[target], rowptr[target + 1]
            while back < end and col[back] < source:
                back += 1
            place[target] = back
            if back == end or col[back] != source:
                return np.int64(source), np.int64(target)
    return np.int64(-1), np.int64(-1)
