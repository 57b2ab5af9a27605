"""From features back to graphs (paper, observation 1 and theorem 3), and how long a walk takes to see it all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawl.checks import as_list, whole_number
from crawl.tensor_checks import as_array
from crawl.theory.chain import MAX_STEPS, Steps, TooLarge, WalkStrategy, written
from crawl.theory.simple import AnyGraph, Ints, adjacency_matrix, as_networkx, simple_graph

MAX_SUBSETS = 2_000_000


@dataclass(frozen=True, eq=False)
class Seen:
    """What a walk has seen: the subgraph induced by its nodes, which are numbered in the order of their first visits.

    Attributes:
        position: `[T]` the number of the node at each position of the walk.
        adjacency: `[n, n]` which of them are adjacent.
    """

    position: Ints
    adjacency: NDArray[np.bool_]

    @property
    def graph(self) -> nx.Graph:
        """The subgraph, with the numbers as nodes."""
        graph = nx.empty_graph(len(self.adjacency))
        graph.add_edges_from(np.argwhere(self.adjacency).tolist())
        return graph

    @property
    def rows(self) -> tuple[int, ...]:
        """What each position adds: the number of a node seen before or, at a first visit, -1 - m, where bit i of m says
        whether the node is adjacent to node i. As good as the feature matrix with a window as long as the walk.
        """
        out, num_seen = [], 0
        for number in self.position.tolist():
            if number < num_seen:
                out.append(number)
            else:
                near = np.flatnonzero(self.adjacency[number, :number]).tolist()
                out.append(-1 - sum(1 << i for i in near))
                num_seen += 1
        return tuple(out)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Seen)
            and np.array_equal(self.position, other.position)
            and np.array_equal(self.adjacency, other.adjacency)
        )


def reconstruct(bits: ArrayLike, first: int = 0, last: int | None = None) -> Seen:
    """The induced subgraph of the positions `first` to `last` of a walk, from its feature matrix.

    With a window of s, any s + 1 positions in a row can be reconstructed, and the whole of a walk of s steps. Only the
    rows after `first` are read: s of them for s + 1 positions, as in the paper's observation 1.

    Args:
        bits: `[T, 2s - 1]` the bits of a walk, as in `Walks.bits()`: s identity bits, then s - 1 adjacency bits.
        first: The first position.
        last: The last position; the end of the walk when None.

    Raises:
        ValueError: If a window does not hold the positions asked for, or if no walk has these bits.
    """
    matrix = as_array("bits", bits).astype(np.bool_)
    if matrix.ndim != 2 or matrix.shape[1] % 2 == 0:
        raise ValueError(f"bits must have the shape [num_steps + 1, 2s - 1], not {list(matrix.shape)}.")
    window_size = (matrix.shape[1] + 1) // 2
    first = whole_number("first", first, 0, MAX_STEPS)
    last = len(matrix) - 1 if last is None else whole_number("last", last, 0, MAX_STEPS)
    if not 0 <= first <= last < len(matrix) or last - first > window_size:
        raise ValueError(f"A window of {window_size} holds up to {window_size + 1} positions, not {first} to {last}.")
    position, edges = [0], set()
    for i in range(first + 1, last + 1):
        back = range(1, i - first + 1)
        same = {position[-j] for j in back if matrix[i, j - 1]}
        near = {position[-1], *(position[-j] for j in back if j > 1 and matrix[i, window_size + j - 2])}
        if len(same) > 1 or same & near:
            raise ValueError(f"No walk in a simple graph has these bits: row {i} contradicts the rows before.")
        here = same.pop() if same else max(position) + 1
        edges |= {(here, other) for other in near}
        position.append(here)
    adjacency = np.zeros((max(position) + 1,) * 2, dtype=np.bool_)
    for u, v in edges:
        adjacency[u, v] = adjacency[v, u] = True
    return Seen(np.array(position), adjacency)


def first_visits(graph: AnyGraph, nodes: ArrayLike) -> Seen:
    """What a walk through these nodes has seen: the same as `reconstruct` finds with a window as long as the walk.

    It needs T numbers and one bit for each pair of nodes, where the feature matrix has T × (2T - 3) bits.

    Raises:
        ValueError: If this is not a walk on the graph: a node does not exist, or two in a row are not adjacent.
    """
    graph = simple_graph(graph)
    walk = as_array("nodes", nodes)
    if walk.ndim != 1 or not len(walk) or not np.issubdtype(walk.dtype, np.integer):
        raise ValueError("nodes must be a list of node numbers, one for each position of the walk.")
    if not 0 <= walk.min() <= walk.max() < graph.num_nodes:
        raise ValueError(f"nodes must be from 0 to {graph.num_nodes - 1}, not {walk.min()} to {walk.max()}.")
    number = {node: i for i, node in enumerate(dict.fromkeys(walk.tolist()))}  # in the order of first visits
    position = np.array([number[node] for node in walk.tolist()])
    adjacency = adjacency_matrix(graph)[np.ix_(list(number), list(number))]
    missing = np.flatnonzero(~adjacency[position[:-1], position[1:]])
    if missing.size:
        u, v = walk[missing[0] : missing[0] + 2]
        raise ValueError(f"nodes must be a walk, but there is no edge from {u} to {v}.")
    return Seen(position, adjacency)


def cover_time_bound(graph: AnyGraph) -> int:
    """4nm, with n nodes and m edges: on average, a uniform walk visits all nodes within this many steps.

    So with 8nm steps a walk visits all nodes with probability at least 1/2; that is 12n² for a 3-regular graph.
    (Aleliunas et al., Random walks, universal traversal sequences, and the complexity of maze problems, 1979.)

    Raises:
        ValueError: If the graph is not connected: a walk never visits all of it. Or if it has no nodes.
    """
    graph = simple_graph(graph)
    if not graph.num_nodes:
        raise ValueError("The graph has no nodes, so there are no walks on it.")
    if not nx.is_connected(as_networkx(graph)):
        raise ValueError("The graph is not connected, so no walk visits all its nodes.")
    return 2 * graph.num_nodes * graph.num_arcs


def visit_probability(
    graph: AnyGraph,
    num_steps: int,
    nodes: Sequence[int | Collection[int]] | None = None,
    strategy: WalkStrategy = "uniform",
) -> Fraction:
    """The exact probability that a walk from a random node visits all of the given nodes, or all there are with None.

    Of a group of nodes among `nodes`, the walk must visit one.

    Raises:
        ValueError: If there are no such nodes.
        TooLarge: If there are too many subsets of these nodes; the message has their number.
    """
    num_steps = whole_number("num_steps", num_steps, 0, MAX_STEPS)
    steps = Steps.of(graph, strategy)
    num_nodes = len(steps.neighbours)
    wanted = range(num_nodes) if nodes is None else as_list("nodes", nodes, "nodes")
    needed = 2 ** len(wanted) * sum(map(len, steps.neighbours))
    if needed > MAX_SUBSETS:
        raise TooLarge(
            f"{written(needed)} states (visited nodes, last step) would be needed; at most {MAX_SUBSETS:,} fit."
        )
    bit: dict[int, int] = {}
    for i, one_of in enumerate(wanted):
        for each in one_of if isinstance(one_of, Collection) else [one_of]:
            node = whole_number("each of nodes", each, 0, num_nodes - 1)
            bit[node] = bit.get(node, 0) | 1 << i
    weights: dict[tuple[int, int, int | None], int] = {(bit.get(v, 0), v, None): 1 for v in steps.starts}
    unit = steps.unit
    for _ in range(num_steps):
        following: dict[tuple[int, int, int | None], int] = {}
        for (seen, v, previous), weight in weights.items():
            choices = steps.choices(v, previous)
            for w in choices:
                key = (seen | bit.get(w, 0), w, v if steps.avoids_previous else None)
                following[key] = following.get(key, 0) + weight * (unit // len(choices))
        weights = following
    full = (1 << len(wanted)) - 1
    hit = sum(weight for (seen, _, _), weight in weights.items() if seen == full)
    return Fraction(hit, len(steps.starts) * unit**num_steps)
