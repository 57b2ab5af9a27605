"""Small graphs side by side, for tests of encodings."""

from __future__ import annotations

import networkx as nx
import torch
from torch import Tensor

from crawl import Graph


def batch_of(*graphs: nx.Graph) -> tuple[Graph, Tensor]:
    """The graphs side by side, and their edges, both directions of each."""
    edges, batch, first = [], [], 0
    for i, graph in enumerate(graphs):
        graph = nx.convert_node_labels_to_integers(graph)
        edges += [(first + u, first + v) for u, v in graph.to_directed().edges()]
        batch += [i] * len(graph)
        first += len(graph)
    edge_index = torch.tensor(edges).t().reshape(2, -1)
    perm = torch.randperm(edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    edge_index = edge_index[:, perm]
    return Graph.from_edge_index(edge_index, batch=torch.tensor(batch), num_graphs=len(graphs)), edge_index
