"""Blocks: the parts of a network, each of which takes what is known so far and returns what is known then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from torch import Tensor, nn

from crawl.choices import Implementation
from crawl.nn.batch import Batch


@dataclass(frozen=True)
class State:
    """What a network knows so far.

    Attributes:
        nodes: `[N, d]`.
        edges: `[E, …]`, or None without edge features.
        graphs: `[G, d]` zeros at first.
    """

    nodes: Tensor
    edges: Tensor | None
    graphs: Tensor


@dataclass(frozen=True)
class BlockSettings:
    """What a block that is built by its name has to know of its network.

    Attributes:
        in_channels: The width of the nodes' state before the block.
        channels: The width after it (d).
        edge_channels: The width of the edges' state; 0 without.
        dropout: The dropout rate.
        window_size: How far back the bits of the walks look (s).
        kernel_size: The width of the convolution along walks; s + 1 when None.
        identity: Whether the identity bits are used.
        adjacency: Whether the adjacency bits are used.
        num_heads: The number of heads of attention.
        mean_log_degree: The mean of log(degree + 1) over the nodes of the training graphs.
        implementation: `fast` or `reference`.
    """

    in_channels: int
    channels: int
    edge_channels: int = 0
    dropout: float = 0.0
    window_size: int = 8
    kernel_size: int | None = None
    identity: bool = True
    adjacency: bool = True
    num_heads: int = 4
    mean_log_degree: float = 1.0
    implementation: Implementation = "fast"


class Block(nn.Module):
    """A part of a network: `forward(state, batch)` returns the new state.

    What works on each row alone is free to do so. What adds over rows uses the segments of the batch (`batch.nodes`,
    `batch.edges`, `batch.walks`) or `crawl.nn.BatchNorm` with the rows it is given, since rows may be padding. Nothing
    waits for the device: no `.item()`, no boolean masks. Then a block runs in a captured step.

    Attributes:
        in_channels: The width of the nodes' state that the block takes; None if it is that of the network.
        uses_walks: Whether it reads `batch.walks`.
        passes_messages: Whether it reads `batch.edges` or `batch.sources`.
        sees_edges: Whether it reads `state.edges`.
        changes_edges: Whether it returns other `edges`, of the width of the network.
        why_not_captured: Why it cannot run in a captured step, in a few words; None if it can.
    """

    in_channels: int | None = None
    uses_walks: bool = True
    passes_messages: bool = True
    sees_edges: bool = True
    changes_edges: bool = False
    why_not_captured: str | None = None

    def forward(self, state: State, batch: Batch) -> State:
        """The new state."""
        raise NotImplementedError(f"{type(self).__name__} must say how the state changes: write its forward.")

    @classmethod
    def build(cls, settings: BlockSettings) -> Self:
        """The block for a network that names it."""
        raise NotImplementedError(f"{cls.__name__} has no `build`, so it cannot be named: give the object.")


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
        self.uses_walks = any(block.uses_walks for block in blocks)
        self.passes_messages = any(block.passes_messages for block in blocks)
        self.sees_edges = any(block.sees_edges for block in blocks)
        self.changes_edges = any(block.changes_edges for block in blocks)
        reasons = (block.why_not_captured for block in blocks)
        self.why_not_captured = next((reason for reason in reasons if reason is not None), None)

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
