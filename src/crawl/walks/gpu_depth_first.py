"""Depth-first searches on a GPU, step by step; `reference.DepthFirst` specifies them."""

# mypy: allow-untyped-decorators

from __future__ import annotations

import triton
import triton.language as tl

from crawl.walks.gpu_rows import NO_NODE, NO_TARGET, arc_at, arcs_between, mass_before, mass_of


@triton.jit
def parent_in_search(
    nodes: tl.tensor,
    found: tl.tensor,
    stride: tl.tensor,
    here: tl.tensor,
    root: tl.tensor,
    step: tl.int32,
    node_shift: tl.tensor,
    is_walk: tl.tensor,
) -> tl.tensor:
    """The node from which the search found the current one."""
    place = root
    for position in range(step + 1):
        node = tl.load(found + position * stride, mask=is_walk & (position >= root), other=NO_NODE)
        place = tl.where(node == here, position, place)
    has_parent = is_walk & (place > root)
    parent = tl.load(nodes + (place - 1), mask=has_parent, other=0) + node_shift
    return tl.where(has_parent, parent, NO_NODE)


@triton.jit
def depth_first_arc(
    col: tl.tensor,
    cum_weight: tl.tensor,
    found: tl.tensor,
    stride: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    here: tl.tensor,
    parent: tl.tensor,
    word: tl.tensor,
    root: tl.tensor,
    step: tl.int32,
    is_walk: tl.tensor,
    IS_WEIGHTED: tl.constexpr,
) -> tl.tuple:
    """The arc that a search takes, and the position at which the search began; what it finds is stored in `found`."""
    longest = tl.max(end - begin, axis=0)
    free = tl.zeros_like(here)
    for offset in range(0, longest, 4):
        a, b, c, d = _masses_of_new(
            col, cum_weight, found, stride, begin, end, begin + offset, root, step, is_walk, IS_WEIGHTED
        )
        free += a + b + c + d
    first, last = arcs_between(col, begin, end, parent)
    before_back = mass_before(cum_weight, begin, first, IS_WEIGHTED)
    back = mass_before(cum_weight, begin, last, IS_WEIGHTED) - before_back
    is_stuck = free == 0
    goes_back = is_stuck & (back > 0)
    begins = is_stuck & (back == 0)

    first, last = arcs_between(col, begin, end, here)
    before = mass_before(cum_weight, begin, first, IS_WEIGHTED)
    loops = mass_before(cum_weight, begin, last, IS_WEIGHTED) - before
    total = mass_before(cum_weight, begin, end, IS_WEIGHTED)
    skipped = tl.where(loops == total, 0, loops)
    mass = tl.umulhi(word, tl.where(goes_back, back, total - skipped))
    mass += tl.where(goes_back, before_back, tl.where(mass >= before, skipped, 0))
    arc = arc_at(cum_weight, begin, end, tl.where(is_stuck, mass, 0), IS_WEIGHTED)

    left = tl.umulhi(word, free.to(tl.uint32)).to(tl.int32)  # the mass still to be passed; below 0 after the arc
    left = tl.where(is_stuck, -1, left)
    for offset in range(0, longest, 4):
        masses = _masses_of_new(
            col, cum_weight, found, stride, begin, end, begin + offset, root, step, is_walk, IS_WEIGHTED
        )
        for i in tl.static_range(4):
            arc = tl.where((left >= 0) & (left < masses[i]), begin + offset + i, arc)
            left -= masses[i]

    target = tl.load(col + arc, mask=is_walk, other=0)
    is_new = (is_stuck == 0) | (begins & (target != here))
    tl.store(found + step * stride, here, mask=is_walk & begins)
    tl.store(found + (step + 1) * stride, tl.where(is_new, target, NO_NODE), mask=is_walk)
    tl.debug_barrier()  # it is read in the next step
    return arc, tl.where(begins, step, root)


@triton.jit
def _masses_of_new(
    col: tl.tensor,
    cum_weight: tl.tensor,
    found: tl.tensor,
    stride: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    arc: tl.tensor,
    root: tl.tensor,
    step: tl.int32,
    is_walk: tl.tensor,
    IS_WEIGHTED: tl.constexpr,
) -> tl.tuple:
    """The masses of four arcs; 0 for those that lead to a node that the search has found, and after the last arc."""
    a = tl.load(col + arc, mask=arc < end, other=NO_TARGET)
    b = tl.load(col + (arc + 1), mask=arc + 1 < end, other=NO_TARGET)
    c = tl.load(col + (arc + 2), mask=arc + 2 < end, other=NO_TARGET)
    d = tl.load(col + (arc + 3), mask=arc + 3 < end, other=NO_TARGET)
    for position in range(step + 1):
        node = tl.load(found + position * stride, mask=is_walk & (position >= root), other=NO_NODE)
        a = tl.where(a == node, NO_TARGET, a)
        b = tl.where(b == node, NO_TARGET, b)
        c = tl.where(c == node, NO_TARGET, c)
        d = tl.where(d == node, NO_TARGET, d)
    return (
        mass_of(cum_weight, begin, arc, a != NO_TARGET, IS_WEIGHTED),
        mass_of(cum_weight, begin, arc + 1, b != NO_TARGET, IS_WEIGHTED),
        mass_of(cum_weight, begin, arc + 2, c != NO_TARGET, IS_WEIGHTED),
        mass_of(cum_weight, begin, arc + 3, d != NO_TARGET, IS_WEIGHTED),
    )
