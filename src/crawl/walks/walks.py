"""Walks and what is seen along them: the contract every sampler fulfils (paper, section 2.1)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from crawl.checks import check_window_size
from crawl.graph import Graph
from crawl.ops.backends import can_use_triton
from crawl.ops.segments import Rows, Segments, places_of
from crawl.tensor_checks import as_device
from crawl.walks.backends import backend_for
from crawl.walks.checks import check_ids, check_jumps, check_parts, check_rows_to_add, check_values, checked_steps
from crawl.walks.coverage import Coverage, Seen
from crawl.walks.jumps import rows_of_steps


@dataclass(frozen=True, eq=False)
class Walks:
    """Walks with the subgraph seen in a sliding window, packed into one integer per position.

    A walk of `num_steps` visits T = `num_steps + 1` nodes.

    Attributes:
        nodes: `[W, T]` int32; the nodes visited.
        edges: `[W, T - 1]` int32, or int64 from 2^31 edges on; the columns of the given `edge_index` walked along:
            `edges[w, i - 1]` leads to `nodes[w, i]`.
        code: `[W, T]` int16, int32 or int64 (for s up to 8, 16 and 32); bit j - 1 is the identity bit j, bit s + j - 2
            the adjacency bit j. `bits` unpacks it.
        window_size: How far back the bits look (s).
        num_nodes: The number of nodes of the graph; None if it is not known.
        num_edges: The number of columns of its `edge_index`; None if it is not known.
        num_real: `[1]` int32 on the device, or None for all: only the first this many walks are real, the rest is
            padding, which visits a node that exists and is not part of any graph.
        has_jumps: Whether steps may be jumps, which follow no edge: `num_edges`, one more than the last column, stands
            for them in `edges`.
    """

    nodes: Tensor
    edges: Tensor
    code: Tensor
    window_size: int
    num_nodes: int | None = None
    num_edges: int | None = None
    num_real: Tensor | None = None
    has_jumps: bool = False

    def __post_init__(self) -> None:
        check_parts(self.nodes, self.edges, self.code, self.window_size)
        for name in ("nodes", "edges", "code"):  # kernels read them one after the other
            object.__setattr__(self, name, getattr(self, name).contiguous())
        check_jumps(self.has_jumps, self.num_edges)
        if self.num_real is None:
            check_ids(self.nodes, self.num_nodes, self.edges, self.num_edges, self.has_jumps)

    @classmethod
    def from_nodes(cls, graph: Graph, nodes: Tensor, window_size: int = 8, edges: Tensor | None = None) -> Walks:
        """The walks that visit the given nodes.

        Args:
            graph: The graph the walks run on.
            nodes: `[W, T]` node ids. Two that follow each other must be joined by an edge.
            window_size: How far back the bits look (s).
            edges: `[W, T - 1]` the column of each step, where edges are parallel; the first one that fits when None.
        """
        window_size = check_window_size(window_size)
        nodes, edges = checked_steps(graph, nodes, edges)
        code = backend_for(graph.device).encode(graph, nodes, window_size)
        return cls(nodes, edges, code, window_size, graph.num_nodes, graph.num_edges)

    @property
    def num_walks(self) -> int:
        """The number of walks (W)."""
        return self.nodes.shape[0]

    @property
    def num_steps(self) -> int:
        """The number of steps of each walk; one less than the number of nodes it visits."""
        return self.nodes.shape[1] - 1

    @property
    def device(self) -> torch.device:
        """The device all tensors are on."""
        return self.nodes.device

    @cached_property
    def visits(self) -> Segments:
        """The positions of all walks, `[W * T]` row by row, and the node each of them visits."""
        return self._segments("num_nodes", self.nodes, self.num_nodes)

    @cached_property
    def steps(self) -> Segments:
        """The steps of all walks, `[W * (T - 1)]` row by row, and the edge each of them walks along.

        With jumps there is one more owner, the last one, to which these belong.
        """
        num_owners = None if self.num_edges is None else self.num_edges + self.has_jumps
        return self._segments("num_edges", self.edges, num_owners)

    def with_segments(self, **segments: Segments) -> Walks:
        """The same walks, whose `visits` or `steps` were worked out elsewhere."""
        walks = copy.copy(self)
        vars(walks).update(segments)
        return walks

    def without_padding(self) -> Walks:
        """The real walks alone; on a GPU the host waits for their number."""
        if self.num_real is None:
            return self
        real = slice(int(self.num_real))
        return replace(self, nodes=self.nodes[real], edges=self.edges[real], code=self.code[real], num_real=None)

    def sized(self, num_nodes: int, edge_attr: Tensor | None) -> Walks:
        """The same walks, which know how many nodes and edges there are."""
        if self.num_nodes is not None and (self.num_edges is not None or edge_attr is None):
            return self
        return replace(self, num_nodes=num_nodes, num_edges=self.num_edges if edge_attr is None else edge_attr.shape[0])

    def _segments(self, name: str, ids: Tensor, num_ids: int | None) -> Segments:
        if num_ids is None:
            raise ValueError(f"These walks do not know the {name} of their graph: give Walks the {name}.")
        owner = ids.flatten()
        ptr, order = places_of(owner, num_ids) if can_use_triton(owner.device) else (None, None)
        return Segments(owner, Rows(owner.numel()), Rows(num_ids), ptr, order)

    def gather(
        self, nodes: Tensor, edges: Tensor | None = None, bits: Tensor | None = None, jump: Tensor | None = None
    ) -> Tensor:
        """`[W, T, C]`: at each position the sum of the rows of its node, of the edge that leads there, and of its bits.

        A linear map of the walk features is thus applied to nodes and edges first, of which there are far fewer.

        Args:
            nodes: `[N, C]`.
            edges: `[E, C]`; the first position has no edge.
            bits: `[2s - 1, C]` a row for each bit, in the order of `bits()`.
            jump: `[C]` the row of positions that a jump leads to, which have no edge either; 0 when None.
        """
        check_rows_to_add(nodes, edges, bits, num_bits(self.window_size))
        num_walks, num_positions = self.nodes.shape
        rows = self.visits.spread(nodes).view(num_walks, num_positions, nodes.shape[1])
        edges = rows_of_steps(nodes, edges, jump, self.num_edges, self.has_jumps)
        if edges is not None:
            steps = self.steps.spread(edges).view(num_walks, num_positions - 1, edges.shape[1])
            rows = rows + F.pad(steps, (0, 0, 1, 0))
        if bits is not None:
            rows = rows + self.bits().to(bits.dtype) @ bits
        return rows

    def mean_at_nodes(self, values: Tensor) -> Tensor:
        """`[N, C]`: the mean of `values`, `[W, T, C]`, over all positions at a node; 0 for one never visited."""
        check_values(values, self.nodes)
        return self.visits.mean(values.flatten(0, 1))

    def mean_at_edges(self, values: Tensor) -> Tensor:
        """`[E, C]`: the mean of `values`, `[W, T, C]`, over all positions reached along an edge; 0 without any."""
        check_values(values, self.nodes)
        mean = self.steps.mean(values[:, 1:].flatten(0, 1))
        return mean[: self.num_edges] if self.has_jumps else mean

    def bits(self) -> Tensor:
        """`[W, T, 2s - 1]` bool: at position i the identity bits [v_i = v_(i-j)], j = 1..s, then the adjacency bits
        [v_i has an edge to v_(i-j)], j = 2..s; False where i - j < 0. Nothing (`[W, T, 0]`) for window size 0."""
        shifts = torch.arange(num_bits(self.window_size), dtype=self.code.dtype, device=self.device)
        return ((self.code.unsqueeze(-1) >> shifts) & 1).bool()

    def coverage(self, graph: Graph) -> Coverage:
        """The shares of the nodes and edges of each graph that these walks, which must be on it, see."""
        seen, walks = Seen(graph), self.without_padding()
        seen.add(walks.nodes, walks.edges, walks.num_nodes, walks.num_edges, walks.has_jumps)
        return seen.coverage()

    def to(self, device: torch.device | str) -> Walks:
        """The same walks on another device."""
        if isinstance(device, torch.device) and device == self.device:  # as in every step of a training
            return self
        moved: Any = {k: v.to(as_device(device)) for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def __len__(self) -> int:
        return self.num_walks

    def __repr__(self) -> str:
        sizes = f"num_walks={self.num_walks}, num_steps={self.num_steps}, window_size={self.window_size}"
        return f"Walks({sizes}, device='{self.device}')"


def num_bits(window_size: int) -> int:
    """The number of structural bits per position: 2s - 1, or 0 without a window."""
    return max(2 * window_size - 1, 0)
