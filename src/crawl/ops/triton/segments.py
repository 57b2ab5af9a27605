"""Sums of rows over groups of rows, each in one order: without float atomics, the same bits every time."""

# mypy: allow-untyped-decorators

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from crawl.ops.segments import Segments
from crawl.ops.triton.kernel import kernel

# One program sums a group, which takes long for the hub of a large graph. So where groups may have more places than
# this, others first sum each piece of `_PIECE` places that is within one group.
_LONG = 2048
_PIECE = 512
_SHORT = 32  # places of a group that few threads sum
_TILES = {"short": (256, 128), "rows": (512, 64), "windows": (2048, 64)}  # numbers at once of one warp, and channels


def sum_rows(
    rows: Tensor,
    ptr: Tensor,
    order: Tensor | None = None,
    *,
    longest: int | None = None,
    steps_of: int = 0,
    add: Tensor | None = None,
) -> Tensor:
    """`[K, C]` float32: the sum of the rows of each group.

    Args:
        rows: `[R, C]`, contiguous.
        ptr: `[K + 1]`; group k has the places `ptr[k]` to `ptr[k + 1] - 1`.
        order: The places, group by group; 0, 1, 2, … when None.
        longest: No group has more places; None if that is not known.
        steps_of: If not 0, a place is a step of a walk with this many positions, and its row belongs to the position
            that the step leads to; otherwise a place is a row.
        add: `[K, C]`, contiguous, added to the sums; nothing when None.
    """
    out = rows.new_empty(ptr.numel() - 1, rows.shape[1], dtype=torch.float32)
    _launch(rows, ptr, order, out, None, None, longest, steps_of, 1, is_step=steps_of > 0, add=add)
    return out


def mean_windows(
    windows: Tensor,
    groups: Segments,
    num_positions: int,
    kernel_size: int,
    *,
    are_steps: bool = False,
    is_active: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean of the positive parts of the windows centred at each node, 0 where there are none, and how many windows
    there are, at least 1, `[N]`.

    Args:
        windows: `[W * (T - kernel_size + 1), C]`, walk by walk.
        groups: The positions of each node; or the steps of each edge, for the mean over the windows whose centre was
            reached by the edge.
        num_positions: Positions on a walk (T).
        kernel_size: Positions in a window.
        are_steps: Whether the groups are of steps.
        is_active: int8 in the shape of `windows`, to be filled: which entries are positive.
    """
    ptr, order = groups.places
    out = windows.new_empty(ptr.numel() - 1, windows.shape[1], dtype=torch.float32)
    counts = windows.new_empty(len(out), dtype=torch.float32)
    _launch(
        *(windows, ptr, order, out, counts, is_active, groups.longest, num_positions, kernel_size),
        is_step=are_steps,
    )
    return out, counts


def _launch(
    rows: Tensor,
    ptr: Tensor,
    order: Tensor | None,
    out: Tensor,
    counts: Tensor | None,
    is_active: Tensor | None,
    longest: int | None,
    num_positions: int,
    kernel_size: int,
    *,
    is_step: bool,
    add: Tensor | None = None,
) -> None:
    if out.numel() == 0:
        return
    num_channels = rows.shape[1]
    is_short = longest is not None and longest <= _SHORT
    tile, most_channels = _TILES["short" if is_short else "rows" if counts is None else "windows"]
    block_channels = min(triton.next_power_of_2(num_channels), most_channels)
    num_blocks = triton.cdiv(num_channels, block_channels)
    num_places = len(rows) if order is None else order.numel()
    num_pieces = num_places // _PIECE if min(num_places, longest or num_places) > _LONG else 0
    sums = out.new_empty(num_pieces, num_channels + 1)  # the last column counts
    order, has_order = (ptr, False) if order is None else (order, True)
    settings = {
        "NUM_CHANNELS": num_channels,
        "KERNEL_SIZE": kernel_size,
        "IS_STEP": is_step,
        "IS_WINDOW": counts is not None,
        "FINDS_ACTIVE": is_active is not None,
        "HAS_ORDER": has_order,
        "BLOCK_ROWS": tile // block_channels,
        "BLOCK_CHANNELS": block_channels,
        "PIECE": _PIECE,
        "num_warps": 1,
    }
    is_active = out if is_active is None else is_active
    with torch.cuda.device(rows.get_device()):
        if num_pieces:
            _sum_pieces[(num_pieces, num_blocks)](
                rows, ptr, order, is_active, sums, num_positions, len(out), **settings
            )
        _sum_rows[(len(out), num_blocks)](
            rows, ptr, order, is_active, sums, out, out if counts is None else counts, out if add is None else add,
            num_positions,
            HAS_ADDEND=add is not None, HAS_PIECES=num_pieces > 0, **settings,
        )  # fmt: skip


@kernel("num_positions")
def _sum_rows(
    rows: tl.tensor,
    ptr: tl.tensor,
    order: tl.tensor,
    is_active: tl.tensor,
    sums: tl.tensor,
    out: tl.tensor,
    counts: tl.tensor,
    addend: tl.tensor,
    num_positions: tl.int32,
    NUM_CHANNELS: tl.constexpr,
    KERNEL_SIZE: tl.constexpr,
    IS_STEP: tl.constexpr,
    IS_WINDOW: tl.constexpr,
    FINDS_ACTIVE: tl.constexpr,
    HAS_ORDER: tl.constexpr,
    HAS_ADDEND: tl.constexpr,
    HAS_PIECES: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
    PIECE: tl.constexpr,
) -> None:
    """The sum of each group: places before its first piece, pieces, places after its last piece."""
    group = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
    inside = channel < NUM_CHANNELS
    begin, end = tl.load(ptr + group), tl.load(ptr + group + 1)
    total = tl.zeros([BLOCK_ROWS, BLOCK_CHANNELS], tl.float32)
    count = tl.zeros([BLOCK_ROWS], tl.float32)
    if HAS_PIECES:
        first_piece, last_piece = (begin + PIECE - 1) // PIECE, end // PIECE
        if first_piece < last_piece:
            total, count = _add_places(
                rows, order, is_active, begin, first_piece * PIECE, channel, inside, total, count, num_positions,
                NUM_CHANNELS, KERNEL_SIZE, IS_STEP, IS_WINDOW, FINDS_ACTIVE, HAS_ORDER, BLOCK_ROWS,
            )  # fmt: skip
            for first in range(first_piece, last_piece, BLOCK_ROWS):
                piece = first + tl.arange(0, BLOCK_ROWS)
                is_piece = piece < last_piece
                place = sums + piece * (NUM_CHANNELS + 1)
                mask = is_piece[:, None] & inside[None, :]
                total += tl.load(place[:, None] + channel[None, :], mask=mask, other=0)
                count += tl.load(place + NUM_CHANNELS, mask=is_piece, other=0)
            begin = last_piece * PIECE
    total, count = _add_places(
        rows, order, is_active, begin, end, channel, inside, total, count, num_positions,
        NUM_CHANNELS, KERNEL_SIZE, IS_STEP, IS_WINDOW, FINDS_ACTIVE, HAS_ORDER, BLOCK_ROWS,
    )  # fmt: skip
    value = tl.sum(total, axis=0)
    if IS_WINDOW:
        num_rows = tl.maximum(tl.sum(count, axis=0), 1)
        value = value / num_rows
        if tl.program_id(1) == 0:
            tl.store(counts + group, num_rows)
    if HAS_ADDEND:
        value += tl.load(addend + group * NUM_CHANNELS + channel, mask=inside, other=0)
    tl.store(out + group * NUM_CHANNELS + channel, value, mask=inside)


@kernel("num_positions", "num_groups")
def _sum_pieces(
    rows: tl.tensor,
    ptr: tl.tensor,
    order: tl.tensor,
    is_active: tl.tensor,
    sums: tl.tensor,
    num_positions: tl.int32,
    num_groups: tl.int32,
    NUM_CHANNELS: tl.constexpr,
    KERNEL_SIZE: tl.constexpr,
    IS_STEP: tl.constexpr,
    IS_WINDOW: tl.constexpr,
    FINDS_ACTIVE: tl.constexpr,
    HAS_ORDER: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
    PIECE: tl.constexpr,
) -> None:
    """The sum of each piece that is within one group."""
    piece = tl.program_id(0).to(tl.int64)
    begin, end = piece * PIECE, (piece + 1) * PIECE
    low, high = tl.zeros([], tl.int32), tl.zeros([], tl.int32) + num_groups
    while high - low > 1:  # the last group that begins here or before
        middle = (low + high) // 2
        is_before = tl.load(ptr + middle) <= begin
        low, high = tl.where(is_before, middle, low), tl.where(is_before, high, middle)
    if tl.load(ptr + low + 1) >= end:
        channel = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
        inside = channel < NUM_CHANNELS
        total = tl.zeros([BLOCK_ROWS, BLOCK_CHANNELS], tl.float32)
        count = tl.zeros([BLOCK_ROWS], tl.float32)
        total, count = _add_places(
            rows, order, is_active, begin, end, channel, inside, total, count, num_positions,
            NUM_CHANNELS, KERNEL_SIZE, IS_STEP, IS_WINDOW, FINDS_ACTIVE, HAS_ORDER, BLOCK_ROWS,
        )  # fmt: skip
        place = sums + piece * (NUM_CHANNELS + 1)
        tl.store(place + channel, tl.sum(total, axis=0), mask=inside)
        if tl.program_id(1) == 0:
            tl.store(place + NUM_CHANNELS, tl.sum(count, axis=0))


@triton.jit
def _add_places(
    rows: tl.tensor,
    order: tl.tensor,
    is_active: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    channel: tl.tensor,
    inside: tl.tensor,
    total: tl.tensor,
    count: tl.tensor,
    num_positions: tl.int32,
    NUM_CHANNELS: tl.constexpr,
    KERNEL_SIZE: tl.constexpr,
    IS_STEP: tl.constexpr,
    IS_WINDOW: tl.constexpr,
    FINDS_ACTIVE: tl.constexpr,
    HAS_ORDER: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
) -> tl.tuple:
    """Add the rows of the places from `begin` to `end` - 1, and count the windows among them."""
    for first in range(begin, end, BLOCK_ROWS):
        place = first + tl.arange(0, BLOCK_ROWS)
        is_row = place < end
        if HAS_ORDER:
            place = tl.load(order + place, mask=is_row, other=0)
        row = place.to(tl.int64)
        if IS_STEP:  # its row belongs to the position it leads to
            row += row // (num_positions - 1) + 1
        if IS_WINDOW:  # the row of the window with its centre at this position, if there is one
            walk, position = row // num_positions, row % num_positions
            window = position - KERNEL_SIZE // 2
            num_windows = num_positions - KERNEL_SIZE + 1
            is_row = is_row & (window >= 0) & (window < num_windows)
            row = walk * num_windows + window
            count += is_row.to(tl.float32)
        place = row[:, None] * NUM_CHANNELS + channel[None, :]
        mask = is_row[:, None] & inside[None, :]
        value = tl.load(rows + place, mask=mask, other=0).to(tl.float32)
        if FINDS_ACTIVE:
            tl.store(is_active + place, (value > 0).to(tl.int8), mask=mask)
        if IS_WINDOW:
            value = tl.where(value < 0, 0, value)  # unlike a maximum, it lets NaN through
        total += value
    return total, count


def sum_parts(parts: Tensor) -> Tensor:
    """The sum over the first dimension, float32, of contiguous parts."""
    out = parts.new_empty(parts.shape[1:], dtype=torch.float32)
    if out.numel():
        with torch.cuda.device(parts.get_device()):
            num_parts, block = (512, 8) if len(parts) > 32 else (16, 128)
            grid = (triton.cdiv(out.numel(), block),)
            _sum_parts[grid](parts, out, len(parts), out.numel(), PARTS=num_parts, BLOCK=block)
    return out


@kernel("num_parts", "size")
def _sum_parts(
    parts: tl.tensor, out: tl.tensor, num_parts: tl.int32, size: tl.int32, PARTS: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([PARTS, BLOCK], tl.float32)
    for first in range(0, num_parts, PARTS):
        part = first + tl.arange(0, PARTS)
        mask = (part < num_parts)[:, None] & (place < size)[None, :]
        total += tl.load(parts + part[:, None].to(tl.int64) * size + place[None, :], mask=mask, other=0)
    tl.store(out + place, tl.sum(total, axis=0), mask=place < size)


def spread_rows(rows: Tensor, groups: Tensor, num_rows: Tensor | None = None, add: Tensor | None = None) -> Tensor:
    """`[R, C]` for each row the row of its group; zeros after the first `num_rows` (`[1]` int32, all when None).

    Args:
        rows: `[K, C]`, contiguous.
        groups: `[R]` the group of each row.
        num_rows: How many rows count.
        add: `[R, C]`, contiguous, added to the result, also after the first `num_rows`; nothing when None.
    """
    out = rows.new_empty(groups.numel(), rows.shape[1])
    if out.numel() == 0:
        return out
    with torch.cuda.device(rows.get_device()):
        _spread_rows[(triton.cdiv(out.numel(), 1024),)](
            rows,
            groups,
            groups if num_rows is None else num_rows,
            out if add is None else add,
            out,
            groups.numel(),
            NUM_CHANNELS=rows.shape[1],
            COUNTS_ROWS=num_rows is not None,
            HAS_ADDEND=add is not None,
            BLOCK=1024,
        )
    return out


@kernel("num_slots")
def _spread_rows(
    rows: tl.tensor,
    groups: tl.tensor,
    num_rows: tl.tensor,
    addend: tl.tensor,
    out: tl.tensor,
    num_slots: tl.int32,
    NUM_CHANNELS: tl.constexpr,
    COUNTS_ROWS: tl.constexpr,
    HAS_ADDEND: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, channel = place // NUM_CHANNELS, place % NUM_CHANNELS
    is_slot = row < num_slots
    is_row = is_slot
    if COUNTS_ROWS:
        is_row = row < tl.load(num_rows)
    group = tl.load(groups + row, mask=is_row, other=0).to(tl.int64)
    value = tl.load(rows + group * NUM_CHANNELS + channel, mask=is_row, other=0)
    if HAS_ADDEND:
        value += tl.load(addend + place, mask=is_slot, other=0)
    tl.store(out + place, value, mask=is_slot)
