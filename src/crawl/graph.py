"""The graph that walks run on: one CSR of one graph or of a whole batch, checked once.

A row of the CSR is a node, its entries are *arcs*: the directed steps a walk may take. Every arc remembers the column
of the caller's `edge_index` it came from, so walks speak of edges in the caller's own order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crawl.checks import truth
from crawl.compressed_rows import compressed_rows, one_way_arc
from crawl.edge_lists import arguments_of_data, arguments_of_networkx, checked_edge_list, checked_graph_ids
from crawl.graph_files.layout import OpenedFile, open_graph
from crawl.tensor_checks import as_device

if TYPE_CHECKING:
    from pathlib import Path

    import networkx as nx
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph, or a batch of graphs side by side, in compressed rows. Memory is O(N + E).

    Build one with `from_edge_index`, `from_data` or `from_networkx`, or open a file. They raise a ValueError, with the
    remedy, for what is not a graph, a damaged file or weights that are not positive. The constructor checks nothing.

    * **Order** of the edges does not matter. Arcs are kept sorted by (source, target, column).
    * **Parallel edges** are separate arcs: a step picks an arc, so a doubled edge is twice as likely.
      Call `torch_geometric.utils.coalesce` first where that is not wanted.
    * **Self-loops** are steps from a node to itself.
    * **Directed graphs**: walks follow the direction of the edges. A node that can be entered but not left is refused,
      because a walk would end there; pass `undirected=True` to let every edge be walked both ways.
    * **Isolated nodes**, empty graphs and graphs without edges are fine: no walk starts there.

    Attributes:
        rowptr: `[N + 1]` int32, or int64 from 2^31 arcs on; the arcs of node v are `rowptr[v]:rowptr[v + 1]`.
        col: `[A]` int32; the node each arc leads to, ascending within a row.
        edge_id: `[A]` int32, or int64 from 2^31 edges on; the column of the given `edge_index` each arc came from.
        batch: `[N]` int32; the graph each node belongs to.
        graph_ptr: `[G + 1]` int32; the nodes of graph g are `graph_ptr[g]:graph_ptr[g + 1]`.
        num_edges: The number of columns of the given `edge_index`.
        cum_weight: `[A]` int64 or None; running sums, within a row, of the edge weights as integers.
        graph_keys: `[G]` or None; numbers that walks depend on instead of the place in the batch.
        file: The file that it is mapped from, or None.
    """

    rowptr: Tensor
    col: Tensor
    edge_id: Tensor
    batch: Tensor
    graph_ptr: Tensor
    num_edges: int
    cum_weight: Tensor | None = None
    graph_keys: Tensor | None = None
    file: OpenedFile | None = None

    @property
    def num_nodes(self) -> int:
        """The number of nodes (N), isolated ones included."""
        return self.rowptr.numel() - 1

    @property
    def num_arcs(self) -> int:
        """The number of directed steps a walk may take (A)."""
        return self.col.numel()

    @property
    def num_graphs(self) -> int:
        """The number of graphs in the batch (G)."""
        return self.graph_ptr.numel() - 1

    @property
    def device(self) -> torch.device:
        """The device all tensors are on."""
        return self.rowptr.device

    @property
    def is_weighted(self) -> bool:
        """Whether steps are drawn in proportion to edge weights."""
        return self.cum_weight is not None

    @property
    def degree(self) -> Tensor:
        """`[N]` of the type of `rowptr`; the number of arcs that leave each node."""
        return self.rowptr[1:] - self.rowptr[:-1]

    @cached_property
    def one_way(self) -> tuple[int, int] | None:
        """Source and target of an arc that no arc leads back along; None if all edges can be walked both ways."""
        return one_way_arc(self.rowptr, self.col)

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device."""
        moved: Any = {k: v.to(as_device(device)) for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def node_keys(self, graph_ids: Tensor | None = None) -> Tensor:
        """`[N]` int64 keys for `sample_walks`: the same for a node of a graph whichever batch the graph is in.

        Args:
            graph_ids: `[G]` a number from 0 to 2^31 - 1 for each graph, such as its index in the data set; `graph_keys`
                or the position in the batch when None. On a GPU the range is not checked, which would wait for it.
        """
        own = torch.arange(self.num_graphs, device=self.device) if self.graph_keys is None else self.graph_keys
        graph_ids = checked_graph_ids(own if graph_ids is None else graph_ids, self.num_graphs)
        local = torch.arange(self.num_nodes, device=self.device) - self.graph_ptr[self.batch].long()
        return (graph_ids.to(self.device)[self.batch] << 32) | local

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        num_nodes: int | None = None,
        *,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        num_graphs: int | None = None,
        undirected: bool = False,
    ) -> Graph:
        """The graph of an edge list.

        Args:
            edge_index: `[2, E]` integers: source and target of each edge. An undirected graph lists both directions,
                as in PyG, or each edge once together with `undirected=True`.
            num_nodes: The number of nodes; one more than the largest id (or the length of `batch`) when None.
            edge_weight: `[E]` positive weights; a step takes an edge in proportion to its weight, in multiples of
                about 2^-31 of the sum at its node, so that a far smaller weight still counts as one of these.
            batch: `[N]` the graph of each node, ascending; all one graph when None.
            num_graphs: The number of graphs; needed only if the last ones have no nodes.
            undirected: Let every edge be walked both ways. Both arcs carry the id of the one given column; where a
                direction is listed already, nothing is added.
        """
        undirected = truth("undirected", undirected)
        checked = checked_edge_list(edge_index, num_nodes, edge_weight, batch, num_graphs)
        edge_index, num_nodes, batch, graph_ptr, edge_weight = checked
        rowptr, col, edge_id, cum_weight = compressed_rows(edge_index, num_nodes, edge_weight, undirected)
        return cls(rowptr, col, edge_id, batch, graph_ptr, edge_index.shape[1], cum_weight)

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = True) -> Graph:
        """The graph in a file of `build_graph_file`, mapped into memory: walks read the rows that they visit.

        Args:
            path: The file. It must not change meanwhile, which `check_unchanged` tells; to build it anew is fine.
            verify: Compare the checksums and look at all numbers, which reads the file once. Sizes are always compared.
                Leave it out only for files that were verified before: what walks do on damaged rows is not defined.
        """
        return cls(**open_graph(path, verify))

    def check_unchanged(self) -> None:
        """Refuse, with a ValueError, a graph whose file was changed since it was opened: its walks may be wrong."""
        if self.file is not None:
            self.file.check_unchanged()

    @classmethod
    def from_data(cls, data: Data, *, weighted: bool | None = None, undirected: bool = False) -> Graph:
        """The graph of a PyG `Data` or `Batch`, which is only read.

        Args:
            data: The graphs. A missing `edge_index` means no edges; a missing `batch` one graph. `graph_keys` are kept.
            weighted: Whether a step takes an edge in proportion to its `edge_weight`; False ignores the weights. When
                None, weights that are not all equal are refused, so that they are not lost unnoticed.
            undirected: Let every edge be walked both ways; see `from_edge_index`.
        """
        graph = cls.from_edge_index(**arguments_of_data(data, weighted), undirected=undirected)
        return replace(graph, graph_keys=getattr(data, "graph_keys", None))

    @classmethod
    def from_networkx(cls, graph: nx.Graph, *, weight: str | None = None, undirected: bool = False) -> Graph:
        """The graph of a networkx graph of any kind; nodes and edges are numbered in its order.

        Args:
            graph: An undirected graph is walked both ways along each edge; a directed one along the arrows.
            weight: The edge attribute that holds the weights; unweighted when None.
            undirected: Let the edges of a directed graph be walked both ways, too.
        """
        arguments, undirected = arguments_of_networkx(graph, weight), truth("undirected", undirected)
        return cls.from_edge_index(**arguments, undirected=undirected or not graph.is_directed())

    def __repr__(self) -> str:
        sizes = f"num_nodes={self.num_nodes}, num_edges={self.num_edges}, num_graphs={self.num_graphs}"
        return f"Graph({sizes}{', weighted' if self.is_weighted else ''}, device='{self.device}')"
