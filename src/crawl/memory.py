"""Large tensors on the CPU whose memory is used again.

The system hands out new memory page by page, when it is first written, and takes back what is freed. For tensors as
large as all windows of a batch that takes as long as to compute what is written there, again in every step.
"""

from __future__ import annotations

import math
import weakref
from collections import defaultdict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_Memory = NDArray[np.uint8]

_UNIT = 2**17  # bytes; smaller tensors are not worth it
_LINE = 64  # bytes of a cache line, across which vectors should not lie
_MOST_KEPT = 2**29  # bytes
_free: defaultdict[int, list[_Memory]] = defaultdict(list)  # by their number of units


def recycled(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """An uninitialised tensor. When the last reference to it is gone, its memory is kept for another."""
    size = math.prod(shape) * dtype.itemsize
    if size < _UNIT:
        return torch.empty(shape, dtype=dtype, device="cpu")
    num_units = _num_units(size)
    try:
        memory = _free[num_units].pop()
    except IndexError:
        memory = np.empty(num_units * _UNIT + _LINE, np.uint8)
    begin = -memory.ctypes.data % _LINE
    lease = memory[begin : begin + size]
    weakref.finalize(lease, _give_back, memory).atexit = False
    return torch.from_numpy(lease).view(dtype).view(shape)


def free_units() -> None:
    """Give back to the system all memory that is kept."""
    _free.clear()


def _num_units(size: int) -> int:
    """The units for this many bytes, in steps of an eighth, so that batches of similar size use the same memory."""
    num_units = -(-size // _UNIT)
    step = 1 << max(num_units.bit_length() - 4, 0)
    return -(-num_units // step) * step


def _give_back(memory: _Memory) -> None:
    if sum(len(blocks) * num_units for num_units, blocks in list(_free.items())) * _UNIT + memory.nbytes <= _MOST_KEPT:
        _free[memory.nbytes // _UNIT].append(memory)
