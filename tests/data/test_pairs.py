"""Pairs of nodes as numbers, and pairs drawn from those that are not known."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from crawl.data.pairs import draw_other_pairs, pair_numbers, pairs_of_numbers


def test_every_pair_has_its_number() -> None:
    pairs = torch.tensor(list(combinations(range(40), 2)))
    numbers = pair_numbers(pairs)
    assert sorted(numbers.tolist()) == list(range(40 * 39 // 2))
    assert torch.equal(pairs_of_numbers(numbers), pairs)
    assert torch.equal(pair_numbers(pairs.flip(1)), numbers)


def test_numbers_of_large_graphs_are_exact() -> None:
    last = 2**31 - 1
    nodes = [2**20, 2**26 + 1, 94_906_267, 2**30 + 3, last]
    pairs = torch.tensor([[u, v] for v in nodes for u in (0, 1, v // 2, v - 2, v - 1)])
    assert torch.equal(pairs_of_numbers(pair_numbers(pairs)), pairs)


@pytest.mark.parametrize("num_known", [0, 1, 20, 44])
def test_draws_are_uniform_over_all_others(num_known: int) -> None:
    generator = np.random.default_rng(1)
    known = torch.from_numpy(np.sort(generator.choice(45, num_known, replace=False)))
    drawn = torch.cat([draw_other_pairs(1, 10, known, generator) for _ in range(2000)])
    counts = torch.bincount(pair_numbers(drawn), minlength=45)
    assert not counts[known].any()
    others = np.setdiff1d(np.arange(45), known)
    if len(others) > 1:
        assert chisquare(counts.numpy()[others]).pvalue > 1e-3


def test_all_that_are_left_can_be_drawn_and_no_more() -> None:
    known = torch.tensor([0, 3, 4, 9])
    drawn = draw_other_pairs(6, 5, known, np.random.default_rng(0))
    assert sorted(pair_numbers(drawn).tolist()) == [1, 2, 5, 6, 7, 8]
    with pytest.raises(ValueError, match="7 pairs without a link are needed, but the graph of 5 nodes has 6"):
        draw_other_pairs(7, 5, known, np.random.default_rng(0))


def test_graphs_of_any_size() -> None:
    num_nodes, generator = 2**31 - 1, np.random.default_rng(0)
    first = draw_other_pairs(1000, num_nodes, torch.empty(0, dtype=torch.long), np.random.default_rng(1))
    known = torch.unique(pair_numbers(first))
    drawn = draw_other_pairs(1000, num_nodes, known, np.random.default_rng(1))
    assert not torch.isin(pair_numbers(drawn), known).any()  # each would be, were it not for the search
    drawn = draw_other_pairs(1000, num_nodes, known, generator)
    assert (drawn[:, 0] < drawn[:, 1]).all()
    assert int(drawn.max()) < num_nodes
    assert int(drawn.min()) >= 0
