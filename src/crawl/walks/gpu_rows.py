"""Rows of arcs on a GPU: where arcs are, and their masses. Every argument is a block of lanes, one for each walk."""

# mypy: allow-untyped-decorators

from __future__ import annotations

import triton
import triton.language as tl

NO_NODE = tl.constexpr(-1)  # before the first node of a walk
NO_TARGET = tl.constexpr(2**31 - 1)  # after the last arc of a row


@triton.jit
def row_of(rowptr: tl.tensor, node: tl.tensor, is_walk: tl.tensor) -> tl.tuple:
    """The range of the arcs of a node; empty for lanes without a walk."""
    begin = tl.load(rowptr + node, mask=is_walk, other=0)
    end = tl.load(rowptr + (node + 1), mask=is_walk, other=0)
    return begin, end


@triton.jit
def search(values: tl.tensor, begin: tl.tensor, size: tl.tensor, targets: tl.tuple) -> tl.tuple:
    """For each target the first of `size` arcs from `begin` on with a value not below it; the last arc if none has one.

    All targets descend together, so that their loads overlap.
    """
    arcs = (begin,) * len(targets)
    longest = tl.max(size, axis=0)
    while longest > 1:
        half = size >> 1
        for i in tl.static_range(len(targets)):  # a queue: the arc of target i is in front, and goes to the back
            value = tl.load(values + (arcs[0] + half - 1), mask=half > 0, other=0)
            arcs = arcs[1:] + (tl.where(value < targets[i], arcs[0] + half, arcs[0]),)  # noqa: RUF005
        size -= half
        longest -= longest >> 1
    return arcs


@triton.jit
def arcs_between(col: tl.tensor, begin: tl.tensor, end: tl.tensor, target: tl.tensor) -> tl.tuple:
    """The range of the arcs of a row that lead to a target."""
    size = end - begin
    arcs = search(col, begin, size, (target, target + 1))
    first = arcs[0] + (tl.load(col + arcs[0], mask=size > 0, other=NO_TARGET) < target).to(tl.int32)
    last = arcs[1] + (tl.load(col + arcs[1], mask=size > 0, other=NO_TARGET) <= target).to(tl.int32)
    return first, last


@triton.jit
def reverse_arc(
    rowptr: tl.tensor,
    col: tl.tensor,
    node: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    arc: tl.tensor,
    target: tl.tensor,
    is_walk: tl.tensor,
) -> tl.tensor:
    """The arc that leads back from the target of an arc of a node, whose row is given; see `centred.reverse_arc`."""
    first, last = arcs_between(col, begin, end, target)
    rank = arc - first
    begin, end = row_of(rowptr, target, is_walk)
    first, last = arcs_between(col, begin, end, node)
    return tl.minimum(first + rank, last - 1)


@triton.jit
def arc_at(
    cum_weight: tl.tensor, begin: tl.tensor, end: tl.tensor, mass: tl.tensor, IS_WEIGHTED: tl.constexpr
) -> tl.tensor:
    """The arc in which a number from 0 to the total mass of the row - 1 falls."""
    if IS_WEIGHTED:
        return search(cum_weight, begin, end - begin, (mass + 1,))[0]
    else:
        return begin + mass.to(tl.int32)


@triton.jit
def mass_before(cum_weight: tl.tensor, begin: tl.tensor, arc: tl.tensor, IS_WEIGHTED: tl.constexpr) -> tl.tensor:
    """The mass of the arcs of a row that come before the given one; below 2^31."""
    if IS_WEIGHTED:
        return tl.load(cum_weight + (arc - 1), mask=arc > begin, other=0).to(tl.uint32)
    else:
        return (arc - begin).to(tl.uint32)


@triton.jit
def mass_of(
    cum_weight: tl.tensor, begin: tl.tensor, arc: tl.tensor, is_there: tl.tensor, IS_WEIGHTED: tl.constexpr
) -> tl.tensor:
    """The mass of an arc of the row from `begin` on; 0 where there is none."""
    if IS_WEIGHTED:
        to_end = tl.load(cum_weight + arc, mask=is_there, other=0)
        return (to_end - tl.load(cum_weight + (arc - 1), mask=is_there & (arc > begin), other=0)).to(tl.int32)
    else:
        return is_there.to(tl.int32)
