"""`crawl distinguish`: which models can tell two graphs apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from crawl.cli.output import open_output, print_table, say
from crawl.cli.walk import read_edge_list

if TYPE_CHECKING:
    import networkx as nx

    from crawl.graph import Graph
    from crawl.theory.report import Walked

_PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Distinguish:
    """Say which models can tell two graphs apart: Weisfeiler-Leman, walks with several windows, trained networks.

    A graph is a .graphml file, a node-link .json file, an edge list as `crawl walk` reads it, or a name: cycle:12,
    cycles:6,6, paths:5, paths:5:uneven, csl:41,2, rook, shrikhande, cfi:K4, cfi:K4:twisted, cfi:K4:compact. Attributes,
    weights and directions of edge lists do not count.

    Walks are judged by the law of what they see through a window: from how many steps on the two laws differ, their
    total variation distance at --num-steps (a number is exact, an interval is from samples), and how many walks
    it takes to tell the graphs apart: at least the first number, and the second is enough.

    Attributes:
        graph: One graph: a file or a name.
        other: The other.
        windows: How far back the walks look (s).
        num_steps: Steps of a walk.
        max_k: Up to which k to try k-WL.
        num_walks: Walks to sample on each graph where the exact law does not fit.
        confidence: Of intervals, and of the numbers of walks.
        train: Train a small CRaWl, and a GIN to compare with, to tell the graphs apart.
        picture: Draw the graphs and the distances: a .png, .svg or .pdf file.
        header: The first line of edge lists names the columns.
        seed: Fixes samples and training.
    """

    graph: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")]
    other: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")]
    windows: tuple[int, ...] = (2, 4, 8)
    num_steps: int = 20
    max_k: int = 3
    num_walks: int = 10_000
    confidence: float = 0.95
    train: bool = False
    picture: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    header: bool = False
    seed: int = 0

    def run(self) -> None:
        """Read, compare, print."""
        if self.picture is not None and self.picture.suffix not in _PICTURES:
            raise ValueError(f"{self.picture}: a picture is a {', '.join(_PICTURES)} file.")
        if self.num_steps < 1 or not self.windows or min(self.windows) < 1:
            raise ValueError("--num-steps and --windows must be at least 1.")
        if not 0.5 < self.confidence < 1:
            raise ValueError(f"--confidence must lie between 0.5 and 1, not {self.confidence}.")
        from rich import box
        from rich.table import Table

        from crawl.theory.report import draw, walked
        from crawl.theory.simple import simple_graph

        names = (self.graph, self.other)
        first, second = graphs = [simple_graph(read_any_graph(name, header=self.header)) for name in names]
        for name, graph in zip(names, graphs, strict=True):
            if graph.num_edges == 0:
                raise ValueError(f"{name}: there is no edge in it.")
        walks = list(
            walked(
                first,
                second,
                self.windows,
                num_steps=self.num_steps,
                num_walks=self.num_walks,
                confidence=self.confidence,
                seed=self.seed,
            )
        )
        sizes = " and ".join(
            f"{name} ({graph.num_nodes} nodes, {graph.num_arcs // 2} edges)"
            for name, graph in zip(names, graphs, strict=True)
        )
        table = Table("model", "apart", "how", box=box.SIMPLE_HEAD, title=sizes, title_justify="left")
        for row in (*self._refined(graphs), *map(self._walked, walks), *self._trained(graphs)):
            table.add_row(*row)
        print_table(table)
        if self.picture is not None:
            figure = draw(first, second, names, walks)
            with open_output(self.picture, binary=True) as file:
                figure.savefig(file, format=self.picture.suffix[1:], dpi=150)
            say(f"Picture: {self.picture}")

    def _refined(self, graphs: list[Graph]) -> Iterator[tuple[str, str, str]]:
        from crawl.theory.report import refined

        for result in refined(graphs[0], graphs[1], self.max_k):
            if result.implied_by is not None:
                yield f"{result.k}-WL", "yes", f"because {result.implied_by}-WL does"
            elif result.too_large is not None:
                yield f"{result.k}-WL", "?", result.too_large
            elif result.separated_in is None:
                yield f"{result.k}-WL", "no", "the stable colourings agree"
            else:
                yield f"{result.k}-WL", "yes", f"in round {result.separated_in}"

    def _walked(self, row: Walked) -> tuple[str, str, str]:
        model = f"walks, {row.strategy.replace('_', '-')}, window {row.window_size}"
        verdict = {True: "yes", False: "no", None: "?"}[row.is_separating]
        if row.differs_from is None:
            return model, verdict, "the laws agree at every length"
        start = "" if row.differs_from == "unknown" else f"from {row.differs_from} steps on; "
        exact = f" = {row.distance}" if isinstance(row.distance, Fraction) and len(str(row.distance)) < 16 else ""
        shown = f"{float(row.distance):.4g}{exact}" if isinstance(row.distance, Fraction) else str(row.distance)
        needed = row.walks_needed(self.confidence)
        walks = f"; {needed[0]:,} to {needed[1]:,} walks" if needed else ""
        return model, verdict, f"{start}distance at {row.num_steps} steps: {shown}{walks}"

    def _trained(self, graphs: list[Graph]) -> Iterator[tuple[str, str, str]]:
        if not self.train:
            return
        from crawl.theory.networks import Network, train_to_tell_apart

        window_size = min(max(self.windows) + max(self.windows) % 2, 32)  # the kernel, one wider, is odd
        networks: tuple[Network, ...] = ("gin", "crawl")
        for network in networks:
            result = train_to_tell_apart(graphs, network, window_size=window_size, seed=self.seed)
            name = "GIN" if network == "gin" else f"CRaWl, window {window_size}"
            # By chance alone, a share this far above one half has a probability below 1 in 1000.
            is_better = result.accuracy - result.chance > (7 / 2 / result.num_tests) ** 0.5
            right = f"{result.accuracy:.1%} of {result.num_tests} fresh copies named rightly"
            yield f"trained {name}", "yes" if is_better else "no", f"{right} after {result.num_updates} updates"


def read_any_graph(text: str, *, header: bool = False) -> nx.Graph:
    """The networkx graph of a name or a file. An existing file wins over a name.

    Raises:
        ValueError: For what is neither; the message says what is.
        OSError: If the file cannot be read.
    """
    import networkx as nx

    from crawl.data.folder import read_graph
    from crawl.theory.families import is_name, named_graph

    path = Path(text)
    if is_name(text) and not path.exists():
        return named_graph(text)
    if path.suffix in (".graphml", ".json"):
        graph = read_graph(path)
        if graph.is_directed():
            raise ValueError(f"{text} is directed; the theory is about undirected graphs: save it as one.")
        return nx.Graph(graph)  # without parallel edges
    edge_list = read_edge_list(path, header=header)
    graph = nx.empty_graph(len(edge_list.names))
    graph.add_edges_from(zip(edge_list.source, edge_list.target, strict=True))
    return graph
