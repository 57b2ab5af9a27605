"""A whole data set as a few flat arrays, from which batches are assembled by indexing alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.data.data import BaseData

from crawl.checks import MAX_COUNT, as_list, check_choice, check_type, shown, truth, whole_number
from crawl.data.task import Level
from crawl.edge_lists import checked_edge_index, edge_index_of, num_nodes_of, weights_differ
from crawl.graph import Graph
from crawl.tensor_checks import as_device, as_ids, holds_integers, plain_tensor

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # of which torch only knows how to convert them


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
    sizes: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("node_ptr", "edge_ptr"):
            ptr = getattr(self, name)
            if not holds_integers(ptr) or ptr.dim() != 1 or ptr.numel() == 0:
                raise ValueError(f"{name} must be integers, one more than there are graphs, not {shown(ptr)}.")
            object.__setattr__(self, name, ptr.long())
        object.__setattr__(self, "edge_index", checked_edge_index(self.edge_index))
        truth("y_per_node", self.y_per_node)
        if self.node_ptr.shape != self.edge_ptr.shape:
            raise ValueError(f"node_ptr has {self.node_ptr.numel()} entries, but edge_ptr {self.edge_ptr.numel()}.")
        object.__setattr__(self, "sizes", torch.stack([self.node_ptr.diff(), self.edge_ptr.diff()]).cpu())
        expected = {
            "edge_index": (self.edge_index.t(), int(self.sizes[1].sum())),
            "x": (self.x, self.num_nodes),
            "edge_attr": (self.edge_attr, self.num_edges),
            "y": (self.y, self.num_nodes if self.y_per_node else len(self)),
            "sample_weight": (self.sample_weight, self.num_nodes if self.y_per_node else len(self)),
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
        _check_choices(level, ignore)
        data = dataset._data
        has_u = isinstance(data, Data) and "u" in data and "u" not in ignore  # which may have any shape
        ptr = _slices(dataset) if isinstance(data, Data) and not has_u else {}
        if {len(each) for each in ptr.values()} != {dataset.len() + 1}:  # as when PyG lost graphs without edges
            return cls.from_graphs(graphs, level=level, ignore=ignore)
        if "edge_weight" not in ignore:
            _refuse_weights(data.edge_weight, "The data set")
        features = {name: getattr(data, name) for name in ("x", "edge_attr") if name not in ignore}
        y = None if data.y is None else _as_rows(data.y)
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
        _check_choices(level, ignore)
        graphs = as_list("graphs", graphs, "PyG Data")
        if not graphs:
            raise ValueError("There are no graphs.")
        for i, data in enumerate(graphs):
            if not isinstance(data, Data):
                raise ValueError(f"Graph {i} must be a PyG Data, not {type(data).__name__}.")
            if "edge_weight" not in ignore:
                _refuse_weights(data.edge_weight, f"Graph {i}")
        edge_indices = [edge_index_of(data) for data in graphs]
        targets = [None if data.y is None else _as_rows(data.y) for data in graphs]
        ptr = {
            "nodes": as_ptr([_num_nodes(data) for data in graphs]),
            "edges": as_ptr([edges.shape[1] for edges in edge_indices]),
            "y": as_ptr([len(rows) for rows in targets if rows is not None]),
        }
        names = [name for name in ("x", "edge_attr") if name not in ignore]
        features = {name: _concatenated(name, [getattr(data, name) for data in graphs]) for name in names}
        if "u" not in ignore:
            features["u"] = _concatenated("u", [_as_row_of_graph(i, data.get("u")) for i, data in enumerate(graphs)])
        return cls._of(ptr, torch.cat(edge_indices, dim=1), _concatenated("y", targets), level, **features)

    @classmethod
    def _of(
        cls, ptr: Mapping[str, Tensor], edge_index: Tensor, y: Tensor | None, level: Level | None, **features: Any
    ) -> GraphStore:
        """The store, with what the rows of `y` belong to found out."""
        node_ptr, edge_ptr = (ptr[name].to(edge_index.device) for name in ("nodes", "edges"))
        y, y_per_node = (None, False) if y is None else _as_targets(y, ptr["y"], node_ptr, level)
        return cls(node_ptr, edge_ptr, edge_index, **features, y=y, y_per_node=y_per_node).checked()

    @classmethod
    def concatenate(cls, stores: Sequence[GraphStore]) -> GraphStore:
        """A copy of the graphs of all stores, one after the other. Refuses those that do not go together."""
        stores = as_list("stores", stores, "GraphStore")
        if not stores:
            raise ValueError("There are no graphs.")
        for store in stores:
            check_type("Each of stores", store, GraphStore, "build one with GraphStore.from_graphs")
        if len({store.y_per_node for store in stores}) > 1:
            raise ValueError("Some targets belong to graphs and others to nodes.")
        sizes = torch.cat([store.sizes for store in stores], dim=1)
        device = stores[0].device
        node_ptr, edge_ptr = (as_ptr(counts).to(device) for counts in sizes)
        edge_index = torch.cat([store.edge_index for store in stores], dim=1)
        x, edge_attr, y, weight, u = (
            _concatenated(name, [getattr(store, name) for store in stores], "Part")
            for name in ("x", "edge_attr", "y", "sample_weight", "u")
        )
        return cls(node_ptr, edge_ptr, edge_index, x, edge_attr, y, stores[0].y_per_node, weight, u)

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
        self._check_finite("x", self.x, self.node_ptr)
        self._check_finite("edge_attr", self.edge_attr, self.edge_ptr)
        self._check_finite("y", self.y, self.node_ptr if self.y_per_node else torch.arange(len(self) + 1))
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

    def to(self, device: torch.device | str) -> GraphStore:
        """The same graphs on another device."""
        device = as_device(device)
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor) and name != "sizes"}
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in tensors.items()}
        return replace(self, **moved)

    def subset(self, ids: Tensor | Sequence[int]) -> GraphStore:
        """A store of the graphs `ids` only, in this order. Refuses ids that no graph has."""
        ids, (nodes, _, node_ptr, _), (edges, _, edge_ptr, _) = self._chosen(ids)
        return GraphStore(node_ptr, edge_ptr, y_per_node=self.y_per_node, **self._rows_of(nodes, edges, ids))

    def batch(self, ids: Tensor | Sequence[int]) -> Batch:
        """The graphs `ids`, in this order, as one PyG `Batch`; a graph may come more than once.

        The batch has `x`, `edge_attr`, `y`, `u` and `sample_weight` where the store has them, `edge_index`, `batch`,
        `ptr` and `num_nodes`, equal to what PyG's `Batch.from_data_list` makes, and `graph_ids`, the given ids; those
        that no graph has are refused. Give the ids on the CPU: the batch is put together on the device of the store,
        and the host does not wait for it.
        """
        ids, (nodes, batch, ptr, _), (edges, graph_of_edge, _, _) = self._chosen(ids)
        parts = self._rows_of(nodes, edges, ids)
        parts["edge_index"] += ptr.to(self.edge_index.dtype)[graph_of_edge]
        return Batch(**parts, batch=batch, ptr=ptr, num_nodes=len(nodes), graph_ids=ids)

    def graph(self, i: int) -> Data:
        """Graph `i` alone, as views of the store's tensors."""
        i = whole_number("i", i, 0, len(self) - 1)
        nodes = slice(int(self.node_ptr[i]), int(self.node_ptr[i + 1]))
        edges = slice(int(self.edge_ptr[i]), int(self.edge_ptr[i + 1]))
        return Data(**self._rows_of(nodes, edges, slice(i, i + 1)), num_nodes=nodes.stop - nodes.start)

    def _chosen(self, ids: Tensor | Sequence[int]) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The ids on the device, and `rows_of` the nodes and edges; nothing waits for the device."""
        host_ids = self.checked_ids(ids)
        ids = host_ids.to(self.device, non_blocking=True)
        num_nodes, num_edges = self.sizes[:, host_ids].sum(dim=1).tolist()
        return ids, rows_of(self.node_ptr, ids, num_nodes), rows_of(self.edge_ptr, ids, num_edges)

    def _rows_of(self, nodes: Tensor | slice, edges: Tensor | slice, graphs: Tensor | slice) -> dict[str, Tensor]:
        """Edges, features and targets, as far as there are any."""
        found = {"edge_index": self.edge_index[:, edges]}
        if self.x is not None:
            found["x"] = self.x[nodes]
        if self.edge_attr is not None:
            found["edge_attr"] = self.edge_attr[edges]
        if self.y is not None:
            found["y"] = self.y[nodes if self.y_per_node else graphs]
        if self.sample_weight is not None:
            found["sample_weight"] = self.sample_weight[nodes if self.y_per_node else graphs]
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


def rows_of(ptr: Tensor, ids: Tensor, num_rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows of the graphs `ids` one after the other, the position of the graph of each row, the new ptr, and how far
    each graph moved. After the last real row come others that exist; they belong to the last graph.
    """
    start = ptr[ids]
    end = (ptr[ids + 1] - start).cumsum(0)
    new_ptr = torch.cat([end.new_zeros(1), end])
    offset = start - new_ptr[:-1]
    place = torch.arange(num_rows, device=ids.device)
    graph = torch.searchsorted(end, place, right=True).clamp_max(len(ids) - 1)
    rows = torch.where(place < new_ptr[-1], place + offset[graph], 0)
    return rows, graph, new_ptr, offset


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
        return found if data.y is None else found | {"y": as_ptr([len(_as_rows(data.y))])}
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


def _as_rows(y: Any) -> Tensor:
    try:
        rows = plain_tensor("y", torch.as_tensor(y))
    except (TypeError, ValueError, RuntimeError, LookupError) as error:
        reason = str(error) if isinstance(y, Tensor) else f"y must be a tensor or a number, not {shown(y)}."
        raise ValueError(reason) from None
    return rows.unsqueeze(0) if rows.dim() == 0 else rows


def _as_row_of_graph(graph: int, u: Any) -> Tensor | None:
    """`[1, K]` the features of a graph."""
    if u is None:
        return None
    rows = _as_rows(u)
    rows = rows.unsqueeze(0) if rows.dim() == 1 else rows
    if rows.dim() != 2 or len(rows) != 1 or not rows.numel() or rows.is_complex():
        raise ValueError(f"Graph {graph} has u of shape {list(rows.shape)}: give one row of numbers, [1, K].")
    return rows if rows.is_floating_point() else rows.double()


def _as_targets(y: Tensor, y_ptr: Tensor, node_ptr: Tensor, level: Level | None) -> tuple[Tensor, bool]:
    """The targets, a row for each graph or for each node, and whether it is for each node."""
    sizes, num_nodes = y_ptr.diff().cpu(), node_ptr.diff().cpu()
    fits_nodes, is_row = torch.equal(sizes, num_nodes), bool((sizes == 1).all())
    fits_graphs = is_row or (y.dim() == 1 and bool((sizes == sizes[0]).all()))
    if level is None and fits_nodes and fits_graphs and not is_row and len(sizes) > 1:
        raise ValueError(
            f"Every graph has {int(sizes[0])} nodes and {int(sizes[0])} numbers in y: say level='graph' if these are "
            "the targets of the graph, or level='node' if each is the target of a node."
        )
    if level != "graph" and fits_nodes and not (level is None and is_row):
        return y, True
    if level != "node" and fits_graphs:
        return y if is_row else y.view(len(sizes), int(sizes[0])), False
    wanted = "one row for each graph or one for each node" if level is None else f"one row for each {level}"
    raise ValueError(f"y must have {wanted}.")


def _check_choices(level: Level | None, ignore: Collection[str]) -> None:
    if level is not None:
        check_choice("level", level, ("graph", "node"))
    if isinstance(ignore, str):
        raise ValueError(f"ignore must be a list of names, such as [{ignore!r}], not {ignore!r}.")
    for name in as_list("ignore", ignore, "names") if not isinstance(ignore, set | frozenset) else ignore:
        check_choice("ignore", name, ("x", "edge_attr", "edge_weight", "u"))


def _refuse_weights(edge_weight: Tensor | None, owner: str) -> None:
    if weights_differ(edge_weight):
        raise ValueError(
            f"{owner} has edge_weight, which a GraphStore does not keep: make it a feature (edge_attr), or give "
            "ignore=['edge_weight']."
        )


def _concatenated(name: str, tensors: Sequence[Tensor | None], owner: str = "Graph") -> Tensor | None:
    given = [tensor for tensor in tensors if tensor is not None]
    if not given:
        return None
    if len(given) < len(tensors):
        missing = next(i for i, tensor in enumerate(tensors) if tensor is None)
        raise ValueError(f"{owner} {missing} has no {name}, but others do: give it to all, or to none.")
    for i, tensor in enumerate(given):
        if plain_tensor(f"{name} of {owner.lower()} {i}", tensor).dim() == 0:
            raise ValueError(f"{name} of {owner.lower()} {i} has no dimensions: give a row for each node or edge.")
    given = [tensor.long() if tensor.dtype in _UNSIGNED else tensor for tensor in given]
    like = next((tensor for tensor in given if tensor.numel()), given[0])
    rows = [tensor.reshape(0, *like.shape[1:]) if len(tensor) == 0 else tensor for tensor in given]
    for i, tensor in enumerate(rows):
        if tensor.shape[1:] != like.shape[1:]:
            raise ValueError(f"{owner} {i} has {name} of shape {list(tensor.shape)}, others have {list(like.shape)}.")
    return torch.cat(rows)
