"""Connected subgraphs that add much to an answer, found among those that walks went through.

The **score** of a set of nodes is what is read within it adds: of its nodes, of the edges between them, and of the
bits whose whole set of nodes is part of it. The score of all nodes is all there is. The **excess** is the score less
what as many average nodes add, if these point the same way. With m the score of all nodes divided by their number:

    score - n max(m, 0) of n nodes that speak for the answer,   score - n min(m, 0) of those that speak against it.

Subgraphs are ranked by |excess| / √n, as in a scan for the subset of a noisy field that stands out most: a ring that
explains an answer gains nothing from one average node more.

Candidates are the sets of at least two nodes that a walk went through one after the other within a window; of each set
of walks, the windows that add most, for or against, are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import networkx as nx
import numpy as np
from scipy import sparse

from crawl.explanations.attribution import Attribution, LayerParts
from crawl.explanations.windows import Evidence, Floats, Ints, as_sets, bit_places, distinct_rows, windows_of

Kind = Literal["ring", "branch", "path"]
_MOST_WINDOWS = 1000  # of each set of walks that candidates are taken from
_AT_A_TIME = 1000  # candidates


@dataclass(frozen=True)
class Subgraph:
    """A connected subgraph, and what it adds to an answer, in the unit of the target.

    Attributes:
        nodes: The nodes, ascending.
        edges: The columns of `edge_index` between them.
        kind: What it is, by the steps and bits of walks: it has a `ring`, it is a tree with a `branch`, or a `path`.
        rings: The sizes of the rings without chords that were seen, ascending.
        score: What is read within it adds; the mean over evaluations.
        spread: The standard deviation of the score over evaluations, each with its own walks.
        excess: The score less what as many average nodes add, if these point the same way.
        num_windows: Windows that saw nothing but this subgraph, in all evaluations, one layer of them.
        seen: How often bits were set within it in all evaluations: for `identity` and `adjacency`, by how far they look
            back.
    """

    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    kind: Kind
    rings: tuple[int, ...]
    score: float
    spread: float
    excess: float
    num_windows: int
    seen: dict[str, dict[int, int]] = field(hash=False)

    @property
    def title(self) -> str:
        """What it is, in words."""
        if self.rings:
            sizes = " and ".join(str(size) for size in self.rings)
            return f"{'ring' if len(self.rings) == 1 else 'rings'} of {sizes}, {len(self.nodes)} nodes"
        return f"{self.kind} of {len(self.nodes)} nodes"

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        seen = {kind: {str(back): number for back, number in found.items()} for kind, found in self.seen.items()}
        return {
            **vars(self),
            "nodes": list(self.nodes),
            "edges": list(self.edges),
            "rings": list(self.rings),
            "seen": seen,
        }


class Scores:
    """The scores of sets of nodes, for evaluations with different walks.

    Args:
        found: The evidence of each evaluation.
        edge_index: `[2, E]`.
    """

    def __init__(self, found: Sequence[Evidence], edge_index: Ints) -> None:
        self.num_nodes, num_repeats = len(found[0].nodes), len(found)
        width = max(each.sets.shape[1] for each in found)
        ends = np.sort(edge_index, axis=0).T  # a self-loop is a set of one node
        groups: list[Ints] = [np.arange(self.num_nodes)[:, None], as_sets(ends.copy(), self.num_nodes)]
        groups += [each.sets for each in found]
        padded = [np.pad(g, ((0, 0), (0, max(width, 2) - g.shape[1])), constant_values=self.num_nodes) for g in groups]
        values = np.zeros((sum(map(len, padded)), num_repeats))
        first = self.num_nodes + edge_index.shape[1]
        for repeat, each in enumerate(found):
            values[: self.num_nodes, repeat], values[self.num_nodes : first, repeat] = each.nodes, each.edges
        for repeat, each in enumerate(found):
            values[first : first + len(each.sets), repeat] = each.of_sets
            first += len(each.sets)
        supports, place = np.unique(np.concatenate(padded), axis=0, return_inverse=True)
        self.values = np.zeros((len(supports), num_repeats))
        np.add.at(self.values, place.reshape(-1), values)
        self.supports = _members(supports, self.num_nodes)
        self.sizes = (supports < self.num_nodes).sum(axis=1)
        self.total: Floats = self.values.sum(axis=0)

    def of(self, sets: Ints) -> Floats:
        """`[S, r]` the score of each set, as `as_sets` writes it, in each evaluation."""
        parts = []
        for first in range(0, len(sets), _AT_A_TIME):
            members = _members(sets[first : first + _AT_A_TIME], self.num_nodes)
            common = (members @ self.supports.T).tocsr()
            common.data = (common.data == self.sizes[common.indices]).astype(np.float64)
            parts.append(common @ self.values)
        return np.concatenate(parts) if parts else np.empty((0, self.values.shape[1]))

    def excess(self, sets: Ints, scores: Floats) -> tuple[Floats, Floats]:
        """`[S]` the excess of these sets, with these mean scores, and `[S]` what they are ranked by."""
        sizes, share = (sets < self.num_nodes).sum(axis=1), float(self.total.mean()) / self.num_nodes
        for_it, against = scores - sizes * max(share, 0), scores - sizes * min(share, 0)
        excess = np.where(for_it >= -against, for_it, against)
        return excess, np.maximum(for_it, -against) / np.sqrt(sizes)


def top_subgraphs(
    attributions: Sequence[Attribution], scores: Scores, edge_index: Ints, num_subgraphs: int
) -> tuple[Subgraph, ...]:
    """The subgraphs that stand out most, for or against; two of them share at most half of the smaller's nodes."""
    sets = candidates(attributions, scores.num_nodes)
    found = scores.of(sets)
    excess, rank = scores.excess(sets, found.mean(axis=1))
    chosen: list[tuple[int, frozenset[int]]] = []
    for i in np.argsort(-rank, kind="stable"):
        if len(chosen) == num_subgraphs:
            break
        nodes = frozenset(sets[i][sets[i] < scores.num_nodes].tolist())
        if all(2 * len(nodes & other) <= min(len(nodes), len(other)) for _, other in chosen):
            chosen.append((int(i), nodes))
    walked = [layer for each in attributions for layer in _distinct(each)]
    return tuple(_subgraph(sorted(nodes), edge_index, walked, float(excess[i]), found[i]) for i, nodes in chosen)


def candidates(attributions: Sequence[Attribution], num_nodes: int) -> Ints:
    """The distinct sets of at least two nodes that a walk went through within one of the windows that add most."""
    found: list[Ints] = []
    width = max((layer.size for each in attributions for layer in each.layers), default=2)
    for layer, values in (pair for attribution in attributions for pair in _windows(attribution)):
        sizes = np.abs(values).ravel()
        best = np.argsort(-sizes, kind="stable")[:_MOST_WINDOWS]
        walk, window = np.unravel_index(best[sizes[best] > 0], values.shape)
        rows, jumps = windows_of(layer, walk.astype(np.int64), window.astype(np.int64))
        for length in range(2, layer.size + 1):
            for first in range(layer.size - length + 1):
                is_walked = ~jumps[:, first : first + length - 1].any(axis=1)
                part = rows[is_walked, first : first + length]
                found.append(np.pad(part, ((0, 0), (0, width - length)), constant_values=num_nodes))
    if not found:
        return np.empty((0, width), np.int64)
    sets = distinct_rows(as_sets(np.concatenate(found), num_nodes))
    chosen: Ints = sets[(sets < num_nodes).sum(axis=1) >= 2]
    return chosen


def _windows(attribution: Attribution) -> Iterator[tuple[LayerParts, Floats]]:
    """What windows add, in all layers that have the same windows together, with the first of these layers."""
    groups: dict[tuple[int, int, int], list[LayerParts]] = {}
    for layer in attribution.layers:
        groups.setdefault((layer.walks.nodes.data_ptr(), layer.first, layer.size), []).append(layer)
    for layers in groups.values():
        yield layers[0], np.sum([layer.windows.double().cpu().numpy() for layer in layers], axis=0)


def _distinct(attribution: Attribution) -> Iterator[LayerParts]:
    """The first layer of those that read the same walks."""
    known: set[int] = set()
    for layer in attribution.layers:
        if layer.walks.nodes.data_ptr() not in known:
            known.add(layer.walks.nodes.data_ptr())
            yield layer


def _members(sets: Ints, num_nodes: int) -> Any:
    """`[S, N]` sparse ones: which nodes are in each set."""
    row, place = (sets < num_nodes).nonzero()
    shape = (len(sets), num_nodes)
    return sparse.csr_array((np.ones(len(row)), (row, sets[row, place])), shape=shape)


def _subgraph(
    nodes: list[int], edge_index: Ints, layers: Sequence[LayerParts], excess: float, scores: Floats
) -> Subgraph:
    seen: dict[str, Counter[int]] = {"identity": Counter(), "adjacency": Counter()}
    drawn = nx.Graph()
    drawn.add_nodes_from(nodes)
    num_windows = 0
    for layer in layers:
        walks = layer.walks
        visited = walks.nodes.cpu().numpy().astype(np.int64)
        is_in = np.isin(visited, nodes)
        inside = np.pad(is_in, ((0, 0), (1, 0))).cumsum(axis=1)
        walk, place = (is_in[:, 1:] & is_in[:, :-1]).nonzero()
        if walks.has_jumps:
            follows = walks.edges.cpu().numpy()[walk, place] != walks.num_edges
            walk, place = walk[follows], place[follows]
        drawn.add_edges_from(zip(visited[walk, place].tolist(), visited[walk, place + 1].tolist(), strict=True))
        bits = walks.bits().cpu().numpy()
        for kind, back, column in bit_places(walks):
            walk, place = (bits[:, :, column] & is_in).nonzero()
            is_whole = inside[walk, place + 1] - inside[walk, place - back] == back + 1
            if kind == "adjacency":
                both = is_in[walk, place - back]
                ends = zip(visited[walk, place][both].tolist(), visited[walk, place - back][both].tolist(), strict=True)
                drawn.add_edges_from(ends)
            if number := int(is_whole.sum()):
                seen[kind][back] += number
        begin = (np.arange(layer.windows.shape[1]) + layer.first).clip(0)
        end = (np.arange(layer.windows.shape[1]) + layer.first + layer.size).clip(max=visited.shape[1])
        num_windows += int((inside[:, end] - inside[:, begin] == end - begin).sum())
    drawn.remove_edges_from(list(nx.selfloop_edges(drawn)))
    rings = tuple(sorted(len(ring) for ring in nx.chordless_cycles(drawn)))
    degree = max((number for _, number in drawn.degree), default=0)
    kind_of: Kind = "ring" if rings else "branch" if degree > 2 else "path"
    columns = tuple(np.flatnonzero(np.isin(edge_index, nodes).all(axis=0)).tolist())
    numbers = {kind: dict(sorted(found.items())) for kind, found in seen.items()}
    mean, spread = float(scores.mean()), float(scores.std())
    return Subgraph(tuple(nodes), columns, kind_of, rings, mean, spread, excess, num_windows, numbers)
