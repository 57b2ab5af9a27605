"""From attributes of nodes or edges, as files hold them, to a tensor of numbers or of categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ATOM_CATEGORIES = (119, 5, 12, 12, 10, 6, 6, 2, 2)  # how many values each column of a molecule's `x` can take
BOND_CATEGORIES = (5, 6, 2)  # the same for its `edge_attr`

_MOST_WORDS = 1000  # in one attribute; more are taken for names
_MOST_INTEGERS = 100  # in one attribute; more are taken for quantities


def encode_columns(columns: Mapping[str, Sequence[Any]]) -> tuple[Tensor | None, tuple[int, ...]]:
    """The features, and how many values each column takes if they are categories.

    Words, truth values and whole numbers are categories, in their order; other numbers, lists of numbers and whole
    numbers of more than 100 different values are numbers. If there are both, categories become unit vectors beside the
    numbers.

    Args:
        columns: For each attribute, its value at every node or edge.

    Raises:
        ValueError: If an attribute is something else, or has so many different words that they must be names.
    """
    numbers: list[Tensor] = []
    codes: list[Tensor] = []
    sizes: list[int] = []
    for name, values in columns.items():
        kinds = {type(value) for value in values}
        distinct = set() if kinds & {list, tuple} else set(values)
        if kinds <= {str} or kinds <= {bool} or (kinds <= {int} and len(distinct) <= _MOST_INTEGERS):
            if len(distinct) > _MOST_WORDS:
                raise ValueError(
                    f"Attribute {name!r} has {len(distinct)} different words, too many for categories: leave it out."
                )
            number_of = {value: i for i, value in enumerate(sorted(distinct))}
            codes.append(torch.tensor([number_of[value] for value in values]))
            sizes.append(len(distinct))
        else:
            numbers.append(_as_numbers(name, values))
    return combine(
        torch.cat(numbers, dim=1) if numbers else None, torch.stack(codes, dim=1) if codes else None, tuple(sizes)
    )


def encode_integers(labels: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """`[rows, K]` the rank of each integer among the different ones of its column, and how many there are."""
    ranked = [column.unique(return_inverse=True) for column in labels.unbind(1)]  # type: ignore[no-untyped-call]
    return torch.stack([ranks for _, ranks in ranked], dim=1), tuple(len(values) for values, _ in ranked)


def combine(
    numbers: Tensor | None, codes: Tensor | None, sizes: tuple[int, ...]
) -> tuple[Tensor | None, tuple[int, ...]]:
    """Numbers with categories beside them, as unit vectors; one of the two as it is, if the other is None."""
    if codes is None:
        return numbers, ()
    if numbers is None:
        return codes, sizes
    hot = [F.one_hot(column, size).float() for column, size in zip(codes.unbind(1), sizes, strict=True)]
    return torch.cat([numbers, *hot], dim=1), ()


def _as_numbers(name: str, values: Sequence[Any]) -> Tensor:
    try:
        rows = torch.tensor(values, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"Attribute {name!r} must be a number everywhere, or a word, or a list of numbers.") from None
    rows = rows.unsqueeze(1) if rows.dim() == 1 else rows
    if rows.dim() != 2 or not bool(rows.isfinite().all()):
        raise ValueError(f"Attribute {name!r} must hold finite numbers, or lists of them.")
    return rows
