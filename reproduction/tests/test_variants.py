from __future__ import annotations

from dataclasses import replace

import pytest

from crawl.runs.build import Features, build_model, count_parameters
from crawl.runs.recipes import RECIPES
from reproduction.variants import WIDTHS, as_budgeted_baseline, with_bits, with_window


def test_variants():
    zinc = RECIPES["zinc"]()
    none = with_bits(zinc, "none", "uniform")
    assert (none.model.identity, none.model.adjacency, none.walk.strategy) == (False, False, "uniform")
    assert with_bits(zinc, "both") == zinc
    assert with_bits(zinc, "identity").model == replace(zinc.model, adjacency=False)
    assert with_window(zinc, 8) == zinc
    assert with_window(zinc, 0) == with_bits(zinc, "none")
    features = Features.of_benchmark("zinc")
    for size in (2, 10):
        assert build_model(with_window(zinc, size), features).blocks[0].conv.kernel_size == size + 1


@pytest.mark.parametrize("benchmark", WIDTHS)
def test_baselines_have_about_as_many_parameters(benchmark):
    features, recipe = Features.of_benchmark(benchmark), RECIPES[benchmark]()
    budget = count_parameters(recipe, features)
    for layer in WIDTHS[benchmark]:
        baseline = as_budgeted_baseline(recipe, layer, benchmark)
        assert (baseline.walk, baseline.training) == (None, recipe.training)
        assert 0.75 * budget < count_parameters(baseline, features) < 1.3 * budget
