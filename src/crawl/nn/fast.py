"""The walk convolution without the walk feature matrix: project, then gather. Equal to `reference`, many times faster.

The first convolution has width one and nothing non-linear behind it, so its product with [h | g | I | A] is a sum of
three: project every node and every edge once (there are some fifty times fewer of them than positions on walks),
tabulate the product with the bits for the 256 values of each byte of the code, then look rows up and add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from crawl.nn.bits import code_bits
from crawl.nn.gpu import can_use_triton
from crawl.nn.linear import shared_product
from crawl.nn.norm import BatchNorm
from crawl.walks import Walks

if TYPE_CHECKING:
    from crawl.nn.conv import CRaWlConv


def pooled_windows(conv: CRaWlConv, x: Tensor, walks: Walks, edge_attr: Tensor | None) -> Tensor:
    """p(v), `[N, out_channels]`; see `reference.pooled_windows`."""
    if can_use_triton(x.device) and conv.mix.weight.dtype == torch.float32:
        from crawl.nn.gpu import windows

        with torch.autocast("cuda", enabled=False):  # the kernels have a precision of their own
            return windows.pooled_windows(conv, x.float(), walks, None if edge_attr is None else edge_attr.float())
    weight = conv.project.weight.squeeze(2)
    first_bit = conv.in_channels + conv.edge_dim
    node_weight, edge_weight = weight[:, : conv.in_channels], weight[:, conv.in_channels : first_bit]
    node_rows: Tensor = shared_product(x, node_weight.t())
    edge_rows = None if edge_attr is None else edge_attr @ edge_weight.t()
    code_rows = (code_bits(conv, walks, weight.dtype) @ weight[:, first_bit:].t()).view(-1, 256, conv.out_channels)
    half = conv.kernel_size // 2
    centres = walks.nodes[:, half : walks.nodes.shape[1] - half].reshape(-1)
    if centres.numel() == 0:
        return node_rows.new_zeros(node_rows.shape)
    pool = pool_walks
    if node_rows.device.type == "cpu" and node_rows.dtype in (torch.float32, torch.float64):
        from crawl.nn import cpu  # numba takes a second to import and is not needed on a GPU

        pool = cpu.pool_walks
    return pool(
        node_rows,
        edge_rows,
        code_rows,
        conv.depthwise.weight.squeeze(1),
        conv.norm,
        conv.mix.weight.squeeze(2),
        walks,
        centres,
    )


def pool_walks(
    node_rows: Tensor,
    edge_rows: Tensor | None,
    code_rows: Tensor,
    kernel: Tensor,
    norm: BatchNorm,
    mix: Tensor,
    walks: Walks,
    centres: Tensor,
) -> Tensor:
    """`[N, C]`: the rest of the CNN on looked-up rows, pooled into the nodes; in plain torch.

    Args:
        node_rows: `[N, C]` the share of each node.
        edge_rows: `[E, C]` the share of each edge, from position 1 on; None without edge features.
        code_rows: `[bytes, 256, C]` the share of each byte of the code.
        kernel: `[C, kernel_size]` the depthwise kernel.
        norm: The batch norm behind it.
        mix: `[C, C]` the second convolution of width one.
        walks: The walks.
        centres: The node at the centre of each window, walk by walk.
    """
    rows = node_rows[walks.nodes]
    if edge_rows is not None:
        rows = rows + F.pad(edge_rows[walks.edges], (0, 0, 1, 0))
    for i, table in enumerate(code_rows):
        rows = rows + table[(walks.code.long() >> (8 * i)) & 255]
    length = rows.shape[1] - kernel.shape[1] + 1
    windows = torch.stack([rows[:, k : k + length] * kernel[:, k] for k in range(kernel.shape[1])]).sum(0)
    hidden = norm(windows.flatten(0, 1)).relu()
    mixed = (hidden @ mix.t()).relu()
    total = torch.zeros_like(node_rows).index_add(0, centres, mixed)
    count = torch.bincount(centres, minlength=len(node_rows)).clamp_min(1)
    return total / count.unsqueeze(1)
