"""Graphs of a store side by side in a batch: which row of the store is behind each row of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crawl.ops.backends import fast_module


@dataclass(frozen=True)
class StoredEnd:
    """One end of all edges of a store.

    Attributes:
        owner: `[E]` int64, the node at this end of each edge.
        ptr: `[N + 1]` int32; the edges of node v are `order[ptr[v]:ptr[v + 1]]`. None if nobody asks.
        order: `[E]` int32, or None.
    """

    owner: Tensor
    ptr: Tensor | None = None
    order: Tensor | None = None


@dataclass(frozen=True)
class StoredRows:
    """The graphs of a store, the last of which is empty, for padding.

    Attributes:
        node_ptr: `[G + 1]` int64, where the nodes of each graph begin.
        edge_ptr: `[G + 1]` where its edges do.
        start_ptr: `[G + 1]` where its start nodes do.
        start_nodes: The start nodes of all graphs.
        node_keys: `[N]` int64, the key of each node.
        ends: The sources and the targets of all edges.
    """

    node_ptr: Tensor
    edge_ptr: Tensor
    start_ptr: Tensor
    start_nodes: Tensor
    node_keys: Tensor
    ends: tuple[StoredEnd, ...]


@dataclass(frozen=True)
class BatchRows:
    """Where the rows of a batch come from. In padding, `node` and `edge` are 0, and others point at a spare row.

    Attributes:
        node: `[N]` the node of the store.
        graph: `[N]` the graph of the batch that each node is in; the last one in padding.
        node_ptr: `[G + 1]` int64, where each graph of the batch begins.
        edge: `[E]` the edge of the store.
        edge_index: `[2, E]` both ends of each edge, as nodes of the batch.
        ends: For each end, `ptr` `[N + 1]` and `order` `[E]` of the segments from edges to nodes, or None.
        start: `[S]` the node of the store that a walk starts from.
        start_graph: `[S]` its graph in the batch.
        start_key: `[S]` the key of the node.
        node_offset: `[S]` int32, what a node of this walk has more in the store than in the batch.
        edge_offset: `[S]` int32, the same of an edge.
        real: `[4]` int32, how many nodes, edges, starts and graphs are no padding.
    """

    node: Tensor
    graph: Tensor
    node_ptr: Tensor
    edge: Tensor
    edge_index: Tensor
    ends: tuple[tuple[Tensor, Tensor] | None, ...]
    start: Tensor
    start_graph: Tensor
    start_key: Tensor
    node_offset: Tensor
    edge_offset: Tensor
    real: Tensor


def laid_out(stored: StoredRows, ids: Tensor, num_nodes: int, num_edges: int, num_starts: int) -> BatchRows:
    """The rows of the graphs `ids` one graph after the other, and padding up to these numbers of rows.

    Nothing here waits for the device.
    """
    kernels = fast_module("layout", ids.device)
    if kernels is not None and ids.numel() and min(num_nodes, num_edges) > 0:
        found: BatchRows = kernels.laid_out(stored, ids, num_nodes, num_edges, num_starts)
        return found
    return reference(stored, ids, num_nodes, num_edges, num_starts)


def reference(stored: StoredRows, ids: Tensor, num_nodes: int, num_edges: int, num_starts: int) -> BatchRows:
    """`laid_out` in plain torch."""
    node, graph, node_ptr, node_offset = rows_of(stored.node_ptr, ids, num_nodes)
    edge, edge_graph, edge_ptr, edge_offset = rows_of(stored.edge_ptr, ids, num_edges)
    is_node = torch.arange(num_nodes, device=ids.device) < node_ptr[-1]
    is_edge = torch.arange(num_edges, device=ids.device) < edge_ptr[-1]
    ends: list[tuple[Tensor, Tensor] | None] = []
    owners = []
    for end in stored.ends:
        owners.append(torch.where(is_edge, end.owner[edge] - node_offset[edge_graph], num_nodes - 1))
        if end.ptr is None or end.order is None:
            ends.append(None)
            continue
        ptr = torch.where(is_node, end.ptr[node] - edge_offset[graph], edge_ptr[-1])
        order = torch.where(is_edge, end.order[edge] - edge_offset[edge_graph], 0)
        ends.append((torch.cat([ptr, edge_ptr[-1:]]).int(), order.int()))
    start, start_graph, start_ptr, _ = rows_of(stored.start_ptr, ids, num_starts)
    start = stored.start_nodes[start]
    is_graph = ids < len(stored.node_ptr) - 2
    return BatchRows(
        node,
        graph,
        node_ptr,
        edge,
        torch.stack(owners),
        tuple(ends),
        start,
        start_graph,
        stored.node_keys[start],
        node_offset[start_graph].int(),
        edge_offset[start_graph].int(),
        torch.stack([node_ptr[-1], edge_ptr[-1], start_ptr[-1], is_graph.sum()]).int(),
    )


def rows_of(ptr: Tensor, ids: Tensor, num_rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows of the graphs `ids` one after the other, the position of the graph of each row, the new ptr, and how far
    each graph moved. After the last real row come others that exist; they belong to the last graph.
    """
    start = ptr[ids]
    end = (ptr[ids + 1] - start).cumsum(0)
    new_ptr = torch.cat([end.new_zeros(1), end])
    offset = start - new_ptr[:-1]
    place = torch.arange(num_rows, device=ids.device)
    graph = torch.searchsorted(end, place, right=True).clamp_max(len(ids) - 1)
    rows = torch.where(place < new_ptr[-1], place + offset[graph], 0)
    return rows, graph, new_ptr, offset
