"""Checks of tensors, arrays and devices that callers give.

All of them look at types and shapes only, so they cost nothing beside the work and never wait for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crawl.checks import shown


def as_array(name: str, values: Any) -> NDArray[Any]:
    """The numbers in a numpy array. Refuses what is not made of numbers."""
    try:
        array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    except (TypeError, ValueError, RuntimeError, RecursionError):
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers, not {shown(values)}.")
    return array


def plain_tensor(name: str, given: Any) -> Tensor:
    """The tensor, with values that can be read and computed with. Refuses anything else, with the remedy."""
    if not isinstance(given, Tensor):
        raise ValueError(f"{name} must be a torch tensor, not {type(given).__name__}.")
    value: Tensor = given.as_tensor() if hasattr(given, "as_tensor") else given  # rows of PyG's EdgeIndex are not plain
    if value.is_nested or value.layout != torch.strided:
        raise ValueError(f"{name} must not be sparse or nested: call .to_dense(), or give the edges as edge_index.")
    if value.device.type == "meta":
        raise ValueError(f"{name} is on the device meta, so it has no values: make it on a real device.")
    if value.is_quantized:
        raise ValueError(f"{name} is quantised: call .dequantize().")
    if value.is_complex():
        raise ValueError(f"{name} must hold real numbers, not {value.dtype}: give .real, or both parts as columns.")
    if value.is_floating_point() and value.element_size() == 1:
        raise ValueError(f"{name} is of {value.dtype}, with which torch cannot compute: call .float().")
    return value


def holds_integers(value: object) -> TypeGuard[Tensor]:
    """Whether this is a tensor of integers: what ids and keys must be."""
    if not isinstance(value, Tensor) or value.dtype == torch.bool or value.is_quantized:
        return False
    if value.is_nested or value.layout != torch.strided or value.device.type == "meta":
        return False
    return not (value.is_floating_point() or value.is_complex())


def as_ids(name: str, values: Any, of: str = "graph ids") -> Tensor:
    """`[n]` int64: ids, of graphs if `of` does not say of what. Refuses what is not a list of whole numbers."""
    try:
        ids = plain_tensor(name, torch.as_tensor(values))
    except (TypeError, ValueError, RuntimeError, LookupError):
        ids = torch.tensor(math.nan)
    if ids.dim() != 1 or not (holds_integers(ids) or ids.numel() == 0):  # an empty list is of floats
        raise ValueError(f"{name} must be a list of {of}, whole numbers from 0, not {shown(values)}.")
    return ids.long()


def as_device(device: Any) -> torch.device:
    """The torch device of that name. Refuses one that is not there."""
    try:
        found = torch.device(device)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"device must be 'cpu' or 'cuda', or one of torch's, not {shown(device)}.") from None
    there = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    is_there = there is not None and there.type == found.type
    if found.type not in ("cpu", "meta") and not is_there:
        raise ValueError(f"device={str(found)!r} is not there: torch sees {there or 'no GPU'}; use 'cpu'.")
    if is_there and found.index is not None and found.index >= torch.accelerator.device_count():
        raise ValueError(f"device={str(found)!r} is not there: devices are numbered from 0; use 'cpu'.")
    return found


@contextmanager
def in_memory(what: str) -> Iterator[None]:
    """Says what does not fit, where memory runs out; also a decorator."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "memory" in str(error):
            raise ValueError(f"{what} does not fit into memory: make it smaller.") from error
        raise


def refuse_graph(wrong: Tensor, ptr: Tensor, problem: str) -> None:
    """Refuse the first graph with a wrong row, a node or an edge; `ptr` says where the rows of each graph begin."""
    rows = wrong.nonzero()
    if rows.numel():
        graph = int(torch.searchsorted(ptr, int(rows[0]), right=True)) - 1
        raise ValueError(f"Graph {graph}: {problem}.")
