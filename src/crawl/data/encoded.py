"""The structural encodings of a whole data set, in one pass."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeVar

from crawl.checks import check_type
from crawl.data.encoding_rows import encoding_rows
from crawl.data.link_graph import LinkGraph
from crawl.data.one_graph import OneGraph, Store
from crawl.data.packed import PackedStore
from crawl.data.store import GraphStore
from crawl.encodings.settings import Encodings
from crawl.encodings.transforms import appended

AnyStore = TypeVar("AnyStore", bound=Store)


def with_encodings(store: AnyStore, encodings: Encodings) -> AnyStore:
    """The same graphs with encodings appended to `x` and `edge_attr`, as `crawl.nn.WithEncodings` takes them.

    The encodings of a graph do not depend on the others. Categories become floating-point numbers of the same value.
    Those of links that an epoch hides to predict them are computed anew for it, without these links.

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
    if isinstance(store, PackedStore):
        return store.then(partial(with_encodings, encodings=encodings))  # type: ignore[return-value]
    graph = store.graph if isinstance(store, OneGraph) else store.joined()
    of_nodes, of_edges = encoding_rows(graph, encodings)
    x = store.x if of_nodes is None else appended("x", store.x, of_nodes)
    edge_attr = store.edge_attr if of_edges is None else appended("edge_attr", store.edge_attr, of_edges)
    if isinstance(store, LinkGraph):
        return replace(store, x=x, edge_attr=edge_attr, encodings=encodings)
    return replace(store, x=x, edge_attr=edge_attr)
