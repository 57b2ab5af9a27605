"""Messages of GINE: what each node hears from its neighbours, along edges with features."""

from __future__ import annotations

from torch import Tensor

from crawl.ops.backends import fast_module
from crawl.ops.segments import Segments


def add_messages(x: Tensor, edges: Tensor, sources: Segments, targets: Segments) -> Tensor:
    """`[N, C]`: x(v) + Σ_(u→v) ReLU(x(u) + e(u→v)), of `[N, C]` nodes and `[E, C]` edges."""
    fast = fast_module("messages", x.device, x.dtype)
    if fast is not None and edges.dtype == x.dtype:
        heard: Tensor = fast.add_messages(x, edges, sources, targets)
        return heard
    return targets.sum((sources.spread(x) + edges).relu(), add=x)
