"""The graph that walks run on: one CSR of one graph or of a whole batch, checked once.

A row of the CSR is a node, its entries are *arcs*: the directed steps a walk may take. Every arc remembers the column
of the caller's `edge_index` it came from, so walks speak of edges in the caller's own order.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crawl.checks import check_type, shown, truth, whole_number
from crawl.tensor_checks import as_device, holds_integers, in_memory, plain_tensor

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Graph:
    """A validated graph, or a batch of graphs side by side, in compressed rows. Memory is O(N + E).

    Build one with `from_edge_index`, `from_data` or `from_networkx`; the constructor itself checks nothing.
    What the unusual cases mean:

    * **Order** of the edges does not matter. Arcs are kept sorted by (source, target, column).
    * **Parallel edges** are separate arcs: a step picks an arc, so a doubled edge is twice as likely.
      Call `torch_geometric.utils.coalesce` first where that is not wanted.
    * **Self-loops** are steps from a node to itself.
    * **Directed graphs**: walks follow the direction of the edges. A node that can be entered but not left is refused,
      because a walk would end there; pass `undirected=True` to let every edge be walked both ways.
    * **Isolated nodes**, empty graphs and graphs without edges are fine: no walk starts there.

    Attributes:
        rowptr: `[N + 1]` int32; the arcs of node v are `rowptr[v]:rowptr[v + 1]`.
        col: `[A]` int32; the node each arc leads to, ascending within a row.
        edge_id: `[A]` int32; the column of the given `edge_index` each arc came from.
        batch: `[N]` int32; the graph each node belongs to.
        graph_ptr: `[G + 1]` int32; the nodes of graph g are `graph_ptr[g]:graph_ptr[g + 1]`.
        num_edges: The number of columns of the given `edge_index`.
        cum_weight: `[A]` int64 or None; running sums, within a row, of the edge weights as integers.
    """

    rowptr: Tensor
    col: Tensor
    edge_id: Tensor
    batch: Tensor
    graph_ptr: Tensor
    num_edges: int
    cum_weight: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """The number of nodes (N), isolated ones included."""
        return self.rowptr.numel() - 1

    @property
    def num_arcs(self) -> int:
        """The number of directed steps a walk may take (A)."""
        return self.col.numel()

    @property
    def num_graphs(self) -> int:
        """The number of graphs in the batch (G)."""
        return self.graph_ptr.numel() - 1

    @property
    def device(self) -> torch.device:
        """The device all tensors are on."""
        return self.rowptr.device

    @property
    def is_weighted(self) -> bool:
        """Whether steps are drawn in proportion to edge weights."""
        return self.cum_weight is not None

    @property
    def degree(self) -> Tensor:
        """`[N]` int32; the number of arcs that leave each node."""
        return self.rowptr[1:] - self.rowptr[:-1]

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device."""
        device = as_device(device)
        moved: dict[str, Any] = {k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def node_keys(self, graph_ids: Tensor | None = None) -> Tensor:
        """`[N]` int64 keys for `sample_walks`: the same for a node of a graph whichever batch the graph is in.

        Args:
            graph_ids: `[G]` a number from 0 to 2^31 - 1 for each graph, such as its index in the data set; the position
                in the batch when None. On a GPU the range is not checked, which would wait for the device.
        """
        if graph_ids is None:
            graph_ids = torch.arange(self.num_graphs, device=self.device)
        if not holds_integers(graph_ids) or graph_ids.shape != (self.num_graphs,):
            raise ValueError(f"graph_ids must be a tensor of {self.num_graphs} integers, one for each graph.")
        graph_ids = graph_ids.long()
        if graph_ids.device.type == "cpu" and bool(((graph_ids < 0) | (graph_ids > _MAX_INT32)).any()):
            raise ValueError(f"graph_ids must lie between 0 and {_MAX_INT32}.")
        local = torch.arange(self.num_nodes, device=self.device) - self.graph_ptr[self.batch].long()
        return (graph_ids.to(self.device)[self.batch] << 32) | local

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        num_nodes: int | None = None,
        *,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        num_graphs: int | None = None,
        undirected: bool = False,
    ) -> Graph:
        """The graph of an edge list.

        Args:
            edge_index: `[2, E]` integers: source and target of each edge. An undirected graph lists both directions,
                as in PyG, or each edge once together with `undirected=True`.
            num_nodes: The number of nodes; one more than the largest id (or the length of `batch`) when None.
            edge_weight: `[E]` positive weights; a step takes an edge in proportion to its weight, in multiples of
                about 2^-31 of the sum at its node, so that a far smaller weight still counts as one of these.
            batch: `[N]` the graph of each node, ascending; all one graph when None.
            num_graphs: The number of graphs; needed only if the last ones have no nodes.
            undirected: Let every edge be walked both ways. Both arcs carry the id of the one given column; where a
                direction is listed already, nothing is added.

        Raises:
            ValueError: For anything that is not a graph; the message says what to do.
        """
        edge_index, undirected = _checked_edge_index(edge_index), truth("undirected", undirected)
        device = edge_index.device
        if batch is not None and not holds_integers(batch):
            raise ValueError("batch must be a tensor of integers: the graph of each node.")
        num_nodes = _checked_num_nodes(edge_index, num_nodes, batch)
        batch, graph_ptr = _checked_batch(batch, num_nodes, num_graphs, edge_index)
        num_edges = edge_index.shape[1]
        if edge_weight is not None:
            edge_weight = _checked_edge_weight(edge_weight, num_edges).to(device)

        source, target = edge_index[0], edge_index[1]
        edge_id = torch.arange(num_edges, device=device, dtype=torch.int32)
        order_key = source * num_nodes + target
        if undirected:
            reverse_key = target * num_nodes + source
            missing = ~torch.isin(reverse_key, order_key)
            source, target = torch.cat([source, target[missing]]), torch.cat([target, source[missing]])
            edge_id = torch.cat([edge_id, edge_id[missing]])
            order_key = torch.cat([order_key, reverse_key[missing]])
            del reverse_key, missing
            if source.numel() > _MAX_INT32:
                raise ValueError(f"The graph has {source.numel()} arcs; at most {_MAX_INT32} are supported.")
        if bool((order_key[1:] < order_key[:-1]).any()):
            order = torch.sort(order_key, stable=True).indices
            source, target, edge_id = source[order], target[order], edge_id[order]
            del order
        del order_key

        with in_memory(f"A graph of {num_nodes} nodes"):
            rowptr = torch.zeros(num_nodes + 1, device=device, dtype=torch.int64)
            torch.cumsum(torch.bincount(source, minlength=num_nodes), 0, out=rowptr[1:])
        dead_end = (rowptr[1:] == rowptr[:-1])[target]
        if bool(dead_end.any()):
            node = int(target[dead_end][0])
            raise ValueError(
                f"Node {node} can be entered but not left, so a walk would end there. "
                "Pass undirected=True, make the data undirected (PyG: ToUndirected), or add a self-loop to such nodes."
            )
        cum_weight = None
        if edge_weight is not None:
            cum_weight = _integer_weight_sums(edge_weight[edge_id], source, rowptr)
        return cls(
            rowptr=rowptr.int(),
            col=target.int(),
            edge_id=edge_id,
            batch=batch,
            graph_ptr=graph_ptr,
            num_edges=num_edges,
            cum_weight=cum_weight,
        )

    @classmethod
    def from_data(cls, data: Data, *, weighted: bool | None = None, undirected: bool = False) -> Graph:
        """The graph of a PyG `Data` or `Batch`, which is only read.

        A missing `edge_index` means no edges; a missing `batch` one graph.

        Args:
            data: The graph, or graphs.
            weighted: Whether a step takes an edge in proportion to its `edge_weight`; False ignores the weights. When
                None, weights that are not all equal are refused, so that they are not lost unnoticed.
            undirected: Let every edge be walked both ways; see `from_edge_index`.

        Raises:
            ValueError: For anything that is not a graph, and for weights of which nothing is said; the message says
                what to do.
        """
        if isinstance(data, type) or not hasattr(data, "edge_index"):
            raise ValueError(
                f"data must be a PyG Data or Batch, not {type(data).__name__}; "
                "call data.to_homogeneous() first if it is a HeteroData."
            )
        if weighted is not None:
            weighted = truth("weighted", weighted)
        given = {"x": data.x, "batch": data.batch, "pos": data.pos}
        per_node = [plain_tensor(name, value) for name, value in given.items() if isinstance(value, Tensor)]
        if any(value.dim() == 0 for value in per_node):
            raise ValueError("x, pos and batch of data must have a row for each node, but one has no dimensions.")
        edge_index = None if data.edge_index is None else _checked_edge_index(data.edge_index)
        if edge_index is None:
            if "adj_t" in data or "adj" in data:
                raise ValueError("data has an adjacency matrix but no edge_index: set data.edge_index.")
            edge_index = torch.empty(2, 0, dtype=torch.long, device=per_node[0].device if per_node else None)
        edge_weight = getattr(data, "edge_weight", None)
        if weighted and edge_weight is None:
            raise ValueError("weighted=True needs data.edge_weight, a positive number for each edge.")
        if weighted is None and weights_differ(edge_weight):
            raise ValueError(
                "data has edge_weight: pass weighted=True to walk in proportion to it, or weighted=False to ignore it."
            )
        if "num_nodes" in data or per_node:
            num_nodes = data.num_nodes
        else:  # if nothing else tells it, PyG takes the largest id, as we do, but with a warning
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                num_nodes = data.num_nodes
        return cls.from_edge_index(
            edge_index,
            num_nodes=num_nodes,
            edge_weight=edge_weight if weighted else None,
            batch=data.batch,
            num_graphs=None if data.batch is None else getattr(data, "num_graphs", None),
            undirected=undirected,
        )

    @classmethod
    def from_networkx(cls, graph: nx.Graph, *, weight: str | None = None, undirected: bool = False) -> Graph:
        """The graph of a networkx graph of any kind.

        Nodes are numbered in the order of `graph.nodes`, edges in that of `graph.edges`.

        Args:
            graph: An undirected graph is walked both ways along each edge; a directed one along the arrows.
            weight: The edge attribute that holds the weights; unweighted when None.
            undirected: Let the edges of a directed graph be walked both ways, too.

        Raises:
            ValueError: If a walk could not be continued, or for weights that are none; the message says what to do.
        """
        if isinstance(graph, type) or not hasattr(graph, "nodes") or not hasattr(graph, "is_directed"):
            raise ValueError(f"graph must be a networkx graph, not {type(graph).__name__}.")
        undirected = truth("undirected", undirected)
        index = {node: i for i, node in enumerate(graph.nodes)}
        edges = [(index[u], index[v]) for u, v in graph.edges()]
        edge_weight = None
        if weight is not None:
            check_type("weight", weight, str, "the name of an edge attribute")
            values = [_networkx_weight(edge, weight, value) for *edge, value in graph.edges(data=weight)]
            edge_weight = torch.tensor(values, dtype=torch.float64)
        return cls.from_edge_index(
            torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(),
            num_nodes=len(index),
            edge_weight=edge_weight,
            undirected=undirected or not graph.is_directed(),
        )

    def __repr__(self) -> str:
        weighted = ", weighted" if self.is_weighted else ""
        return (
            f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges}, num_graphs={self.num_graphs}{weighted}, "
            f"device='{self.device}')"
        )


def weights_differ(edge_weight: Any) -> bool:
    """Whether there are weights of edges that make some steps likelier than others."""
    if edge_weight is None:
        return False
    weights = plain_tensor("edge_weight", edge_weight).flatten()
    return bool((weights != weights[:1]).any())


def _checked_edge_index(edge_index: Tensor) -> Tensor:
    edge_index = plain_tensor("edge_index", edge_index)
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        if edge_index.numel() == 0:
            return torch.empty(2, 0, dtype=torch.long, device=edge_index.device)
        hint = " Transpose it." if edge_index.dim() == 2 and edge_index.shape[1] == 2 else ""
        raise ValueError(f"edge_index must have shape [2, num_edges], not {list(edge_index.shape)}.{hint}")
    if edge_index.numel() == 0:  # torch.tensor([[], []]) is float; with no edge in it, that is no mistake
        return edge_index.long()
    if not holds_integers(edge_index):
        raise ValueError(
            f"edge_index must hold integers, not {edge_index.dtype}; call edge_index.long() if it holds ids."
        )
    if edge_index.shape[1] > _MAX_INT32:
        raise ValueError(f"The graph has {edge_index.shape[1]} edges; at most {_MAX_INT32} are supported.")
    return edge_index.long()


def _checked_num_nodes(edge_index: Tensor, num_nodes: int | None, batch: Tensor | None) -> int:
    low, high = (int(edge_index.min()), int(edge_index.max())) if edge_index.numel() else (0, -1)
    if low < 0:
        raise ValueError(f"edge_index holds the negative node id {low}; ids run from 0 to num_nodes - 1.")
    if num_nodes is None:
        num_nodes = high + 1 if batch is None else batch.numel()
    num_nodes = whole_number("num_nodes", num_nodes, 0, _MAX_INT32 - 1)
    if high >= num_nodes:
        raise ValueError(f"edge_index holds node id {high}, but there are only {num_nodes} nodes; ids start at 0.")
    return num_nodes


def _checked_batch(
    batch: Tensor | None, num_nodes: int, num_graphs: int | None, edge_index: Tensor
) -> tuple[Tensor, Tensor]:
    device = edge_index.device
    if batch is None:
        if num_graphs is not None and not (isinstance(num_graphs, int) and num_graphs == 1):
            raise ValueError(f"num_graphs={shown(num_graphs)} needs `batch`, the graph of each node.")
        with in_memory(f"A graph of {num_nodes} nodes"):
            zeros = torch.zeros(num_nodes, device=device, dtype=torch.int32)
        return zeros, torch.tensor([0, num_nodes], device=device, dtype=torch.int32)
    if batch.shape != (num_nodes,):
        raise ValueError(f"batch must have one entry for each of the {num_nodes} nodes, not {list(batch.shape)}.")
    batch = batch.to(device).long()
    if num_nodes and (bool((batch[1:] < batch[:-1]).any()) or int(batch[0]) < 0):
        raise ValueError("batch must be ascending and start at 0 or above: sort the nodes by graph first.")
    found = int(batch[-1]) + 1 if num_nodes else 0
    num_graphs = whole_number("num_graphs", found if num_graphs is None else num_graphs, 0, _MAX_INT32)
    if found > num_graphs:
        raise ValueError(f"batch names graph {found - 1}, but num_graphs is {num_graphs}; numbers start at 0.")
    if edge_index.numel() and bool((batch[edge_index[0]] != batch[edge_index[1]]).any()):
        raise ValueError("An edge connects two graphs of the batch; every edge must stay inside one graph.")
    with in_memory(f"A batch of {num_graphs} graphs"):
        graph_ptr = torch.zeros(num_graphs + 1, device=device, dtype=torch.int64)
        torch.cumsum(torch.bincount(batch, minlength=num_graphs), 0, out=graph_ptr[1:])
    return batch.int(), graph_ptr.int()


def _checked_edge_weight(edge_weight: Tensor, num_edges: int) -> Tensor:
    edge_weight = plain_tensor("edge_weight", edge_weight)
    if edge_weight.shape != (num_edges,):
        raise ValueError(f"edge_weight must have shape [{num_edges}], not {list(edge_weight.shape)}.")
    edge_weight = edge_weight.detach().double()
    if not bool((edge_weight > 0).all() & edge_weight.isfinite().all()):
        raise ValueError("edge_weight must be positive and finite; leave out edges that must not be walked.")
    return edge_weight


def _networkx_weight(edge: list[Any], name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        problem = (
            f"has no attribute {name!r}"
            if value is None
            else f"has {name}={shown(value)}, which is not a number in range"
        )
        raise ValueError(f"Edge {tuple(edge)} {problem}; give every edge a positive weight.") from None


def _integer_weight_sums(weight: Tensor, source: Tensor, rowptr: Tensor) -> Tensor:
    """Running sums of the weights within each row, as integers below 2^31, so that every device draws the same arcs.

    A weight is rounded to 2^-31 of the largest in its row; then, in integers, it gets its share of the row's sum, and
    at least 1, so that no edge is lost. Nothing here depends on the order of a floating-point sum.
    """

    def sums_within_rows(values: Tensor) -> Tensor:
        running = torch.cumsum(values, 0)
        before_row = torch.cat([running.new_zeros(1), running])[rowptr[:-1]]
        return running - before_row[source]

    degree = rowptr[1:] - rowptr[:-1]
    largest = torch.zeros(degree.numel(), device=weight.device, dtype=torch.float64)
    largest.scatter_reduce_(0, source, weight, "amax")
    rounded = (weight / largest[source] * 2**31).round().long()
    total = sums_within_rows(rounded)[rowptr[source + 1] - 1]
    share = rounded * (_MAX_INT32 - degree[source]) // total  # the product is below 2^62
    return sums_within_rows(share.clamp_min(1))
