"""Compressed rows: made of edge lists that were checked, and searched.

The arcs of node v are `rowptr[v]:rowptr[v + 1]`; `col` has their targets, ascending in each row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.checks import MAX_COUNT
from crawl.tensor_checks import in_memory

_PART = 2**22  # arcs that are looked at together


def compressed_rows(
    edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None, undirected: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """`rowptr`, `col`, `edge_id` and `cum_weight` of a `Graph`, for edges as `checked_edge_list` returns them.

    Refuses a graph in which walks end at a node.
    """
    device, num_edges = edge_index.device, edge_index.shape[1]
    source, target = edge_index[0], edge_index[1]
    edge_id = torch.arange(num_edges, device=device, dtype=index_type(num_edges))
    order_key = source * num_nodes + target
    if undirected:
        reverse_key = target * num_nodes + source
        missing = ~torch.isin(reverse_key, order_key)
        source, target = torch.cat([source, target[missing]]), torch.cat([target, source[missing]])
        edge_id = torch.cat([edge_id, edge_id[missing]])
        order_key = torch.cat([order_key, reverse_key[missing]])
        del reverse_key, missing
    if bool((order_key[1:] < order_key[:-1]).any()):
        order = torch.sort(order_key, stable=True).indices
        source, target, edge_id = source[order], target[order], edge_id[order]
    del order_key
    with in_memory(f"A graph of {num_nodes} nodes"):
        rowptr = torch.zeros(num_nodes + 1, device=device, dtype=torch.int64)
        torch.cumsum(torch.bincount(source, minlength=num_nodes), 0, out=rowptr[1:])
    _check_dead_ends(rowptr, target)
    cum_weight = None
    if edge_weight is not None:
        cum_weight = integer_weight_sums(edge_weight[edge_id], source, rowptr)
    return rowptr.to(index_type(source.numel())), target.int(), edge_id, cum_weight


def _check_dead_ends(rowptr: Tensor, target: Tensor) -> None:
    """Refuses a graph with an edge to a node that no edge leaves, or with a row that is too long to be drawn from."""
    if rowptr.numel() > 1 and target.numel() > MAX_COUNT and int(rowptr.diff().max()) >= MAX_COUNT:
        raise ValueError(f"A node has {int(rowptr.diff().max())} arcs; at most {MAX_COUNT - 1} are supported.")
    is_dead_end = (rowptr[1:] == rowptr[:-1])[target]
    if bool(is_dead_end.any()):
        raise ValueError(
            f"Node {int(target[is_dead_end][0])} can be entered but not left, so a walk would end there. "
            "Make the graph undirected (PyG: ToUndirected; crawl.Graph: undirected=True), or add a self-loop there."
        )


def index_type(count: int) -> torch.dtype:
    """The integers that count this far: int32 while that is enough."""
    return torch.int32 if count <= MAX_COUNT else torch.int64


def integer_weight_sums(weight: Tensor, source: Tensor, rowptr: Tensor) -> Tensor:
    """Running sums of the weights of arcs within each row, as integers below 2^31: every device draws the same arcs.

    A weight is rounded to 2^-31 of the largest in its row; then, in integers, it gets its share of the row's sum, and
    at least 1, so that no edge is lost. Nothing here depends on the order of a floating-point sum.
    """

    def sums_within_rows(values: Tensor) -> Tensor:
        running = torch.cumsum(values, 0)
        before_row = torch.cat([running.new_zeros(1), running])[rowptr[:-1]]
        return running - before_row[source]

    degree = rowptr[1:] - rowptr[:-1]
    largest = torch.zeros(degree.numel(), device=weight.device, dtype=torch.float64)
    largest.scatter_reduce_(0, source, weight, "amax")
    rounded = (weight / largest[source] * 2**31).round().long()
    total = sums_within_rows(rounded)[rowptr[source + 1] - 1]
    share = rounded * (MAX_COUNT - degree[source]) // total  # the product is below 2^62
    return sums_within_rows(share.clamp_min(1))


def first_not_below(values: Tensor, begin: Tensor, end: Tensor, bound: Tensor) -> Tensor:
    """The first place of each range [begin, end), in which values ascend, with one not below the bound; else `end`."""
    begin, end, bound = torch.broadcast_tensors(begin, end, bound)  # type: ignore[no-untyped-call]
    while bool((is_open := begin < end).any()):
        middle = torch.where(is_open, (begin + end) // 2, 0)
        is_below = is_open & (values[middle] < bound)
        begin, end = torch.where(is_below, middle + 1, begin), torch.where(is_open & ~is_below, middle, end)
    return begin


def one_way_arc(rowptr: Tensor, col: Tensor) -> tuple[int, int] | None:
    """Source and target of the first arc that no arc leads back along; None if each has one."""
    if rowptr.device.type == "cpu":
        from crawl.one_way_cpu import one_way_arc_on_cpu  # numba takes a second to import

        return one_way_arc_on_cpu(rowptr, col)
    return one_way_arc_by_search(rowptr, col)


def one_way_arc_by_search(rowptr: Tensor, col: Tensor) -> tuple[int, int] | None:
    """`one_way_arc` in plain torch: the source of each arc is looked for in the row of its target."""
    first, end = int(rowptr[0]), int(rowptr[-1])
    for begin in range(first, end, _PART):
        arc = torch.arange(begin, min(begin + _PART, end), dtype=rowptr.dtype, device=rowptr.device)
        source, target = torch.searchsorted(rowptr, arc, right=True) - 1, col[begin : begin + len(arc)].long()
        row_end = rowptr[target + 1].long()
        place = first_not_below(col, rowptr[target].long(), row_end, source)
        is_missing = (place == row_end) | (col[place.clamp_max(end - 1)] != source)
        if bool(is_missing.any()):
            which = int(is_missing.long().argmax())
            return int(source[which]), int(target[which])
    return None
