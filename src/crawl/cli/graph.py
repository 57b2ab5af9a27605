"""`crawl graph build`: a graph file from an edge list of any length."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from crawl.cli.flags import FilePath, Int, Switch
from crawl.cli.output import check_apart, say

if TYPE_CHECKING:
    from crawl.graph import Graph

GRAPH_SUFFIX = ".crawl"


@dataclass(frozen=True)
class BuildGraph:
    """Write a graph file, which is mapped into memory to be walked on, from an edge list of any length.

    The list is text, plain or .gz, with an edge a line: two whole numbers from 0 on, separated by blanks, tabs, a comma
    or a semicolon; lines that begin with # are comments. Or it is a .npy file of integers of shape [2, edges].

    Attributes:
        edges: The edge list; - reads text from the standard input.
        output: The file to write; it ends in .crawl.
        undirected: Let every edge be walked both ways; otherwise only along its direction.
        weighted: There is a third column with positive weights.
        header: The first line names the columns.
        num_nodes: The number of nodes; one more than the largest id when neither this nor other files tell.
        nodes: A CSV file with a row for each node, whose column `id` has the numbers from 0 on, in any order.
        features: A .npy file with a row of numbers for each node, which is copied into the graph file.
        memory_gb: How much memory the sorting of rows may take, in GB; less means more passes over the list.
    """

    edges: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="EDGES")]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")]
    undirected: Switch = False
    weighted: Switch = False
    header: Switch = False
    num_nodes: Int = None
    nodes: FilePath = None
    features: FilePath = None
    memory_gb: float = 1.0

    def run(self) -> None:
        """Read, sort, write."""
        if self.output.suffix != GRAPH_SUFFIX:
            raise ValueError(f"{self.output}: the name of a graph file ends in {GRAPH_SUFFIX}.")
        if self.nodes is not None and self.num_nodes is not None:
            raise ValueError("--nodes and --num-nodes exclude each other: give one of them.")
        check_apart(self.output, [path for path in (self.edges, self.nodes, self.features) if path is not None])
        from crawl.graph import Graph
        from crawl.graph_files import build_graph_file
        from crawl.runs.progress import lines

        doing = ["reading nodes"]
        with lines(lambda: doing[-1]):
            build_graph_file(
                self.edges,
                self.output,
                num_nodes=self.num_nodes if self.nodes is None else num_nodes_of(self.nodes),
                undirected=self.undirected,
                weighted=self.weighted,
                header=self.header,
                features=self.features,
                memory_gb=self.memory_gb,
                on_progress=lambda text: doing.__setitem__(0, text),
            )
        graph = Graph.open(self.output, verify=False)
        say(f"{_sizes(graph)} → {self.output}")


@dataclass(frozen=True)
class CheckGraph:
    """Compare a graph file with its checksums, and print its sizes.

    Attributes:
        path: A file of `crawl graph build`.
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]

    def run(self) -> None:
        """Read, compare, print."""
        from crawl.graph import Graph
        from crawl.runs.progress import lines

        with lines(f"reading {self.path}"):
            graph = Graph.open(self.path)
        print(f"{self.path}: {_sizes(graph)}")


GraphAction = (
    Annotated[BuildGraph, tyro.conf.subcommand("build")] | Annotated[CheckGraph, tyro.conf.subcommand("check")]
)


@dataclass(frozen=True)
class GraphCommand:
    """Build a graph file from an edge list of any length, or check one.

    Attributes:
        action: What to do.
    """

    action: Annotated[GraphAction, tyro.conf.arg(name="")]

    def run(self) -> None:
        """Do it."""
        self.action.run()


def _sizes(graph: Graph) -> str:
    weights = ", weighted" if graph.is_weighted else ""
    return f"{graph.num_nodes} nodes, {graph.num_edges} edges and {graph.num_arcs} arcs{weights}"


def num_nodes_of(path: Path) -> int:
    """The number of nodes in a table. Refuses one whose ids are not the numbers from 0 on."""
    import numpy as np

    from crawl.data.table import Table

    table = Table(path)
    table.check_column("id")
    ids, lines = array("q"), array("q")
    for row in table:
        text = row.cells["id"]
        if row.problem or not (text.isascii() and text.isdecimal() and len(text) < 11):
            raise ValueError(f"{path}, line {row.line}: {row.problem or f'the id {text[:40]!r} is not a node number'}.")
        ids.append(int(text))
        lines.append(row.line)
    order = np.argsort(np.array(ids, np.int64), kind="stable")
    found = np.array(ids, np.int64)[order]
    again = order[1:][found[1:] == found[:-1]]
    if again.size:
        place = int(again.min())
        first = lines[ids.index(ids[place])]
        raise ValueError(f"{path}, line {lines[place]}: the id {ids[place]} is in line {first} already; list it once.")
    wrong = np.flatnonzero(found != np.arange(found.size))
    if wrong.size:
        raise ValueError(
            f"{path}: the ids must be the numbers from 0 to {found.size - 1}, each once, but {wrong[0]} is missing."
        )
    return int(found.size)
