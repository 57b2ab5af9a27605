"""Sums and other reductions over the rows of each owner, against loops over owners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from crawl.nn import Segments

OWNER = torch.tensor([2, 0, 2, 4, 2, 0, 4])  # 1 and 3 have no rows, 5 neither
NUM_OWNERS = 6

# What is taken of the rows of one owner, `[rows, C]`.
REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda rows: rows.sum(0),
    "mean": lambda rows: rows.mean(0),
    "max": lambda rows: rows.amax(0),
    "min": lambda rows: rows.amin(0),
    "std": lambda rows: rows.std(0, correction=0) if len(rows) > 1 else torch.zeros_like(rows[0]),
}


def by_loops(name: str, x: Tensor) -> Tensor:
    groups = [x[k == OWNER] for k in range(NUM_OWNERS)]
    return torch.stack([REDUCTIONS[name](rows) if len(rows) else torch.zeros_like(x[0]) for rows in groups])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(len(OWNER), *shape, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    found, expected = getattr(Segments.of(OWNER, NUM_OWNERS), name)(x), by_loops(name, y)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    grad = torch.randn(found.shape, dtype=torch.float64)
    found.backward(grad)
    expected.backward(grad)
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-12, atol=1e-12)


def test_softmax() -> None:
    torch.manual_seed(0)
    x = (100 * torch.randn(len(OWNER), 3, dtype=torch.float64)).requires_grad_()
    y, grad = x.detach().clone().requires_grad_(), torch.randn(len(OWNER), 3, dtype=torch.float64)
    weights = Segments.of(OWNER, NUM_OWNERS).softmax(x)
    weights.backward(grad)
    for k in range(NUM_OWNERS):
        expected = y[k == OWNER].softmax(0)
        expected.backward(grad[k == OWNER])
        torch.testing.assert_close(weights[k == OWNER], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-12, atol=1e-12)


def test_equal_rows_have_no_deviation_and_no_gradient() -> None:
    x = torch.full((len(OWNER), 2), 3.0, requires_grad=True)
    deviation = Segments.of(OWNER, NUM_OWNERS).std(x)
    deviation.sum().backward()
    assert not deviation.any()
    assert not x.grad.any()


def test_a_deviation_far_from_zero_is_exact() -> None:
    """The mean of squares less the square of the mean would lose it."""
    x = torch.tensor([1e4, 1e4 + 1, 1e4 + 2, 1e4 + 3])
    deviation = Segments.of(torch.zeros(4, dtype=torch.long), 1).std(x)
    torch.testing.assert_close(deviation, torch.tensor([1.25]).sqrt())


@pytest.mark.parametrize("longest", [None, 3, 5])
def test_slots_lay_rows_out_owner_by_owner(longest: int | None) -> None:
    segments = replace(Segments.of(OWNER, NUM_OWNERS), longest=longest)
    x = torch.randn(len(OWNER), 2, requires_grad=True)
    grid = segments.slots.sum(x).view(NUM_OWNERS, longest or 3, 2)
    for k in range(NUM_OWNERS):
        own = x[k == OWNER]
        assert torch.equal(grid[k, : len(own)], own)
        assert not grid[k, len(own) :].any()
    assert torch.equal(segments.slots.spread(grid.flatten(0, 1)), x)
    assert segments.slots.count.sum() == len(OWNER)
    assert torch.equal(segments.slots.count, (grid != 0).any(2).flatten().long())


@pytest.mark.parametrize("num_owners", [0, 3])
def test_slots_of_no_rows(num_owners: int) -> None:
    slots = Segments.of(torch.empty(0, dtype=torch.long), num_owners).slots
    assert slots.sum(torch.empty(0, 2)).shape == (num_owners, 2)
    assert slots.spread(torch.zeros(num_owners, 2)).shape == (0, 2)


def test_rows_that_do_not_fit_are_refused() -> None:
    segments = Segments.of(OWNER, NUM_OWNERS)
    with pytest.raises(ValueError, match=r"each row, of shape \[7, .*\[6, 2\]"):
        segments.min(torch.zeros(6, 2))
    with pytest.raises(ValueError, match=r"each owner, of shape \[6, .*\[7, 2\]"):
        segments.spread(torch.zeros(7, 2))


@pytest.mark.parametrize("owner", [-1, 3])
def test_owners_that_do_not_exist_are_refused(owner: int) -> None:
    with pytest.raises(ValueError, match=f"{owner} of 3"):
        Segments.of(torch.tensor([0, owner, 2]), 3)


def test_owners_in_any_memory_layout(kernels: torch.device) -> None:
    """A column of pairs, as of links, and places with gaps between them."""
    owner = OWNER.to(kernels)
    columns = torch.stack([owner, torch.full_like(owner, 5)], dim=1)[:, 0]
    x, grad = torch.randn(len(OWNER), 3), torch.randn(len(OWNER), 3)
    ptr, order = (torch.stack([rows, rows], dim=1)[:, 0] for rows in Segments.of(owner, NUM_OWNERS).places)
    plain = Segments.of(owner, NUM_OWNERS)
    for segments in (Segments.of(columns, NUM_OWNERS), replace(plain, owner=columns, ptr=ptr, order=order)):
        found = []
        for each in (plain, segments):
            y = x.clone().requires_grad_()
            total = each.sum(y)
            each.spread(total).backward(grad)
            found.append((total, each.spread(total), y.grad))
        assert all(map(torch.equal, *found))
