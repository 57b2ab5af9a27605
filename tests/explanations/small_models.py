"""Small graphs and networks, whose batch norms have seen data."""

from __future__ import annotations

from typing import Any

import networkx as nx
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

import crawl
from crawl.data.dataset import Dataset
from crawl.data.pyg import from_pyg
from crawl.runs.experiment import Experiment, Model
from crawl.runs.features import Features
from crawl.runs.trained import TrainedModel
from crawl.training.evaluation import Scaling
from crawl.training.settings import Evaluation
from crawl.walks.plan import WalkPlan


def house(seed: int = 0) -> Data:
    """A house with a chimney: six nodes, random features."""
    graph = nx.house_graph()
    graph.add_edge(4, 5)
    drawn = torch.Generator().manual_seed(seed)
    edge_index = from_networkx(graph).edge_index
    x, edge_attr = torch.randn(6, 3, generator=drawn), torch.randn(edge_index.shape[1], 2, generator=drawn)
    return Data(x=x, edge_index=edge_index, edge_attr=edge_attr)


def network(out_channels: int = 2, **settings: Any) -> crawl.Network:
    """A network for `house`, in evaluation mode."""
    torch.manual_seed(0)
    settings = {
        "hidden_channels": 8,
        "num_layers": 2,
        "num_eval_steps": 12,
        "num_steps": 12,
        "window_size": 4,
    } | settings
    model = crawl.Network(3, out_channels, edge_dim=2, **({"layer": ("walk",)} | settings))
    data = house()
    if "graph_channels" in settings:
        data.u = torch.ones(1, settings["graph_channels"])
    for _ in range(5):
        model(data)
    return model.eval()


def trained(graphs: list[Data], scaling: Scaling | None = None, **task: Any) -> tuple[TrainedModel, Dataset]:
    """A model as a run would leave it, with weights as they were drawn."""
    dataset = from_pyg(graphs, split="random", fractions=(0.5, 0.25, 0.25), **task)
    return trained_on(dataset, scaling), dataset


def trained_on(dataset: Dataset, scaling: Scaling | None = None) -> TrainedModel:
    """The same for a data set."""
    torch.manual_seed(1)
    experiment = Experiment(
        walk=WalkPlan(num_steps=12, num_eval_steps=12, window_size=4),
        model=Model(layer=("walk",), hidden_channels=8, num_layers=2),
        evaluation=Evaluation(num_test_repeats=2),
    )
    from crawl.runs.build import build_model

    features = Features.of(dataset)
    return TrainedModel(build_model(experiment, features), experiment, features, scaling or Scaling(), {})
