"""How many threads compute."""

from __future__ import annotations


def use_threads(count: int) -> None:
    """Compute with this many threads."""
    import torch

    torch.set_num_threads(count)
