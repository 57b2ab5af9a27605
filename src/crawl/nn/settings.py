"""What a network tells the blocks that it builds from their names."""

from __future__ import annotations

from dataclasses import dataclass

from crawl.choices import Implementation


@dataclass(frozen=True)
class BlockSettings:
    """What a block that is built from its name has to know of its network.

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
