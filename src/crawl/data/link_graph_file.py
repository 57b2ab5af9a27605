"""The links of a graph file: read a piece at a time, split, and trained on in closed batches.

While links are learned, some of them are hidden, so the links themselves are in memory; features stay in the file. A
prediction hides nothing and reads the rows of the file that its walks visit, unless the file lists self-loops or
parallel edges, which are no links: then the links are in memory, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from crawl.checks import as_path, shown
from crawl.choices import Batches
from crawl.data.dataset import Dataset
from crawl.data.graph_folder import GRAPH, opened_graph
from crawl.data.link_list import LinkList
from crawl.data.links import FEWEST_LINKS, dataset_of_links
from crawl.data.one_graph import OneGraph
from crawl.data.pairs import pair_numbers, pairs_of_numbers
from crawl.data.splits import Fractions, random_split
from crawl.graph import Graph

_MOST_LINKS = 2**30 - 1  # whose arcs, two each, are numbered in 32 bits
_ARCS = 2**22  # are read at a time


def from_link_graph_file(
    folder: str | Path,
    *,
    split: str,
    fractions: Fractions,
    seed: int,
    num_negatives: int,
    supervised_share: float,
    metric: str | None,
    batches: Batches,
) -> Dataset:
    """The links of `graph.crawl` in a folder, split by chance; arguments are those of `from_link_folder`.

    Raises:
        ValueError: If the file is damaged, directed or weighted, has too few or too many links, and for batches of the
            full graph and splits by a column, which a graph file does not have.
    """
    folder = as_path("folder", folder)
    if batches != "closed":
        raise ValueError(
            f"Features in {folder / GRAPH} are never in memory as a whole, as batches of the full graph would need "
            "them: choose batches='closed' (--data.batches closed)."
        )
    if split not in ("auto", "random"):
        raise ValueError(f"split is {shown(split)}, and the links in {folder / GRAPH} have no columns: leave it out.")
    graph, x, _ = opened_graph(folder)
    links = links_of_graph(graph, folder / GRAPH)
    if len(links.numbers) < FEWEST_LINKS:
        few = f"{folder / GRAPH} has {len(links.numbers)} link{'s' * (len(links.numbers) != 1)}"
        raise ValueError(f"{few}, too few to be split: {FEWEST_LINKS} are needed.")
    chosen = random_split(len(links.numbers), fractions, seed)
    dataset = dataset_of_links(
        links.only(chosen.train.sort().values),
        x,
        [(links.numbers[ids.sort().values], None) for ids in (chosen.val, chosen.test)],
        seed=seed,
        num_negatives=num_negatives,
        supervised_share=supervised_share,
        metric=metric,
        batches=batches,
        name=folder.resolve().name,
    )
    assert isinstance(dataset.store, OneGraph)
    return replace(dataset, store=replace(dataset.store, file=graph.file))


def with_plain_links(store: OneGraph, path: Path) -> OneGraph:
    """The store of a graph file as links are learned: without self-loops, and of parallel edges with one.

    A file that has neither, which one pass over it says, stays mapped; otherwise, its links are in memory.
    """
    if not _has_loops_or_parallel_arcs(store.graph):
        return store
    links = links_of_graph(store.graph, path)
    plain = Graph.from_edge_index(links.edge_index, store.num_nodes)
    return replace(store, graph=plain, file=store.graph.file)


def _has_loops_or_parallel_arcs(graph: Graph) -> bool:
    """Whether a graph, in whose rows the targets ascend, has a self-loop or an arc twice."""
    before = None
    for source, target, _ in _arcs(graph):
        same = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
        if bool((source == target).any()) or bool(same.any()) or (int(source[0]), int(target[0])) == before:
            return True
        before = (int(source[-1]), int(target[-1]))
    return False


def _arcs(graph: Graph) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Source, target and edge of the arcs of a graph, a piece at a time."""
    for first in range(0, graph.num_arcs, _ARCS):
        last = min(first + _ARCS, graph.num_arcs)
        arcs = torch.arange(first, last, device="cpu", dtype=graph.rowptr.dtype)
        source = torch.searchsorted(graph.rowptr, arcs, right=True) - 1
        yield source, graph.col[first:last].long(), graph.edge_id[first:last]


def links_of_graph(graph: Graph, path: Path) -> LinkList:
    """The links of a graph, which may be mapped from a file: its arcs are read a piece at a time.

    Args:
        graph: The graph.
        path: What to call it in messages.

    Raises:
        ValueError: If the graph is weighted, has an arc without a reverse, or more links than can be trained on.
    """
    if graph.is_weighted:
        raise ValueError(f"{path} has weights, and links are learned without: build it without --weighted.")
    pieces: dict[bool, list[Tensor]] = {True: [], False: []}
    loops: list[Tensor] = []
    for source, target, edge in _arcs(graph):
        loops.append(edge[source == target])
        for is_up, chosen in ((True, source < target), (False, source > target)):
            pieces[is_up].append(pair_numbers(torch.stack([source[chosen], target[chosen]], dim=1)))
    none = torch.empty(0, dtype=torch.long, device="cpu")
    num_listed = max(sum(map(len, each)) for each in pieces.values())  # the reverse of an edge is not parallel to it
    there, back = (torch.unique(torch.cat([none, *pieces.pop(is_up)])) for is_up in (True, False))
    if not torch.equal(there, back):
        one_way = torch.cat([there[~torch.isin(there, back)], back[~torch.isin(back, there)]])
        u, v = pairs_of_numbers(one_way[:1])[0].tolist()
        raise ValueError(
            f"The edge between {u} and {v} in {path} leads one way, and links have no direction: build the file with "
            "--undirected."
        )
    if len(there) > _MOST_LINKS:
        raise ValueError(f"{path} has {len(there)} links, and {_MOST_LINKS} at most can be trained on.")
    num_loops, num_parallel = len(torch.unique(torch.cat([none.int(), *loops]))), num_listed - len(there)
    skipped = [f"self-loops, which are not links: {num_loops}"] if num_loops else []
    skipped += [f"parallel edges, of which the first counts: {num_parallel}"] if num_parallel else []
    return LinkList(there, graph.num_nodes, None, tuple(skipped))


def num_linked(graph: Graph, pairs: Tensor) -> int:
    """How many of the pairs of nodes, `[M, 2]`, are linked in a graph, of which only their rows are read."""
    first = graph.rowptr[pairs[:, 0]].tolist()
    last = graph.rowptr[pairs[:, 0] + 1].tolist()
    rows = zip(first, last, pairs[:, 1].tolist(), strict=True)
    return sum(bool((graph.col[begin:end] == node).any()) for begin, end, node in rows)
