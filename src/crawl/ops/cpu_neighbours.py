"""`sum_neighbours` on the CPU, forward and backward: numba adds the rows of neighbours where they are.

In plain torch every edge gets a copy of a row, which on a large graph takes many times the memory and the time. Threads
share out the owners, so that every sum has one order, and no result depends on their number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.ops.segments import Segments
from crawl.threads import share_out

_PIECE = 1024  # owners that a thread takes at a time


@torch.compiler.disable
def sum_neighbours(x: Tensor, sources: Segments, targets: Segments, weight: Tensor | None) -> Tensor:
    """See `crawl.ops.neighbours.sum_neighbours`."""
    heard: Tensor = _SumNeighbours.apply(x, sources, targets, weight)
    return heard


class _SumNeighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sources: Segments, targets: Segments, weight: Tensor | None) -> Tensor:
        ctx.sources, ctx.targets, ctx.weight = sources, targets, weight
        return _summed(x, sources, targets, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _summed(grad, ctx.targets, ctx.sources, ctx.weight), None, None, None


def _summed(x: Tensor, sources: Segments, targets: Segments, weight: Tensor | None) -> Tensor:
    rows, out = x.detach().contiguous(), x.new_zeros(targets.owners.size, x.shape[1])
    ptr, order = (None if each is None else each.numpy() for each in targets.places)
    weights = np.empty(0, rows.numpy().dtype) if weight is None else weight.contiguous().numpy()
    order = np.empty(0, np.int64) if order is None else order
    arrays = (rows.numpy(), sources.owner.numpy(), weights, ptr, order, out.numpy())

    def add(i: int) -> None:
        _add(*arrays, i * _PIECE, min((i + 1) * _PIECE, len(out)))

    share_out(add, -(-len(out) // _PIECE))
    return out


@njit(nogil=True, cache=True)
def _add(rows, source, weights, ptr, order, out, low, high):
    for target in range(low, high):
        for k in range(ptr[target], ptr[target + 1]):
            edge = order[k] if order.size else k
            node = source[edge]
            if weights.size:
                for channel in range(rows.shape[1]):
                    out[target, channel] += weights[edge] * rows[node, channel]
            else:
                for channel in range(rows.shape[1]):
                    out[target, channel] += rows[node, channel]
