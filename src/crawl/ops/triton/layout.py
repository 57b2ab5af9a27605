"""`laid_out` on a GPU, in four small kernels: sizes, nodes, edges, starts."""

# mypy: allow-untyped-decorators

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from crawl.ops.layout import BatchRows, StoredRows
from crawl.ops.triton.kernel import kernel

_BLOCK = 256
_MOST_AT_ONCE = 1024  # graphs that are added up in one go


def laid_out(stored: StoredRows, ids: Tensor, num_nodes: int, num_edges: int, num_starts: int) -> BatchRows:
    """See `crawl.ops.layout.laid_out`; there are graphs, nodes and edges."""
    ids, num_ids = ids.contiguous(), len(ids)
    long = torch.empty(0, dtype=torch.int64, device=ids.device)
    ptr, offset = long.new_empty(3, num_ids + 1), long.new_empty(3, num_ids)  # of nodes, edges and starts
    real = ids.new_empty(4, dtype=torch.int32)
    node, graph, edge = long.new_empty(num_nodes), long.new_empty(num_nodes), long.new_empty(num_edges)
    edge_index = long.new_empty(2, num_edges)
    has_places = all(end.ptr is not None for end in stored.ends)
    places = [(real.new_empty(num_nodes + 1), real.new_empty(num_edges)) for _ in stored.ends if has_places]
    start = stored.start_nodes.new_empty(num_starts)
    start_graph, start_key = long.new_empty(num_starts), long.new_empty(num_starts)
    moved = real.new_empty(2, num_starts)
    first, second = stored.ends
    (first_ptr, first_order), (second_ptr, second_order) = places or [(real, real)] * 2  # not used
    of_first, of_second = (
        (end.ptr, end.order) if end.ptr is not None and end.order is not None else (real, real) for end in stored.ends
    )
    depth = num_ids.bit_length()
    with torch.cuda.device(ids.get_device()):
        _sizes[(1,)](
            ids, stored.node_ptr, stored.edge_ptr, stored.start_ptr, ptr, offset, real, num_ids,
            len(stored.node_ptr) - 2, BLOCK=min(triton.next_power_of_2(num_ids), _MOST_AT_ONCE), num_warps=1,
        )  # fmt: skip
        _nodes[(triton.cdiv(num_nodes + 1, _BLOCK),)](
            ptr, offset, of_first[0], of_second[0], node, graph, first_ptr, second_ptr, num_ids, num_nodes,
            HAS_PLACES=has_places, DEPTH=depth, BLOCK=_BLOCK,
        )  # fmt: skip
        _edges[(triton.cdiv(num_edges, _BLOCK),)](
            ptr, offset, first.owner, second.owner, of_first[1], of_second[1], edge, edge_index, first_order,
            second_order, num_ids, num_nodes, num_edges, HAS_PLACES=has_places, DEPTH=depth, BLOCK=_BLOCK,
        )  # fmt: skip
        if num_starts:
            _starts[(triton.cdiv(num_starts, _BLOCK),)](
                ptr, offset, stored.start_nodes, stored.node_keys, start, start_graph, start_key, moved, num_ids,
                num_starts, DEPTH=depth, BLOCK=_BLOCK,
            )  # fmt: skip
    return BatchRows(
        node, graph, ptr[0], edge, edge_index, tuple(places) if has_places else (None, None), start, start_graph,
        start_key, moved[0], moved[1], real,
    )  # fmt: skip


@kernel("num_ids", "empty")
def _sizes(
    ids: tl.tensor,
    node_ptr: tl.tensor,
    edge_ptr: tl.tensor,
    start_ptr: tl.tensor,
    new_ptr: tl.tensor,
    offset: tl.tensor,
    real: tl.tensor,
    num_ids: tl.int32,
    empty: tl.int32,
    BLOCK: tl.constexpr,
) -> None:
    """Where each graph begins in the batch, how far it moved, and how many rows there are."""
    num_graphs = 0
    num_nodes = tl.zeros([1], tl.int64)
    num_edges = tl.zeros([1], tl.int64)
    num_starts = tl.zeros([1], tl.int64)
    zero = tl.zeros([1], tl.int64)
    one = tl.arange(0, 1)
    for kind in tl.static_range(3):
        tl.store(new_ptr + kind * (num_ids + 1) + one, zero)
    for first in range(0, num_ids, BLOCK):
        place = first + tl.arange(0, BLOCK)
        is_id = place < num_ids
        id = tl.load(ids + place, mask=is_id, other=0)
        num_graphs += tl.sum((is_id & (id < empty)).to(tl.int32), axis=0)
        num_nodes = _add(node_ptr, id, place, is_id, num_nodes, new_ptr, offset)
        num_edges = _add(edge_ptr, id, place, is_id, num_edges, new_ptr + num_ids + 1, offset + num_ids)
        num_starts = _add(start_ptr, id, place, is_id, num_starts, new_ptr + 2 * (num_ids + 1), offset + 2 * num_ids)
    tl.store(real + one, num_nodes.to(tl.int32))
    tl.store(real + 1 + one, num_edges.to(tl.int32))
    tl.store(real + 2 + one, num_starts.to(tl.int32))
    tl.store(real + 3, num_graphs)


@triton.jit
def _add(
    ptr: tl.tensor,
    id: tl.tensor,
    place: tl.tensor,
    is_id: tl.tensor,
    before: tl.tensor,
    new_ptr: tl.tensor,
    offset: tl.tensor,
) -> tl.tensor:
    """Ends and offsets of some graphs, after `before` rows; how many rows there are then."""
    begin = tl.load(ptr + id, mask=is_id, other=0)
    size = tl.load(ptr + id + 1, mask=is_id, other=0) - begin
    end = before + tl.cumsum(size, axis=0)
    tl.store(new_ptr + 1 + place, end, mask=is_id)
    tl.store(offset + place, begin - (end - size), mask=is_id)
    return before + tl.sum(size, axis=0)


@triton.jit
def _graph_at(new_ptr: tl.tensor, place: tl.tensor, num_ids: tl.tensor, DEPTH: tl.constexpr) -> tl.tensor:
    """How many graphs end at a row or before it, which is the graph that the row is in; the last one after all."""
    low = tl.zeros_like(place)
    high = low + num_ids
    for _ in tl.static_range(DEPTH):
        middle = (low + high) // 2
        is_open = low < high
        is_before = is_open & (tl.load(new_ptr + 1 + middle, mask=is_open, other=0) <= place)
        low = tl.where(is_before, middle + 1, low)
        high = tl.where(is_open & (is_before == 0), middle, high)
    return tl.minimum(low, num_ids - 1)


@kernel("num_ids", "num_nodes")
def _nodes(
    new_ptr: tl.tensor,
    offset: tl.tensor,
    stored_first: tl.tensor,
    stored_second: tl.tensor,
    node: tl.tensor,
    graph: tl.tensor,
    first_ptr: tl.tensor,
    second_ptr: tl.tensor,
    num_ids: tl.int32,
    num_nodes: tl.int32,
    HAS_PLACES: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_node = place < tl.load(new_ptr + num_ids)
    owner = _graph_at(new_ptr, place, num_ids, DEPTH)
    row = tl.where(is_node, place + tl.load(offset + owner), 0)
    tl.store(node + place, row, mask=place < num_nodes)
    tl.store(graph + place, owner.to(tl.int64), mask=place < num_nodes)
    if HAS_PLACES:
        num_edges = tl.load(new_ptr + 2 * num_ids + 1)
        shift = tl.load(offset + num_ids + owner)
        begin = tl.load(stored_first + row, mask=is_node, other=0)
        tl.store(first_ptr + place, tl.where(is_node, begin - shift, num_edges).to(tl.int32), mask=place <= num_nodes)
        begin = tl.load(stored_second + row, mask=is_node, other=0)
        tl.store(second_ptr + place, tl.where(is_node, begin - shift, num_edges).to(tl.int32), mask=place <= num_nodes)


@kernel("num_ids", "num_nodes", "num_edges")
def _edges(
    new_ptr: tl.tensor,
    offset: tl.tensor,
    first_owner: tl.tensor,
    second_owner: tl.tensor,
    stored_first: tl.tensor,
    stored_second: tl.tensor,
    edge: tl.tensor,
    edge_index: tl.tensor,
    first_order: tl.tensor,
    second_order: tl.tensor,
    num_ids: tl.int32,
    num_nodes: tl.int32,
    num_edges: tl.int32,
    HAS_PLACES: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    new_ptr += num_ids + 1
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < num_edges
    is_edge = inside & (place < tl.load(new_ptr + num_ids))
    owner = _graph_at(new_ptr, place, num_ids, DEPTH)
    shift = tl.load(offset + num_ids + owner)
    row = tl.where(is_edge, place + shift, 0)
    tl.store(edge + place, row, mask=inside)
    node_shift = tl.load(offset + owner)
    end = tl.load(first_owner + row, mask=is_edge, other=0)
    tl.store(edge_index + place, tl.where(is_edge, end - node_shift, num_nodes - 1), mask=inside)
    end = tl.load(second_owner + row, mask=is_edge, other=0)
    tl.store(
        edge_index + num_edges.to(tl.int64) + place, tl.where(is_edge, end - node_shift, num_nodes - 1), mask=inside
    )
    if HAS_PLACES:
        order = tl.load(stored_first + row, mask=is_edge, other=0)
        tl.store(first_order + place, tl.where(is_edge, order - shift, 0).to(tl.int32), mask=inside)
        order = tl.load(stored_second + row, mask=is_edge, other=0)
        tl.store(second_order + place, tl.where(is_edge, order - shift, 0).to(tl.int32), mask=inside)


@kernel("num_ids", "num_starts")
def _starts(
    new_ptr: tl.tensor,
    offset: tl.tensor,
    start_nodes: tl.tensor,
    node_keys: tl.tensor,
    start: tl.tensor,
    start_graph: tl.tensor,
    start_key: tl.tensor,
    moved: tl.tensor,
    num_ids: tl.int32,
    num_starts: tl.int32,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    new_ptr += 2 * (num_ids + 1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < num_starts
    owner = _graph_at(new_ptr, place, num_ids, DEPTH)
    is_start = inside & (place < tl.load(new_ptr + num_ids))
    row = tl.where(is_start, place + tl.load(offset + 2 * num_ids + owner), 0)
    node = tl.load(start_nodes + row, mask=inside, other=0)
    tl.store(start + place, node, mask=inside)
    tl.store(start_graph + place, owner.to(tl.int64), mask=inside)
    tl.store(start_key + place, tl.load(node_keys + node, mask=inside, other=0), mask=inside)
    tl.store(moved + place, tl.load(offset + owner).to(tl.int32), mask=inside)
    tl.store(moved + num_starts + place, tl.load(offset + num_ids + owner).to(tl.int32), mask=inside)
