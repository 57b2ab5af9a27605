"""Features of whole graphs, such as descriptors of molecules, on their way to the head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crawl.checks import MAX_CHANNELS, as_list, positive_number, real_number, whole_number
from crawl.tensor_checks import plain_tensor

LIMIT = 5.0  # how many deviations a number may be away from the mean


class GraphFeatures(nn.Module):
    """Numbers of graphs, `[G, K]`, less their means and divided by their deviations; none is beyond ± `limit`.

    A missing number, NaN, counts as the mean. Nothing is learned here.

    Args:
        means: The K means, or K alone for means of 0.
        deviations: The K standard deviations; 1 when None.
        limit: How many deviations a number may be away from the mean.
    """

    def __init__(
        self, means: int | Sequence[float], deviations: Sequence[float] | None = None, limit: float = LIMIT
    ) -> None:
        super().__init__()
        if isinstance(means, int):
            means = [0.0] * whole_number("graph_channels", means, 1, MAX_CHANNELS)
        means = [real_number("Each of means", mean) for mean in as_list("means", means, "numbers")]
        if not means:
            raise ValueError("means must be the means of one feature at least, not [].")
        given = [1.0] * len(means) if deviations is None else as_list("deviations", deviations, "numbers")
        given = [positive_number("Each of deviations", deviation) for deviation in given]
        if len(given) != len(means):
            raise ValueError(
                f"There are {len(means)} means but {len(given)} deviations: give one of each for a feature."
            )
        self.out_channels, self.limit = len(means), positive_number("limit", limit)
        self.means: Tensor
        self.deviations: Tensor
        self.register_buffer("means", torch.tensor(means, dtype=torch.float64), persistent=False)
        self.register_buffer("deviations", torch.tensor(given, dtype=torch.float64), persistent=False)

    def checked(self, u: Tensor | None, num_graphs: int) -> Tensor:
        """What `forward` takes, `[num_graphs, K]`: one graph may come without its dimension. Refuses other shapes, and
        infinity."""
        if u is None:
            raise ValueError(f"The data has no u, but {self.out_channels} features of each graph are expected.")
        u = plain_tensor("u", u)
        rows = u.reshape(1, -1) if u.dim() < 2 and num_graphs == 1 else u.unsqueeze(1) if u.dim() == 1 else u
        if rows.shape != (num_graphs, self.out_channels):
            raise ValueError(f"u must have the shape {[num_graphs, self.out_channels]}, not {list(u.shape)}.")
        if bool(rows.isinf().any()):
            raise ValueError("u holds infinity: give finite numbers, or NaN where one is missing.")
        return rows

    def forward(self, u: Tensor, like: Tensor) -> Tensor:
        """`[G, K]` in the dtype and on the device of `like`, for features that were checked before."""
        scaled = (u.to(like.device, self.means.dtype) - self.means) / self.deviations
        return scaled.clamp(-self.limit, self.limit).nan_to_num(0.0).to(like.dtype)
