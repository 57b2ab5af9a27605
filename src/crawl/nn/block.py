"""Blocks, the parts of a network: each takes what is known so far and returns what is known after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor, nn

from crawl.checks import shown
from crawl.nn.batch import Batch
from crawl.nn.settings import BlockSettings
from crawl.walks.walks import Walks

_OF_WALKS = {*Walks.__annotations__, *vars(Walks)} - {"device", "to"}  # which tensors have, too


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


def state_after(block: Block, state: State, batch: Batch, width: int | None = None) -> State:
    """What a block returns. Refuses what is not a state, and nodes that are not of this width, if one is given."""
    name = type(block).__name__
    try:
        new = block(state, batch)
    except AttributeError as error:
        if error.obj is None and batch.walks is None and error.name in _OF_WALKS:
            raise ValueError(f"{name} reads walks, but has uses_walks=False: set it to True.") from error
        raise
    if not isinstance(new, State):
        raise ValueError(f"{name} must return a State, such as replace(state, nodes=…), not {shown(new)}.")
    expected = [len(state.nodes), width]
    if width is not None and list(new.nodes.shape) != expected:
        raise ValueError(
            f"{name} must return nodes of shape {expected}, as what follows takes, not {shown(new.nodes)}."
        )
    return new
