"""What nodes hear when neighbours say what they are: the sum over edges of the rows of their sources."""

from __future__ import annotations

from torch import Tensor

from crawl.checks import shown
from crawl.ops.backends import fast_module
from crawl.ops.segments import Segments


def sum_neighbours(
    x: Tensor, sources: Segments, targets: Segments, weight: Tensor | None = None, add: Tensor | None = None
) -> Tensor:
    """`[N, C]`: Σ_(u→v) w(u→v) x(u), of `[N, C]` nodes; on a CPU without a row for each edge.

    Args:
        x: `[N, C]`.
        sources: The source of each edge.
        targets: The target of each edge.
        weight: `[E]` the weight of each edge, which is a constant; 1 when None.
        add: `[N, C]` what is added to the sums.

    Raises:
        ValueError: If nodes are not rows, or weights not one for each edge or to be learned.
    """
    if x.dim() != 2 or x.shape[0] != sources.owners.size:  # a kernel would read what is beside them
        raise ValueError(f"Give a row for each of {sources.owners.size} nodes, not {shown(x)}.")
    if weight is not None and (weight.shape != (targets.rows.size,) or weight.requires_grad):
        raise ValueError(f"Give a constant weight for each of {targets.rows.size} edges, not {shown(weight)}.")
    fast = fast_module("neighbours", x.device, x.dtype)
    if fast is not None and (weight is None or weight.dtype == x.dtype):
        heard: Tensor = fast.sum_neighbours(x, sources, targets, weight)
        return heard if add is None else add + heard
    rows = sources.spread(x)
    return targets.sum(rows if weight is None else weight.unsqueeze(1) * rows, add=add)
