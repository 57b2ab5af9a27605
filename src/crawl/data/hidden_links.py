"""Pairs of nodes that are predicted without a look at whether they are linked: each link is hidden for its own answer.

To hide one link at a time would take an evaluation for each pair. So all pairs of nodes are divided by chance into
`NUM_PARTS` parts, and the pairs of a part are predicted on the graph without the links of this part. Which part a pair
belongs to follows from its two nodes and the seed: the answer for a pair does not depend on what else is asked for.
Pairs without a link are predicted on such graphs, too, so that nothing but what is known of them sets them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from crawl.data.link_graph import without_edges
from crawl.data.one_graph import OneGraph
from crawl.data.pairs import pair_numbers
from crawl.walks.philox import START, philox

NUM_PARTS = 10


def hidden_parts(store: OneGraph, seed: int) -> Iterator[tuple[Tensor, OneGraph]]:
    """The targets of each part that has any, and the graph without the links of this part, with these targets.

    Raises:
        ValueError: If targets are not pairs of two different nodes, or edges have weights.
    """
    if not store.are_pairs:
        raise ValueError("hide=True hides links while pairs of nodes are predicted, and this store asks about nodes.")
    if store.graph.is_weighted:
        raise ValueError("hide=True takes edges away, which a graph with weights cannot do yet: leave out hide.")
    loops = store.owners[store.owners[:, 0] == store.owners[:, 1]]
    if len(loops):
        raise ValueError(f"A link is between two different nodes, and node {int(loops[0, 0])} is paired with itself.")
    graph = store.graph
    source = torch.repeat_interleave(graph.degree.long(), output_size=graph.num_arcs)
    is_link = source != graph.col  # self-loops stay
    edge = graph.edge_id[is_link].long()
    part_of_arc = part_of(torch.stack([source[is_link], graph.col[is_link].long()], dim=1), seed)
    part_of_target = part_of(store.owners, seed)
    for part in range(NUM_PARTS):
        ids = (part_of_target == part).nonzero().flatten()
        if not len(ids):
            continue
        is_kept = torch.ones(graph.num_edges, dtype=torch.bool, device=graph.device)
        is_kept[edge[part_of_arc == part]] = False
        edge_attr, edge_index = store.edge_attr, store.edge_index
        seen = replace(
            store.subset(ids),
            graph=without_edges(graph, is_kept),
            edge_attr=None if edge_attr is None else edge_attr[is_kept.to(edge_attr.device)],
            edge_index=None if edge_index is None else edge_index[:, is_kept.to(edge_index.device)],
        )
        yield ids, seen


def part_of(pairs: Tensor, seed: int) -> Tensor:
    """`[M]` the part of each pair of two different nodes, whichever comes first."""
    return philox(seed, 0, START, pair_numbers(pairs))[0] % NUM_PARTS
