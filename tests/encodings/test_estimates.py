"""Estimates from walks against the exact probabilities."""

from __future__ import annotations

import pytest
import torch

from crawl.encodings import (
    estimate_return_probabilities,
    estimate_walk_probabilities,
    return_probabilities,
    walk_probabilities,
)


def test_are_near_the_exact_ones_and_repeat(example):
    graph, _ = example
    settings = {"num_walks": 4000, "seed": 3}
    found = estimate_return_probabilities(graph, 6, **settings)
    assert float((found - return_probabilities(graph, 6)).abs().max()) < 5 * 0.5 / 4000**0.5
    of_edges = estimate_walk_probabilities(graph, 6, **settings)
    assert float((of_edges - walk_probabilities(graph, 6)).abs().max()) < 5 * 0.5 / 4000**0.5
    assert torch.equal(found, estimate_return_probabilities(graph, 6, **settings))


def test_do_not_depend_on_how_many_walks_are_in_memory(monkeypatch, example):
    graph, _ = example
    whole = [
        estimate(graph, 4, num_walks=30) for estimate in (estimate_return_probabilities, estimate_walk_probabilities)
    ]
    monkeypatch.setattr("crawl.encodings.estimates._MOST_POSITIONS", 500)
    pieces = [
        estimate(graph, 4, num_walks=30) for estimate in (estimate_return_probabilities, estimate_walk_probabilities)
    ]
    assert all(torch.equal(a, b) for a, b in zip(whole, pieces, strict=True))


def test_refuse_more_walks_than_fit(example):
    with pytest.raises(ValueError, match="num_walks"):
        estimate_return_probabilities(example[0], 999, num_walks=10**6)


@pytest.mark.parametrize("estimate", [estimate_return_probabilities, estimate_walk_probabilities])
def test_refuse_what_is_not_a_graph_or_a_number_of_steps(example, estimate):
    with pytest.raises(ValueError, match="Graph"):
        estimate("graph", 3)
    with pytest.raises(ValueError, match=r"num_steps.*three"):
        estimate(example[0], "three")
