"""Closed batches of one graph of any size (design, section 5).

All layers of a walk network use the same walks, and need the state of a node only where these visit it, pooled from
their own windows. So a few walks around a target are all that its answer depends on, at any depth: every target becomes
a small graph of its own, of the nodes that its walks visit. Bits are those of the whole graph.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from crawl.data.induced import induced_edges_on_cpu
from crawl.graph import Graph
from crawl.nn.batch import Batch
from crawl.ops.segments import Rows, Segments
from crawl.walks.walks import Walks


class Visited(NamedTuple):
    """The nodes that the walks of each target visit, target by target, ascending; a node of two targets is there twice.

    Attributes:
        node: `[n]` the node of the whole graph.
        target: `[n]` whose it is.
        key: `[n]` both in one number, ascending.
    """

    node: Tensor
    target: Tensor
    key: Tensor


def closed_batch(
    graph: Graph, owners: Tensor, walks: Walks, target: Tensor, *, with_all_edges: bool
) -> tuple[Batch, Tensor, Tensor]:
    """The batch of walks around targets, without features; the node and the edge of the whole graph that each row is.

    Args:
        graph: The whole graph.
        owners: `[M]` the nodes, or `[M, 2]` the pairs, that are the targets.
        walks: Walks on the graph.
        target: `[W]` the target of each walk.
        with_all_edges: Whether the batch has all edges among the nodes that the walks of a target visit, as message
            passing needs it, or those that are walked along only.
    """
    num_targets, size = owners.shape[0], graph.num_nodes
    ends = owners.view(num_targets, owners.dim())  # 1 of a node, 2 of a pair
    own = torch.arange(num_targets, device=ends.device).unsqueeze(1)
    positions = target.unsqueeze(1) * size + walks.nodes
    key, row = torch.unique(torch.cat([positions.flatten(), (own * size + ends).flatten()]), return_inverse=True)
    visited = Visited(key % size, key // size, key)
    nodes, target_rows = row[: positions.numel()].view(positions.shape), row[positions.numel() :].view(ends.shape)
    source, stop = nodes[:, :-1].flatten(), nodes[:, 1:].flatten()
    step = source * (graph.num_edges + 1) + walks.edges.flatten()  # an edge may be walked both ways
    if with_all_edges:
        edge_index, edge = induced_edges(graph, visited)
        edge_key, order = torch.sort(edge_index[0] * (graph.num_edges + 1) + edge)
        edges = order[torch.searchsorted(edge_key, step).clamp_max(max(len(order) - 1, 0))] if len(order) else step
    else:
        edge_key, edges = torch.unique(step, return_inverse=True)
        edge_index = torch.stack([edge_key // (graph.num_edges + 1), torch.zeros_like(edge_key)])
        edge_index[1, edges] = stop
        edge = edge_key % (graph.num_edges + 1)
    rows, num_edges = Rows(len(key)), len(edge)
    of_targets = torch.searchsorted(visited.target, torch.arange(num_targets + 1, device=key.device))
    members = Segments(visited.target, rows, Rows(num_targets), of_targets)
    local = Walks(
        nodes.int(),
        edges.view(walks.edges.shape).int(),
        walks.code,
        walks.window_size,
        len(key),
        num_edges,
    )
    into, out_of = (Segments(end, Rows(num_edges), rows) for end in (edge_index[1], edge_index[0]))
    asked = tuple(Segments(end, Rows(num_targets), rows) for end in target_rows.unbind(1))
    return Batch(edge_index, members, into, out_of, walks=local, targets=asked), visited.node, edge


def induced_edges(graph: Graph, visited: Visited) -> tuple[Tensor, Tensor]:
    """`[2, e]` all edges among the visited nodes of each target, and `[e]` which of the graph they are.

    They come source by source, and for each source in the order of its arcs.
    """
    if graph.device.type == "cpu":
        targets = torch.arange(int(visited.target[-1]) + 2 if len(visited.target) else 1, device="cpu")
        ptr = torch.searchsorted(visited.target, targets)
        return induced_edges_on_cpu(graph.rowptr, graph.col, graph.edge_id, visited.node, ptr)
    return induced_edges_by_search(graph, visited)


def induced_edges_by_search(graph: Graph, visited: Visited) -> tuple[Tensor, Tensor]:
    """`induced_edges` in plain torch: the arcs of all visited nodes, of which those are kept that lead to one."""
    first = graph.rowptr[visited.node].long()
    degree = graph.rowptr[visited.node + 1].long() - first
    source = torch.repeat_interleave(degree)
    begin = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    arc = torch.arange(len(source), device=source.device) - begin[source] + first[source]
    key = visited.target[source] * graph.num_nodes + graph.col[arc]
    stop = torch.searchsorted(visited.key, key).clamp_max(len(visited.key) - 1)
    is_there = visited.key[stop] == key
    return torch.stack([source[is_there], stop[is_there]]), graph.edge_id[arc[is_there]].long()
