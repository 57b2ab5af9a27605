"""What trained networks tell apart. Records of longer training are in `results/expressiveness.json`."""

from __future__ import annotations

import pytest
import torch

from crawl.data.csl import SKIPS
from crawl.theory import cycles, cyclic_skip_links, first_difference, named_graph, rook, shrikhande
from crawl.theory.networks import train_to_tell_apart


def test_crawl_tells_rook_from_shrikhande():
    result = train_to_tell_apart([rook(), shrikhande()])
    assert result.accuracy > 0.97
    assert result.num_tests == 200


def test_crawl_tells_the_smallest_cfi_pair_apart():
    """Over a triangle: a hexagon and two triangles."""
    graphs = [named_graph("cfi:C3:compact"), named_graph("cfi:C3:compact:twisted")]
    assert train_to_tell_apart(graphs).accuracy == 1


@pytest.mark.parametrize("names", [("rook", "shrikhande"), ("cfi:C3:compact", "cfi:C3:compact:twisted")])
def test_gin_stays_at_chance(names):
    result = train_to_tell_apart([named_graph(name) for name in names], "gin", max_updates=100)
    assert result.accuracy == pytest.approx(result.chance, abs=0.15)  # the answers are the same, up to rounding
    assert result.num_updates == 100


def test_the_same_seed_gives_the_same_result_and_leaves_the_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    results = [train_to_tell_apart([rook(), shrikhande()], max_updates=5, num_tests=8) for _ in range(2)]
    assert results[0].accuracy == results[1].accuracy
    assert torch.equal(torch.rand(1), expected)


def test_several_layers_see_more_than_the_law_of_single_walks():
    """With a window of 2, uniform walks have the same law on a cycle of 8 nodes and on two of 4, at every length. But
    after a layer, embeddings are means over several walks, which differ by chance, and the next layers read them.
    """
    graphs = [cycles(8), cycles(4, 4)]
    assert first_difference(*graphs, window_size=2, strategy="uniform") is None
    settings = {"window_size": 2, "num_steps": 30, "copies": 16, "max_updates": 400}
    assert train_to_tell_apart(graphs, strategy="uniform", num_layers=3, **settings).accuracy > 0.75
    without = train_to_tell_apart(graphs, strategy="non_backtracking", num_layers=3, **(settings | {"max_updates": 50}))
    assert without.accuracy == pytest.approx(0.5, abs=0.15)


def test_one_graph_is_not_enough():
    with pytest.raises(ValueError, match="two graphs or more"):
        train_to_tell_apart([rook()])


@pytest.mark.slow
def test_crawl_tells_the_csl_classes_apart():
    result = train_to_tell_apart([cyclic_skip_links(41, skip) for skip in SKIPS], copies=2, max_updates=600)
    assert result.chance == 0.1
    assert result.accuracy > 0.97


@pytest.mark.slow
def test_gin_stays_at_chance_on_csl():
    result = train_to_tell_apart([cyclic_skip_links(41, skip) for skip in SKIPS], "gin", copies=2)
    assert result.accuracy == pytest.approx(0.1, abs=0.07)


@pytest.mark.slow
def test_crawl_stays_at_chance_where_its_window_is_too_small():
    """The 3-regular pair over K4 takes a window of 11: see `test_cfi`. With 8, no walk can show anything."""
    result = train_to_tell_apart([named_graph("cfi:K4"), named_graph("cfi:K4:twisted")])
    assert result.accuracy == pytest.approx(0.5, abs=0.15)
