"""Graphs that are hard to tell apart (paper, section 3), as networkx graphs with nodes 0, 1, 2, …

Pairs of the paper: a cycle and two half-cycles; three paths of equal and of unequal length; the graphs of Cai, Fürer
and Immerman. Besides: cyclic skip links, and the two strongly regular graphs with parameters (16, 6, 2, 2).
"""

from __future__ import annotations

from itertools import combinations, product

import networkx as nx

from crawl.checks import check_type, shown, truth, whole_number

MAX_NODES = 1_000_000  # of a cycle or a path; more take long to make and longer to compare


def cycles(*lengths: int) -> nx.Graph:
    """Cycles of the given lengths side by side."""
    if not lengths:
        raise ValueError("Give the length of a cycle, at least 3.")
    lengths = tuple(whole_number("The length of a cycle", length, 3, MAX_NODES) for length in lengths)
    return nx.disjoint_union_all([nx.cycle_graph(length) for length in lengths])


def three_paths(n: int, *, uneven: bool = False) -> nx.Graph:
    """G_n, or G'_n with `uneven`: nodes 0 and 1 joined by three paths of n edges each, or of n - 1, n and n + 1.

    Both have 3n - 1 nodes and 3n edges (paper, theorem 5). For n = 1 neither is a simple graph, so n is at least 2.
    """
    n = whole_number("n", n, 2, MAX_NODES)  # with 1 the paths would be parallel edges
    uneven = truth("uneven", uneven)
    graph = nx.Graph()
    graph.add_nodes_from((0, 1))
    for length in (n - 1, n, n + 1) if uneven else (n, n, n):
        first = len(graph)
        nx.add_path(graph, [0, *range(first, first + length - 1), 1])
    return graph


def cyclic_skip_links(n: int, skip: int) -> nx.Graph:
    """A cycle of n nodes with links between nodes `skip` apart on it: 4-regular (Murphy et al., ICML 2019)."""
    n, skip = whole_number("n", n, 5, MAX_NODES), whole_number("skip", skip, -MAX_NODES, MAX_NODES)
    if not 2 <= skip < n / 2:
        raise ValueError(f"A skip link leads 2 to {(n - 1) // 2} nodes ahead on a cycle of {n}, not {skip}.")
    return nx.circulant_graph(n, [1, skip])


def rook() -> nx.Graph:
    """The moves of a rook on a board of 4 × 4: strongly regular (16, 6, 2, 2), and every row is a clique of four."""
    return nx.convert_node_labels_to_integers(nx.cartesian_product(nx.complete_graph(4), nx.complete_graph(4)))


def shrikhande() -> nx.Graph:
    """The Shrikhande graph: strongly regular (16, 6, 2, 2) as `rook` is, but without a clique of four."""
    steps = ((0, 1), (1, 0), (1, 1))
    cells = product(range(4), range(4))
    return nx.Graph((4 * a + b, (a + da) % 4 * 4 + (b + db) % 4) for a, b in cells for da, db in steps)


def cfi(base: nx.Graph, *, twisted: bool = False, compact: bool = False) -> nx.Graph:
    """The graph of Cai, Fürer and Immerman over a connected base graph, or its twin, in which one edge is twisted.

    A node v of the base becomes one *inner* node for every even set S of edges at v; an edge e at v becomes two *outer*
    nodes at v, of which the inner node of S is joined to one if e is in S and to the other if it is not. The outer
    nodes at both ends of e are joined crosswise if e is twisted, else straight. Over a 3-regular base the graph is
    3-regular and has 10 nodes for each node of the base. Twisting two edges is the same as twisting none, up to
    isomorphism, and k-WL does not see the difference if k is less than the treewidth of the base.

    (Cai, Fürer, Immerman: An optimal lower bound on the number of variables for graph identification, Combinatorica
    1992. For the treewidth: Neuen, Homomorphism-distinguishing closedness for graphs of bounded tree-width, 2024.)

    Args:
        base: A connected simple graph with an edge.
        twisted: Twist the first edge.
        compact: Leave out the outer nodes and join two inner nodes at the ends of an edge where outer nodes would have
            joined them: 4 nodes for each node of a 3-regular base, of degree 6.
    """
    check_type("base", base, nx.Graph)
    twisted, compact = truth("twisted", twisted), truth("compact", compact)
    if base.is_directed() or base.is_multigraph():
        raise ValueError("The base graph is directed or has parallel edges: take nx.Graph(base).")
    for v in nx.nodes_with_selfloops(base):
        raise ValueError(f"Node {v!r} of the base graph has a self-loop: remove it.")
    if base.number_of_edges() == 0 or not nx.is_connected(base):
        raise ValueError("The base graph must be connected and have an edge.")
    edges = list(base.edges)
    at = {v: [e for e in edges if v in e] for v in base}
    inner = [
        (v, frozenset(some)) for v in base for size in range(0, len(at[v]) + 1, 2) for some in combinations(at[v], size)
    ]
    graph = nx.Graph()
    graph.add_nodes_from(inner)
    if not compact:
        graph.add_edges_from(((v, some), (v, e, e in some)) for v, some in inner for e in at[v])
    for e in edges:
        u, v = e
        crossed = twisted and e == edges[0]
        if compact:
            at_u, at_v = ([node for node in inner if node[0] == end] for end in (u, v))
            graph.add_edges_from((a, b) for a, b in product(at_u, at_v) if ((e in a[1]) != (e in b[1])) == crossed)
        else:
            graph.add_edges_from(((u, e, bit), (v, e, bit != crossed)) for bit in (False, True))
    return nx.convert_node_labels_to_integers(graph)


def wagner() -> nx.Graph:
    """A cycle of 8 nodes with links across it: the smallest 3-regular graph of treewidth 4."""
    return nx.circulant_graph(8, [1, 4])


_BASES = {
    "K4": lambda: nx.complete_graph(4),
    "K33": lambda: nx.complete_bipartite_graph(3, 3),
    "prism": lambda: nx.circular_ladder_graph(3),
    "wagner": wagner,
    "petersen": nx.petersen_graph,
    "C3": lambda: nx.cycle_graph(3),
}
_CFI_FLAGS: tuple[list[str], ...] = ([], ["compact"], ["twisted"], ["compact", "twisted"])
_MOST_NODES = 100_000  # larger graphs take minutes before anything can be said about them
NAMES = "cycle:N, cycles:N,M, paths:N[:uneven], csl:N,SKIP, rook, shrikhande, cfi:BASE[:compact][:twisted]"


def is_name(text: str) -> bool:
    """Whether the text begins like a name that `named_graph` knows; file names do not."""
    return text.split(":")[0] in ("cycle", "cycles", "paths", "csl", "rook", "shrikhande", "cfi")


def named_graph(name: str) -> nx.Graph:
    """The graph of a name such as `cycle:12`, `cycles:6,6`, `paths:5:uneven`, `csl:41,2`, `rook` or `cfi:K4:twisted`.

    Raises:
        ValueError: For any other name; the message lists what there is.
    """
    check_type("name", name, str)
    family, *words = name.split(":")
    try:
        match family, words:
            case "cycle", [length]:
                return cycles(*_sizes(length, 1))
            case "cycles", [lengths]:
                return cycles(*_sizes(lengths))
            case "paths", [n]:
                return three_paths(*_sizes(n, 1))
            case "paths", [n, "uneven"]:
                return three_paths(*_sizes(n, 1), uneven=True)
            case "csl", [numbers]:
                num_nodes, skip = _sizes(numbers, 2)
                return cyclic_skip_links(num_nodes, skip)
            case "rook", []:
                return rook()
            case "shrikhande", []:
                return shrikhande()
            case "cfi", [base, *flags] if base in _BASES and flags in _CFI_FLAGS:
                return cfi(_BASES[base](), twisted="twisted" in flags, compact="compact" in flags)
    except ValueError as error:
        raise ValueError(f"{shown(name)}: {error}") from None
    raise ValueError(f"{shown(name)} is not the name of a graph. Names: {NAMES}; bases: {', '.join(_BASES)}.")


def _sizes(text: str, count: int | None = None) -> list[int]:
    """The whole numbers in the text, this many of them or any number, which together are small enough."""
    sizes = [int(number) for number in text.split(",")]
    if count is not None and len(sizes) != count:
        raise ValueError(f"expected {count} numbers, not {len(sizes)}")
    if sum(sizes) > _MOST_NODES:
        raise ValueError(f"graphs by name have at most {_MOST_NODES} nodes: give smaller numbers")
    return sizes
