"""Steps that follow no edge: when they are taken, and what a gather along walks adds there."""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.tensor_checks import plain_tensor
from crawl.walks.philox import RESTART, philox


def are_jumps(restart: int, step: int, keys: Tensor, seed: int) -> Tensor:
    """Which walks jump back to their start at a step; see `StepLaw.restart`."""
    return philox(seed, step, RESTART, keys)[0] < restart


def rows_of_steps(
    nodes: Tensor, edges: Tensor | None, jump: Tensor | None, num_edges: int | None, has_jumps: bool
) -> Tensor | None:
    """The rows of edges, after them that of a jump if walks have any; None where nothing is to be added.

    Args:
        nodes: `[N, C]` the rows of nodes.
        edges: `[E, C]` the rows of edges; zeros when None.
        jump: `[C]` the row of a jump; zeros when None.
        num_edges: The number of edges (E).
        has_jumps: Whether steps may be jumps.
    """
    if jump is not None and not has_jumps:
        raise ValueError("These walks do not jump: leave out jump, or sample walks of the strategy 'restart'.")
    if not has_jumps or (edges is None and jump is None):
        return edges
    _check(nodes, edges, num_edges, jump)
    of_edges = nodes.new_zeros(num_edges or 0, nodes.shape[1]) if edges is None else edges
    of_jump = of_edges.new_zeros(nodes.shape[1]) if jump is None else jump
    return torch.cat([of_edges, of_jump.unsqueeze(0)])


def _check(nodes: Tensor, edges: Tensor | None, num_edges: int | None, jump: Tensor | None) -> None:
    """Refuses what are not rows of edges, or of a jump, with as many channels as those of the nodes."""
    num_channels = plain_tensor("nodes", nodes).shape[-1] if nodes.dim() == 2 else 0
    for name, rows, shape in (("edges", edges, (num_edges, num_channels)), ("jump", jump, (num_channels,))):
        if rows is not None and plain_tensor(name, rows).shape != shape:
            raise ValueError(
                f"{name} must be of shape {list(shape)} for these nodes and walks, not {list(rows.shape)}."
            )
