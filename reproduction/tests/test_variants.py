from __future__ import annotations

from dataclasses import replace

import pytest

from crawl.runs.build import Features, build_model, count_parameters
from crawl.runs.recipes import RECIPES
from reproduction.variants import fit_width, with_bits, with_window


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
        assert build_model(with_window(zinc, size), features).convs[0].kernel_size == size + 1


@pytest.mark.parametrize("name", ["gcn", "gin", "gine", "gat", "sage", "gated_gcn", "pna"])
def test_the_width_fills_the_budget(name):
    features = Features.of_benchmark("zinc")
    zinc = RECIPES["zinc"]()
    wanted = replace(zinc, model=replace(zinc.model, name=name, num_layers=2))
    fitted = fit_width(wanted, features, 50_000)
    assert count_parameters(fitted, features) <= 50_000
    wider = replace(fitted.model, hidden_channels=fitted.model.hidden_channels + 4)
    assert count_parameters(replace(fitted, model=wider), features) > 50_000
    with pytest.raises(ValueError, match="has more than 100 parameters"):
        fit_width(wanted, features, 100)
