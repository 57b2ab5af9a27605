"""Which models can tell two graphs apart: all that the other modules say about a pair, in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

import networkx as nx

from crawl.theory.chain import TooLarge, WalkStrategy, window_chain
from crawl.theory.distance import chain_distance, chain_first_difference
from crawl.theory.estimate import Estimate, estimate_total_variation, walks_needed
from crawl.theory.isomorphism import isomorphism
from crawl.theory.refinement import color_refinement
from crawl.theory.simple import AnyGraph, as_networkx, simple_graph
from crawl.theory.tuples import separating_round

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ARCS = 10_000  # graphs with more are not tried exactly
MAX_STATES = 300_000
MAX_TERMS = 200_000
MAX_MATCHED_ARCS = 2000  # larger graphs are not tried for isomorphism
MAX_MATCHES = 500  # colour refinements to try it with


@dataclass(frozen=True)
class Refined:
    """What k-WL says.

    Attributes:
        separated_in: The round in which it separates the graphs; None if it does not, or where it would not fit.
        too_large: Why it was not tried, or None.
        implied_by: Where it was not tried, a smaller dimension that separates the graphs, so that this one does, too.
    """

    k: int
    separated_in: int | None
    too_large: str | None = None
    implied_by: int | None = None


@dataclass(frozen=True)
class Walked:
    """What walks with a window say.

    Attributes:
        num_steps: The length of the walks the distance is for.
        differs_from: The least number of steps with which the laws differ; None if they agree at all lengths; "unknown"
            if it would not fit.
        distance: The total variation distance, exact if it is a fraction.
    """

    window_size: int
    strategy: WalkStrategy
    num_steps: int
    differs_from: int | str | None
    distance: Fraction | Estimate

    @property
    def is_separating(self) -> bool | None:
        """Whether the laws differ at this length; None if the samples leave it open."""
        if isinstance(self.distance, Fraction):
            return self.distance > 0
        if isinstance(self.differs_from, int):
            return self.differs_from <= self.num_steps
        return True if self.distance.low > 0 else None

    def walks_needed(self, confidence: float) -> tuple[int, int] | None:
        """Bounds on the number of walks that tell the graphs apart; None if no number is known to do."""
        if isinstance(self.distance, Fraction):
            return walks_needed(self.distance, confidence)
        if self.distance.low == 0:
            return None
        fewest, most = walks_needed(self.distance.high, confidence), walks_needed(self.distance.low, confidence)
        assert fewest is not None
        assert most is not None
        return fewest[0], most[1]


def refined(graph: AnyGraph, other: AnyGraph, max_k: int = 3) -> Iterator[Refined]:
    """What 1-WL, …, max_k-WL say about two graphs."""
    separating = None
    for k in range(1, max_k + 1):
        try:
            row = Refined(k, separating_round(graph, other, k))
        except TooLarge as error:
            row = Refined(k, None, str(error), separating)
        if separating is None and row.separated_in is not None:
            separating = k
        yield row


def walked(
    graph: AnyGraph,
    other: AnyGraph,
    windows: Sequence[int] = (2, 4, 8),
    *,
    num_steps: int = 20,
    num_walks: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Iterator[Walked]:
    """What walks of both strategies and with each window say: exactly where it fits, else from samples.

    A larger window sees no less than a smaller one. So an interval begins no lower than the exact distance of the next
    smaller window; and where only frequencies are left to compare, its lower end is taken from the next smaller window
    that was judged better.
    """
    graph, other = simple_graph(graph), simple_graph(other)
    is_small = max(graph.num_arcs, other.num_arcs) <= MAX_ARCS
    for strategy in get_args(WalkStrategy):
        at_least, is_exact = 0.0, True  # the smaller window's distance, or the lower end of its estimate
        for window_size in sorted(windows):
            differs_from: int | str | None = "unknown"
            distance: Fraction | Estimate
            try:
                if not is_small:
                    raise TooLarge
                chain = window_chain([graph, other], window_size, strategy, max_states=MAX_STATES)
                differs_from = chain_first_difference(chain)
                distance = Fraction(0) if differs_from is None else chain_distance(chain, num_steps, MAX_TERMS)
                at_least, is_exact = float(distance), True
            except TooLarge:
                distance = estimate_total_variation(
                    graph,
                    other,
                    num_steps=num_steps,
                    window_size=window_size,
                    strategy=strategy,
                    num_walks=num_walks,
                    confidence=confidence,
                    seed=seed,
                    max_states=MAX_STATES if is_small else 0,
                )
                if is_exact:
                    distance = _raised(distance, max(distance.low, at_least))
                elif differs_from == "unknown":
                    distance = _raised(distance, at_least)
                if differs_from != "unknown":
                    at_least, is_exact = distance.low, False
            yield Walked(window_size, strategy, num_steps, differs_from, distance)


def _raised(estimate: Estimate, low: float) -> Estimate:
    """The interval with another lower end."""
    return replace(estimate, low=low, high=max(low, estimate.high))


def are_known_isomorphic(graph: AnyGraph, other: AnyGraph) -> bool:
    """Whether a search of bounded length finds that the graphs are isomorphic. False if it finds none, or stops."""
    is_small = simple_graph(graph).num_arcs <= MAX_MATCHED_ARCS
    return is_small and isomorphism(graph, other, MAX_MATCHES) is not None


def draw(graph: AnyGraph, other: AnyGraph, names: tuple[str, str], walks: Sequence[Walked]) -> Figure:
    """A picture: both graphs with the colours of 1-WL, and the distance of their walks by window.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Pictures need matplotlib; install it with: pip install matplotlib") from None
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    *of_graphs, of_distance = figure.subplots(1, 3, width_ratios=(1, 1, 1.2))
    colors = color_refinement(graph, other)
    for axes, each, name, color in zip(of_graphs, (graph, other), names, colors.colors, strict=True):
        drawn = as_networkx(each)
        place = nx.spring_layout(drawn, seed=0, iterations=200)
        scale = {"cmap": "viridis", "vmin": 0, "vmax": max(colors.num_colors - 1, 1)}
        look = {"with_labels": False, "node_size": 36, "width": 0.7, "edge_color": "0.6"}
        nx.draw_networkx(drawn, place, ax=axes, node_color=color, **scale, **look)
        axes.set_title(f"{name}: {len(color)} nodes", fontsize=9)
        axes.set_axis_off()
    _draw_distances(of_distance, walks)
    return figure


def _draw_distances(axes: Any, walks: Sequence[Walked]) -> None:
    """Exact distances as points, estimates as intervals."""
    for strategy, marker, shift in zip(get_args(WalkStrategy), "os", (-0.08, 0.08), strict=True):
        rows = [row for row in walks if row.strategy == strategy]
        ends = [
            (row.distance.low, row.distance.high) if isinstance(row.distance, Estimate) else (float(row.distance),) * 2
            for row in rows
        ]
        middle = [(low + high) / 2 for low, high in ends]
        margin = [(high - low) / 2 for low, high in ends]
        place = [i + shift for i in range(len(rows))]
        axes.errorbar(place, middle, margin, marker=marker, markersize=4, capsize=3, label=strategy.replace("_", "-"))
        axes.set_xticks(range(len(rows)), [str(row.window_size) for row in rows])
    num_steps = f" ({walks[0].num_steps} steps)" if walks else ""
    axes.set(xlabel="window s", ylabel="distance of walk features" + num_steps, ylim=(-0.03, 1.03))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
