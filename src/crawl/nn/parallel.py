"""Blocks side by side (the paper's outlook, section 5)."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from crawl.nn.batch import Batch
from crawl.nn.block import Block, State


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
        for name in ("uses_walks", "passes_messages", "sees_edges", "changes_edges"):
            setattr(self, name, any(getattr(block, name) for block in blocks))
        self.why_not_captured = next((block.why_not_captured for block in blocks if block.why_not_captured), None)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with the changes of all blocks."""
        states = [block(state, batch) for block in self.blocks]
        nodes = _added(state.nodes, [new.nodes for new in states])
        graphs = _added(state.graphs, [new.graphs for new in states])
        assert nodes is not None
        assert graphs is not None
        return State(nodes, _added(state.edges, [new.edges for new in states]), graphs)


def _added(old: Tensor | None, new: Iterable[Tensor | None]) -> Tensor | None:
    changed = [tensor for tensor in new if tensor is not None and tensor is not old]
    if old is None or not changed:
        return changed[0] if changed else old
    for tensor in changed:
        if tensor.shape != old.shape:
            raise ValueError(
                f"A block in Parallel changes the shape of the state from {list(old.shape)} to {list(tensor.shape)}: "
                "put it after another block, or give it the width of the network."
            )
    total = changed[0]
    for tensor in changed[1:]:
        total = total + (tensor - old)
    return total
