"""Walks that jump, for layers that read edge features."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from crawl.nn.checks import checked_num_edges
from crawl.walks import Walks


def with_jumps(
    x: Tensor, walks: Walks, edge_attr: Tensor | None, edge_dim: int, *, has_flag: bool
) -> tuple[Walks, Tensor | None]:
    """The walks and `[E + 1, edge_dim + 1]` edge features, in which a jump is one more edge, the last one.

    Its features are 0, except the flag in the last column, which is 1 there alone. If neither the layer nor the walks
    have jumps, nothing changes. Refuses walks that jump for a layer that has no weights for the flag.
    """
    if not has_flag and not walks.has_jumps:
        return walks, edge_attr
    if not has_flag:
        raise ValueError("These walks jump, so give the layer jumps=True, or take walks of another strategy.")
    num_edges = checked_num_edges(walks, edge_attr)
    edge_attr = x.new_zeros(num_edges, edge_dim) if edge_attr is None else edge_attr
    flag = (torch.arange(num_edges + 1, device=x.device) == num_edges).to(edge_attr.dtype).unsqueeze(1)
    edge_attr = torch.cat([F.pad(edge_attr, (0, 0, 0, 1)), flag], dim=1)
    return walks if walks.has_jumps else replace(walks, has_jumps=True), edge_attr
