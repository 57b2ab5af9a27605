"""Unordered pairs of nodes as numbers, and pairs drawn from those that are not links, on graphs of any size."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from crawl.tensor_checks import in_memory


def pair_numbers(pairs: Tensor) -> Tensor:
    """`[M]` int64: v(v - 1)/2 + u for each pair of two different nodes u < v, given in either order as `[M, 2]`.

    The pairs of N nodes have the numbers from 0 to N(N - 1)/2 - 1.
    """
    low, high = pairs.long().aminmax(dim=1)
    return high * (high - 1) // 2 + low


def pairs_of_numbers(numbers: Tensor) -> Tensor:
    """`[M, 2]` the pair of each number, the smaller node first."""
    high = ((1 + (1 + 8.0 * numbers.double()).sqrt()) / 2).long()
    high = high - (high * (high - 1) // 2 > numbers).long()  # float64 may round across a whole number
    high = high + (high * (high + 1) // 2 <= numbers).long()
    return torch.stack([numbers - high * (high - 1) // 2, high], dim=1)


def draw_other_pairs(num_pairs: int, num_nodes: int, known: Tensor, generator: np.random.Generator) -> Tensor:
    """`[num_pairs, 2]` different pairs of two nodes, drawn uniformly from all that are not known, in random order.

    Time and memory grow with the number of pairs drawn and known, not with the square of the number of nodes: pair k of
    those that are not known has the number k + j, if j known pairs come before it.

    Args:
        num_pairs: How many.
        num_nodes: The number of nodes.
        known: The numbers of the pairs that are known, ascending, each once.
        generator: What to draw with.

    Raises:
        ValueError: If there are not as many.
    """
    num_others = num_nodes * (num_nodes - 1) // 2 - len(known)
    if num_pairs > num_others:
        raise ValueError(
            f"{num_pairs} pairs without a link are needed, but the graph of {num_nodes} nodes has {num_others}: take "
            "fewer negatives, or a larger graph."
        )
    with in_memory(f"A draw of {num_pairs} pairs"):
        place = torch.from_numpy(generator.choice(num_others, num_pairs, replace=False)).long()
    others_before = known - torch.arange(len(known), device="cpu")
    return pairs_of_numbers(place + torch.searchsorted(others_before, place, right=True))
