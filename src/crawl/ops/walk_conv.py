"""The walk convolution without the walk feature matrix: project, then gather. `CRaWlConv` specifies it.

The first convolution has width one and nothing non-linear after it, so its product with [h | g | I | A] is a sum of
three: project every node and every edge once (there are some fifty times fewer of them than positions on walks),
tabulate the product with the bits for the 256 values of each byte of the code, then look rows up and add.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from crawl.ops.backends import fast_module
from crawl.ops.linear import shared_product
from crawl.ops.norm import Norm, batch_norm
from crawl.ops.segments import counted
from crawl.ops.walks import Bits, WalkTensors


class Weights(NamedTuple):
    """The weights of a walk convolution, as `Conv1d` stores them, and what goes with them.

    Attributes:
        project: `[C, in + edge + bits, 1]` the first convolution.
        depthwise: `[C, 1, kernel_size]` the second one, channel by channel.
        norm: The batch norm after it.
        mix: `[C, C, 1]` the third convolution.
        bits: The bits that have weights.
        padding: Whether there are zeros around the walks, so that every position is the centre of a window.
    """

    project: Tensor
    depthwise: Tensor
    norm: Norm
    mix: Tensor
    bits: Bits
    padding: bool = False

    @property
    def kernel_size(self) -> int:
        """Positions in a window."""
        return self.depthwise.shape[2]

    @property
    def margin(self) -> int:
        """Zeros at each end of a walk."""
        return self.kernel_size // 2 if self.padding else 0

    @property
    def first_centre(self) -> int:
        """The position at the centre of the first window."""
        return self.kernel_size // 2 - self.margin

    def columns(self, num_channels: int) -> tuple[slice, slice, slice]:
        """The columns of `project` for nodes with this many channels, for edges and for bits."""
        first_bit = self.project.shape[1] - self.bits.number
        return slice(num_channels), slice(num_channels, first_bit), slice(first_bit, None)


def walk_conv(
    x: Tensor, edge_attr: Tensor | None, walks: WalkTensors, weights: Weights, num_edges: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """p(v), `[N, C]`, and p(e), `[num_edges, C]`; None in its place if `num_edges` is.

    No `edge_attr` is the same as zeros. The ids of the walks must be within `x` and `edge_attr`.
    """
    fast = fast_module("walk_conv", x.device, weights.mix.dtype)
    if fast is None or (weights.norm.across is not None and x.device.type != "cpu"):  # the GPU's norms are its own
        return pool_walks(Tables.of(x, edge_attr, walks, weights), walks, weights, num_edges)
    pooled: tuple[Tensor, Tensor | None] = fast.walk_conv(x, edge_attr, walks, weights, num_edges)
    return pooled


class Tables(NamedTuple):
    """What each node, edge and byte of the code adds to the projected features of a position.

    Attributes:
        nodes: `[N, C]`.
        edges: `[E, C]`, from position 1 on; None without edge features.
        code: `[bytes, 256, C]`.
    """

    nodes: Tensor
    edges: Tensor | None
    code: Tensor

    @classmethod
    def of(cls, x: Tensor, edge_attr: Tensor | None, walks: WalkTensors, weights: Weights) -> Tables:
        """The products with the first convolution; see `walk_conv`."""
        of_nodes, of_edges, of_bits = weights.columns(x.shape[1])
        project = weights.project.squeeze(2)
        nodes: Tensor = shared_product(x, project[:, of_nodes].t())
        edges = None if edge_attr is None else edge_attr @ project[:, of_edges].t()
        code = weights.bits.in_bytes(walks, project.dtype) @ project[:, of_bits].t()
        return cls(nodes, edges, code.view(-1, 256, len(project)))


def pool_walks(
    tables: Tables, walks: WalkTensors, weights: Weights, num_edges: int | None
) -> tuple[Tensor, Tensor | None]:
    """The rest of `walk_conv`, in plain torch."""
    rows = tables.nodes[walks.nodes]
    if tables.edges is not None:
        rows = rows + F.pad(tables.edges[walks.edges], (0, 0, 1, 0))
    for i, table in enumerate(tables.code):
        rows = rows + table[(walks.code.long() >> (8 * i)) & 255]
    rows = F.pad(rows, (0, 0, weights.margin, weights.margin))
    kernel = weights.depthwise.squeeze(1)
    length = rows.shape[1] - kernel.shape[1] + 1
    windows = torch.stack([rows[:, k : k + length] * kernel[:, k] for k in range(kernel.shape[1])]).sum(0)
    hidden = batch_norm(windows.flatten(0, 1), weights.norm).relu()
    mixed = (hidden @ weights.mix.squeeze(2).t()).relu()
    nodes, edges = centres(walks, weights, num_edges)
    pooled = mean_of_groups(mixed, nodes, tables.nodes.shape[0])
    if edges is None or num_edges is None:
        return pooled, None
    owners = torch.where(edges >= 0, edges, num_edges)  # the starts of walks belong to no edge
    return pooled, mean_of_groups(mixed, owners, num_edges + 1)[:-1]


def mean_of_groups(rows: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """`[num_groups, C]` the mean over the rows of each group, 0 where there are none; in plain torch."""
    total = rows.new_zeros(num_groups, rows.shape[1]).index_add(0, groups, rows)
    return total / counted(groups, num_groups).clamp_min(1).unsqueeze(1)


def centres(walks: WalkTensors, weights: Weights, num_edges: int | None) -> tuple[Tensor, Tensor | None]:
    """The node at the centre of each window, walk by walk, and the edge by which the walk came there: -1 at its start,
    None if nothing is pooled into edges.
    """
    first = weights.first_centre
    last = walks.nodes.shape[1] - first
    nodes = walks.nodes[:, first:last].reshape(-1)
    if num_edges is None:
        return nodes, None
    return nodes, F.pad(walks.edges, (1, 0), value=-1)[:, first:last].reshape(-1)
