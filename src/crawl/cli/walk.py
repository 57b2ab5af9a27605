"""`crawl walk`: random walks on the graph of an edge list."""

from __future__ import annotations

import csv
import gzip
import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import tyro

from crawl.choices import Strategy
from crawl.cli.flags import Int, Switch, Words, check_positive, check_seed, compute_with
from crawl.cli.output import STDOUT, is_stream, open_output, say

if TYPE_CHECKING:
    from torch import Tensor

    from crawl.graph import Graph
    from crawl.walks import Walks


@dataclass(frozen=True)
class WalkEdges:
    """Write random walks on the graph of an edge list.

    One edge a line: two node names and, if you like, a weight, separated by blanks, tabs, commas or semicolons. Lines
    that begin with # are comments. Edges are walked both ways unless --directed is given.

    A .csv file gets one line per walk: the names of the nodes it visits. A .npz file gets `nodes` (walks × positions,
    numbers into `names`), `names`, `edges` (walks × steps, counting the edges of the file from 0; their number for a
    jump, which follows none) and `bits` (walks × positions × 2s - 1): which of the s nodes before are the same node,
    then which from two before on are neighbours.

    Attributes:
        edges: The edge list, plain or .gz; - reads the standard input.
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
        check_positive(num_walks=self.num_walks)
        check_seed(self.seed)
        if self.strategy != "node2vec" and (self.p, self.q) != (1, 1):
            raise ValueError("--p and --q are those of node2vec walks: leave them out, or add --strategy node2vec.")
        if self.strategy != "restart" and self.restart != WalkEdges.restart:
            raise ValueError("--restart is that of restart walks: leave it out, or add --strategy restart.")
        if self.centred and self.directed:
            raise ValueError("--centred walks take edges in both directions: leave out --directed.")
        edge_list = read_edge_list(self.edges, header=self.header)
        compute_with(self.threads)
        graph = edge_list.graph(directed=self.directed)
        walks = self._walks(graph, edge_list)
        write = _write_npz if self.output.suffix == ".npz" else _write_csv
        write(self.output, walks, edge_list.names)
        if self.output != STDOUT:
            nodes, edges = (float(share) for share in walks.coverage(graph))
            what = f"{walks.num_walks} walks of {walks.num_steps} steps on {edge_list}"
            say(f"{what}, which see {nodes:.1%} of the nodes and {edges:.1%} of the edges → {self.output}")

    def _walks(self, graph: Graph, edge_list: EdgeList) -> Walks:
        from crawl.walks import sample_walks

        start = self._start(graph, edge_list).repeat_interleave(self.num_walks)
        return sample_walks(
            graph,
            num_steps=self.num_steps,
            strategy=self.strategy,
            start=start,
            window_size=self.window_size,
            seed=self.seed,
            p=self.p,
            q=self.q,
            restart=self.restart,
            centred=self.centred,
        )

    def _start(self, graph: Graph, edge_list: EdgeList) -> Tensor:
        import torch

        from crawl.walks import sample_walks

        if not self.start:
            return sample_walks(graph, num_steps=0, start=self.share, window_size=0, seed=self.seed).nodes[:, 0]
        if self.share != 1:
            raise ValueError("--start and --share exclude each other: give one of them.")
        index = {name: i for i, name in enumerate(edge_list.names)}
        unknown = [name for name in self.start if name not in index]
        if unknown:
            raise ValueError(f"--start: there is no node {unknown[0]!r} in {self.edges}.")
        return torch.tensor([index[name] for name in self.start])


@dataclass(frozen=True)
class EdgeList:
    """Edges between named nodes; numbers are into `names`, which are in ascending order if all are integers."""

    source: list[int]
    target: list[int]
    weight: list[float] | None
    names: list[str]

    def graph(self, *, directed: bool) -> Graph:
        """The graph to walk on; refused if walks along directed edges would end somewhere."""
        import torch

        from crawl.graph import Graph

        if directed and (ends := set(self.target).difference(self.source)):
            raise ValueError(
                f"--directed: no edge leaves node {self.names[min(ends)]!r}, so a walk would end there. "
                "Leave out --directed, or give such nodes an edge to themselves."
            )
        return Graph.from_edge_index(
            torch.tensor([self.source, self.target]),
            num_nodes=len(self.names),
            edge_weight=None if self.weight is None else torch.tensor(self.weight, dtype=torch.float64),
            undirected=not directed,
        )

    def __str__(self) -> str:
        return f"{len(self.names)} nodes and {len(self.source)} edges"


def read_edge_list(path: Path, *, header: bool = False) -> EdgeList:
    """The edges of a text file. Refuses a line that is not an edge, by its number."""
    index: dict[str, int] = {}
    source: list[int] = []
    target: list[int] = []
    weight: list[float] = []
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
    names = list(index)
    is_integer = [name.lstrip("-").isdecimal() for name in names]
    if not header and len(names) > 2 and not any(is_integer[:2]) and all(is_integer[2:]):
        raise ValueError(
            f"{path}: the first line ({' '.join(names[:2])}) looks like a header; add --header to skip it."
        )
    if all(is_integer):
        order = sorted(range(len(names)), key=lambda i: int(names[i]))
        rank = sorted(range(len(order)), key=order.__getitem__)  # the inverse permutation
        names = [names[i] for i in order]
        source, target = [rank[i] for i in source], [rank[i] for i in target]
    return EdgeList(source, target, weight or None, names)


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


def _write_npz(path: Path, walks: Walks, names: list[str]) -> None:
    import numpy as np

    with open_output(path, binary=True) as file:
        np.savez_compressed(
            file,
            nodes=walks.nodes.numpy(),
            edges=walks.edges.numpy(),
            bits=walks.bits().numpy(),
            names=np.array(names),
            window_size=walks.window_size,
        )


def _write_csv(path: Path, walks: Walks, names: list[str]) -> None:
    with open_output(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(f"node_{i}" for i in range(walks.num_steps + 1))
        for nodes in walks.nodes.numpy():
            writer.writerow([names[node] for node in nodes.tolist()])
