"""A tiny data set for any task."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from crawl.data import Dataset, GraphStore, Split, Task


def make_dataset(task: Task, targets: torch.Tensor, names: tuple[str, ...] | None = None) -> Dataset:
    """Paths of 3 nodes with random features; one for each row of targets, or for three rows of a node-level task."""
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    generator = torch.Generator().manual_seed(0)
    rows = targets.split(3 if task.level == "node" else 1)
    graphs = [Data(x=torch.randn(3, 2, generator=generator), edge_index=edges, y=row) for row in rows]
    ids = torch.arange(len(graphs))
    split = Split(ids[4:], ids[:2], ids[2:4])
    store = GraphStore.from_graphs(graphs, level=task.level)
    return Dataset(name="paths", store=store, task=task, split=split, graph_names=names)
