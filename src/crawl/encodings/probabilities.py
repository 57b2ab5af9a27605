"""Where a random walk is after k steps, exactly: return probabilities of nodes, and those of the ends of edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from crawl.checks import whole_number
from crawl.encodings.settings import MAX_STEPS
from crawl.graph import Graph
from crawl.tensor_checks import in_memory
from crawl.threads import share_out
from crawl.walks.checks import check_graph

_MOST_WORK = 10**12  # additions: half an hour on a core
_LANES = 8  # start nodes of a graph that are followed together, as wide as the registers of a CPU
_BLOCKS_AT_ONCE = 8
_MOST_PIECES = 256  # for which work space of the size of a graph is made


def return_probabilities(graph: Graph, num_steps: int = 20) -> Tensor:
    """`[N, num_steps]` float32: the probability that a walk from each node is back there after 1, 2, … steps (RWSE).

    Steps are uniform among the arcs of a node, or in proportion to edge weights if the graph has them. An isolated node
    has zeros.

    Args:
        graph: On any device; computed on the CPU.
        num_steps: The number of columns.

    Raises:
        ValueError: If the graphs are so large that it could take hours: use `estimate_return_probabilities`.
    """
    return _probabilities(graph, num_steps, of_arcs=False)


def walk_probabilities(graph: Graph, num_steps: int = 20) -> Tensor:
    """`[E, num_steps]` float32: for each edge (u, v) the probability that a walk from u is at v after 1, 2, … steps.

    With `return_probabilities`, these are the relative random-walk probabilities (RRWP) on nodes and edges. For an edge
    that was given once and is walked both ways, it is the mean of both directions.

    Args:
        graph: On any device; computed on the CPU.
        num_steps: The number of columns.

    Raises:
        ValueError: If the graphs are so large that it could take hours: use `estimate_walk_probabilities`.
    """
    of_arcs = _probabilities(graph, num_steps, of_arcs=True)
    return mean_of_arcs(of_arcs, graph)


def mean_of_arcs(of_arcs: Tensor, graph: Graph) -> Tensor:
    """`[E, C]` for each edge the mean over its arcs, given `[A, C]`."""
    edge = graph.edge_id.long().to(of_arcs.device)
    total = of_arcs.new_zeros(graph.num_edges, of_arcs.shape[1]).index_add_(0, edge, of_arcs)
    return total.div_(torch.bincount(edge, minlength=graph.num_edges).clamp_min(1).unsqueeze(1))


def _probabilities(graph: Graph, num_steps: int, *, of_arcs: bool) -> Tensor:
    check_graph(graph)
    num_steps = whole_number("num_steps", num_steps, 1, MAX_STEPS)
    device, graph = graph.device, graph.to("cpu")
    _check_work(graph, num_steps)
    rowptr, col, graph_ptr = graph.rowptr.numpy(), graph.col.numpy(), graph.graph_ptr.numpy()
    with in_memory(f"A table of {num_steps} steps on {graph}"):
        out = torch.zeros(graph.num_arcs if of_arcs else graph.num_nodes, num_steps, device="cpu")
    sizes = np.diff(graph_ptr)
    num_blocks = -(-sizes // _LANES)
    owner = np.repeat(np.arange(graph.num_graphs), num_blocks)
    first, last = graph_ptr[owner], graph_ptr[owner + 1]
    starts = first + _LANES * (np.arange(len(owner)) - (np.cumsum(num_blocks) - num_blocks)[owner])
    ends = np.minimum(starts + _LANES, last)
    at_once = max(_BLOCKS_AT_ONCE, int(sizes.max(initial=0)) // _MOST_PIECES)
    shared = (rowptr, col, arc_shares(graph), _is_symmetric(graph), num_steps, of_arcs, out.numpy())

    def work(piece: int) -> None:
        own = slice(piece * at_once, (piece + 1) * at_once)
        _spread(*shared, starts[own], first[own], ends[own], int(sizes[owner[own]].max()))

    share_out(work, -(-len(owner) // at_once))
    return out.to(device)


def arc_shares(graph: Graph) -> np.ndarray[Any, np.dtype[np.float64]]:
    """`[A]` the probability of each arc, given the node it leaves."""
    degree = graph.degree.numpy()
    if graph.cum_weight is None:
        return np.repeat(1.0 / np.maximum(degree, 1), degree)
    sums = graph.cum_weight.numpy().astype(np.float64)
    before = np.concatenate([[0.0], sums[:-1]])
    before[graph.rowptr.numpy()[:-1][degree > 0]] = 0.0  # sums begin anew in each row
    totals = sums[graph.rowptr.numpy()[1:][degree > 0] - 1]
    shares: np.ndarray[Any, np.dtype[np.float64]] = (sums - before) / np.repeat(totals, degree[degree > 0])
    return shares


def _check_work(graph: Graph, num_steps: int) -> None:
    """Refuse what could take hours. Step k from a node follows at most all arcs of its graph, and at most d^k arcs."""
    sizes, degree, batch = graph.graph_ptr.diff().numpy(), graph.degree.numpy(), graph.batch.numpy()
    arcs = np.bincount(batch, degree, minlength=graph.num_graphs)
    most = np.zeros(graph.num_graphs)
    np.maximum.at(most, batch, degree)
    ball, work = np.ones(graph.num_graphs), 0.0
    for _ in range(num_steps):
        ball = np.minimum(ball * most, arcs)
        work += float(sizes @ ball)
    if work > _MOST_WORK:
        raise ValueError(
            f"Exact probabilities of {num_steps} steps on {graph} could take {work:.0e} additions: estimate them from "
            "walks (estimate_return_probabilities, estimate_walk_probabilities), or take fewer steps."
        )


def _is_symmetric(graph: Graph) -> bool:
    """Whether each arc has one in the other direction."""
    source, target = torch.repeat_interleave(graph.degree.long()), graph.col.long()
    return torch.equal(source * graph.num_nodes + target, (target * graph.num_nodes + source).sort().values)


@njit(nogil=True, cache=True)
def _spread(rowptr, col, share, is_symmetric, num_steps, of_arcs, out, starts, firsts, ends, largest):
    """Let the mass of some start nodes of a graph flow together, step by step, over the nodes it reaches.

    What is too far away to be back in time is not followed: the distance back is known if arcs go both ways.
    """
    here, there = np.zeros((largest, _LANES)), np.zeros((largest, _LANES))
    reached, next_reached = np.empty(largest, np.int32), np.empty(largest, np.int32)
    distance, seen = np.empty(largest, np.int32), np.full(largest, -1, np.int64)
    mass = np.empty(_LANES)
    stamp = 0
    for block in range(len(starts)):
        offset, begin, end = firsts[block], starts[block], ends[block]
        stamp += 1
        first_stamp = stamp
        number = end - begin
        for i in range(number):
            node = begin + i - offset
            here[node] = 0.0  # a row is set when its node is first seen in a step
            here[node, i] = 1.0
            reached[i], distance[node], seen[node] = node, 0, stamp
        for k in range(1, num_steps + 1):
            stamp += 1
            farthest = num_steps - k + of_arcs
            next_number = 0
            for i in range(number):
                node = reached[i]
                mass[:] = here[node]
                for arc in range(rowptr[node + offset], rowptr[node + offset + 1]):
                    target = col[arc] - offset
                    part = share[arc]
                    if seen[target] == stamp:
                        for lane in range(_LANES):
                            there[target, lane] += mass[lane] * part
                        continue
                    if seen[target] < first_stamp:
                        distance[target] = k
                    seen[target] = stamp
                    for lane in range(_LANES):
                        there[target, lane] = mass[lane] * part
                    if distance[target] <= farthest or not is_symmetric:
                        next_reached[next_number] = target
                        next_number += 1
            here, there = there, here
            reached, next_reached = next_reached, reached
            number = next_number
            for start in range(begin, end):
                if not of_arcs:
                    if seen[start - offset] == stamp:
                        out[start, k - 1] = here[start - offset, start - begin]
                    continue
                for arc in range(rowptr[start], rowptr[start + 1]):
                    target = col[arc] - offset
                    if seen[target] == stamp:
                        out[arc, k - 1] = here[target, start - begin]
