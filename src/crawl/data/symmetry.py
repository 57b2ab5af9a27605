"""Graphs whose edges go both ways."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from crawl.data.store import GraphStore, as_ptr


def symmetric(store: GraphStore) -> GraphStore:
    """The same graphs with the reverse of every edge, where it is missing, with the features of the edge."""
    missing = without_reverse(store)
    edges = torch.cat([torch.arange(store.num_edges), missing])
    graph = torch.repeat_interleave(store.edge_ptr.diff())[edges]
    order = graph.argsort(stable=True)
    return replace(
        store,
        edge_ptr=as_ptr(graph.bincount(minlength=len(store))),
        edge_index=torch.cat([store.edge_index, store.edge_index[:, missing].flip(0)], dim=1)[:, order],
        edge_attr=None if store.edge_attr is None else store.edge_attr[edges[order]],
    )


def without_reverse(store: GraphStore) -> Tensor:
    """The positions of the edges whose reverse is missing."""
    source, target = store.joined_edge_index
    is_there = torch.isin(target * store.num_nodes + source, source * store.num_nodes + target)
    return (~is_there).nonzero().flatten()
