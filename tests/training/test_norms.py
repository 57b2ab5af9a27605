from __future__ import annotations

import pytest
import torch
from torch import nn

from crawl.training.norms import Norms


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).eval()


def test_statistics_of_several_batches():
    model, x = network(), torch.randn(12, 2) * torch.tensor([1.0, 5.0]) + 3
    norms = Norms(model)
    total = torch.zeros(2, 5, dtype=torch.float64)
    with norms.using_batches():
        for part in x.split(4):
            model(part)
            total += norms.moments() / 3
    norms.set_moments(total)
    first = model[0]
    torch.testing.assert_close(first.running_mean, x.mean(0))
    within = torch.stack([part.var(0) for part in x.split(4)]).mean(0)
    between = torch.stack([part.mean(0) for part in x.split(4)]).var(0, correction=0)
    torch.testing.assert_close(first.running_var, within + between)


def test_a_mean_that_is_large_beside_the_deviation():
    model = network()
    norms = Norms(model)
    x = 1e4 + 0.1 * torch.randn(1000, 2)
    with norms.using_batches():
        model(x)
    remembered = model[0].running_var.clone()
    norms.set_moments(norms.moments())
    torch.testing.assert_close(model[0].running_var, remembered, rtol=1e-5, atol=0)


def test_only_norms_are_in_training_meanwhile():
    model = network()
    norms = Norms(model)
    with norms.using_batches():
        assert [module.training for module in model] == [True, False, True, False]
    assert not any(module.training for module in model.modules())
    assert [norm.momentum for norm in norms.members] == [0.1, 0.1]


def test_norms_without_memory_are_left_alone():
    model = nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False), nn.LayerNorm(2))
    assert Norms(model).members == []


def test_a_norm_that_is_used_several_times_in_a_pass_is_refused():
    once, again = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    norms = Norms(nn.Sequential(once, again, again))
    before = norms.num_uses()
    with norms.using_batches():
        for part in torch.randn(12, 2).split(4):
            norms.model(part)
    with pytest.raises(ValueError, match=r"1 \(BatchNorm1d\) is used 2 times in a pass.*leave out .*num_norm_graphs"):
        norms.check_used_once(norms.num_uses() - before, 3)
