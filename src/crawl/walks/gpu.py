"""Walks on a GPU: one Triton kernel that takes all steps of all walks and writes nodes, edges and codes.

It equals `reference.sample` bit for bit. Each lane is a walk. The nodes of its window stay in registers, and one pass
over the row of the node it has reached gives the adjacency bits and the arcs that lead back. Nothing is stored except
the results and, for depth-first searches, the nodes that they have found. The two arms of centred walks are drawn one
after the other; a second kernel writes their bits, along the joined walks.
"""

# mypy: allow-untyped-decorators

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from crawl.graph import Graph
from crawl.ops.triton.kernel import kernel
from crawl.walks import philox
from crawl.walks.gpu_depth_first import depth_first_arc, parent_in_search
from crawl.walks.gpu_rows import NO_NODE, NO_TARGET, arc_at, mass_before, reverse_arc, row_of, search
from crawl.walks.reference import code_dtype
from crawl.walks.strategies import StepLaw

# A program is one warp: a thread is a walk, no warp waits for another, and a small batch spreads over the whole GPU.
_BLOCK = 32
_LONGEST_SCAN = tl.constexpr(32)  # longer rows are searched instead

_STEP, _FIRST_ATTEMPT = tl.constexpr(philox.STEP), tl.constexpr(philox.FIRST_ATTEMPT)
_RESTART = tl.constexpr(philox.RESTART)


@dataclass(frozen=True)
class Slots:
    """Room for walks, not all of which need be there: the host need not know their number.

    Attributes:
        num_walks: `[1]` int32; only the first this many walks are real.
        node_offset: `[W]` int32; what is taken from the ids of the nodes that a walk visits.
        edge_offset: `[W]` int32; what is taken from the ids of its edges.
        no_node: What stands for the nodes of a walk that is not there.
        no_edge: What stands for its edges.
        jump: What stands for the edge of a jump.
    """

    num_walks: Tensor
    node_offset: Tensor
    edge_offset: Tensor
    no_node: int
    no_edge: int
    jump: int


def sample(
    graph: Graph,
    start: Tensor,
    keys: Tensor,
    num_steps: int,
    law: StepLaw,
    window_size: int,
    seed: int | Tensor,
    slots: Slots | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes `[W, T]`, edges `[W, T - 1]` and codes `[W, T]` of one walk from each of the given start nodes.

    It equals `reference.sample` bit for bit. A seed that is `[1]` int64 on the device (modulo 2^64) may change between
    replays of a CUDA graph. `slots` say which of the walks are there and how their nodes and edges are called; all are,
    by their ids, when None.
    """
    if graph.device.type != "cuda" and isinstance(_walk, triton.JITFunction):
        raise ValueError(
            "backend='triton' needs a graph on an NVIDIA GPU (or TRITON_INTERPRET=1 in the environment); "
            f"this one is on {graph.device}. Use backend='auto', or graph.to('cuda')."
        )
    num_walks = start.numel()
    nodes = torch.empty(num_walks, num_steps + 1, dtype=torch.int32, device=graph.device)
    edges = torch.empty(num_walks, num_steps, dtype=graph.edge_id.dtype, device=graph.device)
    code = torch.empty(num_walks, num_steps + 1, dtype=code_dtype(window_size), device=graph.device)
    if num_walks == 0:
        return nodes, edges, code
    if isinstance(seed, int):
        seed = torch.full((1,), seed - (seed >> 63 << 64), dtype=torch.int64, device=graph.device)
    found = nodes  # not used
    if law.is_depth_first:  # positions first, so that the lanes of a warp read side by side
        found = torch.empty(num_steps + 1, num_walks, dtype=torch.int32, device=graph.device)
    back_odds, ahead_odds, common, other = law.node2vec or (0, 0, 0, 0)
    # Triton launches on the current GPU, which need not be the graph's; -1, for a graph on the CPU, changes nothing.
    with torch.cuda.device(nodes.get_device()):
        _walk[(triton.cdiv(num_walks, _BLOCK),)](
            graph.rowptr,
            graph.col,
            graph.edge_id,
            graph.col if graph.cum_weight is None else graph.cum_weight,
            start.int().contiguous(),
            keys.contiguous(),
            nodes,
            edges,
            code,
            found,
            seed,
            start if slots is None else slots.num_walks,
            start if slots is None else slots.node_offset,
            start if slots is None else slots.edge_offset,
            num_walks,
            num_steps,
            back_odds,
            ahead_odds,
            common,
            other,
            0 if slots is None else slots.no_node,
            0 if slots is None else slots.no_edge,
            graph.num_edges if slots is None else slots.jump,
            law.restart,
            HAS_SLOTS=slots is not None,
            IS_WEIGHTED=graph.is_weighted,
            SKIPS_PREVIOUS=law.skips_previous,
            IS_NODE2VEC=law.node2vec is not None,
            IS_DEPTH_FIRST=law.is_depth_first,
            RESTARTS=law.restart > 0,
            IS_CENTRED=law.is_centred,
            WINDOW_SIZE=0 if law.is_centred else window_size,
            BLOCK=_BLOCK,
            num_warps=1,
        )
    return nodes, edges, encode(graph, nodes, window_size, slots) if law.is_centred else code


def encode(graph: Graph, nodes: Tensor, window_size: int, slots: Slots | None = None) -> Tensor:
    """`[W, T]` codes of the bits seen along the given walks; see `reference.encode`, which this equals bit for bit.

    `slots` are those of `sample`; the codes of walks that are not there are 0.
    """
    nodes = nodes.int().contiguous()
    if window_size == 0 or nodes.numel() == 0:
        return torch.zeros(nodes.shape, dtype=code_dtype(window_size), device=nodes.device)
    code = torch.empty(nodes.shape, dtype=code_dtype(window_size), device=nodes.device)
    with torch.cuda.device(nodes.get_device()):
        _encode[(triton.cdiv(nodes.numel(), _BLOCK),)](
            graph.rowptr,
            graph.col,
            nodes,
            code,
            nodes if slots is None else slots.num_walks,
            nodes if slots is None else slots.node_offset,
            nodes.numel(),
            nodes.shape[1],
            HAS_SLOTS=slots is not None,
            WINDOW_SIZE=window_size,
            BLOCK=_BLOCK,
            num_warps=1,
        )
    return code


# Numbers that change from call to call must not become part of the compiled kernel.
@kernel(
    *("num_slots", "num_steps", "back_odds", "ahead_odds", "common", "other"),
    *("no_node", "no_edge", "jump", "restart"),
)
def _walk(
    rowptr: tl.tensor,
    col: tl.tensor,
    edge_id: tl.tensor,
    cum_weight: tl.tensor,
    start: tl.tensor,
    keys: tl.tensor,
    nodes: tl.tensor,
    edges: tl.tensor,
    code: tl.tensor,
    found: tl.tensor,
    seeds: tl.tensor,
    num_walks: tl.tensor,
    node_offset: tl.tensor,
    edge_offset: tl.tensor,
    num_slots: tl.int32,
    num_steps: tl.int32,
    back_odds: tl.int64,
    ahead_odds: tl.int64,
    common: tl.int64,
    other: tl.int64,
    no_node: tl.int32,
    no_edge: tl.int64,
    jump: tl.int64,
    restart: tl.int64,
    HAS_SLOTS: tl.constexpr,
    IS_WEIGHTED: tl.constexpr,
    SKIPS_PREVIOUS: tl.constexpr,
    IS_NODE2VEC: tl.constexpr,
    IS_DEPTH_FIRST: tl.constexpr,
    RESTARTS: tl.constexpr,
    IS_CENTRED: tl.constexpr,
    WINDOW_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    walk = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_slot = walk < num_slots
    is_walk = is_slot
    seed = tl.load(seeds).to(tl.uint64, bitcast=True)
    node_shift = tl.zeros([BLOCK], tl.int32)
    edge_shift = node_shift
    if HAS_SLOTS:
        is_walk = walk < tl.load(num_walks)
        node_shift = tl.load(node_offset + walk, mask=is_walk, other=0)
        edge_shift = tl.load(edge_offset + walk, mask=is_walk, other=0)
    nodes += walk.to(tl.int64) * (num_steps + 1)
    edges += walk.to(tl.int64) * num_steps
    code += walk.to(tl.int64) * (num_steps + 1)
    key = tl.load(keys + walk, mask=is_walk, other=0)
    key_low, key_high = key.to(tl.uint32), (key >> 32).to(tl.uint32)

    here = tl.load(start + walk, mask=is_walk, other=no_node)
    begin, end = row_of(rowptr, here, is_walk)
    first, last = begin, begin  # the arcs that lead back: none yet
    window = (tl.full([BLOCK], NO_NODE, tl.int32),) * max(WINDOW_SIZE, 1)  # the nodes before `here`, latest first
    word_0 = tl.zeros([BLOCK], tl.uint32)
    word_1, word_2, word_3 = word_0, word_0, word_0
    root = tl.zeros([BLOCK], tl.int32)  # the position at which the depth-first search began
    stride = num_slots.to(tl.int64)
    if IS_DEPTH_FIRST:
        found += walk
        tl.store(found, here, mask=is_walk)
    centre = 0  # the position of the start
    if IS_CENTRED:
        centre = num_steps // 2
    num_ahead = num_steps - centre
    first_ahead = here
    tl.store(nodes + centre, here - node_shift, mask=is_slot)
    if not IS_CENTRED:
        tl.store(code, tl.zeros([BLOCK], code.dtype.element_ty), mask=is_slot)

    for step in range(num_steps):
        total = mass_before(cum_weight, begin, end, IS_WEIGHTED)
        before = mass_before(cum_weight, begin, first, IS_WEIGHTED)
        back = mass_before(cum_weight, begin, last, IS_WEIGHTED) - before
        if IS_NODE2VEC:
            ahead = total - back
            back_mass = back.to(tl.uint64) * back_odds.to(tl.uint64)
            both_mass = back_mass + ahead.to(tl.uint64) * ahead_odds.to(tl.uint64)
            arc = begin
            is_open = is_walk
            attempt = 0
            while tl.max(is_open.to(tl.int32), axis=0) > 0:
                purpose = tl.where(step == 0, _STEP, _FIRST_ATTEMPT + attempt)
                direction, place, chance, _ = tl.philox(seed, step, purpose, key_low, key_high)
                place = tl.where(step == 0, direction, place)
                goes_back = tl.umulhi(direction.to(tl.uint64) << 32, both_mass) < back_mass
                goes_back = goes_back | (ahead == 0)
                mass = tl.umulhi(place, tl.where(goes_back, back, ahead))
                mass += tl.where(goes_back, before, tl.where(mass >= before, back, 0))
                drawn = arc_at(cum_weight, begin, end, mass, IS_WEIGHTED)
                arc = tl.where(is_open, drawn, arc)
                is_open = is_open & (goes_back == 0) & (step > 0)
                target = tl.load(col + arc, mask=is_open, other=0)
                # Read again, not carried from step to step: Triton 3.6 mixes up such copies of loop variables.
                previous_begin, previous_end = row_of(rowptr, window[0], is_open)
                size = previous_end - previous_begin
                near = search(col, previous_begin, size, (target,))[0]
                is_common = tl.load(col + near, mask=size > 0, other=NO_TARGET) == target
                is_open = is_open & (chance.to(tl.int64) >= tl.where(is_common, common, other))
                attempt += 1
        else:
            if step % 4 == 0:  # a Philox block holds the words of four steps
                word_0, word_1, word_2, word_3 = tl.philox(seed, step // 4, _STEP, key_low, key_high)
            if IS_DEPTH_FIRST:
                parent = parent_in_search(nodes, found, stride, here, root, step, node_shift, is_walk)
                arc, root = depth_first_arc(
                    col, cum_weight, found, stride, begin, end, here, parent, word_0, root, step, is_walk, IS_WEIGHTED
                )
            else:
                skipped = tl.where(back == total, 0, back)
                mass = tl.umulhi(word_0, total - skipped)
                mass = tl.where(mass >= before, mass + skipped, mass)
                arc = arc_at(cum_weight, begin, end, mass, IS_WEIGHTED)
            word_0, word_1, word_2 = word_1, word_2, word_3

        window = (here,) + window[:-1]  # noqa: RUF005 - Triton cannot unpack with a star
        here = tl.load(col + arc, mask=is_walk, other=no_node)
        edge = tl.load(edge_id + arc, mask=is_walk, other=no_edge)
        if RESTARTS:
            chance, _, _, _ = tl.philox(seed, step, _RESTART, key_low, key_high)
            jumps = is_walk & (chance.to(tl.int64) < restart)
            here = tl.where(jumps, tl.load(start + walk, mask=is_walk, other=no_node), here)
            edge = tl.where(jumps, (jump + edge_shift).to(edge.dtype), edge)
        node, node_place, edge_place = here, step + 1, step
        if IS_CENTRED:
            if step >= num_ahead:  # the arm that is read backwards
                arc = reverse_arc(rowptr, col, window[0], begin, end, arc, here, is_walk)
                edge = tl.load(edge_id + arc, mask=is_walk, other=no_edge)
            is_ahead = step < num_ahead
            node_place = tl.where(is_ahead, centre + step + 1, num_steps - 1 - step)
            edge_place = tl.where(is_ahead, centre + step, num_steps - 1 - step)
            first_ahead = tl.where(step == 0, here, first_ahead)
            turns = step + 1 == num_ahead  # to the start, as if the walk had come from the first node ahead
            here = tl.where(turns, tl.load(start + walk, mask=is_walk, other=no_node), here)
            window = (tl.where(turns, first_ahead, window[0]),) + window[1:]  # noqa: RUF005
        begin, end = row_of(rowptr, here, is_walk)
        bits, first, last = _look_back(col, begin, end, here, window, SKIPS_PREVIOUS or IS_NODE2VEC, WINDOW_SIZE)
        # Stores come last: a store waits for its value, and the loads after it would wait with it.
        tl.store(nodes + node_place, node - node_shift, mask=is_slot)
        tl.store(edges + edge_place, edge - edge_shift, mask=is_slot)
        if not IS_CENTRED:
            tl.store(code + (step + 1), bits.to(code.dtype.element_ty), mask=is_slot)


@kernel("num_places", "num_positions")
def _encode(
    rowptr: tl.tensor,
    col: tl.tensor,
    nodes: tl.tensor,
    code: tl.tensor,
    num_walks: tl.tensor,
    node_offset: tl.tensor,
    num_places: tl.int64,
    num_positions: tl.int32,
    HAS_SLOTS: tl.constexpr,
    WINDOW_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Each lane is a position of a walk."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    walk, position = place // num_positions, place % num_positions
    is_place = place < num_places
    is_walk = is_place
    shift = tl.zeros([BLOCK], tl.int32)
    if HAS_SLOTS:
        is_walk = is_place & (walk < tl.load(num_walks))
        shift = tl.load(node_offset + walk, mask=is_walk, other=0)
    here = tl.load(nodes + place, mask=is_walk, other=0) + shift
    window = (here,) * WINDOW_SIZE
    for j in tl.static_range(1, WINDOW_SIZE + 1):  # a queue, so that the latest node comes first in the end
        is_there = is_walk & (position >= j)
        node = tl.load(nodes + (place - j), mask=is_there, other=0) + shift
        window = window[1:] + (tl.where(is_there, node, NO_NODE),)  # noqa: RUF005
    begin, end = row_of(rowptr, here, is_walk)
    bits, _, _ = _look_back(col, begin, end, here, window, False, WINDOW_SIZE)
    tl.store(code + place, bits.to(code.dtype.element_ty), mask=is_place)


@triton.jit
def _look_back(
    col: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    here: tl.tensor,
    window: tl.tuple,
    FINDS_PREVIOUS: tl.constexpr,
    WINDOW_SIZE: tl.constexpr,
) -> tl.tuple:
    """The code of a node, and the range of its arcs that lead to the previous node (looked for with FINDS_PREVIOUS)."""
    bits = tl.zeros_like(here).to(tl.int32 if WINDOW_SIZE <= 16 else tl.int64)
    for i in tl.static_range(WINDOW_SIZE):
        bits |= (here == window[i]).to(bits.dtype) << i
    previous, others = window[0], window[1:]
    first, last = begin, begin
    if FINDS_PREVIOUS or WINDOW_SIZE >= 2:
        degree = end - begin
        longest = tl.max(degree, axis=0)
        scanned = tl.where(degree <= _LONGEST_SCAN, degree, 0)
        for offset in range(0, tl.minimum(longest, _LONGEST_SCAN), 4):
            a = tl.load(col + (begin + offset), mask=offset < scanned, other=NO_TARGET)
            b = tl.load(col + (begin + offset + 1), mask=offset + 1 < scanned, other=NO_TARGET)
            c = tl.load(col + (begin + offset + 2), mask=offset + 2 < scanned, other=NO_TARGET)
            d = tl.load(col + (begin + offset + 3), mask=offset + 3 < scanned, other=NO_TARGET)
            for i in tl.static_range(len(others)):
                is_seen = (a == others[i]) | (b == others[i]) | (c == others[i]) | (d == others[i])
                bits |= is_seen.to(bits.dtype) << (WINDOW_SIZE + i)
            if FINDS_PREVIOUS:
                first += _count(a < previous, b < previous, c < previous, d < previous)
                last += _count(a <= previous, b <= previous, c <= previous, d <= previous)

        if longest > _LONGEST_SCAN:
            searched = degree - scanned
            for_range = (previous, previous + 1) if FINDS_PREVIOUS else ()
            arcs = search(col, begin, searched, others + for_range)
            for i in tl.static_range(len(others)):
                target = tl.load(col + arcs[i], mask=searched > 0, other=NO_TARGET)
                bits |= (target == others[i]).to(bits.dtype) << (WINDOW_SIZE + i)
            if FINDS_PREVIOUS:
                target = tl.load(col + arcs[-2], mask=searched > 0, other=0)
                first = tl.where(searched > 0, arcs[-2] + (target < previous).to(tl.int32), first)
                target = tl.load(col + arcs[-1], mask=searched > 0, other=0)
                last = tl.where(searched > 0, arcs[-1] + (target <= previous).to(tl.int32), last)
    return bits, first, last


@triton.jit
def _count(a: tl.tensor, b: tl.tensor, c: tl.tensor, d: tl.tensor) -> tl.tensor:
    return a.to(tl.int32) + b.to(tl.int32) + c.to(tl.int32) + d.to(tl.int32)
