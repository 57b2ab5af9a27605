"""One seed for a run, and from it one for every random thing in it."""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed that depends on the run's seed and on what it is for, such as `("walks", epoch, step)`."""
    text = "/".join(str(word) for word in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1
