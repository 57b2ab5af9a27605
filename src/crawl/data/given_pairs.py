"""Pairs of nodes as people have them: in tensors, arrays and lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crawl.checks import as_list, shown
from crawl.tensor_checks import holds_integers

Pairs: TypeAlias = "Tensor | NDArray[Any] | Sequence[Any]"


def pair_ids(pairs: Pairs) -> Tensor:
    """`[n, 2]` the numbers of the nodes of each pair, as they are given. Refuses a node with itself."""
    is_array = isinstance(pairs, Tensor) or (isinstance(pairs, np.ndarray) and pairs.dtype.kind in "bif")
    rows = torch.as_tensor(pairs) if is_array else _numbers(rows_of_two(pairs))
    if not holds_integers(rows) or rows.dim() != 2 or rows.shape[1] != 2:
        hint = " Of edge_label_index, give the transpose." if rows.dim() == 2 and rows.shape[0] == 2 else ""
        raise ValueError(f"Pairs must be numbers of nodes, [n, 2] integers, not {shown(rows)}.{hint}")
    return of_two_nodes(rows.long().cpu())


def of_two_nodes(ids: Tensor) -> Tensor:
    """The same pairs. Refuses a node with itself."""
    same = (ids[:, 0] == ids[:, 1]).nonzero()
    if same.numel():
        raise ValueError(f"A link is between two different nodes, but pairs[{int(same[0])}] names one twice.")
    return ids


def rows_of_two(pairs: Pairs) -> list[Sequence[Any]]:
    """The pairs as a list, each of two things."""
    is_array = isinstance(pairs, Tensor | np.ndarray)
    rows: list[Any] = pairs.tolist() if is_array else as_list("pairs", pairs, "pairs of nodes")  # type: ignore[union-attr]
    for i, row in enumerate(rows if isinstance(rows, list) else [rows]):
        if not isinstance(row, tuple | list | np.ndarray | Tensor) or len(row) != 2:
            raise ValueError(f"pairs[{i}] must be two nodes of the graph, not {shown(row)}.")
    return rows


def _numbers(rows: list[Sequence[Any]]) -> Tensor:
    """`[n, 2]` the numbers of nodes in rows of two."""
    for i, row in enumerate(rows):
        for end in row:
            is_number = isinstance(end, int | np.integer) and not isinstance(end, bool)
            if not is_number and not (isinstance(end, Tensor) and end.dim() == 0 and holds_integers(end)):
                raise ValueError(f"pairs[{i}] must be two numbers of nodes, not {shown(row)}.")
            if not -(2**63) <= int(end) < 2**63:
                raise ValueError(f"There is no node {shown(int(end))}.")
    return torch.tensor([[int(end) for end in row] for row in rows], dtype=torch.long).view(-1, 2)
