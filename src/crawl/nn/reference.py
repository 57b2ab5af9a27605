"""The walk convolution as the paper writes it (sections 2.1 and 2.2, appendix A.2): the specification of `fast`.

The walk feature matrix X exists, the convolutions are `Conv1d`, the pooling is a mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crawl.nn.bits import bit_columns
from crawl.walks import Walks

if TYPE_CHECKING:
    from crawl.nn.conv import CRaWlConv


def walk_features(x: Tensor, walks: Walks, edge_attr: Tensor | None, columns: Tensor, edge_dim: int = 0) -> Tensor:
    """The walk feature matrix X = [h | g | I | A], `[W, T, D]`.

    Args:
        x: `[N, C]` node embeddings (h).
        walks: The walks.
        edge_attr: `[E, edge_dim]` edge features (g), zero at the first position; None for zeros everywhere.
        columns: The columns of `walks.bits()` to use.
        edge_dim: How many zeros.
    """
    parts = [x[walks.nodes]]
    if edge_attr is None:
        parts.append(x.new_zeros(*walks.nodes.shape, edge_dim))
    else:
        steps = edge_attr[walks.edges]
        parts.append(torch.cat([steps.new_zeros(len(walks), 1, edge_attr.shape[1]), steps], dim=1))
    parts.append(walks.bits()[..., columns].to(x.dtype))
    return torch.cat(parts, dim=-1)


def pooled_windows(conv: CRaWlConv, x: Tensor, walks: Walks, edge_attr: Tensor | None) -> Tensor:
    """p(v), `[N, out_channels]`: the mean of the CNN's outputs over all windows centred at v, 0 where there is none."""
    features = walk_features(x, walks, edge_attr, bit_columns(conv, walks), conv.edge_dim)
    windows = conv.project(features.transpose(1, 2))
    windows = conv.norm(conv.depthwise(windows)).relu()
    windows = conv.mix(windows).relu().transpose(1, 2)  # [W, T - kernel_size + 1, C]
    half = conv.kernel_size // 2
    centres = walks.nodes[:, half : walks.nodes.shape[1] - half].reshape(-1)
    total = windows.new_zeros(x.shape[0], windows.shape[2]).index_add(0, centres, windows.flatten(0, 1))
    count = torch.bincount(centres, minlength=x.shape[0]).clamp_min(1)
    pooled: Tensor = total / count.unsqueeze(1)
    return pooled
