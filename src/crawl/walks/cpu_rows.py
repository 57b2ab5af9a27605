"""Rows of arcs on a CPU, for numba: where arcs are, their masses, and what a block of walks sees in them."""

from __future__ import annotations

import numpy as np
from numba import njit, uint32

from crawl.ops import lanes
from crawl.ops.lanes import LANES

BLOCK = 64  # walks that advance together
_SHORT = 6  # when no lane has more arcs, all lanes look at their first arc, then at their second, ...
_LONG = 64  # lanes with more arcs search; those between read their row in chunks of LANES


@njit(inline="always")
def lower_bound(col, low, high, target):
    """The first arc in [low, high) that leads to `target` or beyond."""
    while low < high:
        middle = (low + high) >> 1
        if col[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")
def arcs_between(col, row, end, target):
    """The range of the arcs in [row, end) that lead to `target`."""
    first = row
    if end - row > _LONG:
        first = lower_bound(col, row, end, target)
    else:
        while first < end and col[first] < target:
            first += 1
    last = first
    while last < end and col[last] == target:
        last += 1
    return first, last


@njit(inline="always")
def is_arc(col, row, end, target):
    """Whether an arc of [row, end) leads to `target`."""
    if end - row > _LONG:
        first = lower_bound(col, row, end, target)
        return first < end and col[first] == target
    found = False
    for arc in range(row, end):
        found |= col[arc] == target
    return found


_equal = lanes.compare("==")
_less = lanes.compare("<")


@njit(inline="always")
def _count(mask):
    """The number of ones in a 16-bit mask."""
    mask = mask - ((mask >> uint32(1)) & uint32(0x5555))
    mask = (mask & uint32(0x3333)) + ((mask >> uint32(2)) & uint32(0x3333))
    mask = (mask + (mask >> uint32(4))) & uint32(0x0F0F)
    return np.int32((mask + (mask >> uint32(8))) & uint32(0x1F))


@njit(inline="always")
def mass_before(cum_weight, row, arc):
    """The mass of the arcs of the row from `row` on that come before the given one."""
    if cum_weight.size == 0:
        return np.int64(arc - row)
    return cum_weight[arc - 1] if arc > row else np.int64(0)


@njit(inline="always")
def arc_at(cum_weight, row, end, mass):
    """The arc in which a number from 0 to the total mass of the row - 1 falls."""
    if cum_weight.size == 0:
        return row + mass
    low, high = row, end
    while low < high:
        middle = (low + high) >> 1
        if cum_weight[middle] <= mass:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def reverse_arc(rowptr, col, node, row, end, arc):
    """The arc that leads back along one of the arcs [row, end) of a node; see `centred.reverse_arc`."""
    target = col[arc]
    rank = arc - arcs_between(col, row, end, target)[0]
    first, last = arcs_between(col, rowptr[target], rowptr[target + 1], node)
    return min(first + rank, last - 1)


@njit
def look_back(
    rowptr, col, visited, here, previous, reach, needs_back, row, degree, neighbour, before, back, identity, adjacency
):
    """Rows, degrees and bits of the nodes at a position of a block of walks, as far back as `reach`.

    With `needs_back` also the numbers of arcs before those that lead to the nodes at the position `previous`, and of
    these.
    """
    longest = np.int32(0)
    for b in range(BLOCK):
        node = visited[here, b]
        row[b] = rowptr[node]
        degree[b] = rowptr[node + 1] - rowptr[node]
        longest = max(longest, degree[b])
        before[b] = back[b] = 0
        identity[b] = adjacency[b] = 0

    for j in range(1, reach + 1):
        for b in range(BLOCK):
            identity[b] |= uint32(visited[here - j, b] == visited[here, b]) << uint32(j - 1)
    if reach >= 2 or needs_back:
        if longest <= _SHORT or col.size < LANES:
            for k in range(longest):
                for b in range(BLOCK):
                    neighbour[b] = col[row[b] + min(np.int32(k), degree[b] - np.int32(1))]
                for j in range(2, reach + 1):
                    for b in range(BLOCK):
                        adjacency[b] |= uint32(visited[here - j, b] == neighbour[b]) << uint32(j - 2)
                if needs_back:
                    for b in range(BLOCK):
                        is_there = np.int32(k < degree[b])
                        before[b] += is_there & np.int32(neighbour[b] < visited[previous, b])
                        back[b] += is_there & np.int32(neighbour[b] == visited[previous, b])
        else:
            for b in range(BLOCK):
                end = row[b] + degree[b]
                bits = uint32(0)
                if degree[b] > _LONG:
                    for j in range(2, reach + 1):
                        bits |= uint32(is_arc(col, row[b], end, visited[here - j, b])) << uint32(j - 2)
                    if needs_back:
                        first, last = arcs_between(col, row[b], end, visited[previous, b])
                        before[b], back[b] = first - row[b], last - first
                else:
                    for chunk in range(row[b], end, LANES):
                        base = min(chunk, col.size - LANES)
                        inside = uint32(0xFFFF) << uint32(chunk - base)
                        if end - base < LANES:
                            inside &= (uint32(1) << uint32(end - base)) - uint32(1)
                        for j in range(2, reach + 1):
                            hit = _equal(col, base, visited[here - j, b]) & inside
                            bits |= uint32(hit != 0) << uint32(j - 2)
                        if needs_back:
                            before[b] += _count(_less(col, base, visited[previous, b]) & inside)
                            back[b] += _count(_equal(col, base, visited[previous, b]) & inside)
                adjacency[b] = bits
