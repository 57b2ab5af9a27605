"""The folklore k-dimensional Weisfeiler-Leman algorithm (k-WL; paper, section 3), exact, for small graphs.

A colour of a k-tuple of nodes is refined by the multiset, over all nodes w, of the k colours that the tuple gets when w
replaces its first, second, …, k-th entry. It begins with the tuple's atomic type: which entries are equal, which are
adjacent. For k ≥ 2; 1-WL is `color_refinement`.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from crawl.checks import whole_number
from crawl.theory.chain import TooLarge, written
from crawl.theory.refinement import Refinement, color_refinement
from crawl.theory.simple import AnyGraph, Ints, adjacency_matrix, simple_graph

MAX_ENTRIES = 200_000_000  # colours read in a round
_MAX_K = 9  # so that atomic types fit one integer
_MAX_NUMBER = 2**63
_BLOCK = 100_000  # rows compared at a time


class TupleRefinement(Refinement):
    """The stable colouring of the k-tuples of some graphs, coloured together.

    `colors` has for each graph an array with k axes. Round 0 has the atomic types.
    """


def k_wl(*graphs: AnyGraph, k: int) -> TupleRefinement:
    """The stable colouring of the k-tuples of nodes, by folklore k-WL.

    The tuples of each graph are coloured within it, with one set of colours for all graphs. This separates the same
    graphs as the colouring of their disjoint union does, where a tuple may also mix nodes of two graphs, and needs
    2^k times fewer tuples. To colour the union itself, give it as the only graph.

    Raises:
        ValueError: If k is not a number from 2 to 9.
        TooLarge: If a round would read more colours than fit; the message says how many.
    """
    if isinstance(k, int) and k == 1:
        raise ValueError("k must be at least 2, not 1: for 1-WL, use color_refinement.")
    k = whole_number("k", k, 2, _MAX_K)
    if not graphs:
        raise ValueError("Give a graph, or several.")
    simple = [simple_graph(graph) for graph in graphs]
    needed = max(graph.num_nodes ** (k + 1) * k for graph in simple)
    if needed > MAX_ENTRIES:
        raise TooLarge(
            f"A round of {k}-WL would read {written(needed)} colours here; at most {MAX_ENTRIES:,} are feasible."
        )
    colors = _renumbered([_atomic_types(adjacency_matrix(graph).astype(np.int64), k) for graph in simple])
    num_colors, num_rounds = _count(colors), 0
    separated_in = 0 if _differ(colors) else None
    while True:
        refined = _refined(colors, k)
        if (number := _count(refined)) == num_colors:
            return TupleRefinement(tuple(colors), num_colors, num_rounds, separated_in)
        colors, num_colors, num_rounds = refined, number, num_rounds + 1
        if separated_in is None and _differ(colors):
            separated_in = num_rounds


def separating_round(graph: AnyGraph, other: AnyGraph, k: int) -> int | None:
    """The round in which k-WL separates two graphs (1-WL is colour refinement); None if it does not."""
    k = whole_number("k", k, 1, _MAX_K)
    return (color_refinement(graph, other) if k == 1 else k_wl(graph, other, k=k)).separated_in


def _atomic_types(matrix: Ints, k: int) -> Ints:
    """`[N, …, N]` a number for the equalities and adjacencies among the entries of each tuple."""
    n = len(matrix)
    pair = matrix + 2 * np.eye(n, dtype=np.int64)
    types = np.zeros((n,) * k, dtype=np.int64)
    for a, b in combinations(range(k), 2):
        types = 3 * types + pair.reshape([n if axis in (a, b) else 1 for axis in range(k)])
    return types


def _refined(colors: list[Ints], k: int) -> list[Ints]:
    """The next colouring: old colours, split by what replacing each entry gives."""
    bounds = np.cumsum([0, *(color.size for color in colors)])
    rows = np.full((bounds[-1], max(len(color) for color in colors) + 1), -1, dtype=np.int64)
    for color, replaced, first, last in zip(colors, _replaced(colors, k), bounds, bounds[1:], strict=False):
        rows[first:last, 1 : len(color) + 1] = replaced.reshape(color.size, len(color))
        rows[first:last, 1:].sort(axis=1)
        rows[first:last, 0] = color.reshape(-1)
    parts = np.split(_numbered_rows(rows), bounds[1:-1])
    return [part.reshape(color.shape) for part, color in zip(parts, colors, strict=True)]


def _replaced(colors: list[Ints], k: int) -> list[Ints]:
    """For each graph `[N, …, N, N]`: for each tuple and node w, a number for the k colours when w replaces an entry."""
    num_colors = _count(colors)
    out = [np.zeros((len(color),) * (k + 1), dtype=np.int64) for color in colors]
    num_numbers = 1
    for axis in range(k):
        if num_numbers * num_colors > _MAX_NUMBER:
            out = _renumbered(out)
            num_numbers = _count(out)
        # The tuple with w for its entry `axis` does not depend on that entry.
        moved = (np.expand_dims(np.moveaxis(color, axis, -1), axis) for color in colors)
        out = [each * num_colors + color for each, color in zip(out, moved, strict=True)]
        num_numbers *= num_colors
    return out


def _numbered_rows(rows: Ints) -> Ints:
    """A number from 0 for each row, equal where rows are equal: grouped by a hash, then compared entry by entry."""
    generator = np.random.default_rng(0)
    while True:
        factors = generator.integers(-(2**63), 2**63, rows.shape[1], dtype=np.int64)
        _, first, number = np.unique(rows @ factors, return_index=True, return_inverse=True)
        blocks = range(0, len(rows), _BLOCK)
        if all(np.array_equal(rows[i : i + _BLOCK], rows[first[number[i : i + _BLOCK]]]) for i in blocks):
            return np.asarray(number, dtype=np.int64)


def _renumbered(arrays: list[Ints]) -> list[Ints]:
    """Numbers from 0 instead of these, equal where they are equal."""
    flat = np.concatenate([array.reshape(-1) for array in arrays])
    _, inverse = np.unique(flat, return_inverse=True)
    parts = np.split(inverse, np.cumsum([array.size for array in arrays])[:-1])
    return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]


def _count(arrays: list[Ints]) -> int:
    return 1 + max(int(array.max(initial=-1)) for array in arrays)


def _differ(colors: list[Ints]) -> bool:
    counts = [np.bincount(color.reshape(-1), minlength=_count(colors)) for color in colors]
    return any(not np.array_equal(count, counts[0]) for count in counts)
