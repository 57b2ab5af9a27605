"""`crawl distinguish`: which models can tell two graphs apart."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from crawl.checks import between, whole_number
from crawl.cli.flags import FilePath, Int, Switch, check_positive, check_seed, compute_with
from crawl.cli.output import STDOUT, is_stream, open_output, print_table, say
from crawl.cli.walk import read_edge_list

if TYPE_CHECKING:
    import networkx as nx

    from crawl.graph import Graph
    from crawl.theory.report import Walked

_LARGEST_K, _LONGEST = 10, 1_000_000  # more does not fit into memory, or takes years
_PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Distinguish:
    """Say which models can tell two graphs apart: Weisfeiler-Leman, walks with several windows, trained networks.

    A graph is a .graphml file, a node-link .json file, an edge list as `crawl walk` reads it, or a name: cycle:12,
    cycles:6,6, paths:5, paths:5:uneven, csl:41,2, rook, shrikhande, cfi:K4, cfi:K4:twisted, cfi:K4:compact. Attributes,
    weights and directions of edge lists do not count.

    Walks are judged by the law of what they see through a window: from how many steps on the two laws differ, their
    total variation distance at --num-steps (a number is exact, an interval is from samples), and how many walks
    it takes to tell the graphs apart: at least the first number, and the second is enough, to be right as often as
    the confidence says, on average over both graphs.

    Attributes:
        graph: One graph: a file or a name.
        other: The other.
        windows: How far back the walks look (s).
        num_steps: Steps of a walk.
        max_k: Up to which k to try k-WL.
        num_walks: Walks to sample on each graph where the exact law does not fit; fewer are used where that is long.
        confidence: Of intervals, and of the numbers of walks.
        train: Train a small CRaWl, and a GIN to compare with, to tell the graphs apart.
        picture: Draw the graphs and the distances: a .png, .svg or .pdf file. A device or a pipe gets PNG, and so does
            the standard output with -; the table is then printed on the error stream.
        header: The first line of edge lists names the columns.
        seed: Fixes samples and training.
        threads: How many threads compute; as many as the machine has cores when not given.
    """

    graph: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")]
    other: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")]
    windows: tuple[int, ...] = (2, 4, 8)
    num_steps: int = 20
    max_k: int = 3
    num_walks: int = 10_000
    confidence: float = 0.95
    train: Switch = False
    picture: FilePath = None
    header: Switch = False
    seed: int = 0
    threads: Int = None

    def run(self) -> None:
        """Read, compare, print."""
        if self.picture is not None and self.picture.suffix not in _PICTURES and not is_stream(self.picture):
            raise ValueError(f"{self.picture}: a picture is a {', '.join(_PICTURES)} file.")
        if self.picture is not None and not self.picture.parent.is_dir():
            raise ValueError(f"{self.picture}: there is no folder {self.picture.parent}.")
        if not self.windows:
            raise ValueError("--windows needs at least one number.")
        for name, number in (("--num-steps", self.num_steps), *(("--windows", window) for window in self.windows)):
            whole_number(name, number, 1, _LONGEST)
        between("--confidence", self.confidence, 0.5, 1)
        check_positive(num_walks=self.num_walks)
        whole_number("--max-k", self.max_k, 1, _LARGEST_K)
        check_seed(self.seed)
        compute_with(self.threads)
        from rich import box
        from rich.table import Table

        from crawl.theory.report import are_known_isomorphic, draw, walked

        names = (self.graph, self.other)
        first, second = graphs = [_read_simple_graph(name, header=self.header) for name in names]
        for name, graph in zip(names, graphs, strict=True):
            if graph.num_edges == 0:
                raise ValueError(f"{name}: there is no edge in it.")
        how: dict[str, Any] = {"num_steps": self.num_steps, "num_walks": self.num_walks, "confidence": self.confidence}
        walks = list(walked(first, second, self.windows, **how, seed=self.seed))
        sizes = " and ".join(
            f"{name} ({_counted(graph.num_nodes, 'node')}, {_counted(graph.num_arcs // 2, 'edge')})"
            for name, graph in zip(names, graphs, strict=True)
        )
        table = Table("model", "apart", "how", box=box.SIMPLE_HEAD, title=sizes, title_justify="left")
        rows = [*self._refined(graphs), *map(self._walked, walks)]
        if all(verdict != "yes" for _, verdict, _ in rows) and are_known_isomorphic(first, second):
            rows.append(("any model", "no", "isomorphic: nothing can tell them apart"))
        for row in (*rows, *self._trained(graphs)):
            table.add_row(*row)
        print_table(table, to_stderr=self.picture == STDOUT)
        if self.picture is not None:
            kind = self.picture.suffix[1:] if self.picture.suffix in _PICTURES else "png"
            image = io.BytesIO()  # PDF cannot be written to a pipe piece by piece
            draw(first, second, names, walks).savefig(image, format=kind, dpi=150)
            with open_output(self.picture, binary=True) as file:
                file.write(image.getvalue())
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
        shown = _written(row.distance) if isinstance(row.distance, Fraction) else str(row.distance)
        needed = row.walks_needed(self.confidence)
        walks = f"; {_rounded(needed[0])} to {_rounded(needed[1])} walks" if needed else ""
        return model, verdict, f"{start}distance at {row.num_steps} steps: {shown}{walks}"

    def _trained(self, graphs: list[Graph]) -> Iterator[tuple[str, str, str]]:
        if not self.train:
            return
        from crawl.theory.networks import NetworkName, train_to_tell_apart

        window_size = min(max(self.windows) + max(self.windows) % 2, 32)  # the kernel, one wider, is odd
        networks: tuple[NetworkName, ...] = ("gin", "crawl")
        for network in networks:
            result = train_to_tell_apart(graphs, network, window_size=window_size, seed=self.seed)
            name = "GIN" if network == "gin" else f"CRaWl, window {window_size}"
            # By chance alone, a share this far above one half has a probability below 1 in 1000.
            is_better = result.accuracy - result.chance > (7 / 2 / result.num_tests) ** 0.5
            right = f"{result.accuracy:.1%} of {result.num_tests} fresh copies named rightly"
            yield f"trained {name}", "yes" if is_better else "no", f"{right} after {result.num_updates} updates"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _rounded(number: int) -> str:
    """With all digits, unless there are too many to read."""
    return f"{number:,}" if number < 10**15 else f"about 10^{math.log10(number):.0f}"


def _written(distance: Fraction) -> str:
    """Rounded, and as the fraction where that is short."""
    rounded = f"{float(distance):.4g}"
    if distance.denominator == 1:
        return rounded
    if distance.denominator.bit_length() <= 24:  # at most 8 digits
        return f"{rounded} {'=' if Fraction(rounded) == distance else '≈'} {distance}"
    return {"0": "almost 0", "1": "almost 1"}.get(rounded, rounded)


def _read_simple_graph(text: str, *, header: bool) -> Graph:
    from crawl.theory.simple import simple_graph

    graph = read_any_graph(text, header=header)
    try:
        return simple_graph(graph)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None


def read_any_graph(text: str, *, header: bool = False) -> nx.Graph:
    """The networkx graph of a name or a file. An existing file wins over a name; what is neither is refused."""
    import networkx as nx

    from crawl.data.folder import read_graph
    from crawl.theory.families import NAMES, is_name, named_graph

    path = Path(text)
    if is_name(text) and not path.exists():
        return named_graph(text)
    if path.suffix in (".graphml", ".json"):
        graph = read_graph(path)
        if graph.is_directed():
            raise ValueError(f"{text} is directed; the theory is about undirected graphs: save it as one.")
        return nx.Graph(graph)  # without parallel edges
    try:
        edge_list = read_edge_list(path, header=header)
    except FileNotFoundError as error:
        raise ValueError(f"{text}: {error.strerror}, and not the name of a graph. Names: {NAMES}.") from None
    except ValueError as error:
        if "'{}'" not in str(error):
            raise
        raise ValueError(f"{error} If networkx wrote this file: write it with data=False.") from None
    graph = nx.empty_graph(len(edge_list.names))
    graph.add_edges_from(zip(edge_list.source, edge_list.target, strict=True))
    return graph
