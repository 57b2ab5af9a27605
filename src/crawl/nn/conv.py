"""The CRaWl layer (paper, section 2.2)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from crawl.nn import fast, reference
from crawl.nn.norm import BatchNorm
from crawl.walks import Walks
from crawl.walks.walks import check_window_size, num_bits

Implementation = Literal["fast", "reference"]


class CRaWlConv(nn.Module):
    """One layer: a 1D CNN along the walks, pooled into the nodes, then an update of each node.

        X = [h | g | I | A] → Conv1d(1) → depthwise Conv1d(kernel_size) → BatchNorm → ReLU → Conv1d(1) → ReLU
        p(v) = mean over the windows centred at v;   h(v) ← R h(v) + U p(v)

    with U = Linear(d, 2d) → BatchNorm → ReLU → Linear(2d, d), and R a Linear where widths differ, else the identity.
    No bias, no padding. It takes and returns node features, so it mixes with the layers of PyG.

    Args:
        in_channels: The width of the node features.
        out_channels: The width of the new node features (d).
        edge_dim: The width of the edge features; 0 for none.
        window_size: How far back the structural bits look (s).
        kernel_size: The width of the depthwise convolution, odd; s + 1 when None.
        identity: Use the identity bits.
        adjacency: Use the adjacency bits.
        implementation: `fast`, or `reference`, the same function spelled out as in the paper. The weights fit both.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        edge_dim: int = 0,
        window_size: int = 8,
        kernel_size: int | None = None,
        identity: bool = True,
        adjacency: bool = True,
        implementation: Implementation = "fast",
    ) -> None:
        super().__init__()
        check_window_size(window_size)
        kernel_size = window_size + 1 if kernel_size is None else kernel_size
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(
                f"kernel_size must be odd, so that a window has a centre, not {kernel_size}. "
                "It is window_size + 1 by default: choose an even window_size or give an odd kernel_size."
            )
        if implementation not in ("fast", "reference"):
            raise ValueError(f"implementation must be 'fast' or 'reference', not {implementation!r}.")
        self.in_channels, self.out_channels, self.edge_dim = in_channels, out_channels, edge_dim
        self.window_size, self.kernel_size = window_size, kernel_size
        self.identity, self.adjacency = identity, adjacency
        self.implementation = implementation
        num_features = in_channels + edge_dim + len(self._bits_in_use(window_size))
        self.project = nn.Conv1d(num_features, out_channels, 1, bias=False)
        self.depthwise = nn.Conv1d(out_channels, out_channels, kernel_size, groups=out_channels, bias=False)
        self.norm = BatchNorm(out_channels)
        self.mix = nn.Conv1d(out_channels, out_channels, 1, bias=False)
        self.update = nn.Sequential(
            nn.Linear(out_channels, 2 * out_channels, bias=False),
            BatchNorm(2 * out_channels),
            nn.ReLU(),
            nn.Linear(2 * out_channels, out_channels, bias=False),
        )
        same_width = in_channels == out_channels
        self.residual = nn.Identity() if same_width else nn.Linear(in_channels, out_channels, bias=False)

    def forward(self, x: Tensor, walks: Walks, edge_attr: Tensor | None = None) -> Tensor:
        """`[N, out_channels]`: the new node features.

        Args:
            x: `[N, in_channels]` node features.
            walks: Walks on these nodes, with a window of at least this layer's.
            edge_attr: `[E, edge_dim]` edge features, in the order of the `edge_index` the walks were made from.

        Raises:
            ValueError: If the features or the walks do not fit the layer.
        """
        self._check(x, walks, edge_attr)
        pooled_windows = fast.pooled_windows if self.implementation == "fast" else reference.pooled_windows
        pooled = pooled_windows(self, x, walks, edge_attr if self.edge_dim else None)
        new_x: Tensor = self.residual(x) + self.update(pooled)
        return new_x

    def bit_columns(self, walks: Walks) -> Tensor:
        """The columns of `walks.bits()`, which may have a larger window, that this layer uses."""
        return torch.tensor(self._bits_in_use(walks.window_size), device=walks.device, dtype=torch.long)

    def _bits_in_use(self, window_size: int) -> list[int]:
        identity = range(self.window_size) if self.identity else range(0)
        adjacency = range(window_size, window_size + max(self.window_size - 1, 0)) if self.adjacency else range(0)
        return [*identity, *adjacency]

    def _check(self, x: Tensor, walks: Walks, edge_attr: Tensor | None) -> None:
        if x.dim() != 2 or x.shape[1] != self.in_channels:
            raise ValueError(f"x must have shape [num_nodes, {self.in_channels}], not {list(x.shape)}.")
        if self.edge_dim and (edge_attr is None or edge_attr.dim() != 2 or edge_attr.shape[1] != self.edge_dim):
            got = None if edge_attr is None else list(edge_attr.shape)
            raise ValueError(f"edge_attr must have shape [num_edges, {self.edge_dim}], not {got}.")
        if walks.window_size < self.window_size and num_bits(self.window_size) and (self.identity or self.adjacency):
            raise ValueError(
                f"The walks see {walks.window_size} nodes back, the layer needs {self.window_size}: set window_size."
            )
        if len(walks) and walks.num_steps + 1 < self.kernel_size:
            raise ValueError(
                f"Walks of {walks.num_steps} steps are shorter than one window of {self.kernel_size} nodes: "
                f"sample at least {self.kernel_size - 1} steps."
            )
        if walks.device != x.device:
            raise ValueError(f"x is on {x.device}, the walks are on {walks.device}: move one with .to(device).")

    def extra_repr(self) -> str:
        """What `print(module)` shows of the layer itself."""
        return (
            f"{self.in_channels}, {self.out_channels}, edge_dim={self.edge_dim}, window_size={self.window_size}, "
            f"kernel_size={self.kernel_size}"
        )
