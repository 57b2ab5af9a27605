"""Walks on the CPU with numba: one pass, shared out in blocks, that draws every step and writes the bits.

A block of walks advances in lockstep, one lane each. A step is a handful of short loops over the lanes, so that the
compiler turns comparisons into vector instructions and the cache misses of different walks overlap instead of waiting
for each other. Long rows, weights, node2vec and depth-first searches take a detour lane by lane. The two arms of
centred walks are drawn one after the other, and their bits are written in a second pass, along the joined walk.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numba import njit, uint32, uint64
from torch import Tensor

from crawl.graph import Graph
from crawl.threads import share_out
from crawl.walks import philox
from crawl.walks.cpu_rows import BLOCK, arc_at, arcs_between, is_arc, look_back, lower_bound, mass_before, reverse_arc
from crawl.walks.reference import code_dtype
from crawl.walks.strategies import StepLaw


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
        law.is_centred,
        0 if law.is_centred else window_size,
        nodes.numpy(),
        edges.numpy(),
        code.numpy(),
    )
    share_out(walk, -(-num_walks // BLOCK))
    return nodes, edges, encode(graph, nodes, window_size) if law.is_centred else code


@torch.compiler.disable
def encode(graph: Graph, nodes: Tensor, window_size: int) -> Tensor:
    """`[W, T]` codes of the bits seen along the given walks; see `reference.encode`, which this equals bit for bit."""
    code = torch.empty(nodes.shape, dtype=code_dtype(window_size), device="cpu")
    look = partial(
        _encode, graph.rowptr.numpy(), graph.col.numpy(), window_size, nodes.int().contiguous().numpy(), code.numpy()
    )
    share_out(look, -(-len(nodes) // BLOCK))
    return code


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
    is_centred,
    window_size,
    nodes,
    edges,
    code,
    block,
):
    """The walks of one block, with their bits, unless they are centred: `_encode` writes those."""
    num_walks, num_positions = nodes.shape
    is_weighted = cum_weight.size > 0
    centre = (num_positions - 1) // 2 if is_centred else 0  # the position of the start
    num_ahead = num_positions - 1 - centre  # steps of the arm that leads ahead
    low = block * BLOCK
    size = min(BLOCK, num_walks - low)
    # position-major copies of this block's output: the lanes of one position lie side by side
    visited = np.empty((num_positions, BLOCK), np.int32)
    walked = np.empty((num_positions, BLOCK), edge_id.dtype)
    packed = np.empty((num_positions, BLOCK), code.dtype)
    key = np.empty(BLOCK, np.int64)
    words = np.empty((4, BLOCK), np.uint32)
    row, degree = np.empty(BLOCK, rowptr.dtype), np.empty(BLOCK, np.int32)
    neighbour, chosen = np.empty(BLOCK, np.int32), np.empty(BLOCK, rowptr.dtype)
    before, back = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)  # arcs that precede, that lead back
    identity, adjacency = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    num_kept = num_positions if is_depth_first else 1
    seen, path = np.empty((BLOCK, num_kept), np.int32), np.empty((BLOCK, num_kept), np.int32)
    lengths = np.ones((BLOCK, 2), np.int32)  # of both
    for b in range(BLOCK):
        w = low + min(b, size - 1)  # spare lanes repeat the last walk
        visited[0, b] = seen[b, 0] = path[b, 0] = start[w]
        key[b] = keys[w]

    for i in range(num_positions):
        here, previous = i, i - 1
        if is_centred and i >= num_ahead > 0:  # the arm that is read backwards begins at the start, too
            here, previous = (0, 1) if i == num_ahead else (i, i - 1 if i > num_ahead + 1 else 0)
        needs_back = i > 0 and (skips_previous or is_node2vec)
        look_back(
            rowptr, col, visited, here, previous, min(window_size, i), needs_back,
            row, degree, neighbour, before, back, identity, adjacency,
        )  # fmt: skip
        for b in range(BLOCK):
            packed[i, b] = uint64(identity[b]) | (uint64(adjacency[b]) << uint64(window_size))
        if i == num_positions - 1:
            break

        if i % 4 == 0:
            for b in range(BLOCK):
                words[0, b], words[1, b], words[2, b], words[3, b] = _philox(seed, i // 4, philox.STEP, key[b])
        if is_depth_first:
            for b in range(BLOCK):
                arc = _depth_first_arc(
                    col, cum_weight, row[b], row[b] + degree[b], visited[i, b], words[i % 4, b],
                    seen[b], path[b], lengths[b],
                )  # fmt: skip
                visited[i + 1, b], walked[i, b] = col[arc], edge_id[arc]
        elif is_node2vec and i > 0:
            for b in range(BLOCK):
                arc = _node2vec_arc(
                    rowptr, col, cum_weight, key[b], seed, node2vec, i, visited[i - 1, b],
                    row[b], row[b] + degree[b], row[b] + before[b], row[b] + before[b] + back[b],
                )  # fmt: skip
                visited[i + 1, b], walked[i, b] = col[arc], edge_id[arc]
        elif is_weighted:
            for b in range(BLOCK):
                first, end = row[b] + before[b], row[b] + degree[b]
                total = mass_before(cum_weight, row[b], end)
                mass_ahead = mass_before(cum_weight, row[b], first)
                skipped = mass_before(cum_weight, row[b], first + back[b]) - mass_ahead
                if skipped == total:
                    skipped = 0
                mass = _scaled(words[i % 4, b], total - skipped)
                if mass >= mass_ahead:
                    mass += skipped
                arc = arc_at(cum_weight, row[b], end, mass)
                visited[i + 1, b], walked[i, b] = col[arc], edge_id[arc]
                chosen[b] = arc
        else:
            for b in range(BLOCK):
                skipped = back[b] if back[b] < degree[b] else np.int32(0)
                choice = np.int32(_scaled(words[i % 4, b], degree[b] - skipped))
                choice += skipped if choice >= before[b] else np.int32(0)
                chosen[b] = row[b] + choice
            for b in range(BLOCK):
                visited[i + 1, b] = col[chosen[b]]
                walked[i, b] = edge_id[chosen[b]]
        if is_centred and i >= num_ahead:
            for b in range(BLOCK):
                end = row[b] + degree[b]
                walked[i, b] = edge_id[reverse_arc(rowptr, col, visited[here, b], row[b], end, chosen[b])]
        if restart > 0:
            for b in range(BLOCK):
                if np.int64(_philox(seed, i, philox.RESTART, key[b])[0]) < restart:
                    visited[i + 1, b], walked[i, b] = visited[0, b], jump

    if is_centred:  # drawn were the start, the arm ahead and the arm that is read backwards
        for b in range(size):
            for i in range(num_positions):
                nodes[low + b, centre + i if i <= num_ahead else num_positions - 1 - i] = visited[i, b]
            for i in range(num_positions - 1):
                edges[low + b, centre + i if i < num_ahead else num_positions - 2 - i] = walked[i, b]
        return
    for b in range(size):
        for i in range(num_positions):
            nodes[low + b, i] = visited[i, b]
            code[low + b, i] = packed[i, b]
        for i in range(num_positions - 1):
            edges[low + b, i] = walked[i, b]


@njit(nogil=True, cache=True, boundscheck=False)
def _encode(rowptr, col, window_size, nodes, code, block):
    """The codes of one block of walks."""
    num_walks, num_positions = nodes.shape
    low = block * BLOCK
    size = min(BLOCK, num_walks - low)
    visited = np.empty((num_positions, BLOCK), np.int32)
    packed = np.empty((num_positions, BLOCK), code.dtype)
    row, degree = np.empty(BLOCK, rowptr.dtype), np.empty(BLOCK, np.int32)
    neighbour = np.empty(BLOCK, np.int32)
    before, back = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)
    identity, adjacency = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for b in range(BLOCK):
        for i in range(num_positions):
            visited[i, b] = nodes[low + min(b, size - 1), i]
    for i in range(num_positions):
        look_back(
            rowptr, col, visited, i, 0, min(window_size, i), False,
            row, degree, neighbour, before, back, identity, adjacency,
        )  # fmt: skip
        for b in range(BLOCK):
            packed[i, b] = uint64(identity[b]) | (uint64(adjacency[b]) << uint64(window_size))
    for b in range(size):
        for i in range(num_positions):
            code[low + b, i] = packed[i, b]


@njit
def _node2vec_arc(rowptr, col, cum_weight, key, seed, law, step, previous, row, end, first, last):
    """An arc of [row, end), of which [first, last) lead back."""
    before = mass_before(cum_weight, row, first)
    back = mass_before(cum_weight, row, last) - before
    ahead = mass_before(cum_weight, row, end) - back
    back_odds, common, other = back * law[0], law[2], law[3]
    odds = back_odds + ahead * law[1]
    attempt = 0
    while True:
        direction, place, chance, _ = _philox(seed, step, philox.FIRST_ATTEMPT + attempt, key)
        if ahead == 0 or _scaled_far(direction, odds) < back_odds:
            return arc_at(cum_weight, row, end, before + _scaled(place, back))
        mass = _scaled(place, ahead)
        if mass >= before:
            mass += back
        arc = arc_at(cum_weight, row, end, mass)
        # whether the target is a neighbour of the previous node is looked up only where that decides
        if np.int64(chance) < min(common, other):
            return arc
        if is_arc(col, rowptr[previous], rowptr[previous + 1], col[arc]) == (common > other):
            return arc
        attempt += 1


@njit
def _depth_first_arc(col, cum_weight, row, end, here, word, seen, path, lengths):
    """An arc of [row, end) for a search that has `seen` these nodes, ascending, and whose `path` leads here.

    It updates them; `lengths` are the numbers of their nodes.
    """
    total = mass_before(cum_weight, row, end)
    free = _mass_to_new(col, cum_weight, row, end, seen[: lengths[0]])
    if free == 0:
        if lengths[1] > 1:
            first, last = arcs_between(col, row, end, path[lengths[1] - 2])
            if first < last:
                lengths[1] -= 1
                before = mass_before(cum_weight, row, first)
                back = mass_before(cum_weight, row, last) - before
                return arc_at(cum_weight, row, end, before + _scaled(word, back))
        seen[0] = path[0] = here
        lengths[:] = 1
        free = _mass_to_new(col, cum_weight, row, end, seen[:1])
        if free == 0:
            return arc_at(cum_weight, row, end, _scaled(word, total))
    mass = _scaled(word, free)
    for arc in range(row, end):
        place = lower_bound(seen, 0, lengths[0], col[arc])
        if place < lengths[0] and seen[place] == col[arc]:
            continue
        mass -= mass_before(cum_weight, row, arc + 1) - mass_before(cum_weight, row, arc)
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
            mass += mass_before(cum_weight, row, arc + 1) - mass_before(cum_weight, row, arc)
    return mass
