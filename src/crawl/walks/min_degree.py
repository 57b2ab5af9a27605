"""The minimum-degree rule: walks that prefer nodes of low degree cover a graph sooner."""

from __future__ import annotations

from dataclasses import replace

import torch

from crawl.edge_lists import integer_weight_sums
from crawl.graph import Graph


def weighed_by_degree(graph: Graph) -> Graph:
    """The same graph, in which the weight of an arc u → v is divided by the smaller one of the degrees of u and v.

    A degree is the number of arcs that leave a node.
    """
    rowptr, degree, arc = graph.rowptr.long(), graph.degree.long(), torch.arange(graph.num_arcs, device=graph.device)
    source = torch.repeat_interleave(degree, output_size=graph.num_arcs)
    weight = torch.ones_like(arc, dtype=torch.float64)
    if graph.cum_weight is not None:
        weight = (graph.cum_weight - torch.where(arc > rowptr[source], graph.cum_weight.roll(1), 0)).double()
    weight = weight / torch.minimum(degree[source], degree[graph.col])
    return replace(graph, cum_weight=integer_weight_sums(weight, source, rowptr))
