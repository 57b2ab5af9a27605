"""The law of the walk feature matrix X(G, W) (paper, section 3): exact, or from samples."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch

from crawl.checks import MAX_COUNT, MAX_SEED, MAX_WINDOW_SIZE, whole_number
from crawl.graph import Graph
from crawl.tensor_checks import in_memory
from crawl.theory.chain import MAX_STEPS, TooLarge, WalkStrategy, count_walks, window_chain, written
from crawl.theory.reconstruction import first_visits
from crawl.theory.simple import AnyGraph, simple_graph
from crawl.walks import Walks, sample_walks

MAX_ENTRIES = 2_000_000

Matrix = tuple[int, ...]  # a feature matrix, one code for each row, as in `Walks.code`


def feature_law(
    graph: AnyGraph,
    *,
    num_steps: int,
    window_size: int,
    strategy: WalkStrategy = "non_backtracking",
    max_entries: int = MAX_ENTRIES,
) -> dict[Matrix, Fraction]:
    """The probability of every feature matrix that a random walk from a random node can have.

    A matrix is written as the codes of its rows, as in `Walks.code`. Walks are merged as soon as they agree in the rows
    so far and in the law of the rows to come: the work grows with the number of matrices rather than of walks. Nodes
    without an edge start no walk. `max_entries` (rows so far, class of states) are the most to hold.

    Raises:
        TooLarge: If it would not fit; the message has the number of walks.
    """
    num_steps = whole_number("num_steps", num_steps, 0, MAX_STEPS)
    window_size = whole_number("window_size", window_size, 0, MAX_STEPS)
    max_entries = whole_number("max_entries", max_entries, 0, MAX_COUNT)
    chain = window_chain([graph], window_size, strategy, num_steps)
    (start,), steps = chain.unrolled(num_steps)
    law: dict[Matrix, dict[int, int]] = {(0,): start}
    for step, moves in enumerate(steps, start=1):
        longer: dict[Matrix, dict[int, int]] = {}
        num_entries = 0
        for rows, weights in law.items():
            for class_, weight in weights.items():
                for code, next_class, shares in moves[class_]:
                    assert isinstance(code, int)
                    part = longer.setdefault((*rows, code), {})
                    num_entries += next_class not in part
                    part[next_class] = part.get(next_class, 0) + weight * shares
            if num_entries > max_entries:
                number = written(count_walks(graph, num_steps, strategy))
                raise TooLarge(
                    f"After {step} of {num_steps} steps there are more than {max_entries:,} entries, and "
                    f"there are {number} walks. Take fewer steps or a smaller window, or sample."
                )
        law = longer
    total = chain.start_unit * chain.unit**num_steps
    return {rows: Fraction(sum(weights.values()), total) for rows, weights in law.items()}


def sample_features(
    graph: AnyGraph,
    num_walks: int,
    *,
    num_steps: int,
    window_size: int | None = None,
    strategy: WalkStrategy = "non_backtracking",
    seed: int = 0,
) -> list[Matrix]:
    """The feature matrices of `num_walks` independent walks from random nodes, as `sample_walks` draws them.

    Written as in `feature_law`; for a window as long as the walk, which None stands for, as `Seen.rows`.

    Raises:
        ValueError: If the window is longer than 32 but shorter than the walk.
    """
    graph = simple_graph(graph)
    num_walks = whole_number("num_walks", num_walks, 0, MAX_COUNT)
    num_steps = whole_number("num_steps", num_steps, 0, MAX_STEPS)
    seed = whole_number("seed", seed, 0, MAX_SEED)
    if window_size is not None:
        window_size = whole_number("window_size", window_size, 0, MAX_STEPS)
    if window_size is None or window_size >= num_steps:
        walks = _sample(graph, num_walks, num_steps, 0, strategy, seed)
        return [first_visits(graph, nodes).rows for nodes in walks.nodes.numpy()]
    if window_size > MAX_WINDOW_SIZE:
        raise ValueError(f"Samples have windows up to {MAX_WINDOW_SIZE}, or as long as the walk, not {window_size}.")
    walks = _sample(graph, num_walks, num_steps, window_size, strategy, seed)
    return [tuple(code) for code in walks.code.tolist()]


def _sample(graph: Graph, num_walks: int, num_steps: int, window_size: int, strategy: WalkStrategy, seed: int) -> Walks:
    walkable = (graph.degree > 0).nonzero().squeeze(1)
    if not walkable.numel():
        raise ValueError("The graph has no edge, so there are no walks on it.")
    with in_memory(f"{num_walks} walks"):
        start = walkable[torch.from_numpy(np.random.default_rng(seed).integers(len(walkable), size=num_walks))]
    return sample_walks(graph, num_steps, strategy, start, window_size=window_size, seed=seed)
