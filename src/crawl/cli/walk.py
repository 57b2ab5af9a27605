"""`crawl walk`: random walks on the graph of an edge list."""

from __future__ import annotations

import csv
import gzip
import math
import re
import sys
import zipfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import tyro

from crawl.choices import Strategy
from crawl.cli.flags import Int, Switch, Words, check_positive, check_seed, compute_with
from crawl.cli.graph import GRAPH_SUFFIX
from crawl.cli.output import STDOUT, check_apart, is_stream, open_output, say

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from crawl.graph import Graph
    from crawl.walks import Walks

_POSITIONS_AT_ONCE = 2**18  # of walks that are in memory


@dataclass(frozen=True)
class WalkEdges:
    """Write random walks on the graph of an edge list, or of a graph file.

    One edge a line: two node names and, if you like, a weight, separated by blanks, tabs, commas or semicolons. Lines
    that begin with # are comments. Edges are walked both ways unless --directed is given.

    A .csv file gets one line per walk: the names of the nodes it visits. A .npz file gets `nodes` (walks × positions,
    numbers into `names`), `names`, `edges` (walks × steps, counting the edges of the file from 0; their number for a
    jump, which follows none) and `bits` (walks × positions × 2s - 1): which of the s nodes before are the same node,
    then which from two before on are neighbours. The nodes of a graph file are numbers, so there are no `names`.

    Walks are drawn and written in pieces of 262,144 positions, or one by one where a walk is longer: whatever their
    number, memory is needed for one piece and for the graph; a graph file is not even read as a whole into memory.

    Attributes:
        edges: The edge list, plain or .gz; - reads the standard input. Or a .crawl file of `crawl graph build`.
        output: A .npz or .csv file; - prints CSV, and devices and pipes get it, too.
        num_steps: Steps of a walk; it visits one more node.
        strategy: How the next node is drawn; docs/walks.md has the rules.
        window_size: How far back the bits look (s).
        num_walks: Walks from every start node.
        start: Names of start nodes; all nodes when not given.
        share: Start from this share of the nodes, drawn at random.
        centred: Put the start of a walk in its middle.
        directed: Walk along the direction of the edges only.
        header: The first line names the columns.
        p: node2vec's return parameter.
        q: node2vec's in-out parameter.
        restart: The chance that a step of restart walks jumps back to the start.
        seed: The same seed gives the same walks.
        threads: How many threads compute; as many as the machine has cores when not given.
    """

    edges: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="EDGES")]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = STDOUT
    num_steps: int = 50
    strategy: Strategy = "non_backtracking"
    window_size: int = 8
    num_walks: int = 1
    start: Words = ()
    share: float = 1.0
    centred: Switch = False
    directed: Switch = False
    header: Switch = False
    p: float = 1.0
    q: float = 1.0
    restart: float = 0.1
    seed: int = 0
    threads: Int = None

    def run(self) -> None:
        """Read, walk, write."""
        if self.output.suffix not in (".npz", ".csv") and not is_stream(self.output):
            raise ValueError(f"{self.output}: walks are written as .npz or .csv, or with - as CSV to the terminal.")
        check_apart(self.output, [self.edges])
        check_positive(num_walks=self.num_walks)
        check_seed(self.seed)
        if self.strategy != "node2vec" and (self.p, self.q) != (1, 1):
            raise ValueError("--p and --q are those of node2vec walks: leave them out, or add --strategy node2vec.")
        if self.strategy != "restart" and self.restart != WalkEdges.restart:
            raise ValueError("--restart is that of restart walks: leave it out, or add --strategy restart.")
        if self.centred and self.directed:
            raise ValueError("--centred walks take edges in both directions: leave out --directed.")
        if self.start and self.share != 1:
            raise ValueError("--start and --share exclude each other: give one of them.")
        from crawl.runs.progress import lines
        from crawl.walks.centred import why_inexact

        graph, names = self._graph()
        if self.centred and (reason := why_inexact(self.strategy, graph)):
            say(f"{reason}: --strategy uniform is exact.")
        walks = self._walks(graph, names)
        write = _write_npz if self.output.suffix == ".npz" else _write_csv
        with lines(lambda: f"{walks.part}: {walks.num_drawn:,} of {walks.num_walks:,} walks written"):
            write(self.output, walks, names)
        if self.output != STDOUT:
            nodes, edges = (float(share) for share in walks.seen.coverage())
            sizes = f"{graph.num_nodes} nodes and {graph.num_edges} edges"
            what = f"{walks.num_walks} walks of {walks.num_steps} steps on {sizes}"
            say(f"{what}, which see {nodes:.1%} of the nodes and {edges:.1%} of the edges → {self.output}")

    def _graph(self) -> tuple[Graph, list[str] | None]:
        """The graph and the names of its nodes, which are numbers in a graph file."""
        if self.edges.suffix != GRAPH_SUFFIX:
            edge_list = read_edge_list(self.edges, header=self.header)
            compute_with(self.threads)
            return edge_list.graph(directed=self.directed), edge_list.names
        if self.directed or self.header:
            raise ValueError(f"{self.edges} is built already: leave out --directed and --header.")
        compute_with(self.threads)
        from crawl.graph import Graph

        return Graph.open(self.edges), None

    def _walks(self, graph: Graph, names: list[str] | None) -> _Walks:
        from crawl.walks.sampling import walks_from
        from crawl.walks.starts import start_nodes
        from crawl.walks.strategies import StepLaw

        law = StepLaw.named(self.strategy, self.p, self.q, self.restart, self.centred)
        draw = walks_from(graph, law, self.num_steps, self.window_size, self.seed)
        if self.start:
            first = self._named(names, graph.num_nodes)
        else:
            first, _ = start_nodes(graph, self.share, None, self.seed)
        start, keys = start_nodes(graph, first.repeat_interleave(self.num_walks), None, self.seed)
        return _Walks(graph, draw, start, keys, self.num_steps, self.window_size)

    def _named(self, names: list[str] | None, num_nodes: int) -> Tensor:
        """The nodes that --start names."""
        import torch

        if names is None:
            index = {name: int(name) for name in self.start if re.fullmatch("0|[1-9][0-9]{0,9}", name)}
            index = {name: node for name, node in index.items() if node < num_nodes}
        else:
            index = {name: i for i, name in enumerate(names)}
        unknown = [name for name in self.start if name not in index]
        if unknown:
            raise ValueError(f"--start: there is no node {unknown[0]!r} in {self.edges}.")
        return torch.tensor([index[name] for name in self.start])


class _Walks:
    """Walks that are drawn piece by piece, again each time they are gone through, so that few are in memory."""

    def __init__(
        self,
        graph: Graph,
        draw: Callable[[Tensor, Tensor], Walks],
        start: Tensor,
        keys: Tensor,
        num_steps: int,
        window_size: int,
    ) -> None:
        from crawl.walks.coverage import Seen

        self.graph, self.draw, self.start, self.keys = graph, draw, start, keys
        self.num_walks, self.num_steps, self.window_size = start.numel(), num_steps, window_size
        self.edge_dtype = graph.edge_id.numpy().dtype
        self.seen, self.part, self.num_drawn = Seen(graph), "nodes", 0

    def __iter__(self) -> Iterator[Walks]:
        walks_at_once = max(1, _POSITIONS_AT_ONCE // (self.num_steps + 1))
        for begin in range(0, self.num_walks, walks_at_once):
            part = slice(begin, begin + walks_at_once)
            self.graph.check_unchanged()  # to read a file that was cut would end the process
            walks = self.draw(self.start[part], self.keys[part])
            self.graph.check_unchanged()
            self.seen.add(walks.nodes, walks.edges, walks.num_nodes, walks.num_edges, walks.has_jumps)
            self.num_drawn = begin + walks.num_walks
            yield walks


@dataclass(frozen=True)
class EdgeList:
    """Edges between named nodes; numbers are into `names`, which are in ascending order if all are integers."""

    source: NDArray[Any]
    target: NDArray[Any]
    weight: NDArray[Any] | None
    names: list[str]

    def graph(self, *, directed: bool) -> Graph:
        """The graph to walk on; refused if walks along directed edges would end somewhere."""
        import numpy as np
        import torch

        from crawl.graph import Graph

        if directed and (ends := np.setdiff1d(self.target, self.source)).size:
            raise ValueError(
                f"--directed: no edge leaves node {self.names[ends[0]]!r}, so a walk would end there. "
                "Leave out --directed, or give such nodes an edge to themselves."
            )
        return Graph.from_edge_index(
            torch.from_numpy(np.stack([self.source, self.target])),
            num_nodes=len(self.names),
            edge_weight=None if self.weight is None else torch.from_numpy(self.weight),
            undirected=not directed,
        )


def read_edge_list(path: Path, *, header: bool = False) -> EdgeList:
    """The edges of a text file. Refuses a line that is not an edge, by its number."""
    import numpy as np

    index: dict[str, int] = {}
    source, target, weight = array("q"), array("q"), array("d")
    num_columns = 0
    for number, fields in _edge_lines(path, header=header):
        num_columns = num_columns or len(fields)
        if len(fields) not in (2, 3) or len(fields) != num_columns:
            expected = f"{num_columns} columns, as before" if num_columns in (2, 3) and source else "2 or 3 columns"
            raise ValueError(f"{path}, line {number}: expected {expected} (node, node, weight), not {len(fields)}.")
        if not all(fields):
            raise ValueError(f"{path}, line {number}: a column is empty.")
        if num_columns == 3:
            weight.append(_weight(fields[2], f"{path}, line {number}", is_first=not source))
        source.append(index.setdefault(fields[0], len(index)))
        target.append(index.setdefault(fields[1], len(index)))
    if not source:
        raise ValueError(f"{path}: there is no edge in it.")
    sources, targets, names = np.array(source), np.array(target), list(index)
    is_integer = [name.lstrip("-").isdecimal() for name in names]
    if not header and len(names) > 2 and not any(is_integer[:2]) and all(is_integer[2:]):
        raise ValueError(
            f"{path}: the first line ({' '.join(names[:2])}) looks like a header; add --header to skip it."
        )
    if all(is_integer):
        order = sorted(range(len(names)), key=lambda i: int(names[i]))
        rank = np.argsort(order)  # the inverse permutation
        names = [names[i] for i in order]
        sources, targets = rank[sources], rank[targets]
    return EdgeList(sources, targets, np.array(weight) if weight else None, names)


def _edge_lines(path: Path, *, header: bool) -> Iterator[tuple[int, list[str]]]:
    """Line number and columns of every line that is neither empty nor a comment; without the header."""
    separator: str | None = None
    is_first = True
    with _open_text(path) as file:
        try:
            for number, line in enumerate(file, start=1):
                text = line.split("#", 1)[0].strip()
                if not text:
                    continue
                if is_first:
                    separator = next((mark for mark in ",;\t" if mark in text), None)
                if not (is_first and header):
                    yield number, [field.strip() for field in text.split(separator)]
                is_first = False
        except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
            raise ValueError(f"{path}: this is not a text file, or it is damaged ({error}).") from error


def _open_text(path: Path) -> AbstractContextManager[IO[str]]:
    if path == STDOUT:
        return nullcontext(sys.stdin)
    return gzip.open(path, "rt", encoding="utf-8-sig") if path.suffix == ".gz" else open(path, encoding="utf-8-sig")


def _weight(text: str, where: str, *, is_first: bool) -> float:
    try:
        weight = float(text)
    except ValueError:
        hint = " If this line names the columns, add --header." if is_first else ""
        raise ValueError(f"{where}: the weight {text!r} is not a number.{hint}") from None
    if not (weight > 0 and math.isfinite(weight)):
        raise ValueError(f"{where}: the weight {text} is not positive; leave out edges that must not be walked.")
    return weight


def _write_npz(path: Path, walks: _Walks, names: list[str] | None) -> None:
    """Write what `np.savez_compressed` would: one array after the other, each in pieces."""
    import numpy as np

    num_positions = walks.num_steps + 1
    num_bits = max(2 * walks.window_size - 1, 0)
    streamed: dict[str, tuple[Any, tuple[int, ...], Callable[[Walks], Tensor]]] = {
        "nodes": (np.int32, (num_positions,), lambda piece: piece.nodes),
        "edges": (walks.edge_dtype, (walks.num_steps,), lambda piece: piece.edges),
        "bits": (np.bool_, (num_positions, num_bits), lambda piece: piece.bits()),
    }
    whole = {"window_size": walks.window_size} if names is None else {"names": names, "window_size": walks.window_size}
    with open_output(path, binary=True) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (dtype, shape, values) in streamed.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (walks.num_walks, *shape)}
                np.lib.format.write_array_header_1_0(member, header)
                walks.part = name
                for piece in walks:
                    member.write(values(piece).numpy().tobytes())
        for name, value in whole.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.array(value))


def _write_csv(path: Path, walks: _Walks, names: list[str] | None) -> None:
    with open_output(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(f"node_{i}" for i in range(walks.num_steps + 1))
        for piece in walks:
            for nodes in piece.nodes.tolist():
                writer.writerow(nodes if names is None else [names[node] for node in nodes])
