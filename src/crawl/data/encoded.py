"""The structural encodings of a whole data set, in one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import torch

from crawl.checks import check_type
from crawl.data.link_graph import LinkGraph
from crawl.data.one_graph import OneGraph, Store
from crawl.data.store import GraphStore
from crawl.encodings.cycles import cycle_counts
from crawl.encodings.probabilities import return_probabilities, walk_probabilities
from crawl.encodings.settings import Encodings
from crawl.encodings.transforms import appended

AnyStore = TypeVar("AnyStore", bound=Store)


def with_encodings(store: AnyStore, encodings: Encodings) -> AnyStore:
    """The same graphs with encodings appended to `x` and `edge_attr`, as `crawl.nn.WithEncodings` takes them.

    The encodings of a graph do not depend on the others. Categories become floating-point numbers of the same value.

    Args:
        store: The graphs, or one graph with targets.
        encodings: What to append: return probabilities, square roots of cycle counts and log(1 + degree), in this
            order, on nodes; walk probabilities, then square roots of cycle counts, on edges.

    Raises:
        ValueError: If there are too many steps or too long cycles for such large graphs.
    """
    check_type("store", store, (GraphStore, OneGraph), "build one with GraphStore.from_graphs")
    check_type("encodings", encodings, Encodings)
    if encodings == Encodings():
        return store
    if isinstance(store, LinkGraph):
        raise ValueError("Encodings would know the links that an epoch hides to predict them: leave out encodings.")
    graph = store.graph if isinstance(store, OneGraph) else store.joined()
    of_nodes, of_edges = [], []
    if encodings.return_steps:
        of_nodes.append(return_probabilities(graph, encodings.return_steps))
    if encodings.walk_steps:
        of_edges.append(walk_probabilities(graph, encodings.walk_steps))
    if encodings.longest_cycle:
        counts = cycle_counts(graph, encodings.longest_cycle)
        of_nodes.append(counts.nodes.float().sqrt())  # which all machines round alike
        of_edges.append(counts.edges.float().sqrt())
    if encodings.degree:
        of_nodes.append(graph.degree.double().log1p().float().unsqueeze(1))  # rounded once, so alike on all machines
    x = appended("x", store.x, torch.cat(of_nodes, dim=1)) if of_nodes else store.x
    edge_attr = appended("edge_attr", store.edge_attr, torch.cat(of_edges, dim=1)) if of_edges else store.edge_attr
    return replace(store, x=x, edge_attr=edge_attr)
