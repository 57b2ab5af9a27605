"""The structural bits a layer uses, and where they stand in the code of a walk. Constants, made once per device."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crawl.walks import Walks

if TYPE_CHECKING:
    from crawl.nn.conv import CRaWlConv


def bit_columns(conv: CRaWlConv, walks: Walks) -> Tensor:
    """`[B]` the columns of `walks.bits()`, which may have a larger window, that the layer uses."""
    return _columns(conv.num_identity_bits, conv.num_adjacency_bits, walks.window_size, walks.device)


def chosen_bits(conv: CRaWlConv, walks: Walks, num_code_bits: int, dtype: torch.dtype) -> Tensor:
    """`[num_code_bits, B]` one-hot columns: which bit of the code each of the layer's bits is."""
    return _chosen(bit_columns(conv, walks), num_code_bits, dtype)


def code_bits(conv: CRaWlConv, walks: Walks, dtype: torch.dtype) -> Tensor:
    """`[256 * bytes, B]` zeros and ones: the layer's bits in each value of each byte of the code.

    Its product with the weights of the bits is a table that is looked up by byte.
    """
    return _bytes(bit_columns(conv, walks), 8 * walks.code.element_size(), dtype)


@cache
@torch.inference_mode(False)  # made in evaluation, they may be needed in training
def _columns(num_identity_bits: int, num_adjacency_bits: int, window_size: int, device: torch.device) -> Tensor:
    identity = torch.arange(num_identity_bits, device=device)
    return torch.cat([identity, torch.arange(num_adjacency_bits, device=device) + window_size])


@cache
@torch.inference_mode(False)
def _chosen(columns: Tensor, num_code_bits: int, dtype: torch.dtype) -> Tensor:
    return (torch.arange(num_code_bits, device=columns.device).unsqueeze(1) == columns).to(dtype)


@cache
@torch.inference_mode(False)
def _bytes(columns: Tensor, num_code_bits: int, dtype: torch.dtype) -> Tensor:
    values = torch.arange(256, device=columns.device)
    bits = ((values.unsqueeze(1) >> torch.arange(8, device=columns.device)) & 1).to(dtype)
    by_byte = _chosen(columns, num_code_bits, dtype).view(num_code_bits // 8, 8, -1)
    with torch.autocast(columns.device.type, enabled=False):  # it is kept for calls without autocast, too
        return (bits @ by_byte).flatten(0, 1)
