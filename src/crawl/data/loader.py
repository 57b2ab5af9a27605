"""Batches of walks around the nodes, or pairs of nodes, of one graph, for a training loop of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import MAX_COUNT, MAX_SEED, check_type, truth, whole_number
from crawl.data.one_graph import OneGraph
from crawl.data.target_assembly import ClosedGraph
from crawl.edge_lists import edge_index_of, weights_differ
from crawl.graph import Graph
from crawl.nn.batch import Batch
from crawl.tensor_checks import as_array, as_device
from crawl.walks.plan import WalkPlan


class WalkLoader:
    """Closed batches of one graph of any size: each has some targets, and the walks that their answers depend on.

    Every target becomes a small graph of its own, of the nodes that its walks visit, so its answer at a given seed does
    not depend on the batch it is in. A `crawl.Network` without pooling answers with a row for each target.

    Args:
        data: The graph with its features: PyG data, a `Graph` without features, or a `OneGraph`. Batches have the rows
            of its `y` as floating-point numbers, also classes: NaN can say that one is missing.
        plan: The walks: how many from each target (`num_walks`), whether it is in their middle (`centred`), and so on.
        owners: `[M]` the nodes, or `[M, 2]` the pairs of nodes, to make batches of, in a tensor, an array or a list.
            All nodes when None; those of a `OneGraph` are known.
        batch_size: Targets of a batch.
        shuffle: Take them in random order, another one in each pass.
        is_training: Whether walks have the steps and the number of training, or those of evaluation.
        with_all_edges: Give batches all edges among the nodes that the walks of a target visit, as message passing
            needs them; or those only that are walked along.
        seed: Of the walks and of the order. Pass k = 0, 1, … over the loader has the seed `seed` + k.
        device: Where batches go.

    Raises:
        ValueError: If the data are not one graph, or have weights of edges or features `u`, an owner is not a node, or
            the walks of the plan do not start at all targets, or jump.
    """

    def __init__(
        self,
        data: Data | Graph | OneGraph,
        plan: WalkPlan,
        owners: Tensor | NDArray[Any] | Sequence[Any] | None = None,
        *,
        batch_size: int = 256,
        shuffle: bool = False,
        is_training: bool = True,
        with_all_edges: bool = True,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        _check_plan(plan)
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
        for first in range(0, len(self.store), self.batch_size):
            yield self.graphs.batch(ids[first : first + self.batch_size], plan, num_steps, seed)


def _check_plan(plan: WalkPlan) -> None:
    check_type("plan", plan, WalkPlan)
    for name in ("start_share", "eval_start_share"):
        if (value := getattr(plan, name)) != 1:
            raise ValueError(
                f"A closed batch, whose walks start at its targets, cannot be changed by {name}={value}: leave it out."
            )
    if plan.has_jumps:
        raise ValueError(f"Closed batches follow edges, which {plan.strategy} walks do not: take another strategy.")


def _as_store(data: Data | Graph | OneGraph, owners: Tensor | NDArray[Any] | Sequence[Any] | None) -> OneGraph:
    if isinstance(data, OneGraph):
        if owners is not None:
            raise ValueError("A OneGraph knows its targets: leave out owners.")
        return replace(data, x=_as_rows("x", data.x), edge_attr=_as_rows("edge_attr", data.edge_attr))
    check_type("data", data, (Data, Graph), "give PyG data, a Graph or a OneGraph")
    if isinstance(data, Data) and weights_differ(getattr(data, "edge_weight", None)):
        raise ValueError(
            "data has edge_weight: make it a feature (edge_attr), take it away (data.edge_weight = None), or give "
            "OneGraph(Graph.from_data(data, weighted=True), owners, data.x) to walk in proportion to it."
        )
    if isinstance(data, Data) and data.get("u") is not None:
        raise ValueError(
            "data has u, features of the graph, which closed batches do not have: take it away (del data.u)."
        )
    graph = data if isinstance(data, Graph) else Graph.from_data(data)
    targets = torch.arange(graph.num_nodes, device="cpu") if owners is None else _as_owners(owners)
    if isinstance(data, Graph):
        return OneGraph(graph, targets)
    features = _as_rows("x", data.x), _as_rows("edge_attr", data.edge_attr)
    store = OneGraph(graph, targets, *features, edge_index=edge_index_of(data))
    store.check_owners()
    y = data.y if isinstance(data.y, Tensor) and data.y.dim() and len(data.y) == graph.num_nodes else None
    return store if y is None or store.are_pairs else replace(store, y=y[store.owners.to(y.device)])


def _as_owners(owners: Tensor | NDArray[Any] | Sequence[Any]) -> Tensor:
    """The same as a tensor; without any, of integers."""
    found = owners if isinstance(owners, Tensor) else torch.from_numpy(np.array(as_array("owners", owners)))
    return found.long() if found.numel() == 0 else found


def _as_rows(name: str, features: Tensor | None) -> Tensor | None:
    """`[rows, C]` the features. What is not a tensor is left to be refused by `OneGraph`."""
    if not isinstance(features, Tensor) or features.dim() == 2:
        return features
    if features.dim() != 1:
        raise ValueError(f"{name} must have a row of numbers for each node or edge, not shape {list(features.shape)}.")
    return features.unsqueeze(1)
