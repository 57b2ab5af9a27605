"""Models of the paper other than that for ZINC, with graphs that look like their data."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import graphs as made
import torch
from torch_geometric.data import Data

from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.data.store import GraphStore
from crawl.data.task import Task
from gpu.steps import Settings


@dataclass(frozen=True)
class Shape:
    """A model of the paper and graphs that look like its data."""

    name: str
    settings: Settings
    batch_size: int
    num_parameters: int
    task: Task
    make_graph: Callable[[random.Random, torch.Generator], Data]
    node_categories: tuple[int, ...] = ()
    edge_categories: tuple[int, ...] = ()

    def dataset(self, num_graphs: int, device: torch.device) -> Dataset:
        """So many graphs, all of them for training."""
        rng, generator = random.Random(0), torch.Generator().manual_seed(0)
        store = GraphStore.from_graphs(self.make_graph(rng, generator) for _ in range(num_graphs)).to(device)
        nothing = torch.empty(0, dtype=torch.long)
        split = Split(torch.arange(num_graphs), nothing, nothing)
        return Dataset(self.name, store, self.task, split, self.node_categories, self.edge_categories)


ATOMS, BONDS = (46, 4, 6, 7, 5, 4, 2, 2, 2), (4, 3, 2)  # nine and three columns, 78 and 9 values


def _molecule(num_atoms: int, num_rings: int, num_labels: int, rng: random.Random, generator: torch.Generator) -> Data:
    pairs = torch.tensor(made.molecule_bonds(rng, num_atoms=num_atoms, num_rings=num_rings)).t()
    num_nodes = int(pairs.max()) + 1
    x = [torch.randint(n, (num_nodes,), generator=generator) for n in ATOMS]
    bonds = torch.stack([torch.randint(n, (pairs.shape[1],), generator=generator) for n in BONDS], dim=1)
    return Data(
        x=torch.stack(x, dim=1),
        edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
        edge_attr=torch.cat([bonds, bonds]),
        y=torch.randint(2, (1, num_labels), generator=generator).float(),
    )


def molpcba_shape() -> Shape:
    return Shape(
        "MOLPCBA",
        {
            "hidden_channels": 400,
            "num_layers": 5,
            "window_size": 8,
            "virtual_node": True,
            "pool": "mean",
            "head": "linear",
            "dropout": 0.25,
            "start_share": 0.2,
        },
        100,
        6_115_728,
        Task(kind="multilabel", num_outputs=128),
        lambda rng, generator: _molecule(rng.randint(22, 30), 3, 128, rng, generator),
        ATOMS,
        BONDS,
    )


def peptides_shape() -> Shape:
    return Shape(
        "Peptides",
        {
            "hidden_channels": 100,
            "num_layers": 6,
            "window_size": 16,
            "kernel_size": 9,
            "virtual_node": True,
            "pool": "sum",
            "dropout": 0.1,
            "start_share": 0.2,
        },
        50,
        510_910,
        Task(kind="multilabel", num_outputs=10),
        lambda rng, generator: _molecule(rng.randint(101, 201), rng.choice((3, 4, 4)), 10, rng, generator),
        ATOMS,
        BONDS,
    )


def cifar_shape() -> Shape:
    def nearest_neighbours(rng: random.Random, generator: torch.Generator) -> Data:
        place = torch.rand(rng.randint(110, 125), 2, generator=generator)
        distance = torch.cdist(place, place).fill_diagonal_(math.inf)
        near = distance.topk(8, largest=False)
        source = torch.arange(len(place)).repeat_interleave(8)
        return Data(
            x=torch.rand(len(place), 3, generator=generator),
            edge_index=torch.stack([source, near.indices.flatten()]),
            edge_attr=near.values.reshape(-1, 1),
            y=torch.randint(10, (1,), generator=generator),
        )

    settings = {"hidden_channels": 75, "num_layers": 3, "window_size": 8, "pool": "mean"}
    task = Task(kind="multiclass", num_outputs=10)
    return Shape("CIFAR10", settings, 50, 109_660, task, nearest_neighbours)
