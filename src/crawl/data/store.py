"""A whole data set as a few flat arrays, from which batches are assembled by indexing alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.data.data import BaseData

from crawl.checks import MAX_COUNT, as_list, check_type, shown, truth, whole_number
from crawl.data.store_inputs import as_row_of_graph, as_rows, as_targets, check_choices, concatenated, refuse_weights
from crawl.data.task import Level
from crawl.edge_lists import checked_edge_index, edge_index_of, num_nodes_of
from crawl.graph import Graph
from crawl.ops.layout import rows_of
from crawl.tensor_checks import as_device, as_ids, holds_integers, plain_tensor, refuse_graph


@dataclass(frozen=True, eq=False)
class GraphStore:
    """All graphs of a data set side by side. Batches are assembled without any Python per graph.

    Build one with `from_dataset` or `from_graphs`. Graphs without edges and graphs without nodes are fine.

    Attributes:
        node_ptr: `[G + 1]` int64; the nodes of graph g are `node_ptr[g]:node_ptr[g + 1]`.
        edge_ptr: `[G + 1]` int64; the edges of graph g are `edge_ptr[g]:edge_ptr[g + 1]`.
        edge_index: `[2, E]`; ids count from 0 within each graph.
        x: `[N, C]` node features, or None.
        edge_attr: `[E, C]` edge features, or None.
        y: The targets, or None: `[G, K]` numbers or labels (NaN where one is missing) or `[G]` classes.
        y_per_node: Whether the rows of `y` belong to nodes instead of graphs.
        sample_weight: How much each row of `y` counts in training, `[rows]`, or each of its targets, `[rows, K]`:
            numbers that are 0 or more, whose ratios matter. None if all count alike.
        u: `[G, K]` features of the graphs, NaN where one is missing, or None.
        pairs: `[M, 2]` the two nodes of each pair, such as a bond, that a row of `y` belongs to, graph by graph; their
            ids count from 0 within each graph. None if targets are of graphs or nodes.
        pair_ptr: `[G + 1]` int64; the pairs of graph g are `pair_ptr[g]:pair_ptr[g + 1]`. None without pairs.
        sizes: `[2, G]` the nodes and edges of each graph, on the CPU: so nothing waits for a GPU to know them.
    """

    node_ptr: Tensor
    edge_ptr: Tensor
    edge_index: Tensor
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    y_per_node: bool = False
    sample_weight: Tensor | None = None
    u: Tensor | None = None
    pairs: Tensor | None = None
    pair_ptr: Tensor | None = None
    sizes: Tensor = field(init=False, repr=False)
    is_mapped: ClassVar[bool] = False  # whether nodes and edges stay in files, as those of a packed store do

    def __post_init__(self) -> None:
        if (self.pairs is None) != (self.pair_ptr is None) or (self.pairs is not None and self.y_per_node):
            raise ValueError("Targets of pairs need both pairs and pair_ptr, and y_per_node=False.")
        for name in ("node_ptr", "edge_ptr", *(() if self.pairs is None else ("pair_ptr",))):
            ptr = getattr(self, name)
            if not holds_integers(ptr) or ptr.dim() != 1 or ptr.numel() == 0:
                raise ValueError(f"{name} must be integers, one more than there are graphs, not {shown(ptr)}.")
            object.__setattr__(self, name, ptr.long())
        object.__setattr__(self, "edge_index", checked_edge_index(self.edge_index))
        truth("y_per_node", self.y_per_node)
        if self.node_ptr.shape != self.edge_ptr.shape:
            raise ValueError(f"node_ptr has {self.node_ptr.numel()} entries, but edge_ptr {self.edge_ptr.numel()}.")
        pairs = self.pairs
        if pairs is not None and not (holds_integers(pairs) and pairs.dim() == 2 and pairs.shape[1] == 2):
            raise ValueError(f"pairs must be integers of shape [pairs, 2], not {shown(pairs)}.")
        if self.pair_ptr is not None and self.pair_ptr.shape != self.node_ptr.shape:
            raise ValueError(f"node_ptr has {self.node_ptr.numel()} entries, but pair_ptr {self.pair_ptr.numel()}.")
        object.__setattr__(self, "sizes", torch.stack([self.node_ptr.diff(), self.edge_ptr.diff()]).cpu())
        expected = {
            "edge_index": (self.edge_index.t(), int(self.sizes[1].sum())),
            "x": (self.x, self.num_nodes),
            "edge_attr": (self.edge_attr, self.num_edges),
            "pairs": (self.pairs, int(self.targets_per_graph.sum())),
            "y": (self.y, int(self.targets_per_graph.sum())),
            "sample_weight": (self.sample_weight, int(self.targets_per_graph.sum())),
            "u": (self.u, len(self)),
        }
        for name, (tensor, num_rows) in expected.items():
            if tensor is None:
                continue
            if plain_tensor(name, tensor).dim() == 0 or tensor.shape[0] != num_rows:
                raise ValueError(f"{name} must have {num_rows} entries, but its shape is {list(tensor.shape)}.")

    def __len__(self) -> int:
        return self.node_ptr.numel() - 1

    @property
    def num_nodes(self) -> int:
        """The number of nodes of all graphs together (N)."""
        return int(self.sizes[0].sum())

    @property
    def num_edges(self) -> int:
        """The number of edges of all graphs together (E)."""
        return self.edge_index.shape[1]

    @property
    def device(self) -> torch.device:
        """The device all tensors are on."""
        return self.edge_index.device

    @property
    def level(self) -> Level:
        """What the rows of `y` belong to: each to a `graph`, a `node`, or a `pair` of nodes."""
        return "pair" if self.pairs is not None else "node" if self.y_per_node else "graph"

    @cached_property
    def targets_per_graph(self) -> Tensor:
        """`[G]` on the CPU: how many rows of `y` each graph has."""
        if self.pair_ptr is not None:
            return self.pair_ptr.diff().cpu()
        return self.sizes[0] if self.y_per_node else torch.ones(len(self), dtype=torch.long)

    @property
    def joined_edge_index(self) -> Tensor:
        """`[2, E]` int64 the edges with ids that count through the nodes of all graphs."""
        first = torch.repeat_interleave(self.node_ptr[:-1], self.edge_ptr.diff(), output_size=self.num_edges)
        return self.edge_index.long() + first

    def joined(self) -> Graph:
        """All graphs side by side.

        Raises:
            ValueError: If an edge leads to a node that has none, where a walk would end.
        """
        batch = torch.repeat_interleave(self.node_ptr.diff(), output_size=self.num_nodes)
        return Graph.from_edge_index(self.joined_edge_index, self.num_nodes, batch=batch, num_graphs=len(self))

    @classmethod
    def from_dataset(
        cls,
        dataset: InMemoryDataset | Sequence[Data] | Data,
        *,
        level: Level | None = None,
        ignore: Collection[str] = (),
    ) -> GraphStore:
        """The graphs of a PyG data set, or of any sequence of `Data`.

        The tensors of a PyG in-memory data set are shared, not copied. It is copied once if it has a `transform`, which
        is then applied now, or if it is a part of a larger one.

        Args:
            dataset: The graphs; a single `Data` is one graph, a `Batch` its graphs. `y` may have a row for each graph,
                a row for each node, or a vector for each graph, which becomes a row.
            level: Whether `y` belongs to a `graph` or a `node`; found from its shape when None.
            ignore: Names of attributes to leave out: `x`, `edge_attr`, `edge_weight`, `u`.

        Raises:
            ValueError: If the graphs do not go together, are not graphs or have features that are not finite, if `y`
                could belong to graphs as well as to nodes, or if there are weights of edges, which a store does not
                keep, that are not to be ignored.
        """
        if isinstance(dataset, Data):
            dataset = dataset.to_data_list() if isinstance(dataset, Batch) else [dataset]
        if isinstance(dataset, list | tuple | np.ndarray):
            return cls.from_graphs(dataset, level=level, ignore=ignore)
        is_sequence = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        if not is_sequence or isinstance(dataset, type | str | bytes | Mapping | Tensor | nx.Graph | BaseData):
            raise ValueError(f"Give a PyG data set or a list of Data, not {type(dataset).__name__}.")
        graphs = (dataset[i] for i in range(len(dataset)))
        if not isinstance(dataset, InMemoryDataset) or dataset.transform is not None:
            return cls.from_graphs(graphs, level=level, ignore=ignore)
        check_choices(level, ignore)
        data = dataset._data
        has_u = isinstance(data, Data) and "u" in data and "u" not in ignore  # which may have any shape
        ptr = _slices(dataset) if isinstance(data, Data) and not has_u else {}
        if {len(each) for each in ptr.values()} != {dataset.len() + 1}:  # as when PyG lost graphs without edges
            return cls.from_graphs(graphs, level=level, ignore=ignore)
        if "edge_weight" not in ignore:
            refuse_weights(data.edge_weight, "The data set")
        features = {name: getattr(data, name) for name in ("x", "edge_attr") if name not in ignore}
        y = None if data.y is None else as_rows(data.y)
        store = cls._of(ptr, edge_index_of(data), y, level, **features)
        chosen = list(dataset.indices())
        return store if chosen == list(range(len(store))) else store.subset(chosen)

    @classmethod
    def from_graphs(
        cls, graphs: Iterable[Data], *, level: Level | None = None, ignore: Collection[str] = ()
    ) -> GraphStore:
        """A copy of these graphs; `level` and `ignore` are those of `from_dataset`.

        Raises:
            ValueError: If there are none, and else as in `from_dataset`.
        """
        check_choices(level, ignore)
        graphs = as_list("graphs", graphs, "PyG Data")
        if not graphs:
            raise ValueError("There are no graphs.")
        for i, data in enumerate(graphs):
            if not isinstance(data, Data):
                raise ValueError(f"Graph {i} must be a PyG Data, not {type(data).__name__}.")
            if "edge_weight" not in ignore:
                refuse_weights(data.edge_weight, f"Graph {i}")
        edge_indices = [edge_index_of(data) for data in graphs]
        targets = [None if data.y is None else as_rows(data.y) for data in graphs]
        ptr = {
            "nodes": as_ptr([_num_nodes(data) for data in graphs]),
            "edges": as_ptr([edges.shape[1] for edges in edge_indices]),
            "y": as_ptr([len(rows) for rows in targets if rows is not None]),
        }
        names = [name for name in ("x", "edge_attr") if name not in ignore]
        features = {name: concatenated(name, [getattr(data, name) for data in graphs]) for name in names}
        if "u" not in ignore:
            features["u"] = concatenated("u", [as_row_of_graph(i, data.get("u")) for i, data in enumerate(graphs)])
        return cls._of(ptr, torch.cat(edge_indices, dim=1), concatenated("y", targets), level, **features)

    @classmethod
    def _of(
        cls, ptr: Mapping[str, Tensor], edge_index: Tensor, y: Tensor | None, level: Level | None, **features: Any
    ) -> GraphStore:
        """The store, with what the rows of `y` belong to found out."""
        node_ptr, edge_ptr = (ptr[name].to(edge_index.device) for name in ("nodes", "edges"))
        y, y_per_node = (None, False) if y is None else as_targets(y, ptr["y"], node_ptr, level)
        return cls(node_ptr, edge_ptr, edge_index, **features, y=y, y_per_node=y_per_node).checked()

    @classmethod
    def concatenate(cls, stores: Sequence[GraphStore]) -> GraphStore:
        """A copy of the graphs of all stores, one after the other. Refuses those that do not go together."""
        stores = as_list("stores", stores, "GraphStore")
        if not stores:
            raise ValueError("There are no graphs.")
        for store in stores:
            check_type("Each of stores", store, GraphStore, "build one with GraphStore.from_graphs")
            if store.is_mapped:
                raise ValueError("A packed store is not in memory: give store.subset(ids) of some of its graphs.")
        if len({store.level for store in stores}) > 1:
            raise ValueError("Some targets belong to graphs and others to nodes, or to pairs of them.")
        sizes = torch.cat([store.sizes for store in stores], dim=1)
        device = stores[0].device
        node_ptr, edge_ptr = (as_ptr(counts).to(device) for counts in sizes)
        edge_index = torch.cat([store.edge_index for store in stores], dim=1)
        x, edge_attr, y, weight, u, pairs = (
            concatenated(name, [getattr(store, name) for store in stores], "Part")
            for name in ("x", "edge_attr", "y", "sample_weight", "u", "pairs")
        )
        per_graph = torch.cat([store.targets_per_graph for store in stores])
        pair_ptr = None if pairs is None else as_ptr(per_graph).to(device)
        return cls(node_ptr, edge_ptr, edge_index, x, edge_attr, y, stores[0].y_per_node, weight, u, pairs, pair_ptr)

    def checked(self) -> Self:
        """The same store, for arrays that come from outside, if they are graphs.

        Raises:
            ValueError: If an edge leaves its graph, a pointer falls, `x` or `edge_attr` holds NaN or infinity, or `y`
                infinity; NaN in `y` or `u` is a number that is missing. Or if a weight is below 0 or not finite.
        """
        edge_index = self.edge_index
        if bool((self.sizes < 0).any()) or bool(self.node_ptr[0] != 0) or bool(self.edge_ptr[0] != 0):
            raise ValueError("node_ptr and edge_ptr must begin with 0 and never fall.")
        limit = self.node_ptr.diff().repeat_interleave(self.edge_ptr.diff())
        wrong = ((edge_index < 0) | (edge_index >= limit)).any(dim=0)
        if bool(wrong.any()):
            edge = int(wrong.nonzero()[0])
            graph = int(torch.searchsorted(self.edge_ptr, edge, right=True)) - 1
            source, target = edge_index[:, edge].tolist()
            raise ValueError(
                f"Graph {graph} has {int(self.sizes[0, graph])} nodes but an edge from {source} to {target}; "
                "ids count from 0 within each graph."
            )
        if self.pairs is not None and self.pair_ptr is not None:
            if bool((self.pair_ptr.diff() < 0).any()) or bool(self.pair_ptr[0] != 0):
                raise ValueError("pair_ptr must begin with 0 and never fall.")
            limit = self.node_ptr.diff().repeat_interleave(self.pair_ptr.diff()).unsqueeze(1)
            is_outside = ((self.pairs < 0) | (self.pairs >= limit)).any(dim=1)
            refuse_graph(is_outside, self.pair_ptr, "a pair names a node that the graph does not have")
        self._check_finite("x", self.x, self.node_ptr)
        self._check_finite("edge_attr", self.edge_attr, self.edge_ptr)
        self._check_finite("y", self.y, as_ptr(self.targets_per_graph))
        self._check_finite("u", self.u, torch.arange(len(self) + 1))
        check_weights_of_rows(self.sample_weight)
        return self

    def _check_finite(self, name: str, values: Tensor | None, ptr: Tensor) -> None:
        if values is None or not values.is_floating_point():
            return
        wrong = values.isinf() if name in ("y", "u") else ~values.float().isfinite()  # as the network takes them
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0, 0])
            graph = int(torch.searchsorted(ptr, row, right=True)) - 1
            value = values[row][wrong[row]].flatten()[0].item()
            raise ValueError(f"Graph {graph} has {value} in {name}: give finite numbers, or leave the graph out.")

    def check_unchanged(self) -> None:
        """Refuse graphs whose files were changed since they were opened; those here are in memory."""

    def to(self, device: torch.device | str) -> GraphStore:
        """The same graphs on another device."""
        device = as_device(device)
        on_host = ("sizes", "targets_per_graph")
        tensors = {
            name: value for name, value in vars(self).items() if isinstance(value, Tensor) and name not in on_host
        }
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in tensors.items()}
        return replace(self, **moved)

    def with_weights(self, sample_weight: Tensor) -> GraphStore:
        """The same graphs with other weights of their targets."""
        return replace(self, sample_weight=sample_weight)

    def subset(self, ids: Tensor | Sequence[int]) -> GraphStore:
        """A store of the graphs `ids` only, in this order. Refuses ids that no graph has."""
        ids, (nodes, _, node_ptr, _), (edges, _, edge_ptr, _), (pairs, _, pair_ptr, _) = self._chosen(ids)
        parts: dict[str, Any] = self._rows_of(nodes, edges, ids, pairs)
        if self.pairs is not None:
            parts |= {"pairs": self.pairs[pairs], "pair_ptr": pair_ptr}
        return GraphStore(node_ptr, edge_ptr, y_per_node=self.y_per_node, **parts)

    def batch(self, ids: Tensor | Sequence[int]) -> Batch:
        """The graphs `ids`, in this order, as one PyG `Batch`; a graph may come more than once.

        The batch has `x`, `edge_attr`, `y`, `u` and `sample_weight` where the store has them, `edge_index`, `batch`,
        `ptr` and `num_nodes`, equal to what PyG's `Batch.from_data_list` makes, and `graph_ids`, the given ids; those
        that no graph has are refused. Pairs with targets are its `edge_label_index`, `[2, M]`. Give the ids on the CPU:
        the batch is put together on the device of the store, and the host does not wait for it.
        """
        ids, (nodes, batch, ptr, _), (edges, graph_of_edge, _, _), (pairs, graph_of_pair, _, _) = self._chosen(ids)
        parts = self._rows_of(nodes, edges, ids, pairs)
        if self.pairs is not None:
            parts["edge_label_index"] = (self.pairs[pairs] + ptr[graph_of_pair].unsqueeze(1)).t()
        parts["edge_index"] += ptr.to(self.edge_index.dtype)[graph_of_edge]
        return Batch(**parts, batch=batch, ptr=ptr, num_nodes=len(nodes), graph_ids=ids)

    def graph(self, i: int) -> Data:
        """Graph `i` alone, as views of the store's tensors."""
        i = whole_number("i", i, 0, len(self) - 1)
        nodes = slice(int(self.node_ptr[i]), int(self.node_ptr[i + 1]))
        edges = slice(int(self.edge_ptr[i]), int(self.edge_ptr[i + 1]))
        parts, pairs = {}, slice(0, 0)
        if self.pairs is not None and self.pair_ptr is not None:
            pairs = slice(int(self.pair_ptr[i]), int(self.pair_ptr[i + 1]))
            parts["edge_label_index"] = self.pairs[pairs].t()
        parts |= self._rows_of(nodes, edges, slice(i, i + 1), pairs)
        return Data(**parts, num_nodes=nodes.stop - nodes.start)

    def _chosen(
        self, ids: Tensor | Sequence[int]
    ) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The ids on the device, and `rows_of` the nodes, edges and pairs; nothing waits for the device."""
        host_ids = self.checked_ids(ids)
        ids = host_ids.to(self.device, non_blocking=True)
        num_nodes, num_edges = self.sizes[:, host_ids].sum(dim=1).tolist()
        no_pairs = self.node_ptr.new_zeros(1).expand_as(self.node_ptr)
        pair_ptr = no_pairs if self.pair_ptr is None else self.pair_ptr
        num_pairs = 0 if self.pairs is None else int(self.targets_per_graph[host_ids].sum())
        nodes, edges = rows_of(self.node_ptr, ids, num_nodes), rows_of(self.edge_ptr, ids, num_edges)
        return ids, nodes, edges, rows_of(pair_ptr, ids, num_pairs)

    def _rows_of(
        self, nodes: Tensor | slice, edges: Tensor | slice, graphs: Tensor | slice, pairs: Tensor | slice
    ) -> dict[str, Tensor]:
        """Edges, features and targets, as far as there are any."""
        targets = {"pair": pairs, "node": nodes, "graph": graphs}[self.level]
        found = {"edge_index": self.edge_index[:, edges]}
        if self.x is not None:
            found["x"] = self.x[nodes]
        if self.edge_attr is not None:
            found["edge_attr"] = self.edge_attr[edges]
        if self.y is not None:
            found["y"] = self.y[targets]
        if self.sample_weight is not None:
            found["sample_weight"] = self.sample_weight[targets]
        if self.u is not None:
            found["u"] = self.u[graphs]
        return found

    def __repr__(self) -> str:
        shapes = {name: getattr(self, name) for name in ("x", "edge_attr", "y", "u")}
        parts = [f"{name}={list(value.shape)}" for name, value in shapes.items() if value is not None]
        counts = f"num_graphs={len(self)}, num_nodes={self.num_nodes}, num_edges={self.num_edges}"
        return f"GraphStore({', '.join([counts, *parts])}, device='{self.device}')"

    def checked_ids(self, ids: Tensor | Sequence[int]) -> Tensor:
        """The ids as int64 on the CPU. Refuses those that no graph has."""
        ids = as_ids("ids", ids).cpu()
        wrong = ids[(ids < 0) | (ids >= len(self))]
        if wrong.numel():
            raise ValueError(f"There is no graph {int(wrong[0])}: ids go from 0 to {len(self) - 1}.")
        return ids


def check_weights_of_rows(weights: Tensor | None) -> None:
    """Refuse weights that are not numbers of 0 or more."""
    if weights is None:
        return
    wrong = ~(weights.double().isfinite() & (weights >= 0))
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        value = weights[row][wrong[row]].flatten()[0].item()
        raise ValueError(f"sample_weight has {value} in row {row}: give finite numbers that are 0 or more.")


def as_ptr(sizes: Tensor | Sequence[int]) -> Tensor:
    """`[G + 1]` int64: where each graph begins, from the sizes of all."""
    ends = torch.as_tensor(sizes, dtype=torch.long).cumsum(0)
    return torch.cat([ends.new_zeros(1), ends])


def _num_nodes(data: Data) -> int:
    """The number of nodes of a graph, whose `edge_index` was checked."""
    num_nodes = num_nodes_of(data)
    return whole_number("num_nodes", 0 if num_nodes is None else num_nodes, 0, MAX_COUNT - 1)


def _slices(dataset: InMemoryDataset) -> dict[str, Tensor]:
    """Where the nodes, edges and targets of each graph begin in the collated storage of a PyG data set."""
    data, slices = dataset._data, dataset.slices
    if slices is None:  # PyG keeps a single graph as it is
        found = {"nodes": as_ptr([_num_nodes(data)]), "edges": as_ptr([data.num_edges])}
        return found if data.y is None else found | {"y": as_ptr([len(as_rows(data.y))])}
    sizes = getattr(data, "_num_nodes", None)  # where PyG keeps the num_nodes of each graph
    if sizes is not None:
        nodes = as_ptr(sizes)
    elif "x" in slices or "pos" in slices:
        nodes = slices["x"] if "x" in slices else slices["pos"]
    else:
        nodes = as_ptr([_num_nodes(dataset.get(i)) for i in range(dataset.len())])
    edges = slices["edge_index"] if "edge_index" in slices else torch.zeros_like(nodes)
    found = {"nodes": nodes.long(), "edges": edges.long()}
    return found if data.y is None else found | {"y": slices["y"]}
