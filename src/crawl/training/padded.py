"""Batches cut on the GPU from graphs that lie there, with room to spare, so that one CUDA graph serves many of them.

The host knows the size of every graph, and so how much room a batch needs, but never waits for the device. What is
behind the real nodes, edges, walks and graphs of a batch is never looked at: padding changes results by rounding only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from crawl.data.store import GraphStore
from crawl.graph import Graph
from crawl.models import CRaWl
from crawl.nn.encoders import Encoder
from crawl.nn.membership import Membership
from crawl.walks import Walks
from crawl.walks.groups import Groups
from crawl.walks.reference import StepLaw
from crawl.walks.sampling import start_nodes

_RATIO = 1.125  # between the rooms of one class and the next


@dataclass(frozen=True)
class Room:
    """How many of each fit into a batch, and how many nodes a single graph has at most."""

    num_graphs: int
    num_nodes: int
    num_edges: int
    num_walks: int
    largest_graph: int


@dataclass(frozen=True)
class PaddedBatch:
    """A batch with walks. The counts say how much of it is real; see `Membership` and `Walks`.

    Attributes:
        room: What fits into it.
        x: `[N, …]` node features, encoded unless the encoder has weights.
        edge_attr: The same for edges.
        y: Targets, float32 or float64; NaN where there is padding.
        batch: `[N]` the graph of each node.
        ptr: `[G + 1]` the nodes of graph g are `ptr[g]:ptr[g + 1]`.
        num_nodes: `[1]` int32.
        num_graphs: `[1]` int32.
        nodes: `[W, T]` the nodes on the walks.
        edges: `[W, T - 1]` the edges on the walks.
        code: `[W, T]` the bits on the walks.
        num_walks: `[1]` int32.
        node_order: Where on the walks each node is; see `Groups`.
        node_ptr: The groups in `node_order`.
        edge_order: Where on the walks each edge is; None if it is not needed.
        edge_ptr: The groups in `edge_order`.
    """

    room: Room
    x: Tensor | None
    edge_attr: Tensor | None
    y: Tensor | None
    batch: Tensor
    ptr: Tensor
    num_nodes: Tensor
    num_graphs: Tensor
    nodes: Tensor
    edges: Tensor
    code: Tensor
    num_walks: Tensor
    node_order: Tensor
    node_ptr: Tensor
    edge_order: Tensor | None
    edge_ptr: Tensor | None

    @property
    def members(self) -> Membership:
        """The graph of each node."""
        return Membership(self.batch, self.ptr, self.num_nodes, self.num_graphs, self.room.largest_graph)

    def walks(self, window_size: int) -> Walks:
        """The walks, with what is known of them."""
        longest = self.room.largest_graph * self.nodes.shape[1]  # no node starts more than one walk
        walks = Walks(self.nodes, self.edges, self.code, window_size, num_real=self.num_walks)
        walks.keep_groups("nodes", Groups(self.node_order, self.node_ptr, longest))
        if self.edge_order is not None and self.edge_ptr is not None:
            walks.keep_groups("edges", Groups(self.edge_order, self.edge_ptr, longest))
        return walks

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}


def learns(encoder: Encoder) -> bool:
    """Whether an encoder has weights, and so belongs to the step, not to the preparation of a batch."""
    return any(True for _ in encoder.parameters())


class DeviceGraphs:
    """Graphs on a device, ready to be cut into padded batches there.

    Its tensors stay where they are when other graphs are loaded into them, as CUDA graphs demand.

    Args:
        model: The model whose encoders check the features.
        store: The first graphs; its sizes, or the larger given ones, are the most that can be loaded.
        keys: `[G]` the key of each graph; see `Graph.node_keys`.
        device: Where to.
        most: Graphs, nodes and edges that must fit.
        all_sizes: `[2, G]` nodes and edges of all graphs that will ever come; those of the store when None. Rooms
            depend on them alone, and so not on the seed or on which graphs came first.
    """

    def __init__(
        self,
        model: CRaWl,
        store: GraphStore,
        keys: Tensor,
        device: torch.device,
        most: tuple[int, int, int] = (0, 0, 0),
        all_sizes: Tensor | None = None,
    ) -> None:
        self.model, self.device = model, device
        self._all_sizes = (store.sizes if all_sizes is None else all_sizes).double()
        num_graphs, num_nodes, num_edges = map(max, (len(store), store.num_nodes, store.num_edges), most)

        def room(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.ptr = room(3, num_graphs + 2)  # of nodes, edges and starts; the last graph is empty, for padding
        self.start_nodes = room(num_nodes, dtype=torch.int32)
        self.node_keys = room(num_nodes)
        self.rowptr = room(num_nodes + 1, dtype=torch.int32)
        self.col = room(num_edges, dtype=torch.int32)
        self.edge_id = room(num_edges, dtype=torch.int32)
        x, edge_attr = self._checked(store)
        self.x = None if x is None else room(num_nodes, *x.shape[1:], dtype=x.dtype)
        self.edge_attr = None if edge_attr is None else room(num_edges, *edge_attr.shape[1:], dtype=edge_attr.dtype)
        self.y = None
        if store.y is not None:
            num_targets = num_nodes if store.y_per_node else num_graphs
            dtype = torch.float64 if store.y.dtype == torch.float64 else torch.float32
            self.y = room(num_targets, *store.y.shape[1:], dtype=dtype)
        self.load(store, keys)

    def load(self, store: GraphStore, keys: Tensor) -> None:
        """Put other graphs in the place of these.

        Raises:
            ValueError: If they are no graphs, or have features that the model does not take.
        """
        self.store = store.to(self.device)
        num_nodes = store.num_nodes
        batch = torch.repeat_interleave(self.store.node_ptr.diff(), output_size=num_nodes)
        edge_graph = torch.repeat_interleave(self.store.edge_ptr.diff(), output_size=store.num_edges)
        graph = Graph.from_edge_index(
            self.store.edge_index + self.store.node_ptr[edge_graph],
            num_nodes,
            batch=batch,
            num_graphs=len(store),
        )
        self._fill(self.rowptr, graph.rowptr, int(graph.num_arcs))
        self._fill(self.col, graph.col)
        self._fill(self.edge_id, graph.edge_id)
        self._fill(self.ptr[0], self.store.node_ptr, num_nodes)
        self._fill(self.ptr[1], self.store.edge_ptr, store.num_edges)
        self._fill(self.node_keys, graph.node_keys(keys))
        x, edge_attr = self._checked(self.store)
        for place, values in ((self.x, x), (self.edge_attr, edge_attr), (self.y, self.store.y)):
            if place is not None and values is not None:
                self._fill(place, values)
        self.graph = Graph(self.rowptr, self.col, self.edge_id, graph.batch, graph.graph_ptr, graph.num_edges)
        self._loaded = graph
        self._drawn: tuple[float | None, int] = (0.0, 0)
        self.draw_starts(None, 0)

    def draw_starts(self, share: float | None, seed: int) -> None:
        """Choose the start nodes of the walks: all that have an edge, or a share of them."""
        if self._drawn == (share, seed) or (share is None and self._drawn[0] is None):
            return
        self._drawn = (share, seed)
        graph = self._loaded
        starts, _ = start_nodes(graph, share, self.node_keys[: graph.num_nodes], seed)
        ptr = torch.searchsorted(starts, self.store.node_ptr.int())
        self._fill(self.start_nodes, starts)
        self._fill(self.ptr[2], ptr, len(starts))
        self._sizes = torch.cat([self.store.sizes, ptr.diff().cpu().unsqueeze(0)]).double()
        num_nodes, num_edges = self._all_sizes
        num_walks = torch.where(num_edges > 0, (num_nodes * (1.0 if share is None else share)).clamp_min(1.0), 0.0)
        self._usual = torch.stack([num_nodes, num_edges, num_walks]).mean(dim=1)

    def rooms_for(self, batches: list[Tensor], num_graphs: int) -> list[Room]:
        """For each batch of ids the smallest room among few: each is an eighth larger than the one before."""
        usual = (self._usual * num_graphs).clamp_min(1.0)
        largest = int(self._all_sizes[0].max())
        batch = torch.repeat_interleave(torch.tensor([len(ids) for ids in batches]))
        total = torch.zeros(3, len(batches), dtype=torch.double)
        total.index_add_(1, batch, self._sizes[:, torch.cat(batches)])
        needed = (total / usual.unsqueeze(1)).amax(dim=0).tolist()
        steps = [max(math.ceil(round(math.log(share, _RATIO), 6)), -40) if share > 0 else -40 for share in needed]
        rooms = {}
        for step in set(steps):
            nodes, edges, walks = (math.ceil(size * _RATIO**step / 16) * 16 for size in usual.tolist())
            rooms[step] = Room(num_graphs, nodes, edges, walks, largest)
        return [rooms[step] for step in steps]

    def padded_ids(self, batches: list[Tensor], num_graphs: int) -> Tensor:
        """`[len(batches), num_graphs]` on the device: the ids of each batch, filled up with an empty graph."""
        ids = torch.full((len(batches), num_graphs), self.ptr.shape[1] - 2)
        for row, batch in zip(ids, batches, strict=True):
            row[: len(batch)] = batch
        return ids.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else ids

    def cut(self, ids: Tensor, room: Room, num_steps: int, seed: Tensor, has_edge_groups: bool) -> PaddedBatch:
        """The graphs `ids` with walks on them.

        Args:
            ids: `[room.num_graphs]` on the device.
            room: What fits.
            num_steps: Steps of the walks.
            seed: `[1]` int64; the seed of the walks.
            has_edge_groups: Work out where on the walks each edge is, which a backward pass needs.
        """
        from crawl.walks import gpu

        node, batch, ptr, node_offset = self._rows(self.ptr[0], ids, room.num_nodes)
        edge, _, _, edge_offset = self._rows(self.ptr[1], ids, room.num_edges)
        start, start_graph, start_ptr, _ = self._rows(self.ptr[2], ids, room.num_walks)
        is_graph = ids < self.ptr.shape[1] - 2
        num_nodes, num_walks = ptr[-1:].int(), start_ptr[-1:].int()
        start = self.start_nodes[start]
        model = self.model
        slots = gpu.Slots(
            num_walks,
            node_offset[start_graph].int(),
            edge_offset[start_graph].int(),
            no_node=room.num_nodes,
            no_edge=room.num_edges,
        )
        law = StepLaw.named(model.strategy, model.p, model.q)
        keys = self.node_keys[start]
        nodes, edges, code = gpu.sample(self.graph, start, keys, num_steps, law, model.window_size, seed, slots)
        of_nodes = Groups.of(nodes, room.num_nodes)
        of_edges = Groups.of(edges, room.num_edges) if has_edge_groups and self.edge_attr is not None else None
        y = self.y
        if y is not None:
            rows, is_real = ids.clamp_max(len(y) - 1), is_graph
            if self.store.y_per_node:
                rows, is_real = node, torch.arange(room.num_nodes, device=y.device) < num_nodes
            y = torch.where(is_real.view(-1, *[1] * (y.dim() - 1)), y[rows], torch.nan)
        x: Tensor | None = None if self.x is None else self.x[node]
        if not learns(model.node_encoder):
            x = model.node_encoder.encode(x, room.num_nodes, model.readout.norm.weight)
        edge_attr = None if self.edge_attr is None else self.edge_attr[edge]
        if edge_attr is not None and not learns(model.edge_encoder):
            edge_attr = model.edge_encoder.encode(edge_attr, room.num_edges, model.readout.norm.weight)
        return PaddedBatch(
            room=room,
            x=x,
            edge_attr=edge_attr,
            y=y,
            batch=batch.int(),
            ptr=ptr.int(),
            num_nodes=num_nodes,
            num_graphs=is_graph.sum(dim=0, keepdim=True, dtype=torch.int32),
            nodes=nodes,
            edges=edges,
            code=code,
            num_walks=num_walks,
            node_order=of_nodes.order,
            node_ptr=of_nodes.ptr,
            edge_order=None if of_edges is None else of_edges.order,
            edge_ptr=None if of_edges is None else of_edges.ptr,
        )

    def _rows(self, ptr: Tensor, ids: Tensor, num_rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows of the graphs `ids` one after the other, the position of the graph of each row, the new ptr, and how
        far each graph moved. Behind the last real row come others that exist.
        """
        start = ptr[ids]
        end = (ptr[ids + 1] - start).cumsum(0)
        new_ptr = torch.cat([torch.zeros_like(end[:1]), end])
        offset = start - new_ptr[:-1]
        place = torch.arange(num_rows, device=ids.device)
        graph = torch.searchsorted(end, place, right=True).clamp_max(len(ids) - 1)
        rows = torch.where(place < end[-1], place + offset[graph], 0)
        return rows, graph, new_ptr, offset

    def _checked(self, store: GraphStore) -> tuple[Tensor | None, Tensor | None]:
        x = self.model.node_encoder.checked(store.x, store.num_nodes)
        self.model.refuse_unused(store.edge_attr)
        edge_attr = None
        if self.model.edge_encoder.out_channels:
            edge_attr = self.model.edge_encoder.checked(store.edge_attr, store.num_edges)
        return x, edge_attr

    @staticmethod
    def _fill(place: Tensor, values: Tensor, rest: int | None = None) -> None:
        """Write values to the front, and one number behind them if given."""
        place[: len(values)] = values
        if rest is not None:
            place[len(values) :] = rest
