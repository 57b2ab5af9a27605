"""Batches of targets of one graph: the full graph with some of its targets, or the walks around them."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from crawl.data.assembly import Assembler, Bucket
from crawl.data.closed import closed_batch
from crawl.data.link_graph import LinkGraph
from crawl.data.one_graph import OneGraph
from crawl.data.store import GraphStore
from crawl.nn.batch import Batch
from crawl.ops.segments import Rows, Segments
from crawl.walks.plan import WalkPlan
from crawl.walks.sampling import sample_walks

_RATIO = 1.0625  # between one bucket size and the next


class FullGraph(Assembler):
    """A graph on a device, ready to be put into batches whole, with some of its targets."""

    def __init__(
        self, store: OneGraph, device: torch.device, *, has_edges: bool = True, has_walks: bool = True
    ) -> None:
        # Of links, other graphs are shown later, with fewer edges.
        most = (1, store.num_nodes, store.num_edges) if isinstance(store, LinkGraph) else None
        keys = torch.zeros(1, dtype=torch.long)
        super().__init__(_as_graphs(store), keys, device, has_edges=has_edges, has_walks=has_walks, most=most)
        self.owners = self._kept("owners", store.owners.to(device), len(store))
        self.target_y, self.target_weights = _as_numbers(store.y, device), _as_numbers(store.sample_weight, device)
        self._only = torch.tensor([0, 1], device=device)  # the graph, and the empty one for padding

    def show(self, store: OneGraph) -> None:
        """Put another graph of the same nodes, with no more edges, and other targets in the place of these."""
        self.load(_as_graphs(store), torch.zeros(1, dtype=torch.long))
        self._kept("owners", store.owners.to(self.device), len(store))

    def batch(self, ids: Tensor, plan: WalkPlan | None, num_steps: int, seed: int) -> Batch:
        """The graph with the targets `ids`, on the CPU."""
        batch = super().batch(torch.zeros(1, dtype=torch.long), plan, num_steps, seed)
        ids = ids.to(self.device)
        targets = tuple(Segments.of(end, batch.num_nodes) for end in _ends(self.owners[ids]))
        y, weights = (None if rows is None else rows[ids] for rows in (self.target_y, self.target_weights))
        return replace(batch, targets=targets, y=y, sample_weight=weights)

    def buckets(self, batches: list[Tensor], num_graphs: int) -> list[Bucket]:
        """The one bucket that all batches have."""
        bucket = super().buckets([torch.zeros(1, dtype=torch.long)], 1)[0]
        return [replace(bucket, num_targets=num_graphs)] * len(batches)

    def padded_ids(self, batches: list[Tensor], num_graphs: int) -> Tensor:
        """`[len(batches), num_graphs]` on the device: the ids of each batch, filled up with the number of targets."""
        ids = torch.full((len(batches), num_graphs), len(self.owners))
        for row, batch in zip(ids, batches, strict=True):
            row[: len(batch)] = batch
        return ids.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else ids

    def padded_batch(
        self, ids: Tensor, bucket: Bucket, plan: WalkPlan | None, num_steps: int, seed: Tensor, *, is_training: bool
    ) -> Batch:
        """The graph with the targets `ids`, a row of `padded_ids`; nothing here waits for the device."""
        batch = super().padded_batch(self._only, bucket, plan, num_steps, seed, is_training=is_training)
        is_real, known = ids < len(self.owners), ids.clamp_max(len(self.owners) - 1)
        rows = Rows(len(ids), is_real.sum(dim=0, keepdim=True, dtype=torch.int32))
        ends = (torch.where(is_real, end, bucket.num_nodes - 1) for end in _ends(self.owners[known]))
        y = self.target_y
        if y is not None:
            y = torch.where(is_real.view(-1, *[1] * (y.dim() - 1)), y[known], torch.nan)
        targets = tuple(Segments(end, rows, batch.nodes.rows) for end in ends)
        weights = None if self.target_weights is None else self.target_weights[known]
        return replace(batch, targets=targets, y=y, sample_weight=weights)


class ClosedGraph:
    """A graph of any size, from which batches of walks around targets are drawn.

    The graph is where its tensors are, on the device or on the CPU; batches come to the device.
    """

    has_walks = True

    def __init__(self, store: OneGraph, device: torch.device, *, has_edges: bool = True) -> None:
        self.store, self.device, self.has_edges = store, device, has_edges
        self.y, self.weights = (_as_numbers(rows, store.device) for rows in (store.y, store.sample_weight))

    def batch(self, ids: Tensor, plan: WalkPlan | None, num_steps: int, seed: int) -> Batch:
        """The walks around the targets `ids`, on the CPU. Refuses a file that was changed while it was read."""
        self.store.check_unchanged()  # to read one that was cut would end the process
        try:
            return self._batch(ids, plan, num_steps, seed)
        finally:  # also where what was read made no sense
            self.store.check_unchanged()

    def _batch(self, ids: Tensor, plan: WalkPlan | None, num_steps: int, seed: int) -> Batch:
        store, graph = self.store, self.store.graph
        if plan is None:
            raise ValueError("Closed batches are walks: a network without walks needs batches='full'.")
        if plan.has_jumps:
            raise ValueError(f"Closed batches follow edges, which {plan.strategy} walks do not: use batches='full'.")
        owners = store.owners[ids].to(graph.device)
        starts = torch.stack(_ends(owners), dim=1)
        can_be_left = graph.rowptr[starts + 1] > graph.rowptr[starts]  # no walk starts at an isolated node
        target, end = can_be_left.nonzero(as_tuple=True)
        start = starts[target, end]
        walks = sample_walks(
            graph,
            num_steps,
            plan.strategy,
            start,
            plan.window_size,
            seed,
            plan.p,
            plan.q,
            keys=start,  # so that walks depend on nothing else
            centred=plan.centred,
            num_walks=plan.num_walks,
        )
        target = target.repeat_interleave(plan.num_walks)
        batch, nodes, edges = closed_batch(graph, owners, walks, target, with_all_edges=self.has_edges)
        batch = replace(
            batch,
            x=None if store.x is None else store.x[nodes],
            edge_attr=None if store.edge_attr is None else store.edge_attr[edges],
            y=None if self.y is None else self.y[ids.to(self.y.device)],
            sample_weight=None if self.weights is None else self.weights[ids.to(self.weights.device)],
            starts_at_targets=not plan.centred,
        )
        return batch if graph.device == self.device else batch.map(lambda tensor: tensor.to(self.device))

    def show(self, store: OneGraph) -> None:
        """Take another graph of the same nodes, and other targets, in the place of these."""
        self.store = store.to(self.store.device)

    def walks_per_target(self, plan: WalkPlan | None) -> int:
        """The most walks that a target has."""
        return (plan.num_walks if plan is not None else 0) * (2 if self.store.are_pairs else 1)

    def bucket_of(self, batch: Batch, num_targets: int) -> Bucket:
        """The smallest bucket for a batch of at most this many targets; there are few."""
        sizes = (batch.num_nodes, batch.num_edges, len(batch.walks) if batch.walks is not None else 0)
        nodes, edges, walks = (_rounded(size + 1) for size in sizes)
        return Bucket(num_targets + 1, nodes, edges, walks, _rounded(int(batch.nodes.count.max())), num_targets)


def _as_graphs(store: OneGraph) -> GraphStore:
    """The graph as the only one of a store."""
    assert store.edge_index is not None
    return GraphStore(store.node_ptr, store.edge_ptr, store.edge_index, store.x, store.edge_attr)


def _rounded(size: int) -> int:
    """The next bucket size, a multiple of 16."""
    step = math.ceil(round(math.log(max(size, 16), _RATIO), 6))
    return math.ceil(_RATIO**step / 16) * 16


def _ends(owners: Tensor) -> list[Tensor]:
    """The node of each target, or both nodes of each pair."""
    return list(owners.view(len(owners), owners.dim()).unbind(1))


def _as_numbers(y: Tensor | None, device: torch.device) -> Tensor | None:
    """Targets as floating-point numbers, which can say that one is missing."""
    return None if y is None else (y if y.dtype == torch.float64 else y.float()).to(device)
