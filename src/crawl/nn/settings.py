"""What a network tells the blocks that it builds from their names."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from crawl.choices import Implementation, NormName


@dataclass(frozen=True)
class BlockSettings:
    """What a block that is built from its name has to know of its network.

    Attributes:
        in_channels: The width of the nodes' state before the block.
        channels: The width after it (d).
        edge_channels: The width of the edges' state; 0 without.
        dropout: The dropout rate.
        window_size: How far back the bits of walks look (s).
        kernel_size: The width of the convolutions along walks, odd; s + 1 when None.
        identity: Use the identity bits.
        adjacency: Use the adjacency bits.
        num_heads: The number of heads of attention.
        mean_log_degree: For `pna`, the mean of log(degree + 1) over the nodes of the training graphs.
        implementation: `fast` or `reference`; see `CRaWlConv`.
        padding: Pool all positions of walks, not those alone that have a whole window around them; see `CRaWlConv`.
        jumps: Whether walks jump; see `CRaWlConv`.
        norm: `batch` or `layer` norms in blocks that pass messages, or `none` for a learned scale and shift alone,
            there and in walk convolutions. Other blocks have batch norms.
        residual: Let blocks that pass messages add to the state; without it, what they would add is the new state.
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
    padding: bool = False
    jumps: bool = False
    norm: NormName = "batch"
    residual: bool = True

    def arguments_of(self, block: type) -> dict[str, Any]:
        """The settings that have the names of arguments of a block. Refuses a block that needs others."""
        wanted = inspect.signature(block).parameters
        if any(name not in vars(self) and each.default is each.empty for name, each in wanted.items()):
            raise NotImplementedError(f"{block.__name__} has no `build`, so it cannot be named: give the object.")
        return {name: value for name, value in vars(self).items() if name in wanted}
