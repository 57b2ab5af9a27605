"""Edge lists that callers give, of tensors, PyG or networkx: checked, as `Graph` takes them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crawl.checks import MAX_COUNT, check_type, shown, truth, whole_number
from crawl.tensor_checks import holds_integers, in_memory, plain_tensor

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data


def checked_edge_list(
    edge_index: Tensor, num_nodes: int | None, edge_weight: Tensor | None, batch: Tensor | None, num_graphs: int | None
) -> tuple[Tensor, int, Tensor, Tensor, Tensor | None]:
    """The arguments of `Graph.from_edge_index`: `edge_index` int64, `num_nodes`, `batch` and `graph_ptr` int32, and
    `edge_weight` float64, all on one device. Refuses what is not a graph, with the remedy."""
    edge_index = checked_edge_index(edge_index).long()
    if batch is not None and not holds_integers(batch):
        raise ValueError("batch must be a tensor of integers: the graph of each node.")
    num_nodes = _checked_num_nodes(edge_index, num_nodes, batch)
    batch, graph_ptr = _checked_batch(batch, num_nodes, num_graphs, edge_index)
    if edge_weight is not None:
        edge_weight = _checked_edge_weight(edge_weight, edge_index.shape[1]).to(edge_index.device)
    return edge_index, num_nodes, batch, graph_ptr, edge_weight


def arguments_of_data(data: Data, weighted: bool | None) -> dict[str, Any]:
    """The arguments of `Graph.from_edge_index` for a PyG `Data` or `Batch`; see `Graph.from_data`."""
    if isinstance(data, type) or not hasattr(data, "edge_index"):
        raise ValueError(
            f"data must be a PyG Data or Batch, not {type(data).__name__}; "
            "call data.to_homogeneous() first if it is a HeteroData."
        )
    if weighted is not None:
        weighted = truth("weighted", weighted)
    if data.edge_index is None and ("adj_t" in data or "adj" in data):
        raise ValueError("data has an adjacency matrix but no edge_index: set data.edge_index.")
    edge_index = edge_index_of(data)
    edge_weight = getattr(data, "edge_weight", None)
    if weighted and edge_weight is None:
        raise ValueError("weighted=True needs data.edge_weight, a positive number for each edge.")
    if weighted is None and weights_differ(edge_weight):
        raise ValueError(
            "data has edge_weight: pass weighted=True to walk in proportion to it, or weighted=False to ignore it."
        )
    return {
        "edge_index": edge_index,
        "num_nodes": num_nodes_of(data),
        "edge_weight": edge_weight if weighted else None,
        "batch": data.batch,
        "num_graphs": None if data.batch is None else getattr(data, "num_graphs", None),
    }


def arguments_of_networkx(graph: nx.Graph, weight: str | None) -> dict[str, Any]:
    """The arguments of `Graph.from_edge_index` for a networkx graph; see `Graph.from_networkx`."""
    if isinstance(graph, type) or not hasattr(graph, "nodes") or not hasattr(graph, "is_directed"):
        raise ValueError(f"graph must be a networkx graph, not {type(graph).__name__}.")
    index = {node: i for i, node in enumerate(graph.nodes)}
    edges = [(index[u], index[v]) for u, v in graph.edges()]
    edge_weight = None
    if weight is not None:
        check_type("weight", weight, str, "the name of an edge attribute")
        values = [_networkx_weight(edge, weight, value) for *edge, value in graph.edges(data=weight)]
        edge_weight = torch.tensor(values, dtype=torch.float64)
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return {"edge_index": edge_index, "num_nodes": len(index), "edge_weight": edge_weight}


def weights_differ(edge_weight: Any) -> bool:
    """Whether edge weights make some steps likelier than others."""
    if edge_weight is None:
        return False
    weights = plain_tensor("edge_weight", edge_weight).flatten()
    return bool((weights != weights[:1]).any())


def refuse_weights(data: Data) -> None:
    """Refuses edge weights, for a task on one graph: its walks do not use them."""
    if weights_differ(getattr(data, "edge_weight", None)):
        raise ValueError(
            "data has edge_weight, which is not used: make it a feature (edge_attr), or take it away "
            "(data.edge_weight = None)."
        )


def edge_index_of(data: Data) -> Tensor:
    """The edges of one graph or of a collated data set, which may have none."""
    if data.edge_index is not None:
        return checked_edge_index(data.edge_index)
    tensors = (value for value in (data.x, data.batch, data.pos) if isinstance(value, Tensor))
    return torch.empty(2, 0, dtype=torch.long, device=next((value.device for value in tensors), None))


def num_nodes_of(data: Data) -> int | None:
    """The number of nodes of a graph whose edges were checked; None if nothing tells it."""
    for name, value in (("x", data.x), ("batch", data.batch), ("pos", data.pos)):
        if isinstance(value, Tensor) and plain_tensor(name, value).dim() == 0:
            raise ValueError(f"{name} must have a row for each node, but it has no dimensions: give {name}.view(1).")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if nothing else tells it, PyG takes the largest id, as we do, but warns
        return data.num_nodes  # type: ignore[no-any-return]


def checked_edge_index(edge_index: Tensor) -> Tensor:
    """`[2, E]` int32, int64, not copied, or else int64. Refuses what cannot be edges; ids are not looked at."""
    edge_index = plain_tensor("edge_index", edge_index)
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        if edge_index.numel() == 0:
            return torch.empty(2, 0, dtype=torch.long, device=edge_index.device)
        hint = " Transpose it." if edge_index.dim() == 2 and edge_index.shape[1] == 2 else ""
        raise ValueError(f"edge_index must have shape [2, num_edges], not {list(edge_index.shape)}.{hint}")
    if edge_index.numel() == 0:  # torch.tensor([[], []]) is float; without edges that is not a mistake
        return edge_index.long()
    if not holds_integers(edge_index):
        raise ValueError(
            f"edge_index must hold integers, not {edge_index.dtype}; call edge_index.long() if it holds ids."
        )
    return edge_index if edge_index.dtype == torch.int32 else edge_index.long()


def _checked_num_nodes(edge_index: Tensor, num_nodes: int | None, batch: Tensor | None) -> int:
    low, high = (int(edge_index.min()), int(edge_index.max())) if edge_index.numel() else (0, -1)
    if low < 0:
        raise ValueError(f"edge_index holds the negative node id {low}; ids run from 0 to num_nodes - 1.")
    if num_nodes is None:
        num_nodes = high + 1 if batch is None else batch.numel()
    num_nodes = whole_number("num_nodes", num_nodes, 0, MAX_COUNT - 1)
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
    num_graphs = whole_number("num_graphs", found if num_graphs is None else num_graphs, 0, MAX_COUNT)
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


def checked_graph_ids(graph_ids: Tensor, num_graphs: int) -> Tensor:
    """`[G]` int64. Refuses what is not a number from 0 to 2^31 - 1 for each graph; a GPU is not waited for."""
    if not holds_integers(graph_ids) or graph_ids.shape != (num_graphs,):
        raise ValueError(f"graph_ids must be a tensor of {num_graphs} integers, one for each graph.")
    if graph_ids.device.type == "cpu" and bool(((graph_ids < 0) | (graph_ids.long() > MAX_COUNT)).any()):
        raise ValueError(f"graph_ids must be from 0 to {MAX_COUNT}.")
    return graph_ids.long()
