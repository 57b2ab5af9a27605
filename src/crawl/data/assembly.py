"""Batches assembled on the device where the graphs are, of exact size or padded to a bucket size.

The host knows the size of every graph, and so the size of a batch, but never waits for the device. One CUDA graph
serves all batches that are padded to one bucket size; padding changes results by rounding only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crawl.checks import MAX_COUNT
from crawl.data.store import GraphStore
from crawl.edge_lists import checked_edge_list
from crawl.graph import Graph
from crawl.nn.batch import Batch
from crawl.ops.backends import can_use_triton
from crawl.ops.layout import BatchRows, StoredEnd, StoredRows, laid_out, rows_of
from crawl.ops.segments import Rows, Segments, places_of
from crawl.walks.backends import sampler_for
from crawl.walks.centred import check_both_ways
from crawl.walks.plan import WalkPlan
from crawl.walks.starts import repeated_starts, start_nodes
from crawl.walks.strategies import StepLaw
from crawl.walks.walks import Walks

_SMALLEST_RATIO, _LARGEST_RATIO = 1.01, 1.125  # between one bucket size and the next
_DEVIATIONS = 1.5  # of the size of a batch that a bucket is larger than the one before
_SMALLEST_SHARE = 0.01  # of the usual batch that a bucket is for


@dataclass(frozen=True)
class Bucket:
    """The numbers of rows that a batch is padded to, a spare one of each included; no graph has more nodes than
    `largest_graph`, and each start node may start several walks.
    """

    num_graphs: int
    num_nodes: int
    num_edges: int
    num_starts: int
    largest_graph: int
    num_targets: int = 0


class Assembler:
    """Graphs on a device, ready to be assembled into batches there.

    Its tensors stay at their addresses when other graphs are loaded into them, as CUDA graphs demand.

    Args:
        store: The graphs, or the first of them.
        keys: `[G]` the key of each graph; see `Graph.node_keys`.
        device: Where to.
        has_edges: Whether batches are for message passing, so that sums over the edges of each node are made ready.
        has_walks: Whether there will be walks, so that nodes which cannot be left are refused.
        most: Graphs, nodes and edges that any later `load` brings at most; None if there is none.
        all_sizes: `[2, G]` nodes and edges of all graphs that will ever come; those of the store when None. Bucket
            sizes depend on them alone, and so not on the seed or on which graphs came first.
    """

    def __init__(
        self,
        store: GraphStore,
        keys: Tensor,
        device: torch.device,
        *,
        has_edges: bool = True,
        has_walks: bool = True,
        most: tuple[int, int, int] | None = None,
        all_sizes: Tensor | None = None,
    ) -> None:
        self.device, self.has_walks = device, has_walks
        self.has_edges = has_edges and can_use_triton(device)  # elsewhere sums need nothing
        self._all_sizes = (store.sizes if all_sizes is None else all_sizes).double()
        self._most = most
        self._tensors: dict[str, Tensor] = {}
        self.load(store, keys)

    def load(self, store: GraphStore, keys: Tensor) -> None:
        """Put other graphs in the place of these. Refuses what are not graphs."""
        self.store = store = store.to(self.device)
        num_nodes, num_edges = store.num_nodes, store.num_edges
        most_graphs, most_nodes, most_edges = self._most or (len(store), num_nodes, num_edges)
        if num_edges > MAX_COUNT:
            raise ValueError(
                f"The graphs have {num_edges} edges; at most {MAX_COUNT} can be batched: take fewer graphs."
            )
        edge_index = store.joined_edge_index
        if self.has_walks:
            graph, most_arcs = store.joined(), most_edges
        else:  # walks alone need arcs
            batch = torch.repeat_interleave(store.node_ptr.diff(), output_size=num_nodes)
            checked_edge_list(edge_index, num_nodes, None, batch, len(store))
            graph = Graph.from_edge_index(edge_index[:, :0], num_nodes, batch=batch, num_graphs=len(store))
            most_arcs = 0
        # The last graph is empty, for padding.
        self.node_ptr = self._kept("node_ptr", store.node_ptr, most_graphs + 2, num_nodes)
        self.edge_ptr = self._kept("edge_ptr", store.edge_ptr, most_graphs + 2, num_edges)
        self.start_ptr = self._kept("start_ptr", torch.zeros_like(store.node_ptr), most_graphs + 2, 0)
        self.start_nodes = self._kept("start_nodes", graph.rowptr[1:].clone(), most_nodes)
        self.node_keys = self._kept("node_keys", graph.node_keys(keys), most_nodes)
        rowptr = self._kept("rowptr", graph.rowptr, most_nodes + 1, int(graph.num_arcs))
        col = self._kept("col", graph.col, most_arcs)
        edge_id = self._kept("edge_id", graph.edge_id, most_arcs)
        ends: list[StoredEnd] = []
        self.most_at_ends: list[int | None] = []  # the most edges that a node has at each end
        for end in edge_index:
            name = f"end {len(ends)}"
            ptr = order = longest = None
            if self.has_edges:
                ptr, order = (places.int() for places in places_of(end, num_nodes))
                longest = int(ptr.diff().max()) if num_nodes else 0
                ptr = self._kept(f"{name} ptr", ptr, most_nodes + 1, num_edges)
                order = self._kept(f"{name} order", order, most_edges)
            ends.append(StoredEnd(self._kept(name, end, most_edges), ptr, order))
            self.most_at_ends.append(longest)
        self.rows = StoredRows(
            self.node_ptr, self.edge_ptr, self.start_ptr, self.start_nodes, self.node_keys, tuple(ends)
        )
        y = store.y
        if y is not None and y.dtype != torch.float64:
            y = y.float()  # which can say that a target is missing
        self.x = None if store.x is None else self._kept("x", store.x, most_nodes)
        self.edge_attr = None if store.edge_attr is None else self._kept("edge_attr", store.edge_attr, most_edges)
        weights = None if store.sample_weight is None else store.sample_weight.float()
        self.y, self.weights = y, weights
        if store.pairs is None:  # of which no step is captured
            most_targets = most_nodes if store.y_per_node else most_graphs
            self.y = None if y is None else self._kept("y", y, most_targets)
            self.weights = None if weights is None else self._kept("sample_weight", weights, most_targets)
        self.u = None if store.u is None else self._kept("u", store.u, most_graphs)
        self.graph = Graph(rowptr, col, edge_id, graph.batch, graph.graph_ptr, graph.num_edges)
        self._loaded = graph
        self._weighed: Graph | None = None
        self._drawn: tuple[float | None, int] = (0.0, 0)
        self.draw_starts(None, 0)

    def _kept(self, name: str, values: Tensor, size: int, rest: int = 0) -> Tensor:
        """A tensor of this many rows with the values at its front, at the address it had before."""
        if name not in self._tensors:
            if self._most is None and len(values) == size:
                self._tensors[name] = values.contiguous()
                return self._tensors[name]
            self._tensors[name] = values.new_zeros(size, *values.shape[1:])
        kept = self._tensors[name]
        kept[: len(values)] = values
        kept[len(values) :] = rest
        return kept

    def graph_of(self, law: StepLaw) -> Graph:
        """The graphs with the weights of a law. For a law that is new here, the host waits for the device.

        Refuses graphs that cannot be walked both ways if walks are centred.
        """
        if law.is_centred:
            check_both_ways(self._loaded.one_way)
        if not law.is_by_degree:
            return self.graph
        if self._weighed is None:
            weights = law.on(self._loaded).cum_weight
            assert weights is not None
            self._weighed = replace(self.graph, cum_weight=self._kept("cum_weight", weights, len(self.graph.col)))
        return self._weighed

    def draw_starts(self, share: float | None, seed: int) -> None:
        """Choose the start nodes of the walks: all that have an edge, or a share of them."""
        if self._drawn == (share, seed) or (share is None and self._drawn[0] is None):
            return
        self._drawn = (share, seed)
        graph = self._loaded
        starts, _ = start_nodes(graph, share, self.node_keys[: graph.num_nodes], seed)
        ptr = torch.searchsorted(starts, self.store.node_ptr.int())
        self._kept("start_nodes", starts, len(self.start_nodes))
        self._kept("start_ptr", ptr, len(self.start_ptr), len(starts))
        self._sizes = torch.cat([self.store.sizes, ptr.diff().cpu().unsqueeze(0)])
        num_nodes, num_edges = self._all_sizes
        num_starts = torch.where(num_edges > 0, (num_nodes * (1.0 if share is None else share)).clamp_min(1.0), 0.0)
        self._mean_size = torch.stack([num_nodes, num_edges, num_starts]).mean(dim=1)

    def buckets(self, batches: list[Tensor], num_graphs: int) -> list[Bucket]:
        """For each batch of ids the smallest bucket among few.

        Each is larger than the one before by about the standard deviation of the size of random batches, and by an
        eighth at most. So a handful serves nearly all batches, and little is padded where graphs are alike.
        """
        usual = (self._mean_size * num_graphs).clamp_min(1.0)
        deviation, mean = torch.std_mean(self._all_sizes, dim=1, correction=0)
        spread = float((deviation / mean.clamp_min(1e-9)).max()) / math.sqrt(num_graphs)
        if (share := self._drawn[0]) is not None:  # the number of start nodes is random, too
            spread += math.sqrt((1 - share) / float(usual[2]))
        ratio = min(max(1 + _DEVIATIONS * spread, _SMALLEST_RATIO), _LARGEST_RATIO)
        largest = int(self._all_sizes[0].max())
        batch = torch.repeat_interleave(torch.tensor([len(ids) for ids in batches]))
        total = torch.zeros(3, len(batches), dtype=torch.double)
        total.index_add_(1, batch, self._sizes[:, torch.cat(batches)].double())
        needed = ((total + 1) / usual.unsqueeze(1)).amax(dim=0).tolist()  # with a spare row of each
        steps = [math.ceil(round(math.log(max(share, _SMALLEST_SHARE), ratio), 6)) for share in needed]
        buckets = {}
        for step in set(steps):
            nodes, edges, starts = (math.ceil(size * ratio**step / 16) * 16 for size in usual.tolist())
            buckets[step] = Bucket(num_graphs + 1, nodes, edges, starts, largest)
        return [buckets[step] for step in steps]

    def padded_ids(self, batches: list[Tensor], num_graphs: int) -> Tensor:
        """`[len(batches), num_graphs + 1]` on the device: the ids of each batch, filled up with an empty graph."""
        ids = torch.full((len(batches), num_graphs + 1), len(self.node_ptr) - 2)
        for row, batch in zip(ids, batches, strict=True):
            row[: len(batch)] = batch
        return ids.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else ids

    def batch(self, ids: Tensor, plan: WalkPlan | None, num_steps: int, seed: int) -> Batch:
        """The graphs `ids`, on the CPU, with walks on them; of exact size."""
        num_nodes, num_edges, num_starts = self._sizes[:, ids].sum(dim=1).tolist()
        largest = int(self._sizes[0, ids].max()) if len(ids) else 0
        num_pairs = 0 if self.store.pairs is None else int(self.store.targets_per_graph[ids].sum())
        bucket = Bucket(len(ids), num_nodes, num_edges, num_starts, largest, num_pairs)
        return self._assembled(ids.to(self.device), bucket, plan, num_steps, seed, is_padded=False)

    def padded_batch(
        self, ids: Tensor, bucket: Bucket, plan: WalkPlan | None, num_steps: int, seed: Tensor, *, is_training: bool
    ) -> Batch:
        """The graphs `ids`, a row of `padded_ids`, with walks on them, padded; nothing here waits for the device.

        `seed` is `[1]` int64 there, too. In training there is a backward pass, which sums into edges.
        """
        return self._assembled(ids, bucket, plan, num_steps, seed, is_padded=True, sums_into_edges=is_training)

    def _assembled(
        self,
        ids: Tensor,
        bucket: Bucket,
        plan: WalkPlan | None,
        num_steps: int,
        seed: int | Tensor,
        *,
        is_padded: bool,
        sums_into_edges: bool = False,
    ) -> Batch:
        rows = laid_out(self.rows, ids, bucket.num_nodes, bucket.num_edges, bucket.num_starts)
        is_graph = ids < len(self.node_ptr) - 2
        nodes, edges, graphs = Rows(bucket.num_nodes), Rows(bucket.num_edges), Rows(bucket.num_graphs)
        if is_padded:
            nodes, edges, graphs = (
                replace(each, real=rows.real[i : i + 1]) for each, i in ((nodes, 0), (edges, 1), (graphs, 3))
            )
        ends = []
        for owner, places, longest in zip(rows.edge_index, rows.ends, self.most_at_ends, strict=True):
            ptr, order = (None, None) if places is None else places
            ends.append(Segments(owner, edges, nodes, ptr, order, longest))
        y, weights, targets, pair = self.y, self.weights, None, ids
        if self.store.pairs is not None and self.store.pair_ptr is not None:
            assert not is_padded  # no runner captures steps of pairs
            pair, pair_graph, _, _ = rows_of(self.store.pair_ptr, ids, bucket.num_targets)
            owners = self.store.pairs.long()[pair] + rows.node_ptr[pair_graph].unsqueeze(1)
            targets = tuple(Segments(end, Rows(bucket.num_targets), nodes) for end in owners.unbind(1))
        if y is not None:
            of, is_real = ids.clamp_max(len(self.store) - 1), is_graph
            if self.store.y_per_node:
                of, is_real = rows.node, torch.arange(nodes.size, device=ids.device) < rows.node_ptr[-1]
            of = of if targets is None else pair
            y, weights = y[of], None if weights is None else weights[of]
            if is_padded:
                y = torch.where(is_real.view(-1, *[1] * (y.dim() - 1)), y, torch.nan)
        u = self.u
        if u is not None:
            u = u[ids.clamp_max(len(u) - 1)]
            u = torch.where(is_graph.unsqueeze(1), u, 0.0) if is_padded else u
        walks = None
        if plan is not None:
            walks = self._walks(ids, rows, bucket, plan, num_steps, seed, is_padded, sums_into_edges)
        return Batch(
            rows.edge_index,
            Segments(rows.graph, nodes, graphs, rows.node_ptr, None, bucket.largest_graph),
            ends[1],
            ends[0],
            None if self.x is None else self.x[rows.node],
            None if self.edge_attr is None else self.edge_attr[rows.edge],
            y,
            walks,
            targets,
            sample_weight=weights,
            u=u,
        )

    def _walks(
        self,
        ids: Tensor,
        rows: BatchRows,
        bucket: Bucket,
        plan: WalkPlan,
        num_steps: int,
        seed: int | Tensor,
        is_padded: bool,
        sums_into_edges: bool,
    ) -> Walks:
        start, keys, count = rows.start, rows.start_key, rows.real[2:3]
        node_offset, edge_offset = rows.node_offset, rows.edge_offset
        if plan.num_walks > 1:
            graph_sizes = (self.node_ptr[ids + 1] - self.node_ptr[ids])[rows.start_graph]
            start, keys = repeated_starts(start, keys, graph_sizes, bucket.largest_graph, plan.num_walks)
            num_walks = len(start)
            node_offset = node_offset.repeat_interleave(plan.num_walks, output_size=num_walks)
            edge_offset = edge_offset.repeat_interleave(plan.num_walks, output_size=num_walks)
            count = count * plan.num_walks
        law = plan.law
        settings = (self.graph_of(law), start, keys, num_steps, law, plan.window_size, seed)
        sizes, has_jumps = (bucket.num_nodes, bucket.num_edges), plan.has_jumps
        if not is_padded:
            nodes, edges, code = sampler_for(self.graph.device)(*settings)
            jumps = edges == self.graph.num_edges
            nodes, edges = nodes - node_offset.unsqueeze(1), edges - edge_offset.unsqueeze(1)
            edges = torch.where(jumps, bucket.num_edges, edges) if has_jumps else edges
            return Walks(nodes, edges, code, plan.window_size, *sizes, has_jumps=has_jumps)
        from crawl.walks import gpu

        num_owners = bucket.num_edges + has_jumps  # of steps; the number stands for padding
        slots = gpu.Slots(count, node_offset, edge_offset, bucket.num_nodes, num_owners, jump=bucket.num_edges)
        nodes, edges, code = gpu.sample(*settings, slots)
        longest = bucket.largest_graph * plan.num_walks * nodes.shape[1]  # no node starts more walks
        segments = {"visits": _segments(nodes, bucket.num_nodes, count, longest)}
        if sums_into_edges:
            # All jumps of a batch belong to one owner.
            segments["steps"] = _segments(edges, num_owners, count, edges.numel() if has_jumps else longest)
        nodes, edges = nodes.clamp_max(bucket.num_nodes - 1), edges.clamp_max(num_owners - 1)
        return Walks(nodes, edges, code, plan.window_size, *sizes, count, has_jumps).with_segments(**segments)


def _segments(ids: Tensor, num_ids: int, num_walks: Tensor, longest: int) -> Segments:
    """The segments of the positions or steps of padded walks, where `num_ids` stands for padding."""
    owner = ids.flatten()
    ptr, order = places_of(owner, num_ids)
    rows = Rows(owner.numel(), num_walks * ids.shape[1])
    return Segments(owner.clamp_max(num_ids - 1), rows, Rows(num_ids), ptr, order, longest)
