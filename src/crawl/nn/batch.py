"""What every block reads: graphs side by side, with walks on them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crawl.graph import Graph
from crawl.ops.segments import Rows, Segments
from crawl.walks.walks import Walks

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class Batch:
    """Graphs with features, targets and walks, of exact size or padded.

    In a padded batch some rows are not real: nodes and edges of no graph, graphs without nodes, walks among those
    nodes. Ids in padding point at such rows, so plain torch on a batch raises nothing and changes no real row. What
    adds over rows uses the segments, which know what is real.

    Attributes:
        edge_index: `[2, E]` the source and the target of each edge.
        nodes: The graph of each node.
        edges: The target of each edge, which is a node.
        sources: The source of each edge.
        x: `[N, …]` node features, or None.
        edge_attr: `[E, …]` edge features, or None.
        y: Targets, or None; NaN in padding.
        walks: Walks on the graphs, or None.
        targets: Which nodes the rows of `y` belong to: one node each, or the first and the second of a pair. None if
            they belong to all graphs, or to all nodes.
        is_encoded: Whether the encoders of a network have seen `x`, `edge_attr` and `u` already.
        sample_weight: How much each row of `y`, or each of its targets, counts; None if all are alike; any in padding.
        u: `[G, …]` features of the graphs, or None; 0 in padding.
        starts_at_targets: Whether walks begin at the targets of closed batches, so that no whole window has them.
    """

    edge_index: Tensor
    nodes: Segments
    edges: Segments
    sources: Segments
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    walks: Walks | None = None
    targets: tuple[Segments, ...] | None = None
    is_encoded: bool = False
    sample_weight: Tensor | None = None
    u: Tensor | None = None
    starts_at_targets: bool = False

    @classmethod
    def from_data(cls, data: Data, graph: Graph, walks: Walks | None, device: torch.device) -> Batch:
        """The batch, on a device, of a PyG `Data` or `Batch`, of the `Graph` made from it, and of walks on that."""
        edge_index = torch.empty(2, 0, dtype=torch.long) if data.edge_index is None else data.edge_index
        edge_index = edge_index.long().to(device)
        nodes, edges = Rows(graph.num_nodes), Rows(edge_index.shape[1])
        of_graphs = Segments(graph.batch.long().to(device), nodes, Rows(graph.num_graphs), graph.graph_ptr.to(device))
        targets, sources = Segments(edge_index[1], edges, nodes), Segments(edge_index[0], edges, nodes)
        walks = None if walks is None else walks.to(device)
        return cls(edge_index, of_graphs, targets, sources, data.x, data.edge_attr, data.y, walks)

    @property
    def num_nodes(self) -> int:
        """The number of nodes, padding included (N)."""
        return self.nodes.rows.size

    @property
    def num_edges(self) -> int:
        """The number of edges, padding included (E)."""
        return self.edges.rows.size

    @property
    def num_graphs(self) -> int:
        """The number of graphs, padding included (G)."""
        return self.nodes.owners.size

    def num_answers(self, per_node: bool) -> int:
        """The number of rows that a network answers with: for targets, or else for all nodes or all graphs."""
        if self.targets is not None:
            return self.targets[0].rows.size
        return self.num_nodes if per_node else self.num_graphs

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """The same batch with the function applied to every tensor, once to one that occurs several times."""
        batch: Batch = _mapped(self, cache(function))
        return batch


def _mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple) and all(isinstance(inner, Segments) for inner in value):
        return tuple(_mapped(inner, function) for inner in value)
    if isinstance(value, Batch | Segments | Rows | Walks):
        copied = copy.copy(value)
        vars(copied).update({name: _mapped(inner, function) for name, inner in vars(value).items()})
        return copied
    return value
