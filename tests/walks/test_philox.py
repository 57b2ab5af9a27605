"""Philox against the known answers that come with Random123, its authors' own implementation."""

import numpy as np
import pytest
import torch
from numba import njit, uint64
from torch import Tensor

from crawl.walks import cpu
from crawl.walks.philox import philox

ONES = 0xFFFFFFFF
# counter, key, result: philox4x32 with 10 rounds, from Random123's file kat_vectors
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
known_answers = pytest.mark.parametrize(
    ("counter", "key", "expected"), KNOWN_ANSWERS, ids=["zeros", "ones", "digits of pi"]
)


def walk_key(counter: tuple[int, int, int, int]) -> int:
    """The last two words of a counter as one signed 64-bit integer."""
    return int(np.array(counter[2] | (counter[3] << 32), dtype=np.uint64).astype(np.int64))


@njit
def numba_philox(seed, block, purpose, key):  # type: ignore[no-untyped-def]
    return cpu._philox(seed, block, purpose, key)


@known_answers
@pytest.mark.parametrize("as_tensor", [False, True])
def test_torch(
    counter: tuple[int, int, int, int], key: tuple[int, int], expected: tuple[int, ...], as_tensor: bool
) -> None:
    block: int | Tensor
    purpose: int | Tensor
    block, purpose = (torch.tensor([word]) if as_tensor else word for word in counter[:2])
    words = philox(key[0] | (key[1] << 32), block, purpose, torch.tensor([walk_key(counter)] * 2))
    assert [word.tolist() for word in words] == [[word] * 2 for word in expected]


@known_answers
def test_numba(counter: tuple[int, int, int, int], key: tuple[int, int], expected: tuple[int, ...]) -> None:
    words = numba_philox(uint64(key[0] | (key[1] << 32)), counter[0], counter[1], np.int64(walk_key(counter)))
    assert words == expected


def test_draws_of_a_tensor_are_the_draws_of_its_entries() -> None:
    keys = torch.tensor([[0, 1, -1], [2**32, -(2**63), 2**63 - 1]])
    together = philox(5, 3, 2, keys)
    for i in range(2):
        for j in range(3):
            assert [word[i, j].item() for word in together] == [word.item() for word in philox(5, 3, 2, keys[i, j])]


def test_seed_block_purpose_and_key_all_matter() -> None:
    def draw(seed: int = 0, block: int = 0, purpose: int = 0, key: int = 0) -> tuple[int, ...]:
        return tuple(word.item() for word in philox(seed, block, purpose, torch.tensor(key)))

    arguments = [{}] + [{name: 1} for name in ("seed", "block", "purpose", "key")]
    arguments += [{"seed": 2**32}, {"key": 2**32}]
    assert len({draw(**a) for a in arguments}) == len(arguments)
