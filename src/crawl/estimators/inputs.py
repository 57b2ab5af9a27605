"""From networkx graphs, PyG data and SMILES strings to graphs with features, and from labels to classes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor
from torch_geometric.data import Data as PyGData

from crawl.checks import as_list, shown
from crawl.data.features import ATOM_CATEGORIES, BOND_CATEGORIES, sizes_of_categories
from crawl.data.store import GraphStore
from crawl.data.targets import as_numbers
from crawl.data.task import Level, Task
from crawl.edge_lists import weights_differ
from crawl.runs.features import refuse_graph

GraphLike: TypeAlias = "nx.Graph | PyGData | str"
Graphs: TypeAlias = "Sequence[GraphLike] | NDArray[Any]"
Array: TypeAlias = NDArray[np.float64]

_MOST_CATEGORIES = 1000  # in one column of integers; more are taken for a mistake


def numbers_of(y: Any) -> Tensor:
    """`[n]` or `[n, k]` finite numbers: float32, or float64 where float32 would not tell them apart."""
    if y is None:
        raise ValueError("A regressor requires y to be passed, but the target y is None.")
    try:
        given = np.array(y)
        targets = torch.from_numpy(given if given.dtype == np.int64 else np.array(y, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise ValueError("y must hold real numbers, one or a row of them for each graph.") from None
    if targets.dim() not in (1, 2) or targets.shape[1:] == (0,):
        raise ValueError(f"y must have one number or a row of numbers for each graph, not shape {list(targets.shape)}.")
    wrong = (~targets.float().isfinite()).nonzero()
    if wrong.numel():
        raise ValueError(f"y[{int(wrong[0, 0])}] is NaN or infinite: leave out this graph.")
    return as_numbers(targets)


def classes_of(y: Any, owner: str = "graph") -> tuple[NDArray[Any], Tensor]:
    """The classes in their order, and `[n]` the number of the class of each graph, or node."""
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None.")
    try:
        labels = column_or_1d(y, warn=True)
    except (TypeError, RuntimeError):  # not what scikit-learn says of a wrong shape
        raise ValueError(f"y must hold one class for each {owner}, a word or a number, not {shown(y)}.") from None
    for i, label in enumerate(labels):
        if label is None or label != label or label in (np.inf, -np.inf):
            raise ValueError(f"y[{i}] is {label}, which is not a class: leave out this {owner}.")
    try:
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:  # as of 1 and 'a', which have no order
        raise ValueError("y mixes classes of different kinds: give words, or give numbers.") from None
    if len(classes) < 2:
        raise ValueError(f"y holds one class only ({', '.join(map(str, classes))}): there is nothing to tell apart.")
    return classes, torch.from_numpy(codes.astype(np.int64))


def class_task(classes: NDArray[Any], level: Level = "graph") -> Task:
    """The task of telling classes apart."""
    is_binary = len(classes) == 2
    return Task(
        kind="binary" if is_binary else "multiclass",
        level=level,
        num_outputs=1 if is_binary else len(classes),
        metric="accuracy",
        class_names=tuple(map(str, classes)),
    )


def list_of(graphs: Graphs) -> list[GraphLike]:
    """The graphs as a list. Refuses a single one."""
    if isinstance(graphs, str | nx.Graph | PyGData):
        raise ValueError("Give a list of graphs, not a single one.")
    return as_list("X", graphs, "graphs")


def takes_smiles(graphs: Sequence[GraphLike]) -> bool:
    """Whether graphs are molecules, as SMILES."""
    return any(isinstance(graph, str) for graph in graphs)


def store_of(graphs: Sequence[GraphLike]) -> GraphStore:
    """The graphs, without targets; features have two dimensions, or are None where there are none."""
    has_smiles = takes_smiles(graphs)
    found = [_as_data(i, graph, has_smiles) for i, graph in enumerate(graphs)]
    like = next((data.edge_attr for data in found if data.edge_attr is not None), None)
    for data in found:  # a graph without edges needs no edge features
        if like is not None and data.edge_attr is None and data.num_edges == 0:
            data.edge_attr = like.new_empty(0, *like.shape[1:])
    store = GraphStore.from_graphs(found)
    num_left, num_entered = (torch.bincount(ends, minlength=store.num_nodes) for ends in store.joined_edge_index)
    refuse_graph(
        (num_entered > 0) & (num_left == 0),
        store.node_ptr,
        "a node can be entered but not left, so a walk would end there; list its edges both ways",
    )
    return replace(store, x=_as_features("x", store.x), edge_attr=_as_features("edge_attr", store.edge_attr))


def _as_data(position: int, graph: Any, takes_smiles: bool) -> PyGData:
    """One graph without its targets."""
    if takes_smiles and isinstance(graph, str):
        from crawl.data.smiles import molecule_graph

        try:
            return molecule_graph(graph)
        except ValueError as error:
            raise ValueError(f"Graph {position}: {error}.") from None
    if takes_smiles or not isinstance(graph, nx.Graph | PyGData):
        wanted = "a SMILES string like the others" if takes_smiles else "a networkx graph, PyG Data or a SMILES string"
        raise ValueError(f"Graph {position} must be {wanted}, not {type(graph).__name__}.")
    if isinstance(graph, nx.Graph):
        return _from_networkx(position, graph)
    _refuse_weights(position, "edge_weight", weights_differ(graph.edge_weight))
    data = copy.copy(graph)
    data.y = None
    return data


def _from_networkx(position: int, graph: nx.Graph) -> PyGData:
    """The graph with the attributes `x` of its nodes and `edge_attr` of its edges, if it has them."""
    weights = [weight for *_, weight in graph.edges(data="weight")]
    _refuse_weights(position, "weight", any(weight != weights[0] for weight in weights))
    index = {node: i for i, node in enumerate(graph.nodes)}
    arcs = [(index[u], index[v], value) for u, v, value in graph.edges(data="edge_attr")]
    if not graph.is_directed():
        arcs += [(v, u, value) for u, v, value in arcs if u != v]
    return PyGData(
        x=_attribute(position, "x", [value for _, value in graph.nodes(data="x")]),
        edge_index=torch.tensor([arc[:2] for arc in arcs], dtype=torch.long).reshape(-1, 2).t(),
        edge_attr=_attribute(position, "edge_attr", [arc[2] for arc in arcs]),
        num_nodes=len(index),
    )


def _refuse_weights(position: int, name: str, differ: bool) -> None:
    """Refuse weights of edges, which are not used; if all are equal, nothing is lost."""
    if differ:
        raise ValueError(
            f"Graph {position}: its edges have different weights ({name}), which are not used; make them a feature "
            "(edge_attr), or take them away."
        )


def _attribute(position: int, name: str, values: list[Any]) -> Tensor | None:
    """`[rows, C]` the values, which are numbers or lists of numbers; None if there are none."""
    if all(value is None for value in values):
        return None
    try:
        rows = np.array(values)
        if rows.dtype.kind not in "biuf" or rows.ndim > 2:
            raise TypeError
    except (TypeError, ValueError):
        owner = "node" if name == "x" else "edge"
        raise ValueError(
            f"Graph {position}: attribute {name!r} must be a number, or a list of as many numbers, at every {owner}."
        ) from None
    return torch.from_numpy(rows.reshape(len(rows), -1))


def _as_features(name: str, features: Tensor | None) -> Tensor | None:
    """`[rows, C]` numbers; None where there are none."""
    if features is None or features.numel() == 0:
        return None
    if features.dim() > 2:
        raise ValueError(f"{name} must have a row of numbers for each node or edge, not shape {list(features.shape)}.")
    features = features.unsqueeze(1) if features.dim() == 1 else features
    return features.float() if features.dtype == torch.bool else features


def categories_in(name: str, features: Tensor | None, is_smiles: bool) -> tuple[int, ...]:
    """How many values each column takes if they are categories: integers from 0 on."""
    if is_smiles:
        return ATOM_CATEGORIES if name == "x" else BOND_CATEGORIES
    if features is None or features.is_floating_point() or bool((features < 0).any()):
        return ()
    return sizes_of_categories(name, features, _MOST_CATEGORIES)
