"""Walks on the CPU with numba: one pass, shared out in blocks, that draws every step and writes the bits.

A block of walks advances in lockstep, one lane each. A step is a handful of short loops over the lanes, so that the
compiler turns comparisons into vector instructions and the cache misses of different walks overlap instead of waiting
for each other. Long rows, weights, node2vec and depth-first searches take a detour lane by lane.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numba import njit, uint32, uint64
from torch import Tensor

from crawl.graph import Graph
from crawl.ops import lanes
from crawl.ops.lanes import LANES
from crawl.threads import share_out
from crawl.walks import philox
from crawl.walks.reference import StepLaw, code_dtype

_BLOCK = 64  # walks that advance together
_SHORT = 6  # when no lane has more arcs, all lanes look at their first arc, then at their second, ...
_LONG = 64  # lanes with more arcs search; those between read their row in chunks of LANES


@torch.compiler.disable
def sample(
    graph: Graph, start: Tensor, keys: Tensor, num_steps: int, law: StepLaw, window_size: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes, edges and codes of one walk from each start; see `reference.sample`, which this equals bit for bit."""
    if graph.device.type != "cpu":
        raise ValueError(f"backend='numba' needs a graph on the CPU, not on {graph.device}; use backend='auto'.")
    num_walks = start.numel()
    nodes = torch.empty(num_walks, num_steps + 1, dtype=torch.int32, device="cpu")
    edges = torch.empty(num_walks, num_steps, dtype=graph.edge_id.dtype, device="cpu")
    code = torch.empty(num_walks, num_steps + 1, dtype=code_dtype(window_size), device="cpu")
    if num_walks == 0:
        return nodes, edges, code
    cum_weight = np.empty(0, np.int64) if graph.cum_weight is None else graph.cum_weight.numpy()
    walk = partial(
        _walk,
        graph.rowptr.numpy(),
        graph.col.numpy(),
        graph.edge_id.numpy(),
        cum_weight,
        start.numpy(),
        keys.numpy(),
        uint64(seed),
        law.skips_previous,
        law.node2vec is not None,
        np.array(law.node2vec or (0, 0, 0, 0), np.int64),
        law.is_depth_first,
        law.restart,
        graph.num_edges,
        window_size,
        nodes.numpy(),
        edges.numpy(),
        code.numpy(),
    )
    share_out(walk, -(-num_walks // _BLOCK))
    return nodes, edges, code


@njit(inline="always")
def _philox(seed, block, purpose, key):
    c0, c1 = uint32(block), uint32(purpose)
    c2, c3 = uint32(uint64(key) & uint64(0xFFFFFFFF)), uint32(uint64(key) >> uint64(32))
    k0, k1 = uint32(seed & uint64(0xFFFFFFFF)), uint32(seed >> uint64(32))
    for _ in range(philox.NUM_ROUNDS):
        product_a = uint64(c0) * uint64(philox.MULTIPLIER_A)
        product_b = uint64(c2) * uint64(philox.MULTIPLIER_B)
        c0, c1 = uint32(product_b >> uint64(32)) ^ c1 ^ k0, uint32(product_b)
        c2, c3 = uint32(product_a >> uint64(32)) ^ c3 ^ k1, uint32(product_a)
        k0, k1 = uint32(k0 + uint32(philox.INCREMENT_A)), uint32(k1 + uint32(philox.INCREMENT_B))
    return c0, c1, c2, c3


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
def _arcs_between(col, row, end, target):
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
def _is_arc(col, row, end, target):
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
def _mass_before(cum_weight, row, arc):
    if cum_weight.size == 0:
        return np.int64(arc - row)
    return cum_weight[arc - 1] if arc > row else np.int64(0)


@njit(inline="always")
def _arc_at(cum_weight, row, end, mass):
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


@njit(inline="always")
def _scaled(word, total):
    """floor(word * total / 2^32), for a total below 2^32."""
    return np.int64((uint64(word) * uint64(total)) >> uint64(32))


@njit(inline="always")
def _scaled_far(word, total):
    """floor(word * total / 2^32), for a total below 2^63."""
    return np.int64(word) * (total >> 32) + _scaled(word, total & 0xFFFFFFFF)


@njit(nogil=True, cache=True, boundscheck=False)
def _walk(
    rowptr,
    col,
    edge_id,
    cum_weight,
    start,
    keys,
    seed,
    skips_previous,
    is_node2vec,
    node2vec,
    is_depth_first,
    restart,
    jump,
    window_size,
    nodes,
    edges,
    code,
    block,
):
    """The walks of one block."""
    num_walks, num_positions = nodes.shape
    is_weighted = cum_weight.size > 0
    low = block * _BLOCK
    size = min(_BLOCK, num_walks - low)
    # position-major copies of this block's output: the lanes of one position lie side by side
    visited = np.empty((num_positions, _BLOCK), np.int32)
    walked = np.empty((num_positions, _BLOCK), edge_id.dtype)
    packed = np.empty((num_positions, _BLOCK), code.dtype)
    key = np.empty(_BLOCK, np.int64)
    words = np.empty((4, _BLOCK), np.uint32)
    row, degree = np.empty(_BLOCK, rowptr.dtype), np.empty(_BLOCK, np.int32)
    neighbour, chosen = np.empty(_BLOCK, np.int32), np.empty(_BLOCK, rowptr.dtype)
    before, back = np.empty(_BLOCK, np.int32), np.empty(_BLOCK, np.int32)  # arcs that precede, that lead back
    identity, adjacency = np.empty(_BLOCK, np.uint32), np.empty(_BLOCK, np.uint32)
    num_kept = num_positions if is_depth_first else 1
    seen, path = np.empty((_BLOCK, num_kept), np.int32), np.empty((_BLOCK, num_kept), np.int32)
    lengths = np.ones((_BLOCK, 2), np.int32)  # of both
    for b in range(_BLOCK):
        w = low + min(b, size - 1)  # spare lanes repeat the last walk
        visited[0, b] = seen[b, 0] = path[b, 0] = start[w]
        key[b] = keys[w]

    for i in range(num_positions):
        longest = np.int32(0)
        for b in range(_BLOCK):
            here = visited[i, b]
            row[b] = rowptr[here]
            degree[b] = rowptr[here + 1] - rowptr[here]
            longest = max(longest, degree[b])
            before[b] = back[b] = 0
            identity[b] = adjacency[b] = 0

        reach = min(window_size, i)
        for j in range(1, reach + 1):
            for b in range(_BLOCK):
                identity[b] |= uint32(visited[i - j, b] == visited[i, b]) << uint32(j - 1)
        needs_back = i > 0 and (skips_previous or is_node2vec)
        if reach >= 2 or needs_back:
            if longest <= _SHORT or col.size < LANES:
                for k in range(longest):
                    for b in range(_BLOCK):
                        neighbour[b] = col[row[b] + min(np.int32(k), degree[b] - np.int32(1))]
                    for j in range(2, reach + 1):
                        for b in range(_BLOCK):
                            adjacency[b] |= uint32(visited[i - j, b] == neighbour[b]) << uint32(j - 2)
                    if needs_back:
                        for b in range(_BLOCK):
                            is_there = np.int32(k < degree[b])
                            before[b] += is_there & np.int32(neighbour[b] < visited[i - 1, b])
                            back[b] += is_there & np.int32(neighbour[b] == visited[i - 1, b])
            else:
                for b in range(_BLOCK):
                    end = row[b] + degree[b]
                    bits = uint32(0)
                    if degree[b] > _LONG:
                        for j in range(2, reach + 1):
                            bits |= uint32(_is_arc(col, row[b], end, visited[i - j, b])) << uint32(j - 2)
                        if needs_back:
                            first, last = _arcs_between(col, row[b], end, visited[i - 1, b])
                            before[b], back[b] = first - row[b], last - first
                    else:
                        for chunk in range(row[b], end, LANES):
                            base = min(chunk, col.size - LANES)
                            inside = uint32(0xFFFF) << uint32(chunk - base)
                            if end - base < LANES:
                                inside &= (uint32(1) << uint32(end - base)) - uint32(1)
                            for j in range(2, reach + 1):
                                hit = _equal(col, base, visited[i - j, b]) & inside
                                bits |= uint32(hit != 0) << uint32(j - 2)
                            if needs_back:
                                before[b] += _count(_less(col, base, visited[i - 1, b]) & inside)
                                back[b] += _count(_equal(col, base, visited[i - 1, b]) & inside)
                    adjacency[b] = bits
        for b in range(_BLOCK):
            packed[i, b] = uint64(identity[b]) | (uint64(adjacency[b]) << uint64(window_size))
        if i == num_positions - 1:
            break

        if i % 4 == 0:
            for b in range(_BLOCK):
                words[0, b], words[1, b], words[2, b], words[3, b] = _philox(seed, i // 4, philox.STEP, key[b])
        if is_depth_first:
            for b in range(_BLOCK):
                arc = _depth_first_arc(
                    col, cum_weight, row[b], row[b] + degree[b], visited[i, b], words[i % 4, b],
                    seen[b], path[b], lengths[b],
                )  # fmt: skip
                visited[i + 1, b], walked[i, b] = col[arc], edge_id[arc]
        elif is_node2vec and i > 0:
            for b in range(_BLOCK):
                arc = _node2vec_arc(
                    rowptr, col, cum_weight, key[b], seed, node2vec, i, visited[i - 1, b],
                    row[b], row[b] + degree[b], row[b] + before[b], row[b] + before[b] + back[b],
                )  # fmt: skip
                visited[i + 1, b], walked[i, b] = col[arc], edge_id[arc]
        elif is_weighted:
            for b in range(_BLOCK):
                first, end = row[b] + before[b], row[b] + degree[b]
                total = _mass_before(cum_weight, row[b], end)
                mass_before = _mass_before(cum_weight, row[b], first)
                skipped = _mass_before(cum_weight, row[b], first + back[b]) - mass_before
                if skipped == total:
                    skipped = 0
                mass = _scaled(words[i % 4, b], total - skipped)
                if mass >= mass_before:
                    mass += skipped
                arc = _arc_at(cum_weight, row[b], end, mass)
                visited[i + 1, b], walked[i, b] = col[arc], edge_id[arc]
        else:
            for b in range(_BLOCK):
                skipped = back[b] if back[b] < degree[b] else np.int32(0)
                choice = np.int32(_scaled(words[i % 4, b], degree[b] - skipped))
                choice += skipped if choice >= before[b] else np.int32(0)
                chosen[b] = row[b] + choice
            for b in range(_BLOCK):
                visited[i + 1, b] = col[chosen[b]]
                walked[i, b] = edge_id[chosen[b]]
        if restart > 0:
            for b in range(_BLOCK):
                if np.int64(_philox(seed, i, philox.RESTART, key[b])[0]) < restart:
                    visited[i + 1, b], walked[i, b] = visited[0, b], jump

    for b in range(size):
        for i in range(num_positions):
            nodes[low + b, i] = visited[i, b]
            code[low + b, i] = packed[i, b]
        for i in range(num_positions - 1):
            edges[low + b, i] = walked[i, b]


@njit
def _node2vec_arc(rowptr, col, cum_weight, key, seed, law, step, previous, row, end, first, last):
    """An arc of [row, end), of which [first, last) lead back."""
    before = _mass_before(cum_weight, row, first)
    back = _mass_before(cum_weight, row, last) - before
    ahead = _mass_before(cum_weight, row, end) - back
    back_odds, common, other = back * law[0], law[2], law[3]
    odds = back_odds + ahead * law[1]
    attempt = 0
    while True:
        direction, place, chance, _ = _philox(seed, step, philox.FIRST_ATTEMPT + attempt, key)
        if ahead == 0 or _scaled_far(direction, odds) < back_odds:
            return _arc_at(cum_weight, row, end, before + _scaled(place, back))
        mass = _scaled(place, ahead)
        if mass >= before:
            mass += back
        arc = _arc_at(cum_weight, row, end, mass)
        # whether the target is a neighbour of the previous node is looked up only where that decides
        if np.int64(chance) < min(common, other):
            return arc
        if _is_arc(col, rowptr[previous], rowptr[previous + 1], col[arc]) == (common > other):
            return arc
        attempt += 1


@njit
def _depth_first_arc(col, cum_weight, row, end, here, word, seen, path, lengths):
    """An arc of [row, end) for a search that has `seen` these nodes, ascending, and whose `path` leads here.

    It updates them; `lengths` are the numbers of their nodes.
    """
    total = _mass_before(cum_weight, row, end)
    free = _mass_to_new(col, cum_weight, row, end, seen[: lengths[0]])
    if free == 0:
        if lengths[1] > 1:
            first, last = _arcs_between(col, row, end, path[lengths[1] - 2])
            if first < last:
                lengths[1] -= 1
                before = _mass_before(cum_weight, row, first)
                back = _mass_before(cum_weight, row, last) - before
                return _arc_at(cum_weight, row, end, before + _scaled(word, back))
        seen[0] = path[0] = here
        lengths[:] = 1
        free = _mass_to_new(col, cum_weight, row, end, seen[:1])
        if free == 0:
            return _arc_at(cum_weight, row, end, _scaled(word, total))
    mass = _scaled(word, free)
    for arc in range(row, end):
        place = lower_bound(seen, 0, lengths[0], col[arc])
        if place < lengths[0] and seen[place] == col[arc]:
            continue
        mass -= _mass_before(cum_weight, row, arc + 1) - _mass_before(cum_weight, row, arc)
        if mass < 0:
            break
    for k in range(lengths[0], place, -1):
        seen[k] = seen[k - 1]
    seen[place] = path[lengths[1]] = col[arc]
    lengths += 1
    return arc


@njit
def _mass_to_new(col, cum_weight, row, end, seen):
    """The mass of the arcs in [row, end) that lead to a node that is not among these, which ascend."""
    mass = np.int64(0)
    for arc in range(row, end):
        place = lower_bound(seen, 0, seen.size, col[arc])
        if place == seen.size or seen[place] != col[arc]:
            mass += _mass_before(cum_weight, row, arc + 1) - _mass_before(cum_weight, row, arc)
    return mass
