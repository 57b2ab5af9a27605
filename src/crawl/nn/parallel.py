"""Blocks side by side (the paper's outlook, section 5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from torch import Tensor, nn

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.checks import state_after


class Parallel(Block):
    """Blocks side by side on one state: the changes that they make to it are added.

    Args:
        blocks: The blocks, each of which keeps the width of the nodes' state.
    """

    def __init__(self, *blocks: Block) -> None:
        super().__init__()
        if not blocks or not all(isinstance(block, Block) for block in blocks):
            raise ValueError(f"Parallel needs blocks, not {[type(block).__name__ for block in blocks]}.")
        self.blocks = nn.ModuleList(blocks)
        for name in ("uses_walks", "passes_messages", "sees_edges", "changes_nodes", "changes_edges"):
            setattr(self, name, any(getattr(block, name) for block in blocks))

    @property
    def members(self) -> list[Block]:
        """The blocks."""
        return cast(list[Block], list(self.blocks))

    def forward(self, state: State, batch: Batch) -> State:
        """The state with the changes of all blocks."""
        states = [state_after(block, state, batch) for block in self.members]
        nodes = _added(state.nodes, [new.nodes for new in states])
        graphs = _added(state.graphs, [new.graphs for new in states])
        assert nodes is not None
        assert graphs is not None
        return State(nodes, _added(state.edges, [new.edges for new in states]), graphs)


def _added(old: Tensor | None, new: Iterable[Tensor | None]) -> Tensor | None:
    changed = [tensor for tensor in new if tensor is not None and tensor is not old]
    if not changed:
        return old
    total, shape = changed[0], (changed[0] if old is None else old).shape
    for tensor in changed:
        if tensor.shape != shape:
            raise ValueError(
                f"A block in Parallel changes the shape of the state from {list(shape)} to {list(tensor.shape)}: "
                "put it after another block, or give it the width of the network."
            )
    for tensor in changed[1:]:
        total = total + (tensor if old is None else tensor - old)
    return total
