"""The strategies of walks, those of the paper and others: what a name stands for, as every sampler takes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from crawl.checks import check_centred, check_choice, check_restart
from crawl.choices import Strategy
from crawl.graph import Graph
from crawl.walks.centred import check_both_ways
from crawl.walks.min_degree import weighed_by_degree
from crawl.walks.node2vec import node2vec_odds


@dataclass(frozen=True)
class StepLaw:
    """How the next arc is drawn, given the current and the previous node; in proportion to edge weights, if any.

    Attributes:
        skips_previous: Non-backtracking: arcs to the previous node are left out, unless there are no others.
        node2vec: The odds of node2vec, see `node2vec_odds`; None for the other strategies.
        is_by_degree: Whether weights are first divided by the smaller degree of the two nodes of an arc, by `on`.
        is_depth_first: Whether a walk is a depth-first search; see `DepthFirst`.
        restart: A step jumps back to the start of its walk with the chance `restart` / 2^32. It follows no edge; the
            number of edges of the graph stands for it.
        is_centred: Whether a walk has its start in its middle; see `walks/centred.py`.
    """

    skips_previous: bool = False
    node2vec: tuple[int, int, int, int] | None = None
    is_by_degree: bool = False
    is_depth_first: bool = False
    restart: int = 0
    is_centred: bool = False

    @classmethod
    def named(
        cls, strategy: str, p: float = 1.0, q: float = 1.0, restart: float = 0.1, centred: bool = False
    ) -> StepLaw:
        """The law of a strategy; p and q are those of `node2vec`, `restart` is that of `restart`.

        `uniform` draws among all arcs of a node; `non_backtracking` leaves out those that lead back where the walk came
        from, unless there are no others; `node2vec` weighs an arc by 1/p if it leads back, by 1 if it leads to a
        neighbour of the previous node, and by 1/q otherwise; `min_degree` weighs an arc u → v by
        1 / min(degree of u, degree of v), and `min_degree_non_backtracking` also leaves out those that lead back;
        `depth_first` goes to nodes that it has not seen, and back along its tree if there is no such node; `restart` is
        `uniform`, except that a step jumps back to the start of its walk with the chance `restart`.
        """
        check_choice("strategy", strategy, get_args(Strategy))
        centred = check_centred(strategy, centred)
        if strategy == "restart":
            return cls(restart=math.ceil(check_restart(restart) * 2**32))
        if strategy != "node2vec":
            return cls(
                skips_previous=strategy.endswith("non_backtracking"),
                is_by_degree=strategy.startswith("min_degree"),
                is_depth_first=strategy == "depth_first",
                is_centred=centred,
            )
        return cls(node2vec=node2vec_odds(p, q))

    def on(self, graph: Graph) -> Graph:
        """The graph with the weights that steps are drawn in proportion to: what every sampler takes.

        Refuses a graph for centred walks if it cannot be walked both ways.
        """
        if self.is_centred:
            check_both_ways(graph.one_way)
        return weighed_by_degree(graph) if self.is_by_degree else graph
