"""Where on the walks each node or edge occurs: so that sums into nodes and edges have one owner and one order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """The places of a tensor of ids, grouped by id.

    Attributes:
        order: `[P]` int64; the places in the flattened tensor, those of id 0 first, each group in ascending order.
        ptr: `[K + 1]` int64; the places of id k are `order[ptr[k]:ptr[k + 1]]`.
        longest: No group has more places; None if the host does not know.
    """

    order: Tensor
    ptr: Tensor
    longest: int | None = None

    @classmethod
    def of(cls, ids: Tensor, num_ids: int) -> Groups:
        """The groups of ids from 0 to `num_ids` - 1; `num_ids` itself stands for nothing."""
        dtype = torch.int16 if num_ids < 2**15 else torch.int32  # a radix sort of fewer bits is faster
        keys, order = torch.sort(ids.flatten().to(dtype), stable=True)
        return cls(order, torch.searchsorted(keys, torch.arange(num_ids + 1, dtype=dtype, device=ids.device)))
