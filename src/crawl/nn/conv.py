"""The CRaWl layer (paper, section 2.2)."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from crawl.checks import MAX_CHANNELS, MAX_WIDTH, check_choice, check_window_size, truth, whole_number
from crawl.choices import Implementation, NormName, Precision
from crawl.nn.checks import check_walk_features, check_walks, checked_kernel_size, checked_num_edges
from crawl.nn.jumps import with_jumps
from crawl.nn.linear import Linear
from crawl.nn.norm import Affine, BatchNorm, make_norm
from crawl.ops.backends import can_use_triton
from crawl.ops.precision import check_precision, precision
from crawl.ops.segments import Rows
from crawl.ops.walk_conv import Weights, mean_of_groups, walk_conv
from crawl.ops.walks import Bits
from crawl.tensor_checks import in_memory
from crawl.walks import Walks


class CRaWlConv(nn.Module):
    """One layer: a 1D CNN along the walks, pooled into the nodes, then an update of each node.

        X = [h | g | I | A] → Conv1d(1) → depthwise Conv1d(kernel_size) → BatchNorm → ReLU → Conv1d(1) → ReLU
        p(v) = mean over the windows centred at v;   h(v) ← R h(v) + U p(v)

    with U = Linear(d, 2d) → BatchNorm → ReLU → Linear(2d, d), and R a Linear where widths differ, else the identity.
    No bias. It takes and returns node features, so it mixes with the layers of PyG.

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
        precision: `tf32`, `bf16` or `float32`, on a GPU; None for what `crawl.ops.precision` has set around the call.
        padding: Put zeros around the walks, so that every position is the centre of a window, and walks may be shorter
            than one. The paper has none.
        jumps: Take walks that jump, as those of the strategy `restart`: a position that a jump led to has no edge
            features, and one more feature, a flag, is 1 there.
        has_norms: Use batch norms; without them, there are learned scales and shifts in their places.
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
        precision: Precision | None = None,
        padding: bool = False,
        jumps: bool = False,
        has_norms: bool = True,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels = whole_number("in_channels", in_channels, 1, MAX_CHANNELS)
        self.out_channels = out_channels = whole_number("out_channels", out_channels, 1, MAX_WIDTH)
        check_choice("implementation", implementation, get_args(Implementation))
        check_precision(precision)
        self.edge_dim = whole_number("edge_dim", edge_dim, 0, MAX_CHANNELS)
        self.window_size = s = check_window_size(window_size)
        self.kernel_size = checked_kernel_size(kernel_size, s)
        self.implementation, self.precision, self.padding = implementation, precision, truth("padding", padding)
        self.bits = Bits(s if truth("identity", identity) else 0, max(s - 1, 0) if truth("adjacency", adjacency) else 0)
        self.jumps = truth("jumps", jumps)
        num_features = in_channels + self.edge_dim + self.jumps + self.bits.number
        self.project = nn.Conv1d(num_features, out_channels, 1, bias=False)
        zeros = self.kernel_size // 2 if self.padding else 0
        self.depthwise = nn.Conv1d(
            out_channels, out_channels, self.kernel_size, padding=zeros, groups=out_channels, bias=False
        )
        norm: NormName = "batch" if truth("has_norms", has_norms) else "none"
        self.norm = BatchNorm(out_channels) if has_norms else Affine(out_channels)
        self.mix = nn.Conv1d(out_channels, out_channels, 1, bias=False)
        self.update = Update(out_channels, norm)
        self.residual = nn.Identity() if in_channels == out_channels else Linear(in_channels, out_channels)

    def forward(self, x: Tensor, walks: Walks, edge_attr: Tensor | None = None, rows: Rows | None = None) -> Tensor:
        """`[N, out_channels]`: the new node features.

        Args:
            x: `[N, in_channels]` node features.
            walks: Walks on these nodes, with a window of at least this layer's.
            edge_attr: `[E, edge_dim]` edge features, in the order of the `edge_index` the walks were made from. If
                `edge_dim` is 1 they may be missing, which is the same as zeros.
            rows: Which of the nodes are real, for a padded batch; all when None.
        """
        return self.updated(x, self.pooled(x, walks, edge_attr)[0], rows)

    def updated(self, x: Tensor, pooled: Tensor, rows: Rows | None = None) -> Tensor:
        """R h(v) + U p(v), `[N, out_channels]`."""
        with precision(self.precision):
            new_x: Tensor = self.update(pooled, rows, add=self.residual(x))
        return new_x

    def pooled(
        self, x: Tensor, walks: Walks, edge_attr: Tensor | None = None, *, into_edges: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """p(v), `[N, out_channels]`, and with `into_edges` p(e), `[E, out_channels]`, else None.

        The mean of the CNN's outputs over the windows whose centre is at v, or was reached by e; 0 if there are none.
        The first position of a walk was not reached by an edge. The other arguments are those of `forward`.
        """
        check_walks(walks, self.window_size if self.bits.number else 0, 0 if self.padding else self.kernel_size)
        check_walk_features(x, edge_attr, walks, self.in_channels, self.edge_dim, self.project.weight.dtype)
        walks = walks.sized(x.shape[0], edge_attr)
        num_edges = checked_num_edges(walks, edge_attr) if into_edges else None
        walks, edge_attr = with_jumps(x, walks, edge_attr, self.edge_dim, has_flag=self.jumps)
        of_nodes, of_edges = self._pooled(x, walks, edge_attr, None if num_edges is None else num_edges + self.jumps)
        return of_nodes, of_edges[:-1] if self.jumps and of_edges is not None else of_edges

    def _pooled(
        self, x: Tensor, walks: Walks, edge_attr: Tensor | None, num_edges: int | None
    ) -> tuple[Tensor, Tensor | None]:
        if self.implementation == "reference" or not can_use_triton(x.device):
            walks = walks.without_padding()  # only the kernels of a GPU skip it
        if self.implementation == "fast":
            weights = (self.project.weight, self.depthwise.weight, self.norm.tensors(), self.mix.weight)
            with precision(self.precision):
                return walk_conv(x, edge_attr, walks, Weights(*weights, self.bits, self.padding), num_edges)
        windows = self.project(self._walk_features(x, walks, edge_attr).transpose(1, 2))
        windows = self.norm(self.depthwise(windows)).relu()
        windows = self.mix(windows).relu().transpose(1, 2)  # [W, number of windows, C]
        first = (walks.nodes.shape[1] - windows.shape[1]) // 2  # the position at the centre of the first window
        centres = walks.nodes[:, first : first + windows.shape[1]]
        of_nodes = mean_of_groups(windows.flatten(0, 1), centres.flatten(), x.shape[0])
        if num_edges is None:
            return of_nodes, None
        skipped = max(1 - first, 0)  # the window at the start of a walk
        edges = walks.edges[:, first + skipped - 1 : first + windows.shape[1] - 1]
        return of_nodes, mean_of_groups(windows[:, skipped:].flatten(0, 1), edges.flatten(), num_edges)

    def walk_features(self, x: Tensor, walks: Walks, edge_attr: Tensor | None = None) -> Tensor:
        """The walk feature matrix X = [h | g | I | A], `[W, T, D]`: node features, the features of the edge that led
        there (zeros at the first position, or without `edge_attr`), the flag of jumps, identity and adjacency bits."""
        return self._walk_features(x, *with_jumps(x, walks, edge_attr, self.edge_dim, has_flag=self.jumps))

    def _walk_features(self, x: Tensor, walks: Walks, edge_attr: Tensor | None) -> Tensor:
        edges = x.new_zeros(*walks.edges.shape, self.edge_dim) if edge_attr is None else edge_attr[walks.edges]
        edges = torch.cat([edges.new_zeros(walks.num_walks, 1, edges.shape[2]), edges], dim=1)
        bits, s = walks.bits(), walks.window_size  # which may be larger than the layer's
        identity, adjacency = bits[..., : self.bits.num_identity], bits[..., s : s + self.bits.num_adjacency]
        return torch.cat([x[walks.nodes], edges, identity.to(x.dtype), adjacency.to(x.dtype)], dim=-1)

    def extra_repr(self) -> str:
        """What `print(module)` shows of the layer itself."""
        sizes = f"edge_dim={self.edge_dim}, window_size={self.window_size}, kernel_size={self.kernel_size}"
        return f"{self.in_channels}, {self.out_channels}, {sizes}{', padding=True' if self.padding else ''}"


class Update(nn.Sequential):
    """U: Linear(d, 2d) → Norm → ReLU → Linear(2d, d), without bias."""

    def __init__(self, channels: int, norm: NormName = "batch") -> None:
        hidden = 2 * channels
        super().__init__(Linear(channels, hidden), make_norm(norm, hidden), nn.ReLU(), Linear(hidden, channels))

    def forward(self, pooled: Tensor, rows: Rows | None = None, add: Tensor | None = None) -> Tensor:
        """`[N, channels]`, with `add` added to it."""
        first, norm, _, last = self
        out: Tensor = last(norm(first(pooled), rows, relu=True), add=add)  # the norm's kernel has the ReLU in it
        return out
