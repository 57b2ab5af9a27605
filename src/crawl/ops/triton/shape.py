"""The sizes that the kernels of a walk convolution share."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from crawl.ops.walk_conv import Weights
from crawl.ops.walks import WalkTensors

CHANNELS = 32  # of a tile: a row of it is one line of memory
ROWS = 64  # of a tile of windows
_MOST_TAPS = 9  # of the depthwise kernel in one pass along the walks


class Shape:
    """The sizes of a walk convolution on some walks; `count` tells on the device how many of the walks are real."""

    def __init__(self, weights: Weights, walks: WalkTensors, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.num_walks, self.num_positions = walks.nodes.shape
        self.kernel_size, self.margin, self.first_centre = weights.kernel_size, weights.margin, weights.first_centre
        self.num_channels = len(weights.mix)
        self.stride = -(-self.num_channels // 16) * 16
        self.num_code_bytes = walks.code.element_size() if weights.bits.number else 0
        self.windows_per_walk = self.num_positions - 2 * self.first_centre
        self.num_windows = self.num_walks * self.windows_per_walk
        self.count = walks.num_real
        if self.count is None:
            self.count = torch.full((1,), self.num_walks, dtype=torch.int32, device=walks.nodes.device)

    @property
    def centred_size(self) -> int:
        """The windows have the centres that windows of this size would have without a margin."""
        return 2 * self.first_centre + 1

    def tiles(self, num_rows: int) -> tuple[int, int]:
        """The grid of tiles of this many windows and `CHANNELS` channels."""
        return triton.cdiv(self.num_windows, num_rows), triton.cdiv(self.stride, CHANNELS)

    def is_large(self, *tables: Tensor | None) -> bool:
        """Whether something has more than 2^31 entries, or comes near it."""
        sizes = [table.numel() for table in tables if table is not None]
        return max(self.num_walks * (self.num_positions + self.kernel_size) * self.stride, *sizes) >= 2**30

    @property
    def passes(self) -> list[tuple[int, int]]:
        """The first tap and the number of taps of each pass along the walks: as many taps as registers can keep."""
        if self.kernel_size <= _MOST_TAPS + 2:
            return [(0, self.kernel_size)]
        return [(k, min(_MOST_TAPS, self.kernel_size - k)) for k in range(0, self.kernel_size, _MOST_TAPS)]
