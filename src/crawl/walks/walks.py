"""Walks and what is seen along them: the contract every sampler fulfils (paper, section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from crawl.checks import check_type, shown, whole_number
from crawl.graph import Graph
from crawl.tensor_checks import as_device, holds_integers
from crawl.walks import reference
from crawl.walks.groups import Groups

MAX_WINDOW_SIZE = 32


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
        num_real: `[1]` int32 on the device, or None for all: only the first this many walks are real, the rest pads a
            batch to its bucket size. The kernels of a GPU know it, plain torch does not.
        num_nodes: How many nodes the graph has; None if that is not known.
        num_edges: How many columns its `edge_index` has; None if that is not known.
    """

    nodes: Tensor
    edges: Tensor
    code: Tensor
    window_size: int
    num_real: Tensor | None = None
    num_nodes: int | None = None
    num_edges: int | None = None
    _cache: dict[tuple[str, int], Groups] = field(default_factory=dict, init=False, repr=False)

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

    def groups_of_nodes(self, num_nodes: int) -> Groups:
        """Where each of the nodes is visited; worked out once."""
        return self._groups("nodes", num_nodes)

    def groups_of_edges(self, num_edges: int) -> Groups:
        """Where each of the edges is walked along; worked out once."""
        return self._groups("edges", num_edges)

    def keep_groups(self, name: Literal["nodes", "edges"], groups: Groups) -> None:
        """Keep what `groups_of_nodes` or `groups_of_edges` would work out, where it is known already."""
        self._cache[name, groups.ptr.numel() - 1] = groups

    def _groups(self, name: Literal["nodes", "edges"], num_ids: int) -> Groups:
        if (name, num_ids) not in self._cache:
            self._cache[name, num_ids] = Groups.of(getattr(self, name), num_ids)
        return self._cache[name, num_ids]

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
        return Walks(*moved, self.window_size, num_real, self.num_nodes, self.num_edges)

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
