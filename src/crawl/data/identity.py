"""A number for each graph that depends on the graph alone: not on the file, the batch or the place it stands in."""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.data.store import GraphStore

_PRIME = 0x5851F42D4C957F2D  # an odd 64-bit multiplier with well-mixed bits


def graph_keys(store: GraphStore) -> Tensor:
    """`[G]` int64 from 0 to 2^31 - 1: a hash of the nodes, edges and features of each graph, in the order given.

    With these as keys a graph gets the same walks, and so the same prediction, whatever else is in the file.
    """
    node_row = _row_hash(store.x, store.num_nodes, store.device)
    edge_row = _mix(_row_hash(store.edge_attr, store.num_edges, store.device) + 3 * store.edge_index[0].long())
    edge_row = _mix(edge_row + 5 * store.edge_index[1].long())
    total = _mix(store.node_ptr.diff())
    for rows, ptr in ((node_row, store.node_ptr), (edge_row, store.edge_ptr)):
        sizes = ptr.diff()
        graph = torch.repeat_interleave(sizes)
        place = torch.arange(len(rows), device=rows.device) - ptr[:-1][graph]
        total = _mix(total.index_add(0, graph, _mix(rows + 7 * place)))
    return (total >> 20) & (2**31 - 1)


def _row_hash(features: Tensor | None, num_rows: int, device: torch.device) -> Tensor:
    """`[num_rows]` int64: a hash of each row; 0 without features."""
    if features is None:
        return torch.zeros(num_rows, dtype=torch.int64, device=device)
    columns = features.unsqueeze(1).flatten(1).double().contiguous().view(torch.int64)
    row = torch.zeros(num_rows, dtype=torch.int64, device=features.device)
    for column in columns.unbind(1):
        row = _mix(row + column)
    return row


def _mix(value: Tensor) -> Tensor:
    """Each bit of a number spread over all of it; products wrap around modulo 2^64."""
    value = (value ^ (value >> 29)) * _PRIME + 0x14057B7EF767814F
    return value ^ (value >> 32)
