"""The first example: a hexagon and two triangles, which message passing cannot tell apart."""

import networkx as nx
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import GIN, global_add_pool
from torch_geometric.utils import from_networkx

import crawl

torch.manual_seed(0)
hexagon = nx.cycle_graph(6)
triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))

# Walks on a networkx graph, and what is seen along them: which nodes the walk has come back to.
for name, graph in {"hexagon": hexagon, "two triangles": triangles}.items():
    walks = crawl.sample_walks(crawl.Graph.from_networkx(graph), num_steps=8, window_size=8)
    returns = walks.bits()[0, :, :8].any(dim=0).nonzero() + 1
    print(f"{name}: walk {walks.nodes[0].tolist()}, back after {int(returns[0])} steps")

# One embedding for each graph of a PyG batch.
batch = Batch.from_data_list([from_networkx(hexagon), from_networkx(triangles)])
embeddings = crawl.CRaWl(in_channels=1, out_channels=16).eval()(batch, seed=0)
messages = global_add_pool(GIN(1, 16, num_layers=3)(torch.ones(12, 1), batch.edge_index), batch.batch)
print(f"distance with message passing: {torch.dist(*messages):.4f}")
print(f"distance with CRaWl: {torch.dist(*embeddings):.4f}")
