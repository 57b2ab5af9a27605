"""From attributes of nodes or edges, as files hold them, to a tensor of numbers or of categories."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crawl.checks import shown
from crawl.nn.encoders import UNKNOWN, OneHot
from crawl.plain import structure

ATOM_CATEGORIES = (119, 5, 12, 12, 10, 6, 6, 2, 2)  # how many values each column of a molecule's `x` can take
BOND_CATEGORIES = (5, 6, 2)  # the same for its `edge_attr`
# What these columns are called in messages, and what their first category stands for.
ATOM_COLUMNS = (
    ("atomic number", 1),
    ("chirality", 0),
    ("degree", 0),
    ("formal charge", -5),
    ("number of hydrogens", 0),
    ("number of radical electrons", 0),
    ("hybridisation", 0),
    ("is aromatic", 0),
    ("is in a ring", 0),
)
BOND_COLUMNS = (("bond type", 0), ("stereo configuration", 0), ("is conjugated", 0))

_MOST_WORDS = 1000  # in one attribute; more are taken for names
MOST_INTEGERS = 100  # in one attribute; more are taken for quantities
_MOST_SHOWN = 5  # values in a message
_MEANT = {("atomic number", 119): "0 (a dummy atom)"}  # values of columns of molecules that stand for something else


@dataclass(frozen=True)
class Column:
    """What an attribute of nodes or edges is.

    Attributes:
        name: What the files call it.
        values: The values that occur, in the order of their numbers, if they are categories; None for numbers.
        width: How many numbers a value has; 1 for categories.
    """

    name: str
    values: tuple[str | int, ...] | None = None
    width: int = 1

    def __post_init__(self) -> None:
        values = self.values
        if values is not None and not any(values and all(isinstance(v, kind) for v in values) for kind in (str, int)):
            raise ValueError(f"The values of {self.name!r} must be words, or whole numbers, not {shown(self.values)}.")


@dataclass(frozen=True)
class Columns:
    """What the columns of `x`, `edge_attr` and `u` are. With these, other files are numbered in the same way.

    Attributes:
        nodes: The columns of `x`.
        edges: The columns of `edge_attr`.
        graphs: The first columns of `u`; words are one-hot there.
        descriptors: The names of the descriptors of molecules that follow in `u`.
    """

    nodes: tuple[Column, ...] = ()
    edges: tuple[Column, ...] = ()
    graphs: tuple[Column, ...] = ()
    descriptors: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, content: Any) -> Columns:
        """The columns written by `dataclasses.asdict`, perhaps through JSON. Refuses other content."""
        return structure(cls, content, "A list of columns")


class Unknown(Counter[tuple[str, str, Any]]):
    """How often values occur that a model has no category for: `node`, `edge` or `graph`, the column, and the value."""

    def add(self, owner: str, column: str, values: Iterable[Any]) -> None:
        """Count the values of nodes, edges or graphs (`owner` is `node`, `edge` or `graph`) in a column."""
        self.update((owner, column, value) for value in values)

    def __str__(self) -> str:
        """As in `'Xe' in element (2 nodes); 7, 8 in bond (1 edge)`."""
        counts: defaultdict[tuple[str, str], dict[Any, int]] = defaultdict(dict)
        for (owner, column, value), count in self.items():
            counts[owner, column][value] = count
        parts = []
        for (owner, column), found in counts.items():
            number = sum(found.values())
            words = [_MEANT.get((column, value), repr(value)) for value in sorted(found)]
            parts.append(f"{_first_of(words)} in {column} ({number} {owner}{'s' * (number > 1)})")
        return "; ".join(parts)


def listed(values: Sequence[Any], at_most: int = _MOST_SHOWN) -> str:
    """Values for a message, the first of them if there are many."""
    return _first_of(list(map(repr, values)), at_most)


def _first_of(words: Sequence[str], at_most: int = _MOST_SHOWN) -> str:
    return ", ".join(words[:at_most]) + (f", … ({len(words)} in all)" if len(words) > at_most else "")


def find_columns(attributes: Mapping[str, Sequence[Any]]) -> tuple[Column, ...]:
    """What each attribute is, from its values at every node or edge.

    Words, booleans and whole numbers are categories, in their order; other numbers, lists of numbers and whole
    numbers of more than 100 different values are numbers.
    """
    columns = []
    for name, values in attributes.items():
        kinds = {type(value) for value in values}
        distinct = set(values) if kinds <= {str, bool, int} else set()
        if kinds <= {str} or kinds <= {bool} or (kinds <= {int} and len(distinct) <= MOST_INTEGERS):
            if len(distinct) > _MOST_WORDS:
                raise ValueError(
                    f"Attribute {name!r} has {len(distinct)} different words, too many for categories: leave it out."
                )
            columns.append(Column(name, tuple(sorted(distinct))))
        else:
            columns.append(Column(name, width=_as_numbers(name, values).shape[1]))
    return tuple(columns)


def encode_columns(
    owner: str, attributes: Mapping[str, Sequence[Any]], columns: Sequence[Column], unknown: Unknown
) -> Tensor | None:
    """`[rows, C]` the features; None if there are no columns.

    Categories are numbered by their place in the column; where there are numbers, too, they become one-hot beside
    them. Values that a column does not have are counted in `unknown`; their category is `UNKNOWN`.
    """
    numbers: list[Tensor] = []
    codes: list[Tensor] = []
    sizes: list[int] = []
    for column in columns:
        values = attributes.get(column.name, ())
        if column.values is None:
            numbers.append(_as_numbers(column.name, values, column.width))
        else:
            codes.append(_as_codes(column, values, owner, unknown))
            sizes.append(len(column.values))
    categories = torch.stack(codes, dim=1) if codes else None
    if categories is None or not numbers:
        return torch.cat(numbers, dim=1) if numbers else categories
    return torch.cat([*numbers, OneHot(sizes)(categories, len(categories), numbers[0])], dim=1)


def category_sizes(columns: Sequence[Column]) -> tuple[int, ...]:
    """How many values each column takes; () if there are none, or numbers beside them."""
    sizes = tuple(len(column.values) for column in columns if column.values is not None)
    return sizes if len(sizes) == len(columns) else ()


def sizes_of_categories(name: str, features: Tensor, at_most: int) -> tuple[int, ...]:
    """How many values each column of integers from 0 takes. Refuses more than `at_most` in a column."""
    sizes = tuple(int(size) + 1 for size in features.amax(dim=0))
    if max(sizes) > at_most:
        raise ValueError(
            f"{name} holds integers up to {max(sizes) - 1}, too many for categories: make it float if they are numbers."
        )
    return sizes


def check_names(owner: str, names: Iterable[str], columns: Sequence[Column], num_rows: int) -> None:
    """Refuse other attributes than those of the columns, unless there are no nodes, or edges, to have them."""
    here, there = sorted(names), sorted(column.name for column in columns)
    if num_rows and here != there:
        raise ValueError(
            f"There are other features than in training: the {owner} attributes are "
            f"{listed(here) or 'none'} and were {listed(there) or 'none'}."
        )


def _as_codes(column: Column, values: Sequence[Any], owner: str, unknown: Unknown) -> Tensor:
    """`[rows]` the number of each value."""
    assert column.values is not None
    kind, words = (str, "words") if isinstance(column.values[0], str) else (int, "whole numbers")
    number_of = {value: i for i, value in enumerate(column.values)}
    for value in values:
        if not isinstance(value, kind):
            raise ValueError(f"Attribute {column.name!r} must hold {words} as in training, not {value!r}.")
    unknown.add(owner, column.name, (value for value in values if value not in number_of))
    return torch.tensor([number_of.get(value, UNKNOWN) for value in values], dtype=torch.long)


def _as_numbers(name: str, values: Sequence[Any], width: int | None = None) -> Tensor:
    """`[rows, width]` float32; of any width when None."""
    if not len(values):
        return torch.empty(0, width or 1)
    try:
        rows = torch.tensor(values, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError(f"Attribute {name!r} must be a number everywhere, or a word, or a list of numbers.") from None
    rows = rows.unsqueeze(1) if rows.dim() == 1 else rows
    if rows.dim() != 2 or not bool(rows.isfinite().all()):
        raise ValueError(f"Attribute {name!r} must hold finite numbers, or lists of them.")
    if width is not None and rows.shape[1] != width:
        raise ValueError(f"Attribute {name!r} has {rows.shape[1]} numbers, but had {width} in training.")
    return rows
