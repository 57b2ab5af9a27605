"""What the tests of training share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch_geometric.data import Data

from crawl import CRaWl
from crawl.data import Dataset, GraphStore, Split, Task


def cycle(num_nodes: int) -> torch.Tensor:
    node = torch.arange(num_nodes)
    edges = torch.stack([node, (node + 1) % num_nodes])
    return torch.cat([edges, edges.flip(0)], dim=1)


@pytest.fixture
def make_dataset() -> Callable[..., Dataset]:
    """Cycles of 4 to 7 nodes with 3 numbers at each node, whose signs or means are to be told."""

    def make(
        kind: str,
        *,
        level: str = "graph",
        num_outputs: int = 1,
        metric: str = "",
        num_graphs: int = 16,
        missing: bool = False,
        offset: float = 0.0,
        unit: float = 1.0,
    ) -> Dataset:
        generator = torch.Generator().manual_seed(0)
        graphs = []
        for i in range(num_graphs):
            num_nodes = 4 + i % 4
            noise = 0.1 * torch.randn(num_nodes, 3, generator=generator)
            centre = torch.randn(num_nodes if level == "node" else 1, 3, generator=generator)
            value = centre[:, :num_outputs]
            targets = {
                "regression": offset + unit * value,
                "binary": (centre[:, 0] > 0).long(),
                "multiclass": centre.argmax(dim=1),
                "multilabel": (value > 0).float(),
            }[kind]
            if missing:
                targets[torch.rand(targets.shape, generator=generator) < 0.3] = torch.nan
            graphs.append(Data(x=centre + noise, edge_index=cycle(num_nodes), num_nodes=num_nodes, y=targets))
        every = torch.arange(num_graphs)
        third = num_graphs // 4
        split = Split(every[2 * third :], every[:third], every[third : 2 * third])
        task = Task(kind=kind, level=level, num_outputs=num_outputs, metric=metric)
        return Dataset(name="tiny", store=GraphStore.from_graphs(graphs), task=task, split=split)

    return make


@pytest.fixture
def make_model() -> Callable[..., CRaWl]:
    """A small network for a data set, the same every time."""

    def make(dataset: Dataset, **settings: object) -> CRaWl:
        torch.manual_seed(0)
        arguments = {"hidden_channels": 12, "num_layers": 1, "num_steps": 6, "num_eval_steps": 8, "window_size": 4}
        arguments["pool"] = None if dataset.task.level == "node" else "mean"
        return CRaWl(dataset.num_node_features or 1, dataset.task.num_outputs, **(arguments | settings))

    return make
