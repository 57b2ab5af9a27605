"""Checks of walks, starts and keys that callers give."""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.checks import MAX_COUNT, check_type, check_window_size, share, shown, truth, whole_number
from crawl.compressed_rows import first_not_below
from crawl.graph import Graph
from crawl.tensor_checks import holds_integers, plain_tensor
from crawl.walks.arcs import SortedArcs
from crawl.walks.reference import code_dtype

_MOST_EDGES = 2**62


def check_graph(graph: object) -> None:
    """Refuses what is not a `Graph`."""
    check_type("graph", graph, Graph, "call Graph.from_data(data), for example")


def check_parts(nodes: Tensor, edges: Tensor, code: Tensor, window_size: int) -> None:
    """Refuses tensors that are not the parts of `Walks`."""
    check_window_size(window_size)
    for value in (nodes, edges, code):
        if not isinstance(value, Tensor) or value.is_nested or value.layout != torch.strided or value.dim() != 2:
            raise ValueError(f"Walks hold tensors of two dimensions, not {shown(value)}: use Walks.from_nodes.")
    num_walks, num_positions = nodes.shape
    fits = edges.shape == (num_walks, max(num_positions - 1, 0)) and code.shape == nodes.shape
    fits &= (nodes.dtype, code.dtype) == (torch.int32, code_dtype(window_size))
    if not fits or edges.dtype not in (torch.int32, torch.int64):
        raise ValueError("nodes, edges and code do not belong together: make walks with Walks.from_nodes.")


def check_jumps(has_jumps: object, num_edges: int | None) -> None:
    """Refuses walks that may jump, but do not know the number that stands for it."""
    if truth("has_jumps", has_jumps) and num_edges is None:
        raise ValueError("num_edges stands for a jump in `edges`: give Walks the num_edges of their graph.")


def check_ids(
    nodes: Tensor, num_nodes: int | None, edges: Tensor, num_edges: int | None, has_jumps: bool = False
) -> None:
    """Refuses ids outside the graph, so that no layer has to look. On a GPU the host would wait, so it does not.

    While a network is exported there are no values to look at.
    """
    if torch.compiler.is_exporting():
        return
    for name, ids, number in (("nodes", nodes, num_nodes), ("edges", edges, num_edges)):
        if number is None:
            continue
        number = whole_number(f"num_{name}", number, 0, MAX_COUNT if name == "nodes" else _MOST_EDGES)
        if ids.numel() and ids.device.type == "cpu":
            low, high = (int(bound) for bound in torch.aminmax(ids))
            if low < 0 or high >= number + (has_jumps and name == "edges"):
                raise ValueError(
                    f"The walks have {name} {low if low < 0 else high}, but num_{name} is {number}: "
                    "give the number, or the features, of their graph."
                )


def check_graph_of(nodes: Tensor, num_nodes: int | None, edges: Tensor, num_edges: int | None, graph: Graph) -> None:
    """Refuses a graph that is not the one of these walks, as far as sizes and ids tell."""
    check_graph(graph)
    for name, known in (("nodes", num_nodes), ("edges", num_edges)):
        number = getattr(graph, f"num_{name}")
        if known not in (None, number):
            raise ValueError(
                f"The walks are on a graph of {known} {name}, not of {number}: give the graph they are on."
            )
    if nodes.device != graph.device:
        raise ValueError(f"The graph is on {graph.device}, the walks are on {nodes.device}: move one with .to(device).")
    check_ids(nodes, graph.num_nodes, edges, graph.num_edges)


def checked_steps(graph: Graph, nodes: Tensor, edges: Tensor | None) -> tuple[Tensor, Tensor]:
    """Nodes and edges of the walks that visit these nodes; without edges, the first that fits each step."""
    check_graph(graph)
    if not holds_integers(nodes) or nodes.dim() != 2 or nodes.shape[1] == 0:
        raise ValueError("nodes must be a tensor of integers of shape [num_walks, num_steps + 1].")
    nodes = nodes.to(graph.device).long().contiguous()
    if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < graph.num_nodes:
        raise ValueError(f"nodes must be from 0 to {graph.num_nodes - 1}, the nodes of the graph.")
    first, last = SortedArcs(graph).between(nodes[:, :-1], nodes[:, 1:])
    if bool((first == last).any()):
        walk, step = (int(i) for i in (first == last).nonzero()[0])
        u, v = int(nodes[walk, step]), int(nodes[walk, step + 1])
        raise ValueError(f"Walk {walk} steps from node {u} to node {v}, which is not an edge of the graph.")
    if edges is None:
        return nodes.int(), graph.edge_id[first]
    if not holds_integers(edges) or edges.shape != first.shape:
        raise ValueError(f"edges must be a tensor of integers of shape {list(first.shape)}.")
    edges = edges.to(graph.device).long().contiguous()
    arc = first_not_below(graph.edge_id, first, last, edges)  # arcs between the same nodes are in the order of edges
    if bool((arc == last).any()) or bool((graph.edge_id[arc] != edges).any()):
        raise ValueError("edges must name, for every step, a column of edge_index that joins its two nodes.")
    return nodes.int(), edges.to(graph.edge_id.dtype)


def check_values(values: Tensor, nodes: Tensor) -> None:
    """Refuses what is not a row for each position of the walks that visit these nodes."""
    if plain_tensor("values", values).dim() != 3 or values.shape[:2] != nodes.shape:
        raise ValueError(f"values must be of shape {[*nodes.shape, 'C']}, not {list(values.shape)}.")


def check_rows_to_add(nodes: Tensor, edges: Tensor | None, bits: Tensor | None, num_bits: int) -> None:
    """Refuses rows of nodes, edges and bits that are not of one width, and what is not a row for each bit."""
    if plain_tensor("nodes", nodes).dim() != 2:
        raise ValueError(f"nodes must have two dimensions, a row for each node, not {shown(nodes)}.")
    width = nodes.shape[1:]
    for name, rows in {"edges": edges, "bits": bits}.items():
        if rows is not None and plain_tensor(name, rows).shape[1:] != width:
            raise ValueError(f"{name} must have rows as wide as those of nodes, {shown(nodes)}, not {shown(rows)}.")
    if bits is None:
        return
    if plain_tensor("bits", bits).dim() != 2 or bits.shape[0] != num_bits:
        raise ValueError(
            f"These walks have {num_bits} bits at a position, so give {num_bits} rows, not {shown(bits)}: "
            "make them with the window_size of the weights."
        )


def checked_starts(graph: Graph, start: Tensor) -> Tensor:
    """Start nodes that are given one by one."""
    if not holds_integers(start) or start.dim() != 1:
        raise ValueError("start must be a one-dimensional tensor of node ids (or a share, or None).")
    start = start.to(graph.device).long()
    if start.numel():
        low, high = int(start.min()), int(start.max())
        if low < 0 or high >= graph.num_nodes:
            raise ValueError(f"start holds node {low if low < 0 else high}; the nodes are 0 to {graph.num_nodes - 1}.")
        isolated = start[graph.rowptr[start] == graph.rowptr[start + 1]]
        if isolated.numel():
            raise ValueError(f"No walk can start at node {int(isolated[0])}: it has no edge.")
    return start


def checked_share(start: object) -> float:
    """The share of nodes that start a walk."""
    return share("start", start, "None, a share in (0, 1], or a tensor of node ids")


def checked_keys(keys: Tensor, starts: Tensor) -> Tensor:
    """A key for each start."""
    if not holds_integers(keys) or keys.shape != starts.shape:
        raise ValueError(f"keys must be a tensor of integers of shape {list(starts.shape)}.")
    return keys.to(starts.device).long().contiguous()
