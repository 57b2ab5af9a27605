"""The minimum-degree rule: walks that prefer nodes of low degree cover a graph sooner."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from crawl.compressed_rows import integer_weight_sums
from crawl.graph import Graph

_WEIGHED: WeakKeyDictionary[Graph, Graph] = WeakKeyDictionary()  # closed batches walk on one graph again and again


def weighed_by_degree(graph: Graph) -> Graph:
    """The same graph, in which the weight of an arc u → v is divided by the smaller one of the degrees of u and v.

    A degree is the number of arcs that leave a node. Weights are computed once for a graph and kept as long as it.
    """
    weighed = _WEIGHED.get(graph)
    if weighed is None:
        weighed = _WEIGHED[graph] = replace(graph, cum_weight=_weights(graph))
    return weighed


def _weights(graph: Graph) -> Tensor:
    """`[A]` running sums, within a row, of the weights of arcs."""
    rowptr, degree, arc = graph.rowptr.long(), graph.degree.long(), torch.arange(graph.num_arcs, device=graph.device)
    source = torch.repeat_interleave(degree, output_size=graph.num_arcs)
    weight = torch.ones_like(arc, dtype=torch.float64)
    if graph.cum_weight is not None:
        weight = (graph.cum_weight - torch.where(arc > rowptr[source], graph.cum_weight.roll(1), 0)).double()
    weight = weight / torch.minimum(degree[source], degree[graph.col])
    return integer_weight_sums(weight, source, rowptr)
