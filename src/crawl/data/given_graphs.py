"""Graphs as people have them, in a list: networkx graphs, PyG data, molecules of rdkit and SMILES strings."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data as PyGData

from crawl.checks import as_list
from crawl.choices import Batches
from crawl.data.link_list import LinkList
from crawl.data.one_graph import OneGraph
from crawl.data.store import GraphStore
from crawl.data.symmetry import symmetric
from crawl.edge_lists import weights_differ
from crawl.tensor_checks import refuse_graph

if TYPE_CHECKING:
    from rdkit.Chem import Mol

GraphLike: TypeAlias = "nx.Graph | PyGData | Mol | str"
Graphs: TypeAlias = "Sequence[GraphLike] | NDArray[Any]"


def is_one_graph(graphs: Any) -> bool:
    """Whether this is a single graph, not a list of them. A batch of PyG is a list."""
    return is_molecule(graphs) or (isinstance(graphs, str | nx.Graph | PyGData) and not isinstance(graphs, PyGBatch))


def is_molecule(graph: Any) -> bool:
    """Whether this is a molecule, as SMILES or of rdkit, which need not be installed."""
    return isinstance(graph, str) or any(
        kind.__module__ == "rdkit.Chem.rdchem" and kind.__name__ == "Mol" for kind in type(graph).__mro__
    )


def are_molecules(graphs: Sequence[Any]) -> bool:
    """Whether graphs are molecules: then all must be."""
    return any(map(is_molecule, graphs))


def list_of(graphs: Graphs, name: str = "X") -> list[GraphLike]:
    """The graphs as a list, also those in a batch of PyG. Refuses a single one. A message calls them by the name."""
    if is_one_graph(graphs):
        raise ValueError("Give a list of graphs, not a single one.")
    return list(graphs.to_data_list()) if isinstance(graphs, PyGBatch) else as_list(name, graphs, "graphs")


def store_of(graphs: Sequence[GraphLike], *, undirected: bool = False) -> GraphStore:
    """The graphs, without targets; features have two dimensions, or are None where there are none.

    With `undirected`, edges get their reverse, where it is missing.
    """
    of_molecules = are_molecules(graphs)
    return _store([_as_data(i, graph, of_molecules) for i, graph in enumerate(graphs)], undirected)


def one_graph_of(
    graph: GraphLike, batches: Batches, owners: Tensor | None = None, *, undirected: bool = False
) -> OneGraph:
    """One graph, without targets, to be asked about these nodes; about all when None."""
    store = store_of([graph], undirected=undirected)
    owners = torch.arange(store.num_nodes) if owners is None else owners
    return OneGraph(store.joined(), owners, store.x, store.edge_attr, None, store.edge_index, batches)


def as_links(store: OneGraph) -> OneGraph:
    """The same graph as `from_links` reads it: without self-loops, and of parallel edges with the first alone.

    Refuses an edge without a reverse.
    """
    if store.graph.one_way is not None:
        u, v = store.graph.one_way
        raise ValueError(
            f"The edge from {u} to {v} has no reverse, and links have no direction: list both directions, as PyG's "
            "ToUndirected does."
        )
    given = PyGData(edge_index=store.edge_index, edge_attr=store.edge_attr, num_nodes=store.num_nodes)
    links = LinkList.of(given, undirected=False)
    plain = PyGData(x=store.x, edge_index=links.edge_index, edge_attr=links.edge_attr, num_nodes=store.num_nodes)
    return replace(one_graph_of(plain, store.batches, store.owners), x=store.x)


def store_of_readable(molecules: Sequence[Any]) -> tuple[GraphStore | None, NDArray[np.bool_]]:
    """The molecules that can be read, or None if there are none, and `[n]` whether each of the list can.

    None and NaN, as rdkit and pandas have them for what is missing, cannot be read. Graphs that are not molecules are
    refused if they cannot be used.
    """
    of_molecules = are_molecules(molecules) or all(map(_is_missing, molecules))
    is_read, found = np.zeros(len(molecules), dtype=bool), []
    for i, graph in enumerate(molecules):
        if of_molecules and _is_missing(graph):
            continue
        try:
            found.append(_as_data(i, graph, of_molecules))
            is_read[i] = True
        except ValueError:
            if not isinstance(graph, str):
                raise
    return _store(found) if found else None, is_read


def _is_missing(graph: Any) -> bool:
    return graph is None or (isinstance(graph, float) and graph != graph)


def _store(graphs: Sequence[PyGData], undirected: bool = False) -> GraphStore:
    like = next((data.edge_attr for data in graphs if data.edge_attr is not None), None)
    for data in graphs:  # a graph without edges needs no edge features
        if like is not None and data.edge_attr is None and data.num_edges == 0:
            data.edge_attr = like.new_empty(0, *like.shape[1:])
    store = GraphStore.from_graphs(graphs)
    store = symmetric(store) if undirected else store
    num_left, num_entered = (torch.bincount(ends, minlength=store.num_nodes) for ends in store.joined_edge_index)
    refuse_graph(
        (num_entered > 0) & (num_left == 0),
        store.node_ptr,
        "a node can be entered but not left, so a walk would end there; list its edges both ways",
    )
    return replace(store, x=_as_features("x", store.x), edge_attr=_as_features("edge_attr", store.edge_attr))


def _as_data(position: int, graph: Any, of_molecules: bool) -> PyGData:
    """One graph without its targets."""
    if of_molecules and is_molecule(graph):
        from crawl.data.smiles import graph_of, molecule_graph

        try:
            return molecule_graph(graph) if isinstance(graph, str) else graph_of(graph)
        except ValueError as error:
            raise ValueError(f"Graph {position}: {error}.") from None
    if of_molecules or not isinstance(graph, nx.Graph | PyGData):
        molecule = "a SMILES string or a molecule of rdkit"
        wanted = f"{molecule}, like the others" if of_molecules else f"a networkx graph, PyG Data, {molecule}"
        raise ValueError(f"Graph {position} must be {wanted}, not {type(graph).__name__}.")
    if isinstance(graph, PyGBatch):
        raise ValueError(f"Graph {position} is a batch of {graph.num_graphs} graphs: give batch.to_data_list().")
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
