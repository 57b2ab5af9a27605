"""Blocks, the parts of a network: each takes what is known so far and returns what is known after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor, nn

from crawl.nn.batch import Batch
from crawl.nn.settings import BlockSettings


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


class Block(nn.Module):
    """A part of a network: `forward(state, batch)` returns the new state.

    What works on each row alone is free to do so. What adds over rows uses the segments of the batch (`batch.nodes`,
    `batch.edges`, `batch.walks`) or `crawl.nn.BatchNorm` with the rows it is given, since rows may be padding. Nothing
    waits for the device: no `.item()`, no boolean masks. Then a block runs in a captured step.

    Attributes:
        in_channels: The width of the nodes' state that the block takes; None for the width of the network.
        uses_walks: Whether it reads `batch.walks`.
        passes_messages: Whether it reads `batch.edges` or `batch.sources`.
        sees_edges: Whether it reads `state.edges`.
        changes_nodes: Whether it returns other `nodes`.
        changes_edges: Whether it returns other `edges`, of the width of the network.
        why_not_captured: Why it cannot run in a captured step, in a few words; None if it can.
    """

    in_channels: int | None = None
    uses_walks: bool = True
    passes_messages: bool = True
    sees_edges: bool = True
    changes_nodes: bool = True
    changes_edges: bool = False
    why_not_captured: str | None = None

    def forward(self, state: State, batch: Batch) -> State:
        """The new state."""
        raise NotImplementedError(f"{type(self).__name__} must say how the state changes: write its forward.")

    @classmethod
    def build(cls, settings: BlockSettings) -> Self:
        """The block for a network that names it; its arguments are the settings of the same names."""
        return cls(**settings.arguments_of(cls))
