"""Dropout with its own generator against torch's rule, and apart from torch's generator."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import pytest
import torch

from crawl.nn.dropout import Dropout


def drop(seed: int, rate: float = 0.3) -> torch.Tensor:
    dropout = Dropout(rate)
    dropout.generator = torch.Generator().manual_seed(seed)
    return dropout(torch.ones(1000))


def test_values_are_zero_or_scaled_so_that_the_mean_stays() -> None:
    values = drop(0)
    assert torch.equal(values.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert values.mean().item() == pytest.approx(1, abs=0.1)


def test_only_its_generator_decides() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert torch.equal(drop(1), drop(1))
    assert not torch.equal(drop(1), drop(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_without_one_it_draws_from_torch() -> None:
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(Dropout(0.5)(torch.ones(100)))
    assert torch.equal(*results)


@pytest.mark.parametrize(("rate", "value"), [(0.0, 1.0), (1.0, 0.0)])
def test_none_and_all(rate: float, value: float) -> None:
    assert torch.equal(drop(0, rate), torch.full((1000,), value))


def test_gradients_go_where_values_went() -> None:
    x = torch.ones(50, requires_grad=True)
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


@pytest.mark.parametrize("again", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_have_no_generator(again) -> None:
    dropout = Dropout(0.5)
    dropout.generator = torch.Generator()
    assert again(dropout).generator is None
    assert dropout.generator is not None


def test_a_model_that_was_moved_draws_from_torch() -> None:
    dropout = Dropout(0.5)
    dropout.generator = SimpleNamespace(device=torch.device("cuda", 0))
    values = dropout(torch.ones(100))
    assert set(values.tolist()) == {0.0, 2.0}
