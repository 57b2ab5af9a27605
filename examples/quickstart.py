"""The first example: a hexagon and two triangles, which message passing cannot tell apart."""

import networkx as nx
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import GIN, global_add_pool
from torch_geometric.utils import from_networkx

import crawl

torch.manual_seed(0)
graphs = [nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))]
batch = Batch.from_data_list([from_networkx(graph) for graph in graphs])
messages = global_add_pool(GIN(1, 16, num_layers=3)(torch.ones(12, 1), batch.edge_index), batch.batch)
walks = crawl.CRaWl(in_channels=1, out_channels=16).eval()(batch, seed=0)
print(f"distance with message passing: {torch.dist(*messages):.4f}")
print(f"distance with CRaWl: {torch.dist(*walks):.4f}")
