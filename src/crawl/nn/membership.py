"""Which nodes belong to which graph: sums over the nodes of each graph, and what a graph says to its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.checks import MAX_COUNT, check_type, shown, whole_number
from crawl.ops.backends import can_use_triton
from crawl.tensor_checks import holds_integers, plain_tensor


@dataclass(frozen=True)
class Membership:
    """The graph of each node in a batch, the nodes of a graph side by side.

    Attributes:
        batch: `[N]` the graph of each node, ascending.
        ptr: `[G + 1]` the nodes of graph g are `ptr[g]:ptr[g + 1]`.
        num_nodes: `[1]` int32 on the GPU, or None for all: only the first so many nodes are real, the rest is padding.
        num_graphs: The same for graphs.
        largest: No graph has more nodes; None if the host does not know.
    """

    batch: Tensor
    ptr: Tensor
    num_nodes: Tensor | None = None
    num_graphs: Tensor | None = None
    largest: int | None = None

    @classmethod
    def of(cls, batch: Tensor, num_graphs: int) -> Membership:
        """The membership given by the graph of each node.

        Raises:
            ValueError: If `batch` is not a list of graphs; that it ascends is not checked.
        """
        num_graphs = whole_number("num_graphs", num_graphs, 0, MAX_COUNT)
        if not holds_integers(batch) or batch.dim() != 1:
            raise ValueError(f"batch must be a tensor of integers, the graph of each node, not {shown(batch)}.")
        batch = batch if batch.dtype in (torch.int32, torch.int64) else batch.long()
        return cls(batch, torch.searchsorted(batch, torch.arange(num_graphs + 1, device=batch.device).to(batch.dtype)))

    def sum(self, x: Tensor) -> Tensor:
        """`[G, C]` the sum over the nodes of each graph; 0 without nodes."""
        if can_use_triton(x.device) and x.dtype == torch.float32:
            total: Tensor = _Sum.apply(x, self)  # type: ignore[no-untyped-call]
            return total
        return x.new_zeros(self.ptr.numel() - 1, x.shape[1]).index_add(0, self.batch, x)

    def mean(self, x: Tensor) -> Tensor:
        """`[G, C]` the mean over the nodes of each graph; 0 without nodes."""
        return self.sum(x) / self.ptr.diff().clamp_min(1).unsqueeze(1)

    def spread(self, state: Tensor) -> Tensor:
        """`[N, C]` the row of its graph for each node."""
        if can_use_triton(state.device) and state.dtype == torch.float32:
            rows: Tensor = _Spread.apply(state, self)  # type: ignore[no-untyped-call]
            return rows
        return state[self.batch]


def check_rows(x: Tensor, members: Membership, like: Tensor) -> None:
    """Refuses node features that are not those of these nodes, or do not fit a weight for each channel, `like`.

    Raises:
        ValueError: If they are not.
    """
    check_type("members", members, Membership, "call Membership.of(batch, num_graphs)")
    expected = [members.batch.numel(), like.numel()]
    if not plain_tensor("x", x).is_floating_point() or list(x.shape) != expected:
        raise ValueError(f"x must be floating-point numbers of shape {expected}, not {shown(x)}.")
    if x.device.type == "cpu" and x.dtype != like.dtype and not torch.is_autocast_enabled("cpu"):
        raise ValueError(f"x is of {x.dtype}, but the layer of {like.dtype}: move one with .to(dtype).")


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, members: Membership) -> Tensor:
        from crawl.ops.triton.segments import sum_rows

        ctx.members = members
        return sum_rows(x.contiguous(), members.ptr, longest=members.largest)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from crawl.ops.triton.segments import spread_rows

        return spread_rows(grad.contiguous(), ctx.members.batch, ctx.members.num_nodes), None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, state: Tensor, members: Membership) -> Tensor:
        from crawl.ops.triton.segments import spread_rows

        ctx.members = members
        return spread_rows(state.contiguous(), members.batch, members.num_nodes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from crawl.ops.triton.segments import sum_rows

        return sum_rows(grad.contiguous(), ctx.members.ptr, longest=ctx.members.largest), None
