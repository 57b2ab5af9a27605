"""Sums of rows over groups of rows, each in one order: without float atomics, the same bits every time."""

# mypy: allow-untyped-decorators

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# How a place in `order` becomes a row.
ROWS = tl.constexpr(0)  # it is the row
WINDOWS = tl.constexpr(1)  # a position on a walk: the row of the window with its centre there, if there is one
STEPS = tl.constexpr(2)  # a step of a walk: the row of the position it leads to


def sum_rows(
    rows: Tensor,
    ptr: Tensor,
    order: Tensor | None = None,
    *,
    places: tl.constexpr = ROWS,
    num_positions: int = 1,
    kernel_size: int = 1,
    mean: bool = False,
) -> tuple[Tensor, Tensor]:
    """The sum (or mean) of the rows of each group, `[K, C]` float32, and how many rows it has, `[K]` float32.

    Args:
        rows: `[R, C]`, contiguous.
        ptr: `[K + 1]`; group k has the places `ptr[k]` to `ptr[k + 1] - 1`.
        order: The places, group by group; the places are 0, 1, 2, … when None.
        places: What a place is: ROWS, WINDOWS or STEPS.
        num_positions: Positions on a walk; for WINDOWS and STEPS.
        kernel_size: Positions in a window; for WINDOWS.
        mean: Divide by the number of rows; an empty group is 0.
    """
    num_groups, num_channels = ptr.numel() - 1, rows.shape[1]
    out = rows.new_empty(num_groups, num_channels, dtype=torch.float32)
    counts = rows.new_empty(num_groups, dtype=torch.float32)
    if num_groups == 0:
        return out, counts
    block_channels = min(triton.next_power_of_2(num_channels), 256)
    with torch.cuda.device(rows.get_device()):
        _sum_rows[(num_groups, triton.cdiv(num_channels, block_channels))](
            rows,
            ptr,
            ptr if order is None else order,
            out,
            counts,
            num_positions,
            NUM_CHANNELS=num_channels,
            KERNEL_SIZE=kernel_size,
            PLACES=places,
            HAS_ORDER=order is not None,
            IS_MEAN=mean,
            BLOCK_ROWS=max(1024 // block_channels, 4),
            BLOCK_CHANNELS=block_channels,
            num_warps=4,
        )
    return out, counts


@triton.jit(do_not_specialize=["num_positions"])
def _sum_rows(
    rows: tl.tensor,
    ptr: tl.tensor,
    order: tl.tensor,
    out: tl.tensor,
    counts: tl.tensor,
    num_positions: tl.int32,
    NUM_CHANNELS: tl.constexpr,
    KERNEL_SIZE: tl.constexpr,
    PLACES: tl.constexpr,
    HAS_ORDER: tl.constexpr,
    IS_MEAN: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
) -> None:
    group = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
    inside = (channel < NUM_CHANNELS)[None, :]
    begin, end = tl.load(ptr + group), tl.load(ptr + group + 1)
    total = tl.zeros([BLOCK_ROWS, BLOCK_CHANNELS], tl.float32)
    count = tl.zeros([BLOCK_ROWS], tl.float32)
    for first in range(begin, end, BLOCK_ROWS):
        place = first + tl.arange(0, BLOCK_ROWS)
        is_row = place < end
        if HAS_ORDER:
            place = tl.load(order + place, mask=is_row, other=0)
        row = place.to(tl.int64)
        if PLACES == WINDOWS:
            walk, position = row // num_positions, row % num_positions
            window = position - KERNEL_SIZE // 2
            num_windows = num_positions - KERNEL_SIZE + 1
            is_row = is_row & (window >= 0) & (window < num_windows)
            row = walk * num_windows + window
        if PLACES == STEPS:
            row += row // (num_positions - 1) + 1
        total += tl.load(
            rows + row[:, None] * NUM_CHANNELS + channel[None, :], mask=is_row[:, None] & inside, other=0
        ).to(tl.float32)
        count += is_row.to(tl.float32)
    num_rows = tl.sum(count, axis=0)
    value = tl.sum(total, axis=0)
    if IS_MEAN:
        value = value / tl.maximum(num_rows, 1)
    tl.store(out + group * NUM_CHANNELS + channel, value, mask=channel < NUM_CHANNELS)
    if tl.program_id(1) == 0:
        tl.store(counts + group, num_rows)
