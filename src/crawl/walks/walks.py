"""Walks and what is seen along them: the contract every sampler fulfils (paper, section 2.1)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from crawl.checks import MAX_WINDOW_SIZE, check_type, shown, whole_number
from crawl.graph import Graph
from crawl.ops.backends import can_use_triton
from crawl.ops.segments import Rows, Segments, places_of
from crawl.tensor_checks import as_device, holds_integers, plain_tensor
from crawl.walks import reference


@dataclass(frozen=True, eq=False)
class Walks:
    """Walks with the subgraph seen in a sliding window, packed into one integer per position.

    A walk of `num_steps` visits `num_steps + 1` nodes: T = num_steps + 1.

    Attributes:
        nodes: `[W, T]` int32; the nodes visited.
        edges: `[W, T - 1]` int32; the columns of the given `edge_index` walked along: `edges[w, i - 1]` leads to
            `nodes[w, i]`.
        code: `[W, T]` int16, int32 or int64 (for s up to 8, 16 and 32); bit j - 1 is the identity bit j, bit s + j - 2
            the adjacency bit j. `bits` unpacks it.
        window_size: How far back the bits look (s).
        num_nodes: The number of nodes of the graph; None if it is not known.
        num_edges: The number of columns of its `edge_index`; None if it is not known.
        num_real: `[1]` int32 on the device, or None for all: only the first this many walks are real, the rest is
            padding, which visits a node that exists and is not part of any graph.
    """

    nodes: Tensor
    edges: Tensor
    code: Tensor
    window_size: int
    num_nodes: int | None = None
    num_edges: int | None = None
    num_real: Tensor | None = None

    def __post_init__(self) -> None:
        check_window_size(self.window_size)
        for value in (self.nodes, self.edges, self.code):
            if not isinstance(value, Tensor) or value.is_nested or value.layout != torch.strided or value.dim() != 2:
                raise ValueError(f"Walks hold tensors of two dimensions, not {shown(value)}: use Walks.from_nodes.")
        num_walks, num_positions = self.nodes.shape
        fits = self.edges.shape == (num_walks, max(num_positions - 1, 0)) and self.code.shape == self.nodes.shape
        dtypes = (self.nodes.dtype, self.edges.dtype, self.code.dtype)
        if not fits or dtypes != (torch.int32, torch.int32, reference.code_dtype(self.window_size)):
            raise ValueError("nodes, edges and code do not belong together: make walks with Walks.from_nodes.")
        self._check_ids("nodes", self.num_nodes)
        self._check_ids("edges", self.num_edges)

    def _check_ids(self, name: Literal["nodes", "edges"], number: int | None) -> None:
        """Refuses ids outside the graph, so that no layer has to look. On a GPU that would mean to wait."""
        ids = getattr(self, name)
        if number is None:
            return
        number = whole_number(f"num_{name}", number, 0, 2**31 - 1)
        if ids.numel() and ids.device.type == "cpu" and self.num_real is None:
            low, high = (int(bound) for bound in torch.aminmax(ids))
            if low < 0 or high >= number:
                outside = low if low < 0 else high
                raise ValueError(
                    f"The walks have {name} {outside}, but num_{name} is {number}: give that of their graph, or None."
                )

    @classmethod
    def from_nodes(cls, graph: Graph, nodes: Tensor, window_size: int = 8, edges: Tensor | None = None) -> Walks:
        """The walks that visit the given nodes.

        Args:
            graph: The graph the walks run on.
            nodes: `[W, T]` node ids.
            window_size: How far back the bits look (s).
            edges: `[W, T - 1]` the column of each step, for graphs with parallel edges; the first one that fits when
                None.

        Raises:
            ValueError: If two nodes that follow each other are not joined by an edge.
        """
        check_type("graph", graph, Graph, "call Graph.from_data(data), for example")
        window_size = check_window_size(window_size)
        if not holds_integers(nodes) or nodes.dim() != 2 or nodes.shape[1] == 0:
            raise ValueError("nodes must be a tensor of integers of shape [num_walks, num_steps + 1].")
        nodes = nodes.to(graph.device).long().contiguous()
        if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < graph.num_nodes:
            raise ValueError(f"nodes must be from 0 to {graph.num_nodes - 1}, the nodes of the graph.")
        found, is_edge = reference.find_edges(graph, nodes[:, :-1], nodes[:, 1:])
        if not bool(is_edge.all()):
            walk, step = (int(i) for i in (~is_edge).nonzero()[0])
            u, v = int(nodes[walk, step]), int(nodes[walk, step + 1])
            raise ValueError(f"Walk {walk} steps from node {u} to node {v}, which is not an edge of the graph.")
        if edges is not None:
            if not holds_integers(edges) or edges.shape != found.shape:
                raise ValueError(f"edges must be a tensor of integers of shape {list(found.shape)}.")
            edges = edges.to(graph.device).long().contiguous()
            if not reference.edges_fit(graph, nodes, edges):
                raise ValueError("edges must name, for every step, a column of edge_index that joins its two nodes.")
        return cls(
            nodes=nodes.int(),
            edges=found if edges is None else edges.int(),
            code=reference.encode(graph, nodes, window_size),
            window_size=window_size,
            num_nodes=graph.num_nodes,
            num_edges=graph.num_edges,
        )

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
        """The steps of all walks, `[W * (T - 1)]` row by row, and the edge each of them walks along."""
        return self._segments("num_edges", self.edges, self.num_edges)

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
        num_edges = len(edge_attr) if self.num_edges is None and edge_attr is not None else self.num_edges
        return replace(self, num_nodes=num_nodes, num_edges=num_edges)

    def _segments(self, name: str, ids: Tensor, num_ids: int | None) -> Segments:
        if num_ids is None:
            raise ValueError(f"These walks do not know the {name} of their graph: give Walks the {name}.")
        owner = ids.flatten()
        ptr, order = places_of(owner, num_ids) if can_use_triton(owner.device) else (None, None)
        return Segments(owner, Rows(owner.numel()), Rows(num_ids), ptr, order)

    def gather(self, nodes: Tensor, edges: Tensor | None = None, bits: Tensor | None = None) -> Tensor:
        """`[W, T, C]`: at each position the row of its node, that of the edge that leads there, and those of its bits,
        added up.

        So a linear map of the walk features is applied to nodes and edges first, of which there are far fewer.

        Args:
            nodes: `[N, C]`.
            edges: `[E, C]`; the first position has no edge.
            bits: `[2s - 1, C]` a row for each bit, in the order of `bits()`.

        Raises:
            ValueError: If there is not a row for each node, edge or bit.
        """
        num_walks, num_positions = self.nodes.shape
        rows = self.visits.spread(nodes).view(num_walks, num_positions, nodes.shape[1])
        if edges is not None:
            steps = self.steps.spread(edges).view(num_walks, num_positions - 1, edges.shape[1])
            rows = rows + F.pad(steps, (0, 0, 1, 0))
        if bits is not None:
            if plain_tensor("bits", bits).dim() != 2 or bits.shape[0] != num_bits(self.window_size):
                raise ValueError(
                    f"These walks have {num_bits(self.window_size)} bits at a position, so give as many rows, not "
                    f"{shown(bits)}: make them with the window_size of the weights."
                )
            rows = rows + self.bits().to(bits.dtype) @ bits
        return rows

    def mean_at_nodes(self, values: Tensor) -> Tensor:
        """`[N, C]`: the mean of `values`, `[W, T, C]`, over all positions at a node; 0 for one never visited."""
        return self.visits.mean(self._along(values).flatten(0, 1))

    def mean_at_edges(self, values: Tensor) -> Tensor:
        """`[E, C]`: the mean of `values`, `[W, T, C]`, over all positions reached along an edge; 0 without any."""
        return self.steps.mean(self._along(values)[:, 1:].flatten(0, 1))

    def _along(self, values: Tensor) -> Tensor:
        if plain_tensor("values", values).dim() != 3 or values.shape[:2] != self.nodes.shape:
            raise ValueError(f"values must be of shape {[*self.nodes.shape, 'C']}, not {list(values.shape)}.")
        return values

    def bits(self) -> Tensor:
        """`[W, T, 2s - 1]` bool: at position i the identity bits [v_i = v_(i-j)], j = 1..s, then the adjacency bits
        [v_i has an edge to v_(i-j)], j = 2..s; False where i - j < 0. Nothing (`[W, T, 0]`) for window size 0.
        """
        shifts = torch.arange(num_bits(self.window_size), device=self.device)
        return ((self.code.long().unsqueeze(-1) >> shifts) & 1).bool()

    def to(self, device: torch.device | str) -> Walks:
        """The same walks on another device."""
        if isinstance(device, torch.device) and device == self.device:  # as in every step of a training
            return self
        device = as_device(device)
        if device == self.device:
            return self
        num_real = None if self.num_real is None else self.num_real.to(device)
        moved = (self.nodes.to(device), self.edges.to(device), self.code.to(device))
        return Walks(*moved, self.window_size, self.num_nodes, self.num_edges, num_real)

    def __len__(self) -> int:
        return self.num_walks

    def __repr__(self) -> str:
        return (
            f"Walks(num_walks={self.num_walks}, num_steps={self.num_steps}, window_size={self.window_size}, "
            f"device='{self.device}')"
        )


def num_bits(window_size: int) -> int:
    """The number of structural bits per position: 2s - 1, or 0 without a window."""
    return max(2 * window_size - 1, 0)


def check_window_size(window_size: int) -> int:
    """The window size as an int; refuses one that no code can hold."""
    return whole_number("window_size", window_size, 0, MAX_WINDOW_SIZE)
