"""The edges of superpixels, by the recipe of Dwivedi et al., Benchmarking Graph Neural Networks, JMLR 2023."""

from __future__ import annotations

import torch
from torch import Tensor

NUM_NEIGHBOURS = 8


def nearest_neighbours(node_ptr: Tensor, x: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The number of edges of each graph, `edge_index` and `edge_attr`, the weights.

    The weight of two nodes is exp(-(d_pos / s_pos)² - (d_x / s_x)²), averaged over the scales s of both nodes; the
    scale of a node is its mean distance from the nearest eight. A node is joined with the eight of the largest weight,
    and with those that have it among theirs.

    Args:
        node_ptr: `[G + 1]` where each graph begins.
        x: `[N, C]` intensities.
        pos: `[N, 2]` places.
    """
    sizes = node_ptr.diff()
    pieces: list[tuple[Tensor, Tensor, Tensor]] = []  # graph, edge_index and weight of edges
    for size in sizes.unique().tolist():  # type: ignore[no-untyped-call]
        same = (sizes == size).nonzero().flatten()
        for graphs in torch.split(same, max(1, 4_000_000 // size**2)):
            rows = node_ptr[graphs][:, None] + torch.arange(size)
            weight = _weights(x[rows], pos[rows])
            nearest = weight.topk(min(NUM_NEIGHBOURS, size - 1), dim=2).indices
            joined = torch.zeros_like(weight, dtype=torch.bool).scatter_(2, nearest, True)
            graph, source, target = (joined | joined.transpose(1, 2)).nonzero(as_tuple=True)
            pieces.append((graphs[graph], torch.stack([source, target]), weight[graph, source, target]))
    graph_of_edge = torch.cat([graph for graph, _, _ in pieces])
    order = graph_of_edge.argsort(stable=True)
    edge_index = torch.cat([edges for _, edges, _ in pieces], dim=1)[:, order]
    weights = torch.cat([weight for _, _, weight in pieces])[order]
    return graph_of_edge.bincount(minlength=len(sizes)), edge_index, weights.unsqueeze(1)


def _weights(x: Tensor, pos: Tensor) -> Tensor:
    """`[B, n, n]` the weight of each pair of nodes, in each of B graphs; -1 for a node and itself."""
    scaled = torch.zeros(len(x), x.shape[1], x.shape[1])
    for values in (pos, x):
        distance = torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist")
        nearest = distance.topk(min(NUM_NEIGHBOURS + 1, x.shape[1]), dim=2, largest=False).values  # and the node itself
        scale = nearest.sum(dim=2, keepdim=True) / NUM_NEIGHBOURS
        scaled += (distance / (scale + 1e-8)).square()
    weight = (-scaled).exp()
    weight = (weight + weight.transpose(1, 2)) / 2
    return weight - torch.eye(x.shape[1]) * (1 + weight)
