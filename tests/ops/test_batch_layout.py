"""The rows of padded batches: kernels equal plain torch, number by number."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from crawl.ops import layout
from crawl.ops.layout import BatchRows, StoredEnd, StoredRows
from crawl.ops.segments import places_of

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def stored_rows(num_graphs: int, has_places: bool, seed: int = 0) -> StoredRows:
    """Graphs of 0 to 6 nodes and random edges, without edges where there are no nodes, and an empty one."""
    generator = torch.Generator().manual_seed(seed)
    num_nodes = torch.randint(7, (num_graphs,), generator=generator)
    num_edges = torch.randint(9, (num_graphs,), generator=generator) * (num_nodes > 0)
    node_ptr, edge_ptr = (torch.cat([torch.zeros(1), sizes.cumsum(0)]).long() for sizes in (num_nodes, num_edges))
    graph = torch.repeat_interleave(num_edges)
    ends = []
    for _ in range(2):
        owner = node_ptr[graph] + (torch.rand(len(graph), generator=generator) * num_nodes[graph]).long()
        ptr, order = (places.int() for places in places_of(owner, int(node_ptr[-1])))
        end = StoredEnd(owner.to(DEVICE), ptr.to(DEVICE), order.to(DEVICE))
        ends.append(end if has_places else replace(end, ptr=None, order=None))
    is_start = torch.rand(int(node_ptr[-1]), generator=generator) < 0.7
    starts = torch.cat([torch.zeros(1), is_start.cumsum(0)])[node_ptr].long()
    empty = [torch.cat([ptr, ptr[-1:]]).to(DEVICE) for ptr in (node_ptr, edge_ptr, starts)]
    start_nodes = is_start.nonzero().flatten().int()
    keys = torch.randint(-(2**60), 2**60, (int(node_ptr[-1]),), generator=generator)
    return StoredRows(*empty, start_nodes.to(DEVICE), keys.to(DEVICE), tuple(ends))


def assert_equal(found: BatchRows, wanted: BatchRows) -> None:
    for each in fields(BatchRows):
        pairs = zip(_flat(getattr(found, each.name)), _flat(getattr(wanted, each.name)), strict=True)
        for one, other in pairs:
            assert one.dtype == other.dtype, each.name
            assert torch.equal(one, other), each.name


def _flat(value: Tensor | tuple) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for inner in value if inner is not None for tensor in _flat(inner)]


@pytest.mark.parametrize("has_places", [True, False])
@pytest.mark.parametrize("num_ids", [1, 2, 7, 64, 1300])
@pytest.mark.usefixtures("triton_everywhere")
def test_kernels_equal_plain_torch(num_ids: int, has_places: bool) -> None:
    stored = stored_rows(400, has_places, seed=num_ids)
    ids = torch.randint(400, (num_ids,), generator=torch.Generator().manual_seed(1))
    ids = torch.cat([ids, torch.full((3,), 400)]).to(DEVICE)  # three empty graphs, for padding
    sizes = [int((ptr[ids + 1] - ptr[ids]).sum()) for ptr in (stored.node_ptr, stored.edge_ptr, stored.start_ptr)]
    for more in (1, 300):
        padded = [size + more for size in sizes]
        found, wanted = layout.laid_out(stored, ids, *padded), layout.reference(stored, ids, *padded)
        assert_equal(found, wanted)
        assert found.real.tolist() == [*sizes, num_ids]
    exact = [max(size, 1) for size in sizes]
    assert_equal(layout.laid_out(stored, ids, *exact), layout.reference(stored, ids, *exact))


@pytest.mark.usefixtures("triton_everywhere")
def test_batches_without_starts() -> None:
    stored, ids = stored_rows(5, has_places=True), torch.tensor([3, 5], device=DEVICE)
    assert_equal(layout.laid_out(stored, ids, 16, 16, 0), layout.reference(stored, ids, 16, 16, 0))
