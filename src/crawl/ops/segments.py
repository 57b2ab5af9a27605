"""Many rows, one owner each: sums over the rows of each owner, and what an owner says to its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.checks import MAX_COUNT, shown, whole_number
from crawl.ops.backends import fast_module
from crawl.tensor_checks import holds_integers, plain_tensor

_SMALL_VARIANCE = 1e-5


@dataclass(frozen=True)
class Rows:
    """The number of rows of a tensor.

    Attributes:
        size: How many there are.
        real: `[1]` int32 on the device: only this many, the first ones, are real, the rest is padding. None for all.
    """

    size: int
    real: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Segments:
    """A map from rows to owners: from nodes to graphs, from edges to nodes, from walk positions to nodes or edges.

    Build one with `Segments.of`. On a GPU every sum adds in one order, so its bits repeat.

    Attributes:
        owner: `[R]` the owner of each row. A padding row has one that exists, so plain torch is safe on it.
        rows: The rows (R).
        owners: The owners (K).
        ptr: `[K + 1]`; the rows of owner k are `order[ptr[k]:ptr[k + 1]]`, without padding. Worked out when needed if
            None.
        order: `[R]` the rows, owner by owner; None if they come in this order by themselves.
        longest: No owner has more rows; None if the host does not know.
    """

    owner: Tensor
    rows: Rows
    owners: Rows
    ptr: Tensor | None = None
    order: Tensor | None = None
    longest: int | None = None

    def __post_init__(self) -> None:
        for name in ("owner", "ptr", "order"):  # kernels read them one after the other
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, values.contiguous())

    @classmethod
    def of(cls, owner: Tensor, num_owners: int) -> Segments:
        """The segments given by the owner of each row, from 0 to `num_owners` - 1.

        Raises:
            ValueError: If `owner` is not a list of whole numbers, or `num_owners` not a number of owners; on a CPU also
                if an owner is outside of them. On a GPU the host would wait, so it does not look.
        """
        num_owners = whole_number("num_owners", num_owners, 0, MAX_COUNT)
        if not holds_integers(owner) or owner.dim() != 1:
            raise ValueError(f"owner must be a tensor of integers, one for each row, not {shown(owner)}.")
        owner = owner if owner.dtype in (torch.int32, torch.int64) else owner.long()
        if owner.numel() and owner.device.type == "cpu":
            low, high = (int(bound) for bound in torch.aminmax(owner))
            if low < 0 or high >= num_owners:
                found = low if low < 0 else high
                raise ValueError(f"Owners are from 0 to num_owners - 1, but one is {found} of {num_owners}.")
        return cls(owner, Rows(owner.numel()), Rows(num_owners))

    @cached_property
    def places(self) -> tuple[Tensor, Tensor | None]:
        """`ptr` and `order`, worked out from `owner` where they are not given."""
        if self.ptr is not None:
            return self.ptr, self.order
        return places_of(self.owner, self.owners.size)

    @cached_property
    def count(self) -> Tensor:
        """`[K]` the number of rows of each owner, without padding."""
        if self.ptr is None and self.owner.device.type == "cpu":
            return counted(self.owner, self.owners.size)
        return self.places[0].diff()

    def sum(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """`[K, …]` the sum of the rows of each owner, 0 for an owner without rows; with `add` added to it."""
        flat = _flat(x, self.rows.size, "row")
        addend = None if add is None else _flat(add, self.owners.size, "owner", x)
        kernels = fast_module("segments", flat.device, flat.dtype)
        if kernels is not None:
            total: Tensor = _Moved.apply(flat, addend, self, kernels, True)  # type: ignore[no-untyped-call]
            return total.view(-1, *x.shape[1:])
        total = flat.new_zeros(self.owners.size, flat.shape[1]).index_add(0, self.owner, flat).view(-1, *x.shape[1:])
        return total if add is None else add + total

    def mean(self, x: Tensor) -> Tensor:
        """`[K, …]` the mean of the rows of each owner; 0 for an owner without rows."""
        return self.sum(x) / self.count.clamp_min(1).view(-1, *[1] * (x.dim() - 1))

    def max(self, x: Tensor) -> Tensor:
        """`[K, …]` the largest value of the rows of each owner; 0 for an owner without rows."""
        flat = _flat(x, self.rows.size, "row")
        index = self.owner.long().unsqueeze(1).expand_as(flat)
        low = flat.new_zeros(self.owners.size, flat.shape[1])
        return low.scatter_reduce(0, index, flat, "amax", include_self=False).view(-1, *x.shape[1:])

    def min(self, x: Tensor) -> Tensor:
        """`[K, …]` the smallest value of the rows of each owner; 0 for an owner without rows."""
        return -self.max(-plain_tensor("values", x))

    def std(self, x: Tensor) -> Tensor:
        """`[K, …]` the standard deviation of the rows of each owner, which divides by their number.

        Where the variance is at most 1e-5, it is 0 without a gradient, as in PyG: a root has none at 0.
        """
        deviation = x - self.spread(self.mean(x))
        variance = self.mean(deviation.square())
        varies = variance > _SMALL_VARIANCE
        return torch.where(varies, variance, 1).sqrt() * varies

    def softmax(self, x: Tensor) -> Tensor:
        """`[R, …]` values that add up to 1 over the rows of each owner."""
        largest = self.max(plain_tensor("values", x).detach())
        raised = (x - largest[self.owner]).exp()
        return raised / self.spread(self.sum(raised)).clamp_min(torch.finfo(x.dtype).tiny)

    def spread(self, y: Tensor, add: Tensor | None = None) -> Tensor:
        """`[R, …]` for each row the row of its owner, with `add` added to it; what padding rows get has no meaning."""
        flat = _flat(y, self.owners.size, "owner")
        addend = None if add is None else _flat(add, self.rows.size, "row", y)
        kernels = fast_module("segments", flat.device, flat.dtype)
        if kernels is not None:
            rows: Tensor = _Moved.apply(flat, addend, self, kernels, False)  # type: ignore[no-untyped-call]
            return rows.view(-1, *y.shape[1:])
        return y[self.owner] if add is None else add + y[self.owner]

    @cached_property
    def slots(self) -> Segments:
        """The rows in a grid `[K, L]`, L being `longest`: slot k * L + i is the owner of row i of owner k.

        `slots.sum(x)` lays rows out in the grid, with zeros in empty slots, and `slots.spread` brings them back. If
        the host does not know `longest`, it asks the device.
        """
        ptr, order = self.places
        longest = self.longest if self.longest is not None else max(self.count.tolist(), default=0)
        longest = max(longest, 1)
        rank = torch.arange(self.rows.size, device=ptr.device)
        if order is not None:
            rank = torch.zeros_like(rank).scatter_(0, order.long(), rank[: order.numel()])
        owner = self.owner.long()
        slot = owner * longest + (rank - ptr[owner]).clamp(0, longest - 1)  # padding may have any rank
        filled = torch.minimum(torch.arange(longest, device=ptr.device), self.count.unsqueeze(1))
        grid_ptr = torch.cat([(ptr[:-1].unsqueeze(1) + filled).flatten(), ptr[-1:]])
        return Segments(slot, self.rows, Rows(self.owners.size * longest), grid_ptr, order, 1)


def _flat(values: Tensor, number: int, of: str, like: Tensor | None = None) -> Tensor:
    """`[number, C]`: as many rows as there are; as wide as another tensor, if there is one."""
    flat = plain_tensor("values", values)
    fits = flat.is_floating_point() and flat.dim() > 0 and flat.shape[0] == number
    if not fits or (like is not None and flat.shape[1:] != like.shape[1:]):
        shape = [number, *(["C"] if like is None else like.shape[1:])]
        raise ValueError(f"Give floating-point numbers for each {of}, of shape {shape}, not {shown(values)}.")
    return flat.flatten(1) if flat.dim() > 1 else flat.unsqueeze(1)


def counted(owner: Tensor, num_owners: int) -> Tensor:
    """`[num_owners]` int64: the rows of each owner. Unlike that of `bincount`, its shape does not depend on values."""
    ones = torch.ones_like(owner, dtype=torch.int64)
    return torch.zeros(num_owners, dtype=torch.int64, device=owner.device).index_add(0, owner, ones)


def places_of(owner: Tensor, num_owners: int) -> tuple[Tensor, Tensor]:
    """`ptr` `[K + 1]` and `order` `[R]` of `Segments`; the owner `num_owners` stands for nobody."""
    dtype = torch.int16 if num_owners < 2**15 else torch.int32  # a radix sort of fewer bits is faster
    keys, order = torch.sort(owner.to(dtype), stable=True)
    return torch.searchsorted(keys, torch.arange(num_owners + 1, dtype=dtype, device=owner.device)), order


class _Moved(torch.autograd.Function):
    """Rows that are summed, or spread; each is the gradient of the other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, add: Tensor | None, segments: Segments, kernels: Any, sums: bool) -> Tensor:
        ctx.segments, ctx.kernels, ctx.sums, ctx.adds = segments, kernels, sums, add is not None
        return _moved(x, segments, kernels, sums, add)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        of_rows = _moved(grad, ctx.segments, ctx.kernels, not ctx.sums)
        return of_rows, grad if ctx.adds else None, None, None, None


def _moved(x: Tensor, segments: Segments, kernels: Any, sums: bool, add: Tensor | None = None) -> Tensor:
    x, add = x.contiguous(), None if add is None else add.contiguous()
    if sums:
        moved: Tensor = kernels.sum_rows(x, *segments.places, longest=segments.longest, add=add)
    else:
        moved = kernels.spread_rows(x, segments.owner, segments.rows.real, add)
    return moved
