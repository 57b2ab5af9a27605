"""Heads: attention that works on several parts of a state side by side."""

from __future__ import annotations

from crawl.checks import MAX_WIDTH, whole_number


def channels_per_head(channels: int, num_heads: int) -> int:
    """The width of one head."""
    num_heads = whole_number("num_heads", num_heads, 1, MAX_WIDTH)
    if channels % num_heads:
        raise ValueError(
            f"Heads share the channels evenly, so hidden_channels must be a multiple of num_heads={num_heads}, not "
            f"{channels}: take hidden_channels={num_heads * -(-channels // num_heads)}, or another num_heads."
        )
    return channels // num_heads
