"""Which nodes of one graph are meant, and what is known of them: masks, numbers or names, and a target for each.

Rows come in the order of nodes that are named, or in that of the graph, or with the names of their nodes: a dict, or a
Series of pandas by its index. What can be read in two ways is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data as PyGData

from crawl.checks import as_list, shown
from crawl.data.nodes import masks_of
from crawl.estimators.inputs import weights_of
from crawl.tensor_checks import as_ids

OneGraphLike: TypeAlias = "nx.Graph | PyGData"
Nodes: TypeAlias = "Tensor | NDArray[Any] | Sequence[Any] | None"


def chosen_masks(graph: OneGraphLike, y: Any, nodes: Nodes, fold: int) -> dict[str, Tensor] | None:
    """The masks of PyG data in a fold, if nodes are named neither by themselves nor in `y`.

    Refuses targets of some nodes only: nothing says of which.
    """
    if not isinstance(graph, PyGData) or nodes is not None or isinstance(y, Mapping):
        if fold != 0:
            raise ValueError(f"fold={shown(fold)} chooses a column of the masks of PyG data, which are not used here.")
        return None
    masks, y = masks_of(graph, fold), one_column("y", y)
    if masks is not None and y is not None and len(_as_array(y)) != graph.num_nodes:
        raise ValueError(
            f"y has {len(_as_array(y))} targets for a graph of {graph.num_nodes} nodes with masks: give one for each "
            "node, or say in nodes which they are."
        )
    return masks


def node_ids(graph: OneGraphLike, nodes: Nodes) -> Tensor:
    """`[M]` the numbers of nodes: from a mask or numbers for PyG data, from a mask or the nodes of a networkx graph."""
    num_nodes = _num_nodes(graph)
    mask = _mask(nodes)
    if mask is not None:
        if mask.shape != (num_nodes,):
            raise ValueError(f"A mask of nodes must have {num_nodes} booleans, not {shown(nodes)}.")
        named = _named("nodes", nodes, graph)
        ids = mask.nonzero().flatten()
        return ids if named is None else named[ids].sort().values
    if isinstance(graph, nx.Graph):
        place_of = {node: place for place, node in enumerate(graph.nodes)}
        names = as_list("nodes", nodes, "nodes of the graph")
        try:
            return torch.tensor([place_of[name] for name in names], dtype=torch.long)
        except (KeyError, TypeError):
            wrong = next(name for name in names if not _is_in(name, place_of))
            raise ValueError(f"There is no node {shown(wrong)} in the graph.") from None
    ids = as_ids("nodes", nodes, "numbers of nodes").cpu()
    wrong_ids = ids[(ids < 0) | (ids >= num_nodes)]
    if wrong_ids.numel():
        raise ValueError(f"There is no node {int(wrong_ids[0])}: the graph has nodes 0 to {num_nodes - 1}.")
    return ids


def labelled(graph: OneGraphLike, y: Any, nodes: Nodes) -> tuple[Tensor, NDArray[Any], Tensor]:
    """`[M]` the numbers of the nodes whose target is known, each once, their targets, and the nodes that were given."""
    if isinstance(y, Mapping) and nodes is not None:
        raise ValueError("y names its nodes itself: leave out nodes.")
    num_nodes, y = _num_nodes(graph), one_column("y", y)
    owners = torch.arange(num_nodes) if nodes is None else node_ids(graph, nodes)
    _refuse_repeated("nodes", graph, owners)
    named = None if y is None else _named("y", y, graph, None if nodes is None else owners)
    if y is None:
        named = torch.arange(num_nodes)
        y = _own_targets(graph)
    elif named is not None and nodes is None:
        owners = named
    values = _as_array(list(y.values()) if isinstance(y, Mapping) else y)
    if named is None and len(values) == num_nodes and _is_of_graph("y", owners, num_nodes):
        named = torch.arange(num_nodes)
    if named is not None:
        values = values[_places("y", graph, named, owners)]
    if len(values) != len(owners):
        raise ValueError(f"y has {len(values)} targets for {len(owners)} nodes of a graph with {num_nodes} nodes.")
    is_known = np.array([_is_known(value) for value in values], dtype=bool)
    known = values[is_known]
    are_words = {isinstance(value, str | bytes) for value in known}
    if known.dtype == object and len(are_words) == 1:  # of both, numpy would make words
        known = _as_column(np.array(known.tolist()))
    return owners[torch.from_numpy(is_known)], known, owners


def weights_at(weights: Any, graph: OneGraphLike, owners: Tensor, given: Tensor) -> Tensor:
    """`[M]` the weights of the nodes `owners`, from one for each node that was given, or for each node of the graph."""
    num_nodes, weights = _num_nodes(graph), one_column("sample_weight", weights)
    is_whole = torch.equal(given, torch.arange(num_nodes))
    named = _named("sample_weight", weights, graph, None if is_whole else given)
    rows = list(weights.values()) if isinstance(weights, Mapping) else weights
    rows = rows.tolist() if isinstance(rows, Tensor) else rows
    if len(shape := np.shape(rows)) == 2 and shape[1] == 1:
        rows = np.reshape(rows, -1)
    if named is None and np.shape(rows) == (num_nodes,) and _is_of_graph("sample_weight", given, num_nodes):
        named = torch.arange(num_nodes)
    named = given if named is None else named
    owner = "node" if len(named) == num_nodes else f"node that is given, or {num_nodes}, one for each of the graph"
    return weights_of(rows, len(named), owner)[_places("sample_weight", graph, named, owners)]


def check_graph(graph: Any) -> None:
    """Refuses what is not one graph."""
    if not isinstance(graph, nx.Graph | PyGData):
        raise ValueError(f"Give one graph, a networkx graph or PyG Data, not {shown(graph)}.")


def without_reverse(graph: OneGraphLike, one_way: tuple[int, int]) -> tuple[str, str]:
    """Which edge has no reverse, by the names of its ends, and what to do about it."""
    u, v = names_of(graph, torch.tensor(one_way))
    remedy = "give graph.to_undirected()" if isinstance(graph, nx.Graph) else "list both directions"
    return f"edge from {shown(u)} to {shown(v)} has no reverse", remedy


def names_of(graph: OneGraphLike, ids: Tensor) -> list[Any]:
    """The nodes of a graph with these numbers; the numbers themselves for PyG data."""
    names = list(graph.nodes) if isinstance(graph, nx.Graph) else range(int(graph.num_nodes or 0))
    return [names[i] for i in ids.tolist()]


def one_column(what: str, rows: Any) -> Any:
    """The column of a table of pandas with one, as a Series; anything else as it is. Refuses a table with several."""
    if not (hasattr(rows, "columns") and hasattr(rows, "iloc")):
        return rows
    if len(rows.columns) != 1:
        raise ValueError(
            f"{what} is a table with {len(rows.columns)} columns, and one is needed: give {what}[name] of one of them."
        )
    return rows.iloc[:, 0]


def _num_nodes(graph: OneGraphLike) -> int:
    return graph.number_of_nodes() if isinstance(graph, nx.Graph) else int(graph.num_nodes or 0)


def _own_targets(graph: OneGraphLike) -> Any:
    """The targets that are in a graph, one for each node."""
    if isinstance(graph, nx.Graph):
        return [value for _, value in graph.nodes(data="y")]
    if graph.y is None:
        raise ValueError("The data have no y: give the targets of nodes as y.")
    if len(values := _as_array(graph.y)) != graph.num_nodes:
        raise ValueError(f"The y of the data has {len(values)} targets for a graph of {graph.num_nodes} nodes.")
    return values


def _mask(nodes: Nodes) -> Tensor | None:
    """`[N]` the booleans of a mask; None for other nodes. True is 1 to a dict, so a mask would name nodes 0 and 1.

    Refuses uint8, which torch takes for a mask and everybody else for numbers.
    """
    dtype = getattr(nodes, "dtype", None)
    if str(dtype).lower() in ("torch.uint8", "uint8"):
        raise ValueError(
            f"nodes are of {dtype}, which may be a mask or numbers: call .bool() for a mask, or .long() for numbers of "
            "nodes (of an array, .astype(bool) or .astype(int))."
        )
    if isinstance(nodes, Tensor):
        return nodes.cpu() if dtype == torch.bool else None
    if isinstance(nodes, np.ndarray) and nodes.dtype == np.bool_:
        return torch.from_numpy(np.array(nodes))
    if getattr(dtype, "kind", "O") not in "bO":  # an array of numbers, or of words
        return None
    values: Any = nodes.tolist() if nodes is not None and hasattr(nodes, "tolist") else nodes
    are_booleans = isinstance(values, list | tuple) and all(isinstance(value, bool | np.bool_) for value in values)
    return torch.tensor(values, dtype=torch.bool) if are_booleans and values else None


def _named(what: str, rows: Any, graph: OneGraphLike, asked: Tensor | None = None) -> Tensor | None:
    """`[n]` the numbers of the nodes that rows belong to by their names, each once; None for rows in some order.

    Names are the keys of a dict, or the index of a Series. An index 0, 1, … says nothing where nodes are asked for, or
    if these are no names of nodes. Of PyG data, any other index must be the nodes that are asked for, in their order.
    """
    if isinstance(rows, Mapping):
        return node_ids(graph, list(rows))
    index = getattr(rows, "index", None)
    if index is None or callable(index) or not hasattr(rows, "to_dict"):
        return None
    index, num_nodes = list(index), _num_nodes(graph)
    is_numbered = index == list(range(len(index)))
    if not isinstance(graph, nx.Graph):
        if is_numbered or (asked is not None and index == asked.tolist()):
            return asked if not is_numbered else None
        raise ValueError(
            f"The index of {what} is not 0 to {len(index) - 1}, nor the nodes in their order: call .sort_index() if "
            f"it holds numbers of nodes, or give {what}.to_numpy() if the rows are in the order of the nodes."
        )
    unknown = [name for name in index if not _is_in(name, graph)]
    if is_numbered and not unknown and len(index) == num_nodes and index != list(graph):
        raise ValueError(
            f"The index of {what} is 0 to {num_nodes - 1}, and the nodes of the graph are these numbers in another "
            f"order: give {what}.to_dict() if the index names nodes, or {what}.to_numpy() if rows are in their order."
        )
    if is_numbered and (unknown or asked is not None or len(index) == num_nodes):
        return None
    if unknown:
        raise ValueError(
            f"There is no node {shown(unknown[0])} in the graph, but it is in the index of {what}: give "
            f"{what}.to_numpy() if the rows are in the order of the nodes."
        )
    ids = node_ids(graph, index)
    _refuse_repeated(f"the index of {what}", graph, ids)
    return ids


def _is_of_graph(what: str, asked: Tensor, num_nodes: int) -> bool:
    """Whether a row for each node of the graph is in its order, and not in that of the nodes that are asked for.

    Refuses to guess where these are all nodes in another order.
    """
    if len(asked) == num_nodes and not torch.equal(asked, torch.arange(num_nodes)):
        raise ValueError(
            f"{what} has {num_nodes} rows and nodes are named in another order than that of the graph, so {what} may "
            f"be in either: give {what} as a dict from nodes, or leave out nodes if it is in the order of the graph."
        )
    return True


def _places(what: str, graph: OneGraphLike, named: Tensor, asked: Tensor) -> NDArray[np.int64]:
    """`[M]` the rows of the nodes that are asked for, of those that are named. Refuses one that is not."""
    place = torch.full((_num_nodes(graph),), -1)
    place[named] = torch.arange(len(named))
    found = place[asked]
    missing = asked[found < 0]
    if missing.numel():
        name = shown(names_of(graph, missing[:1])[0])
        raise ValueError(f"{what} says nothing of node {name}: give a row for each node, or leave it out.")
    rows: NDArray[np.int64] = found.numpy()
    return rows


def _refuse_repeated(what: str, graph: OneGraphLike, ids: Tensor) -> None:
    if len(ids.unique()) < len(ids):  # type: ignore[no-untyped-call]
        raise ValueError(f"A node is named twice in {what}: name each once.")


def _as_array(y: Any) -> NDArray[Any]:
    """`[n]` targets, of which some may be None or NaN."""
    if isinstance(y, Tensor):
        values: NDArray[Any] = y.detach().cpu().numpy()
    elif isinstance(y, np.ndarray):
        values = y
    else:
        given = as_list("y", y, "targets of nodes")
        values = np.empty(len(given), dtype=object)
        values[:] = given
    return _as_column(values)


def _as_column(values: NDArray[Any]) -> NDArray[Any]:
    """`[n]` the values, also of one column. Refuses several for a node."""
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise ValueError(f"y must hold one target for each node, a word or a number, not shape {list(values.shape)}.")
    return values


def _is_known(value: Any) -> bool:
    try:
        return value is not None and bool(value == value)
    except TypeError:  # of pandas' NA
        return False
    except (ValueError, RuntimeError):  # of an array or a tensor of several, which is refused later
        return True


def _is_in(name: Any, places: nx.Graph | Mapping[Any, int]) -> bool:
    try:
        return name in places
    except TypeError:  # a list, say, which cannot be a node
        return False
