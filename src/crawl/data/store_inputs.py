"""What a store is made of, as PyG's graphs have it: features and targets, checked and brought into rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from crawl.checks import as_list, check_choice, shown
from crawl.data.task import Level
from crawl.edge_lists import weights_differ
from crawl.tensor_checks import plain_tensor

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # of which torch only knows how to convert them


def as_rows(y: Any) -> Tensor:
    """Targets with a dimension of rows; a number alone is one row. Refuses what are not numbers."""
    try:
        rows = plain_tensor("y", torch.as_tensor(y))
    except (TypeError, ValueError, RuntimeError, LookupError) as error:
        reason = str(error) if isinstance(y, Tensor) else f"y must be a tensor or a number, not {shown(y)}."
        raise ValueError(reason) from None
    return rows.unsqueeze(0) if rows.dim() == 0 else rows


def as_row_of_graph(graph: int, u: Any) -> Tensor | None:
    """`[1, K]` the features of a graph."""
    if u is None:
        return None
    rows = as_rows(u)
    rows = rows.unsqueeze(0) if rows.dim() == 1 else rows
    if rows.dim() != 2 or len(rows) != 1 or not rows.numel() or rows.is_complex():
        raise ValueError(f"Graph {graph} has u of shape {list(rows.shape)}: give one row of numbers, [1, K].")
    return rows if rows.is_floating_point() else rows.double()


def as_targets(y: Tensor, y_ptr: Tensor, node_ptr: Tensor, level: Level | None) -> tuple[Tensor, bool]:
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


def check_choices(level: Level | None, ignore: Collection[str]) -> None:
    """Refuses levels and attributes to ignore that there are not."""
    if level is not None:
        check_choice("level", level, ("graph", "node"))
    if isinstance(ignore, str):
        raise ValueError(f"ignore must be a list of names, such as [{ignore!r}], not {ignore!r}.")
    for name in as_list("ignore", ignore, "names") if not isinstance(ignore, set | frozenset) else ignore:
        check_choice("ignore", name, ("x", "edge_attr", "edge_weight", "u"))


def refuse_weights(edge_weight: Tensor | None, owner: str) -> None:
    """Refuses weights of edges that differ."""
    if weights_differ(edge_weight):
        raise ValueError(
            f"{owner} has edge_weight, which a GraphStore does not keep: make it a feature (edge_attr), or give "
            "ignore=['edge_weight']."
        )


def concatenated(name: str, tensors: Sequence[Tensor | None], owner: str = "Graph") -> Tensor | None:
    """The rows of all, None if nobody has any. Refuses rows that some lack, or of different shapes."""
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
