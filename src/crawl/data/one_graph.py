"""One graph with targets of its nodes, or of pairs of them: a target is to a training what a graph is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, get_args

import torch
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import check_choice, check_type, shown
from crawl.choices import Batches as Batches
from crawl.data.store import GraphStore, check_weights_of_rows
from crawl.graph import Graph
from crawl.graph_files.opened import OpenedFile
from crawl.tensor_checks import as_device, as_ids, holds_integers, plain_tensor


@dataclass(frozen=True, eq=False)
class OneGraph:
    """One graph with features, and targets of nodes or of pairs of nodes.

    Attributes:
        graph: What walks run on, and what bits are about.
        owners: `[M]` the nodes, or `[M, 2]` the pairs of nodes, that have targets.
        x: `[N, C]` node features, or None. They may be mapped from a file: rows are read when they are needed.
        edge_attr: `[E, C]` edge features, or None.
        y: `[M]` classes or `[M, K]` numbers or labels (NaN where one is missing), or None.
        edge_index: `[2, E]` the edges; needed for batches of the full graph.
        batches: What a batch of targets is. `full` has the whole graph in it, and walks from all of its nodes, so that
            a batch should have all targets. `closed` has the walks of its targets, and of each target the nodes that
            these visit: what a target gets as its answer depends on no other target.
        sample_weight: How much each target counts in training, as in `GraphStore`; None if all count alike.
        file: The file that features are mapped from, where the graph is not mapped from it, too; or None.
    """

    graph: Graph
    owners: Tensor
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    edge_index: Tensor | None = None
    batches: Batches = "closed"
    sample_weight: Tensor | None = field(default=None, kw_only=True)
    file: OpenedFile | None = field(default=None, kw_only=True)
    _stay: ClassVar[tuple[str, ...]] = ("owners",)  # on the CPU

    def __post_init__(self) -> None:
        check_type("graph", self.graph, Graph, "call Graph.from_data(data)")
        if self.graph.num_graphs != 1:
            raise ValueError(f"graph must be one graph, not a batch of {self.graph.num_graphs}.")
        check_choice("batches", self.batches, get_args(Batches))
        owners = plain_tensor("owners", self.owners)
        if not holds_integers(owners) or owners.dim() not in (1, 2) or (owners.dim() == 2 and owners.shape[1] != 2):
            raise ValueError(f"owners must be nodes, [M] integers, or pairs of nodes, [M, 2], not {shown(owners)}.")
        object.__setattr__(self, "owners", owners.long().cpu())
        if self.batches == "full":
            _check_full(self.graph, self.edge_index)
        expected = {"x": self.num_nodes, "edge_attr": self.num_edges, "y": len(self), "sample_weight": len(self)}
        for name, num_rows in expected.items():
            tensor = getattr(self, name)
            if tensor is not None and (plain_tensor(name, tensor).dim() == 0 or tensor.shape[0] != num_rows):
                raise ValueError(f"{name} must have {num_rows} entries, but its shape is {list(tensor.shape)}.")

    def __len__(self) -> int:
        return self.owners.shape[0]

    @property
    def num_nodes(self) -> int:
        """The number of nodes (N)."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """The number of edges (E)."""
        return self.graph.num_edges

    @property
    def device(self) -> torch.device:
        """The device of the graph."""
        return self.graph.device

    @property
    def node_ptr(self) -> Tensor:
        """Where the nodes of its only graph begin and end, as in `GraphStore`."""
        return torch.tensor([0, self.num_nodes])

    @property
    def edge_ptr(self) -> Tensor:
        """Where the edges of its only graph begin and end, as in `GraphStore`."""
        return torch.tensor([0, self.num_edges])

    @property
    def num_bytes(self) -> int:
        """The memory that graph and features take."""
        tensors = [*vars(self.graph).values(), self.x, self.edge_attr, self.edge_index]
        return sum(each.numel() * each.element_size() for each in tensors if isinstance(each, Tensor))

    @property
    def are_pairs(self) -> bool:
        """Whether targets belong to pairs of nodes."""
        return self.owners.dim() == 2

    def to(self, device: torch.device | str) -> Self:
        """The same on another device; `owners` stay on the CPU."""
        device = as_device(device)
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        moved: dict[str, Any] = {name: value.to(device) for name, value in tensors.items() if name not in self._stay}
        return replace(self, graph=self.graph.to(device), **moved)

    def checked(self) -> Self:
        """The same, for what comes from outside.

        Raises:
            ValueError: If an owner is not a node, `x` or `edge_attr` is not finite, `y` is infinite, or a weight is
                below 0 or not finite.
        """
        self.check_owners()
        for name in ("x", "edge_attr", "y"):
            values = getattr(self, name)
            if values is None or not values.is_floating_point():
                continue
            num_rows = max(1, _NUMBERS // max(values[:1].numel(), 1))
            for first in range(0, len(values), num_rows):
                rows = values[first : first + num_rows]
                is_wrong = rows.isinf() if name == "y" else ~rows.float().isfinite()
                if bool(is_wrong.any()):
                    row = int(is_wrong.nonzero()[0, 0])
                    value = rows[row][is_wrong[row]].flatten()[0].item()
                    raise ValueError(f"{name} has {value} in row {first + row}: give finite numbers.")
        check_weights_of_rows(self.sample_weight)
        return self

    def check_owners(self) -> None:
        """Refuses an owner that is not a node."""
        wrong = self.owners[(self.owners < 0) | (self.owners >= self.num_nodes)]
        if wrong.numel():
            raise ValueError(f"There is no node {int(wrong[0])}: the graph has nodes 0 to {self.num_nodes - 1}.")

    def batch(self, ids: Tensor) -> Data:
        """The full graph as PyG data, with the targets `ids`: their rows in `y`, their nodes in `target_nodes`, or
        their pairs in `edge_label_index`, `[2, M]`.
        """
        ids = self.checked_ids(ids)
        owners = self.owners[ids].to(self.device)
        return Data(
            x=self.x,
            edge_index=self.edge_index,
            edge_attr=self.edge_attr,
            num_nodes=self.num_nodes,
            **self._rows_of(ids),
            **({"edge_label_index": owners.t()} if self.are_pairs else {"target_nodes": owners}),
        )

    def subset(self, ids: Tensor) -> OneGraph:
        """The same graph with the targets `ids` only, in this order."""
        ids = self.checked_ids(ids)
        return replace(self, owners=self.owners[ids], **self._rows_of(ids))

    def _rows_of(self, ids: Tensor) -> dict[str, Any]:
        """Targets and their weights, as far as there are any."""
        rows = {"y": self.y, "sample_weight": self.sample_weight}
        return {name: values[ids.to(values.device)] for name, values in rows.items() if values is not None}

    def with_owners(self, owners: Tensor) -> OneGraph:
        """The same graph to be asked about other nodes, `[M]`, or pairs, `[M, 2]`, whose targets are not known."""
        graph, features = self.graph, (self.x, self.edge_attr)
        how: Any = {"edge_index": self.edge_index, "batches": self.batches, "file": self.file}
        return OneGraph(graph, owners, *features, **how).checked()

    def check_unchanged(self) -> None:
        """Refuse a graph whose file was changed since it was opened, as `Graph.check_unchanged` does."""
        self.graph.check_unchanged()
        if self.file is not None:
            self.file.check_unchanged()

    def checked_ids(self, ids: Tensor) -> Tensor:
        """The ids of targets as int64 on the CPU. Refuses those that do not exist."""
        ids = as_ids("ids", ids, "target ids").cpu()
        wrong = ids[(ids < 0) | (ids >= len(self))]
        if wrong.numel():
            raise ValueError(f"There is no target {int(wrong[0])}: ids go from 0 to {len(self) - 1}.")
        return ids

    def __repr__(self) -> str:
        owners = "pairs" if self.are_pairs else "nodes"
        return f"{type(self).__name__}({self.graph}, {len(self)} {owners} with targets, batches={self.batches!r})"


def _check_full(graph: Graph, edge_index: Tensor | None) -> None:
    """Refuses a graph that does not lead where `edge_index` does, which batches of the full graph are made of."""
    if edge_index is None:
        raise ValueError("Batches of the full graph need edge_index.")
    edge_index = plain_tensor("edge_index", edge_index)
    if graph.is_weighted:
        raise ValueError("Batches of the full graph have no weights of edges: use batches='closed', or leave them out.")
    if edge_index.shape != (2, graph.num_edges) or graph.num_arcs != graph.num_edges:
        raise ValueError(
            f"Batches of the full graph are made of edge_index, of shape {list(edge_index.shape)}, where the graph has "
            f"{graph.num_arcs} arcs: list both directions of each edge in edge_index, and make the graph of that."
        )
    edge, degree = graph.edge_id.long(), graph.rowptr.diff()
    source = torch.repeat_interleave(degree, output_size=graph.num_arcs)
    same = (edge_index[0][edge] == source) & (edge_index[1][edge] == graph.col)
    if not bool(same.all()):
        raise ValueError("The graph and edge_index have other edges: make the graph of edge_index.")


Store = GraphStore | OneGraph
_NUMBERS = 2**22  # are checked at a time, since features may be mapped from a file
