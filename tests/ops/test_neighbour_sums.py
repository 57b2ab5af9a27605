"""Sums over neighbours: numba against plain torch, values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from crawl.ops.neighbours import sum_neighbours
from crawl.ops.segments import Rows, Segments, places_of

SIZE, NUM_EDGES = 2500, 9000  # more than one piece of work


def edges(num_nodes: int = SIZE, num_edges: int = NUM_EDGES) -> tuple[Segments, Segments]:
    source, target = torch.randint(0, num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(0))
    return Segments.of(source, num_nodes), Segments.of(target, num_nodes)


def plain(x: Tensor, sources: Segments, targets: Segments, weight: Tensor | None, add: Tensor | None) -> Tensor:
    rows = x[sources.owner] if weight is None else weight.unsqueeze(1) * x[sources.owner]
    heard = torch.zeros_like(x).index_add(0, targets.owner, rows)
    return heard if add is None else add + heard


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_plain_torch(is_weighted: bool, adds: bool, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(1)
    ends = edges()
    weight = torch.rand(NUM_EDGES, dtype=dtype) if is_weighted else None
    found = []
    for function in (sum_neighbours, plain):
        torch.manual_seed(2)
        x, add = (torch.randn(SIZE, 5, dtype=dtype).requires_grad_() for _ in range(2))
        out = function(x, *ends, weight, add if adds else None)
        (out.sin() * torch.linspace(0, 1, out.numel(), dtype=dtype).view_as(out)).sum().backward()
        found.append((out.detach(), x.grad, add.grad if adds else None))
    torch.testing.assert_close(*found, rtol=tolerance, atol=tolerance)


def test_threads_change_no_bit() -> None:
    ends, x, before = edges(), torch.randn(SIZE, 8), torch.get_num_threads()
    try:
        found = []
        for number in (1, 2):
            torch.set_num_threads(number)
            found.append(sum_neighbours(x, *ends))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_padding_is_left_out_and_rows_may_come_in_order() -> None:
    """Two real edges into node 1 and one of padding, whose ends are a spare node."""
    source, target = torch.tensor([0, 2, 3]), torch.tensor([1, 1, 3])
    real = Rows(3, torch.tensor([2], dtype=torch.int32))
    sources, targets = (
        Segments(owner, real, Rows(4), places_of(owner[:2], 4)[0], order)
        for owner, order in ((source, torch.tensor([0, 1, 2])), (target, None))
    )
    x = torch.tensor([[1.0], [10.0], [100.0], [1000.0]])
    assert sum_neighbours(x, sources, targets).flatten().tolist() == [0.0, 101.0, 0.0, 0.0]


@pytest.mark.parametrize(("num_nodes", "num_edges"), [(3, 0), (0, 0)])
def test_nothing_to_add(num_nodes: int, num_edges: int) -> None:
    empty = torch.empty(num_edges, dtype=torch.long)
    ends = Segments.of(empty, num_nodes), Segments.of(empty, num_nodes)
    assert torch.equal(sum_neighbours(torch.ones(num_nodes, 2), *ends), torch.zeros(num_nodes, 2))


def test_what_does_not_fit_is_refused() -> None:
    ends = edges(4, 3)
    with pytest.raises(ValueError, match="a row for each of 4 nodes"):
        sum_neighbours(torch.ones(3, 2), *ends)
    with pytest.raises(ValueError, match="a constant weight for each of 3 edges"):
        sum_neighbours(torch.ones(4, 2), *ends, torch.ones(4))
    with pytest.raises(ValueError, match="a constant weight"):
        sum_neighbours(torch.ones(4, 2), *ends, torch.ones(3, requires_grad=True))
