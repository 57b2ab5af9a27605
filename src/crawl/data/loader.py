"""Batches of walks around the nodes, or pairs of nodes, of one graph, for a training loop of one's own."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import MAX_COUNT, MAX_SEED, check_type, truth, whole_number
from crawl.data.one_graph import OneGraph
from crawl.data.target_assembly import ClosedGraph
from crawl.edge_lists import edge_index_of
from crawl.graph import Graph
from crawl.nn.batch import Batch
from crawl.tensor_checks import as_device
from crawl.walks.plan import WalkPlan


class WalkLoader:
    """Closed batches of one graph of any size: each has some targets, and the walks that their answers depend on.

    Every target becomes a small graph of its own, of the nodes that its walks visit, so its answer at a given seed does
    not depend on the batch it is in. A `crawl.Network` without pooling answers with a row for each target.

    Args:
        data: The graph with its features: PyG data, a `Graph` without features, or a `OneGraph`.
        plan: The walks: how many from each target (`num_walks`), whether it is in their middle (`centred`), and so on.
        owners: `[M]` the nodes, or `[M, 2]` the pairs of nodes, to make batches of. All nodes when None; those of a
            `OneGraph` are known.
        batch_size: Targets of a batch.
        shuffle: Take them in random order, another one in each pass.
        is_training: Whether walks have the steps and the number of training, or those of evaluation.
        with_all_edges: Give batches all edges among the nodes that the walks of a target visit, as message passing
            needs them; or those only that are walked along.
        seed: Of the walks and of the order. Pass k = 0, 1, … over the loader has the seed `seed` + k.
        device: Where batches go.

    Raises:
        ValueError: If the data are not one graph, or an owner is not a node of it.
    """

    def __init__(
        self,
        data: Data | Graph | OneGraph,
        plan: WalkPlan,
        owners: Tensor | None = None,
        *,
        batch_size: int = 256,
        shuffle: bool = False,
        is_training: bool = True,
        with_all_edges: bool = True,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        check_type("plan", plan, WalkPlan)
        self.store, self.plan = _as_store(data, owners).checked(), plan
        self.batch_size = whole_number("batch_size", batch_size, 1, MAX_COUNT)
        self.shuffle, self.is_training = truth("shuffle", shuffle), truth("is_training", is_training)
        self.seed, self.num_passes = whole_number("seed", seed, 0, MAX_SEED // 2), 0
        has_edges = truth("with_all_edges", with_all_edges)
        self.graphs = ClosedGraph(self.store, as_device(device), has_edges=has_edges)

    def __len__(self) -> int:
        return -(-len(self.store) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        seed, num_steps = self.seed + self.num_passes, self.plan.steps(self.is_training)
        plan = self.plan.in_mode(self.is_training)
        self.num_passes += 1
        ids = torch.arange(len(self.store), device="cpu")
        if self.shuffle:
            generator = torch.Generator().manual_seed(seed)
            ids = torch.randperm(len(self.store), generator=generator, device="cpu")
        for part in torch.split(ids, self.batch_size):
            yield self.graphs.batch(part, plan, num_steps, seed)


def _as_store(data: Data | Graph | OneGraph, owners: Tensor | None) -> OneGraph:
    if isinstance(data, OneGraph):
        if owners is not None:
            raise ValueError("A OneGraph knows its targets: leave out owners.")
        return data
    check_type("data", data, (Data, Graph), "give PyG data, a Graph or a OneGraph")
    graph = data if isinstance(data, Graph) else Graph.from_data(data)
    owners = torch.arange(graph.num_nodes, device="cpu") if owners is None else owners
    if isinstance(data, Graph):
        return OneGraph(graph, owners)
    y = data.y if isinstance(data.y, Tensor) and data.y.dim() and len(data.y) == graph.num_nodes else None
    y = y[owners.to(y.device)] if y is not None and owners.dim() == 1 else None
    return OneGraph(graph, owners, data.x, data.edge_attr, y, edge_index_of(data))
