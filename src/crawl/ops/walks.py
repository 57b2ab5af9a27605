"""What the operations know of walks: their tensors, where on them nodes and edges are, and their bits."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from crawl.ops.segments import Segments


class WalkTensors(Protocol):
    """Walks, as `crawl.Walks` describes them."""

    @property
    def nodes(self) -> Tensor:
        """`[W, T]` int32."""

    @property
    def edges(self) -> Tensor:
        """`[W, T - 1]` int32."""

    @property
    def code(self) -> Tensor:
        """`[W, T]` the bits of each position, packed."""

    @property
    def window_size(self) -> int:
        """How far back the bits look."""

    @property
    def num_real(self) -> Tensor | None:
        """`[1]` int32 on the device: only the first this many walks are real; all when None."""

    @property
    def visits(self) -> Segments:
        """The positions of each node, as rows of the flattened `nodes`."""

    @property
    def steps(self) -> Segments:
        """The steps of each edge, as rows of the flattened `edges`."""


class Bits(NamedTuple):
    """The bits that a layer uses; the walks may have more."""

    num_identity: int
    num_adjacency: int

    @property
    def number(self) -> int:
        """How many they are."""
        return self.num_identity + self.num_adjacency

    def in_code(self, walks: WalkTensors, dtype: torch.dtype) -> Tensor:
        """`[bits of the code, B]` one-hot columns: which bit of the code each of these bits is."""
        return _in_code(self, walks.window_size, walks.code.dtype.itemsize, dtype, walks.code.device)

    def in_bytes(self, walks: WalkTensors, dtype: torch.dtype) -> Tensor:
        """`[256 * bytes, B]` zeros and ones: these bits in each value of each byte of the code.

        Its product with the weights of the bits is a table that is looked up by byte.
        """
        return _in_bytes(self, walks.window_size, walks.code.dtype.itemsize, dtype, walks.code.device)


@cache
@torch.inference_mode(False)  # made in evaluation, they may be needed in training
def _in_code(bits: Bits, window_size: int, num_bytes: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    columns = [*range(bits.num_identity), *range(window_size, window_size + bits.num_adjacency)]
    one_hot = torch.zeros(8 * num_bytes, bits.number, dtype=dtype, device="cpu")
    one_hot[columns, range(bits.number)] = 1
    return one_hot.to(device)


@cache
@torch.inference_mode(False)
def _in_bytes(bits: Bits, window_size: int, num_bytes: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    value, bit = torch.arange(256, device="cpu").unsqueeze(1), torch.arange(8, device="cpu")
    is_set = ((value >> bit) & 1).to(dtype)
    by_byte = _in_code(bits, window_size, num_bytes, dtype, torch.device("cpu")).view(num_bytes, 8, -1)
    with torch.autocast("cpu", enabled=False):  # it is kept for calls without autocast, too
        return (is_set @ by_byte).flatten(0, 1).to(device)
