"""A batch of exact size with rows added that are not real, so that all batches of a bucket have one shape."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from crawl.data.assembly import Bucket
from crawl.nn.batch import Batch
from crawl.ops.segments import Rows, Segments, places_of
from crawl.walks.walks import Walks


def padded(batch: Batch, bucket: Bucket, walks_per_graph: int) -> Batch:
    """The same batch with as many rows as the bucket; ids in padding point at the last row, which is not real.

    Args:
        batch: A batch of exact size.
        bucket: The sizes; `num_starts` is that of all walks.
        walks_per_graph: No graph of this batch, or of another in this bucket, has more walks.
    """
    nodes, edges = _rows(batch.num_nodes, bucket.num_nodes, batch), _rows(batch.num_edges, bucket.num_edges, batch)
    graphs = _rows(batch.num_graphs, bucket.num_graphs, batch)
    edge_index = _longer(batch.edge_index.t(), edges.size, nodes.size - 1).t()
    ptr, _ = batch.nodes.places
    ptr = _longer(ptr, graphs.size + 1, batch.num_nodes)
    members = _longer(batch.nodes.owner, nodes.size, graphs.size - 1)
    targets = batch.targets
    if targets is not None:
        asked = _rows(targets[0].rows.size, graphs.size, batch)
        targets = tuple(_segments(end.owner, asked, nodes) for end in targets)
    return replace(
        batch,
        edge_index=edge_index,
        nodes=Segments(members, nodes, graphs, ptr, None, bucket.largest_graph),
        edges=_segments(batch.edges.owner, edges, nodes),
        sources=_segments(batch.sources.owner, edges, nodes),
        x=None if batch.x is None else _longer(batch.x, nodes.size, 0),
        edge_attr=None if batch.edge_attr is None else _longer(batch.edge_attr, edges.size, 0),
        y=None if batch.y is None else _longer(batch.y, graphs.size, torch.nan),
        walks=None if batch.walks is None else _padded_walks(batch.walks, bucket, walks_per_graph),
        targets=targets,
        u=None if batch.u is None else _longer(batch.u, graphs.size, 0),
        sample_weight=None if batch.sample_weight is None else _longer(batch.sample_weight, graphs.size, 0),
    )


def _padded_walks(walks: Walks, bucket: Bucket, walks_per_graph: int) -> Walks:
    count = torch.tensor([len(walks)], dtype=torch.int32, device=walks.device)
    nodes = _longer(walks.nodes, bucket.num_starts, bucket.num_nodes - 1)
    edges = _longer(walks.edges, bucket.num_starts, bucket.num_edges - 1)
    code = _longer(walks.code, bucket.num_starts, 0)
    longest = walks_per_graph * nodes.shape[1]
    segments = {}
    for name, given, ids, number in (
        ("visits", walks.nodes, nodes, bucket.num_nodes),
        ("steps", walks.edges, edges, bucket.num_edges),
    ):
        rows = Rows(ids.numel(), count * ids.shape[1])
        segments[name] = _segments(given.flatten(), rows, Rows(number), longest)
    sizes = (bucket.num_nodes, bucket.num_edges)
    return Walks(nodes, edges, code, walks.window_size, *sizes, count, walks.has_jumps).with_segments(**segments)


def _segments(owner: Tensor, rows: Rows, owners: Rows, longest: int | None = None) -> Segments:
    """The segments of these real rows and of padding after them."""
    ptr, order = places_of(owner, owners.size)
    order = torch.cat([order, torch.arange(len(owner), rows.size, device=owner.device)])
    return Segments(_longer(owner, rows.size, owners.size - 1), rows, owners, ptr.int(), order.int(), longest)


def _rows(num_real: int, size: int, batch: Batch) -> Rows:
    return Rows(size, torch.tensor([num_real], dtype=torch.int32, device=batch.edge_index.device))


def _longer(rows: Tensor, size: int, fill: float) -> Tensor:
    return torch.cat([rows, rows.new_full((size - len(rows), *rows.shape[1:]), fill)])
