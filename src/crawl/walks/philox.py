"""Philox 4x32-10, the counter-based random numbers behind every walk (Salmon et al., 2011), in plain torch.

A draw depends on nothing but its seed and its counter: no state, no order, the same on every device. The counter of a
draw is (block, purpose, low half of the walk's key, high half of the walk's key); the key is the 64-bit seed.
"""

from __future__ import annotations

import torch
from torch import Tensor

# What a draw is for; `purpose` keeps the streams apart. Attempt a of a node2vec step uses FIRST_ATTEMPT + a.
STEP = 0
START = 1
FIRST_ATTEMPT = 2
RESTART = 2**32 - 1

MULTIPLIER_A, MULTIPLIER_B = 0xD2511F53, 0xCD9E8D57
INCREMENT_A, INCREMENT_B = 0x9E3779B9, 0xBB67AE85
NUM_ROUNDS = 10
_LOW = 0xFFFFFFFF


def philox(seed: int, block: Tensor | int, purpose: Tensor | int, key: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four independent tensors of 32-bit words, as int64, in the shape of `key` (int64)."""
    c0, c1 = _like(block, key), _like(purpose, key)
    c2, c3 = key & _LOW, (key >> 32) & _LOW
    k0, k1 = seed & _LOW, seed >> 32
    for _ in range(NUM_ROUNDS):
        # int64 products wrap around modulo 2^64, which keeps both 32-bit halves exact
        product_a, product_b = c0 * MULTIPLIER_A, c2 * MULTIPLIER_B
        c0, c1 = ((product_b >> 32) & _LOW) ^ c1 ^ k0, product_b & _LOW
        c2, c3 = ((product_a >> 32) & _LOW) ^ c3 ^ k1, product_a & _LOW
        k0, k1 = (k0 + INCREMENT_A) & _LOW, (k1 + INCREMENT_B) & _LOW
    return c0, c1, c2, c3


def step_word(seed: int, step: int, key: Tensor) -> Tensor:
    """The 32-bit word of a step; a Philox block holds those of four steps."""
    return philox(seed, step // 4, STEP, key)[step % 4]


def _like(value: Tensor | int, key: Tensor) -> Tensor:
    return value.long().expand_as(key) if isinstance(value, Tensor) else torch.full_like(key, value)
