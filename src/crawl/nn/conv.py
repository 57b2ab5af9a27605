"""The CRaWl layer (paper, section 2.2)."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from crawl.checks import MAX_CHANNELS, MAX_WIDTH, check_choice, check_type, truth, whole_number
from crawl.choices import Implementation, Precision
from crawl.nn import fast, reference
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm
from crawl.ops.segments import Rows
from crawl.tensor_checks import in_memory, plain_tensor
from crawl.walks import Walks
from crawl.walks.walks import check_window_size


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
        implementation: `fast`, or `reference`, the same function spelled out as in the paper. The weights fit both;
            `fast` can be differentiated once only.
        precision: How `fast` multiplies on a GPU: `tf32` (float32 with products of ten bits), `bf16` (what lies along
            the walks is kept in bfloat16, too) or `float32` (exact). A CPU is exact.
    """

    @in_memory("A layer of this size")
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
        precision: Precision = "tf32",
    ) -> None:
        super().__init__()
        in_channels = whole_number("in_channels", in_channels, 1, MAX_CHANNELS)  # without features, a constant 1
        out_channels = whole_number("out_channels", out_channels, 1, MAX_WIDTH)
        edge_dim = whole_number("edge_dim", edge_dim, 0, MAX_CHANNELS)
        identity, adjacency = truth("identity", identity), truth("adjacency", adjacency)
        window_size = check_window_size(window_size)
        if kernel_size is None:
            kernel_size = window_size + 1
        kernel_size = whole_number("kernel_size", kernel_size, 1, MAX_WIDTH)
        if kernel_size % 2 == 0:
            raise ValueError(
                f"kernel_size must be odd, so that a window has a centre, not {kernel_size}. "
                "It is window_size + 1 by default: choose an even window_size or give an odd kernel_size."
            )
        check_choice("implementation", implementation, get_args(Implementation))
        check_choice("precision", precision, get_args(Precision))
        self.in_channels, self.out_channels, self.edge_dim = in_channels, out_channels, edge_dim
        self.window_size, self.kernel_size = window_size, kernel_size
        self.implementation, self.precision = implementation, precision
        self.num_identity_bits = window_size if identity else 0
        self.num_adjacency_bits = max(window_size - 1, 0) if adjacency else 0
        num_features = in_channels + edge_dim + self.num_identity_bits + self.num_adjacency_bits
        self.project = nn.Conv1d(num_features, out_channels, 1, bias=False)
        self.depthwise = nn.Conv1d(out_channels, out_channels, kernel_size, groups=out_channels, bias=False)
        self.norm = BatchNorm(out_channels)
        self.mix = nn.Conv1d(out_channels, out_channels, 1, bias=False)
        self.update = nn.Sequential(
            Linear(out_channels, 2 * out_channels, precision),
            BatchNorm(2 * out_channels),
            nn.ReLU(),
            Linear(2 * out_channels, out_channels, precision),
        )
        same_width = in_channels == out_channels
        self.residual = nn.Identity() if same_width else Linear(in_channels, out_channels, precision)

    def forward(self, x: Tensor, walks: Walks, edge_attr: Tensor | None = None, rows: Rows | None = None) -> Tensor:
        """`[N, out_channels]`: the new node features.

        Args:
            x: `[N, in_channels]` node features.
            walks: Walks on these nodes, with a window of at least this layer's.
            edge_attr: `[E, edge_dim]` edge features, in the order of the `edge_index` the walks were made from. If
                `edge_dim` is 1 they may be missing, which is the same as zeros.
            rows: Which of the nodes are real, for a padded batch; all when None.

        Raises:
            ValueError: If the features or the walks do not fit the layer.
        """
        self._check(x, walks, edge_attr)
        pooled_windows = fast.pooled_windows if self.implementation == "fast" else reference.pooled_windows
        pooled = pooled_windows(self, x, walks, edge_attr)
        first, norm, _, last = self.update
        new_x: Tensor = last(norm(first(pooled), rows, relu=True), add=self.residual(x))
        return new_x

    def _check(self, x: Tensor, walks: Walks, edge_attr: Tensor | None) -> None:
        check_type("walks", walks, Walks, "call sample_walks(graph)")
        x = plain_tensor("x", x)
        if walks.window_size < self.window_size and self.num_identity_bits + self.num_adjacency_bits:
            raise ValueError(
                f"The walks see {walks.window_size} nodes back, the layer needs {self.window_size}: set window_size."
            )
        if walks.num_steps + 1 < self.kernel_size:
            raise ValueError(
                f"Walks of {walks.num_steps} steps are shorter than one window of {self.kernel_size} nodes: "
                f"sample at least {self.kernel_size - 1} steps."
            )
        if walks.device != x.device:
            raise ValueError(f"x is on {x.device}, the walks are on {walks.device}: move one with .to(device).")
        _check_features("x", x, self.in_channels, walks, walks.nodes)
        if self.edge_dim > 1 or (self.edge_dim == 1 and edge_attr is not None):
            _check_features("edge_attr", edge_attr, self.edge_dim, walks, walks.edges)
        if self.edge_dim == 0 and edge_attr is not None:
            raise ValueError("The layer has edge_dim=0 and would not use edge_attr: set edge_dim, or leave it out.")
        dtype, is_exact = self.project.weight.dtype, x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        for name, features in (("x", x), ("edge_attr", edge_attr if self.edge_dim else None)):
            if is_exact and features is not None and features.dtype != dtype:
                raise ValueError(f"{name} is of {features.dtype}, but the layer of {dtype}: move one with .to(dtype).")

    def extra_repr(self) -> str:
        """What `print(module)` shows of the layer itself."""
        return (
            f"{self.in_channels}, {self.out_channels}, edge_dim={self.edge_dim}, window_size={self.window_size}, "
            f"kernel_size={self.kernel_size}"
        )


def _check_features(name: str, features: Tensor | None, num_channels: int, walks: Walks, visited: Tensor) -> None:
    if features is None:
        raise ValueError(f"The layer needs {name} with {num_channels} channels.")
    features = plain_tensor(name, features)
    if features.dim() != 2 or features.shape[1] != num_channels or not features.is_floating_point():
        raise ValueError(
            f"{name} must be floating-point numbers of shape [rows, {num_channels}], "
            f"not {features.dtype} of shape {list(features.shape)}."
        )
    # Compiled loops on the CPU check no bounds. On a GPU a look at the largest id would mean to wait for it.
    if visited.device.type == "cpu" and visited.numel() and walks.num_real is None:
        low, high = int(visited.min()), int(visited.max())
        if low < 0 or high >= len(features):
            row = low if low < 0 else high
            raise ValueError(
                f"{name} has {len(features)} rows, but the walks visit row {row}: they are of another graph."
            )
