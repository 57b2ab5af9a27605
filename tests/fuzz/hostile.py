"""Values that do not belong where they are put: from a pool, or made from a good value."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData

INTEGERS = (0, -1, 1, 2, 3, 7, 2**15, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63))
HUGE = (10**18, 10**400, -(10**400), 10**5000)  # the last has more digits than Python will print
FLOATS = (0.0, -0.5, 0.5, 1.0, 1.5, 1e-320, 1e38, 1e39, 1e308, float("nan"), float("inf"), float("-inf"))
WORDS = (
    "",
    "a",
    "1",
    "0.5",
    "nan",
    "inf",
    "mean",
    "sum",
    "auto",
    "cpu",
    "cuda",
    "meta",
    "cpu:7",
    "None",
    "é\u0000",
    "x" * 5000,
)
_DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32),
    *(torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.float8_e4m3fn),
)


def hostile(rng: random.Random, value: Any) -> Any:
    """A value in place of `value`: made from it, or one from the pool."""
    if rng.random() < 0.55:
        changed = _changed(rng, value)
        if changed is not None:
            return changed
    return from_pool(rng)


def from_pool(rng: random.Random) -> Any:
    """Any value at all."""
    return rng.choice(rng.choice(_POOLS))(rng)


def _nested() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


def _deep() -> list[Any]:
    outer: list[Any] = []
    for _ in range(3000):
        outer = [outer]
    return outer


Maker = Callable[[random.Random], Any]

_SCALARS: tuple[Maker, ...] = (
    lambda rng: None,
    lambda rng: rng.random() < 0.5,
    lambda rng: rng.choice(INTEGERS),
    lambda rng: rng.choice(INTEGERS),
    lambda rng: rng.choice(HUGE),
    lambda rng: rng.choice(FLOATS),
    lambda rng: rng.choice(WORDS),
    lambda rng: rng.choice((b"a", bytearray(b"a"), 1j, Decimal("0.5"), Decimal("NaN"), Fraction(1, 2), Fraction(3))),
    lambda rng: rng.choice((object(), int, torch.float32, torch.device("cpu"), len, Ellipsis, slice(2), Path("nope"))),
    lambda rng: rng.choice(
        (np.int64(3), np.uint8(200), np.float32("nan"), np.float64(0.5), np.bool_(True), np.str_("a"))
    ),
)
_COLLECTIONS: tuple[Maker, ...] = (
    lambda rng: rng.choice(([], (), {}, set(), frozenset(), range(0), range(3), iter([]), "")),
    lambda rng: rng.choice(([1], [1.5], ["a"], [None], [True], [[1, 2], [3]], [[[]]], [1, "a", None], [0, 1, 2])),
    lambda rng: rng.choice((_nested(), _deep(), {"a": 1}, {1, 2}, {1: 2}, (i for i in range(3)), map(str, [1]))),
    lambda rng: rng.choice(([10**400], [-1], [2**63], [float("nan")], [0, 0], [torch.tensor(1)], [np.int64(1)])),
    lambda rng: np.array(rng.choice((1, [], [1, 2], [[0, 1], [1, 0]], [["a"]], [1.5, float("nan")], [True], [1j]))),
    lambda rng: np.array(rng.choice(([None, 1], [object()], [{}])), dtype=object),
)
_TENSORS: tuple[Maker, ...] = (
    lambda rng: torch.tensor(rng.choice((0, 1, -1, 2**40, 0.5, float("nan"), True, 1j))),
    lambda rng: torch.tensor(rng.choice(([], [[]], [[], []], [[[]]]))),
    lambda rng: torch.tensor([[0, 1], [1, 0]]).to(rng.choice(_DTYPES)),
    lambda rng: torch.tensor([0, 1, 2]).to(rng.choice(_DTYPES)),
    lambda rng: torch.tensor(rng.choice(([-1, 0], [2**40], [float("nan"), 1.0], [float("inf")], [[1.5, 2.0]]))),
    lambda rng: torch.empty(rng.choice(((2, 4), (0,), (3,), (2, 0), (4, 2))), device="meta"),
    lambda rng: rng.choice((torch.eye(2).to_sparse(), torch.eye(3).to_sparse_csr(), torch.eye(2).long().to_sparse())),
    lambda rng: torch.rand(rng.choice(((2, 2), (3,))), requires_grad=True),
    lambda rng: rng.choice((torch.zeros(1).expand(4), torch.arange(12).view(3, 4).t(), torch.arange(8)[::2])),
    lambda rng: torch.nn.Parameter(torch.zeros(2, 2)),
    lambda rng: torch.quantize_per_tensor(torch.rand(2, 2), 0.1, 0, torch.qint8),
    lambda rng: EdgeIndex([[0, 1], [1, 0]], sparse_size=(2, 2)),
    lambda rng: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
)


def _odd_networkx(rng: random.Random) -> nx.Graph:
    graph = rng.choice((nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph))()
    names = rng.choice(([0, 1, 2], ["a", "b", 1], [(0, 1), None.__class__, 2.5], [2, 0, 1]))
    graph.add_nodes_from(names)
    for _ in range(rng.randrange(5)):
        graph.add_edge(rng.choice(names), rng.choice(names))
    for *_, attributes in graph.edges(data=True):
        if rng.random() < 0.8:
            weight = rng.choice((1, 0, -1, 10**400, float("nan"), "a", None, [1], 1j, torch.tensor(1.0), np.float32(2)))
            attributes[rng.choice(("weight", "edge_attr"))] = weight
    for _, attributes in graph.nodes(data=True):
        if rng.random() < 0.5:
            attributes["x"] = rng.choice((1, "a", None, [1, 2], [1, [2]], 10**400, float("inf"), 1j, {}))
    return graph


def _odd_data(rng: random.Random) -> Any:
    hetero = HeteroData()
    hetero["a"].x = torch.zeros(2, 1)
    hetero["a", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 0]])
    edges = torch.tensor([[0, 1], [1, 0]])
    one = Data(edge_index=edges, num_nodes=2, y=torch.tensor([1.0]))
    return rng.choice(
        (
            Data(),
            hetero,
            one,
            [one, hetero],
            [one, Data()],
            Batch.from_data_list([one, one]),
            Data(x="a"),
            Data(edge_index=[[0], [1]]),
            Data(edge_index=edges, num_nodes=rng.choice((-1, 10**400, 1.5, "a", 1))),
            Data(edge_index=edges, x=torch.tensor(1.0), y=torch.tensor(1.0)),
            Data(adj_t=torch.eye(2).to_sparse_csr(), num_nodes=2),
            Data(edge_index=edges, edge_weight=torch.tensor([1.0, 2.0]), num_nodes=2),
        )
    )


_POOLS: tuple[tuple[Maker, ...], ...] = (_SCALARS, _SCALARS, _COLLECTIONS, _TENSORS, (_odd_networkx,), (_odd_data,))


def _changed(rng: random.Random, value: Any) -> Any:
    """A wrong value made from a good one; None if there is no recipe for its type."""
    if isinstance(value, Tensor):
        return _changed_tensor(rng, value)
    if isinstance(value, bool):
        return rng.choice((int(value), str(value), None, 2, float("nan"), torch.tensor(value), [value], "yes"))
    if isinstance(value, int | float):
        near = (-value, value + 0.5, str(value), float(value), value * 10**6, bool(value), [value], (value, value))
        return rng.choice(
            (*near, rng.choice(INTEGERS), rng.choice(HUGE), rng.choice(FLOATS), torch.tensor(value), np.array(value))
        )
    if isinstance(value, str | Path):
        text = str(value)
        return rng.choice(
            (
                text[:-1],
                text.upper(),
                text + "\0",
                text.encode(),
                [text],
                "",
                None,
                10**400,
                Path(text) / "x",
                text * 200,
            )
        )
    if isinstance(value, Data):
        return _changed_data(rng, value)
    if isinstance(value, nx.Graph):
        return _odd_networkx(rng)
    if isinstance(value, list | tuple):
        return _changed_list(rng, list(value))
    if isinstance(value, dict) and value:
        other = copy.copy(value)
        key = rng.choice(list(other))
        other[key] = hostile(rng, other[key])
        return other
    return None


def _changed_tensor(rng: random.Random, value: Tensor) -> Any:
    def written(number: float) -> Tensor:
        other = value.clone()
        if other.numel():
            other.view(-1)[rng.randrange(other.numel())] = number
        return other

    number = (
        rng.choice((-1, 1, 10**6, 2**15, float("nan"), float("inf"), 1e300, -1e39))
        if value.is_floating_point()
        else rng.choice((-1, 10**5, 10**6))
    )
    if value.dtype == torch.int64 and rng.random() < 0.2:
        number = 2**40
    makers: tuple[Callable[[], Any], ...] = (
        lambda: value.to(rng.choice(_DTYPES)),
        lambda: value.to(rng.choice(_DTYPES)),
        lambda: written(number) if value.dtype not in (torch.bool, torch.int16) else value[:0],
        lambda: written(number) if value.dtype not in (torch.bool, torch.int16) else value[:0],
        lambda: value.to("meta"),
        lambda: value.to_sparse(),
        lambda: value.float().requires_grad_(),
        lambda: value.unsqueeze(rng.randrange(value.dim() + 1)),
        lambda: value.flatten(),
        lambda: value[:0],
        lambda: value[:1],
        lambda: value[0] if value.dim() and len(value) else value,
        lambda: torch.cat([value, value]) if value.dim() else value,
        lambda: value.t() if value.dim() == 2 else value.flip(0) if value.dim() else value,
        lambda: value.repeat_interleave(2, dim=0)[::2] if value.dim() else value,
        lambda: value.sum(),
        lambda: value.numpy(),
        lambda: value.tolist(),
        lambda: set(value.flatten().tolist()),
        lambda: value.view(-1)[torch.randperm(value.numel())].view(value.shape),
    )
    try:
        return rng.choice(makers)()
    except (RuntimeError, TypeError):  # not every dtype can do everything
        return None


def _changed_data(rng: random.Random, data: Data) -> Any:
    other = copy.copy(data)
    name = rng.choice(("x", "edge_index", "edge_attr", "y", "num_nodes", "batch", "edge_weight", "adj_t", "pos"))
    action = rng.random()
    if action < 0.15 and name in other:
        del other[name]
    elif action < 0.9:
        other[name] = hostile(rng, getattr(other, name, None) if name in other or name == "num_nodes" else None)
    else:
        return rng.choice(([data], [data, None], data.to_dict(), HeteroData(), Data, data.edge_index))
    return other


def _changed_list(rng: random.Random, values: list[Any]) -> Any:
    if not values or rng.random() < 0.25:
        shapes = (
            tuple(values),
            iter(values),
            values[:1],
            values * 2,
            values[::-1],
            [values],
            dict(enumerate(values)),
            values[:0],
        )
        return rng.choice((*shapes, values[0] if values else None, np.array(len(values))))
    place = rng.randrange(len(values))
    return [*values[:place], hostile(rng, values[place]), *values[place + 1 :]]
