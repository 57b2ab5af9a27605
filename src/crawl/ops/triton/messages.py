"""`add_messages` on a GPU: one kernel forward, two backward."""

# mypy: allow-untyped-decorators

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.ops.segments import Segments
from crawl.ops.triton.kernel import kernel
from crawl.ops.triton.segments import sum_rows

_TILE = 256  # values that a program has at once


def add_messages(x: Tensor, edges: Tensor, sources: Segments, targets: Segments) -> Tensor:
    """See `crawl.ops.messages.add_messages`."""
    heard: Tensor = _AddMessages.apply(x, edges, sources, targets)
    return heard


class _AddMessages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, edges: Tensor, sources: Segments, targets: Segments) -> Tensor:
        x, edges = x.contiguous(), edges.contiguous()
        ctx.sources, ctx.targets = sources, targets
        ctx.save_for_backward(x, edges)
        out, (ptr, order) = torch.empty_like(x), targets.places
        if out.numel() == 0:
            return out
        channels = min(triton.next_power_of_2(x.shape[1]), 128)
        with torch.cuda.device(x.get_device()):
            _add_messages[(len(x), triton.cdiv(x.shape[1], channels))](
                x, edges, sources.owner, ptr, ptr if order is None else order, out,
                NUM_CHANNELS=x.shape[1], HAS_ORDER=order is not None, ROWS=_TILE // channels, CHANNELS=channels,
                num_warps=1,
            )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, edges = ctx.saved_tensors
        sources, targets, grad = ctx.sources, ctx.targets, grad.contiguous()
        grad_edges = torch.empty_like(edges)
        if edges.numel():
            with torch.cuda.device(x.get_device()):
                _grad_messages[(triton.cdiv(edges.numel(), 1024),)](
                    x, edges, grad, sources.owner, targets.owner,
                    sources.owner if targets.rows.real is None else targets.rows.real, grad_edges, len(edges),
                    NUM_CHANNELS=x.shape[1], COUNTS_ROWS=targets.rows.real is not None, BLOCK=1024,
                )  # fmt: skip
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = sum_rows(grad_edges, *sources.places, longest=sources.longest, add=grad)
        return grad_x, grad_edges, None, None


@kernel()
def _add_messages(
    x: tl.tensor,
    edges: tl.tensor,
    source: tl.tensor,
    ptr: tl.tensor,
    order: tl.tensor,
    out: tl.tensor,
    NUM_CHANNELS: tl.constexpr,
    HAS_ORDER: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
) -> None:
    node = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < NUM_CHANNELS
    own = tl.load(x + node * NUM_CHANNELS + channel, mask=inside, other=0)
    begin, end = tl.load(ptr + node), tl.load(ptr + node + 1)
    total = tl.zeros([ROWS, CHANNELS], tl.float32)
    for first in range(begin, end, ROWS):
        edge = first + tl.arange(0, ROWS)
        is_edge = edge < end
        if HAS_ORDER:
            edge = tl.load(order + edge, mask=is_edge, other=0)
        other = tl.load(source + edge, mask=is_edge, other=0).to(tl.int64)
        mask = is_edge[:, None] & inside[None, :]
        value = tl.load(x + other[:, None] * NUM_CHANNELS + channel[None, :], mask=mask, other=0)
        value += tl.load(edges + edge.to(tl.int64)[:, None] * NUM_CHANNELS + channel[None, :], mask=mask, other=0)
        total += tl.where(value < 0, 0, value)  # unlike a maximum, it lets NaN through
    tl.store(out + node * NUM_CHANNELS + channel, own + tl.sum(total, axis=0), mask=inside)


@kernel("num_slots")
def _grad_messages(
    x: tl.tensor,
    edges: tl.tensor,
    grad: tl.tensor,
    source: tl.tensor,
    target: tl.tensor,
    num_rows: tl.tensor,
    grad_edges: tl.tensor,
    num_slots: tl.int32,
    NUM_CHANNELS: tl.constexpr,
    COUNTS_ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """The gradient of each message, which is also that of its edge; zeros in padding."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    edge, channel = place // NUM_CHANNELS, place % NUM_CHANNELS
    is_slot = edge < num_slots
    is_edge = is_slot
    if COUNTS_ROWS:
        is_edge = edge < tl.load(num_rows)
    node = tl.load(source + edge, mask=is_edge, other=0).to(tl.int64)
    other = tl.load(target + edge, mask=is_edge, other=0).to(tl.int64)
    value = tl.load(x + node * NUM_CHANNELS + channel, mask=is_edge, other=0)
    value += tl.load(edges + place, mask=is_edge, other=0)
    passed = tl.load(grad + other * NUM_CHANNELS + channel, mask=is_edge, other=0)
    tl.store(grad_edges + place, tl.where(value > 0, passed, 0), mask=is_slot)
