"""Where walks start, and their keys."""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.checks import MAX_COUNT
from crawl.graph import Graph
from crawl.walks.checks import checked_keys, checked_share, checked_starts
from crawl.walks.philox import START, philox


def start_nodes(graph: Graph, start: float | Tensor | None, keys: Tensor | None, seed: int) -> tuple[Tensor, Tensor]:
    """The start node and the key of every walk; see `sample_walks`."""
    if isinstance(start, Tensor):
        start = checked_starts(graph, start)
        return start.int(), start_keys(start) if keys is None else checked_keys(keys, start)
    walkable = graph.degree > 0
    all_nodes = torch.arange(graph.num_nodes, device=graph.device)
    own = all_nodes if graph.graph_keys is None else graph.node_keys()
    keys = own if keys is None else checked_keys(keys, all_nodes)
    if start is not None:
        walkable = walkable & _drawn_share(graph, walkable, keys, checked_share(start), seed)
    nodes = walkable.nonzero().squeeze(1)
    return nodes.int(), keys[nodes]


def _drawn_share(graph: Graph, walkable: Tensor, keys: Tensor, share: float, seed: int) -> Tensor:
    """Which nodes start a walk: each with the given chance, and in every graph the one with the smallest draw."""
    word = philox(seed, 0, START, keys)[0]
    rank = (word << 31) | torch.arange(graph.num_nodes, device=graph.device)  # ties go to the first node
    rank = torch.where(walkable, rank, torch.iinfo(torch.int64).max)
    smallest = rank.new_full((graph.num_graphs,), torch.iinfo(torch.int64).max)
    smallest = smallest.scatter_reduce(0, graph.batch.long(), rank, "amin")
    return (word < round(share * 2**32)) | (rank == smallest[graph.batch])


def start_keys(start: Tensor) -> Tensor:
    """A start's node id; repetition r of a node within the call adds r * 2^32."""
    order = torch.argsort(start, stable=True)
    position = torch.arange(start.numel(), device=start.device)
    is_first = torch.ones_like(start, dtype=torch.bool)
    is_first[1:] = start[order][1:] != start[order][:-1]
    first = torch.cummax(torch.where(is_first, position, 0), 0).values
    repetition = torch.empty_like(start)
    repetition[order] = position - first
    return start | (repetition << 32)


def several_walks(graph: Graph, nodes: Tensor, keys: Tensor | None, num_walks: int) -> tuple[Tensor, Tensor]:
    """Start nodes and keys of `num_walks` walks from each start, one after the other.

    Walk r = 0, 1, … has the key of the start plus r · 2^32, which is what repeated starts have by default; or, if keys
    are given, plus r times the number of nodes of its graph, which keeps the keys of `Graph.node_keys` apart.
    """
    if keys is not None:
        sizes = graph.graph_ptr.diff()[graph.batch[nodes]]
        return repeated_starts(nodes, keys, sizes, graph.num_nodes, num_walks)
    nodes, _ = repeated_starts(nodes, nodes.long(), nodes, 0, num_walks)
    return nodes, start_keys(nodes.long())


def repeated_starts(
    nodes: Tensor, keys: Tensor, graph_sizes: Tensor, largest: int, num_walks: int
) -> tuple[Tensor, Tensor]:
    """Each start `num_walks` times, and keys for them; nothing here waits for the device.

    A key of `Graph.node_keys` has the id of the graph in its upper half, and in its lower half the index i of a node
    among the n of its graph. Walk r from this node gets i + r · n there: no other walk does, whichever batch the graph
    is in, and walk 0 keeps its key. Keys of other kinds have r · n added all the same.

    Args:
        nodes: `[W]` the starts.
        keys: `[W]` int64, the key of each.
        graph_sizes: `[W]` the number of nodes of the graph of each.
        largest: None of these is larger.
        num_walks: How many walks from each.

    Raises:
        ValueError: If these are more walks than there are keys.
    """
    if len(nodes) * num_walks > MAX_COUNT or largest * num_walks > 2**32:
        raise ValueError(f"num_walks={num_walks} walks from each start are too many for this graph: take fewer.")
    repetition = torch.arange(num_walks, device=nodes.device)
    keys = keys.unsqueeze(1) + graph_sizes.long().unsqueeze(1) * repetition
    return nodes.unsqueeze(1).expand(-1, num_walks).flatten(), keys.flatten()
