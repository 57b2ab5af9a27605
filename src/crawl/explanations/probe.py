"""What the walk layers of a model read, and how much of it they hear.

A walk layer reads, at each position of a walk, a row: the projected state of the node, plus the projected features of
the edge that led there, plus a row of weights for each bit that is set. A `Probe` multiplies these rows by its
`volume`, the same in all layers, and keeps them. With volume 1 the model is what it is; with volume 0 its walks are
silent: every window reads zeros.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crawl.nn.conv import CRaWlConv
from crawl.ops.walk_conv import mean_of_groups
from crawl.walks.jumps import rows_of_steps
from crawl.walks.walks import Walks, num_bits


@dataclass(frozen=True)
class Reading:
    """What a walk layer read in one pass.

    Attributes:
        walks: The walks.
        rows: `[W, T, C]` the rows, times the volume; part of the graph of gradients.
        windows: `[W, n, C]` what the depthwise convolution makes of the rows in each window, in the graph of gradients,
            too; None for a layer without windows.
        nodes: `[N, C]` what each node adds to a row.
        edges: `[E, C]` what each edge adds, or None.
        bits: `[2s - 1, C]` what each bit adds, or None.
        jump: `[C]` what a jump adds, or None.
        margin: Positions before the first of a walk that its first window covers.
    """

    walks: Walks
    rows: Tensor
    windows: Tensor | None
    nodes: Tensor
    edges: Tensor | None
    bits: Tensor | None
    jump: Tensor | None = None
    margin: int = 0


@dataclass
class Probe:
    """How much walk layers hear of what they read, from 0 to 1, and what they read in the last pass, call by call."""

    volume: float = 1.0
    readings: list[Reading] = field(default_factory=list)

    def heard(self, rows: Tensor) -> Tensor:
        """The rows times the volume, as a tensor that has a gradient."""
        heard = rows * self.volume
        return heard if heard.requires_grad else heard.detach().requires_grad_()

    def keep(
        self,
        walks: Walks,
        rows: Tensor,
        windows: Tensor | None,
        parts: tuple[Tensor, Tensor | None, Tensor | None, Tensor | None],
        margin: int = 0,
    ) -> None:
        """Keep what a layer read; `parts` is what nodes, edges, bits and a jump add to a row."""
        nodes, *others = parts
        edges, bits, jump = (None if part is None else part.detach() for part in others)
        self.readings.append(Reading(walks, rows, windows, nodes.detach(), edges, bits, jump, margin))


class ProbedConv(CRaWlConv):
    """A `CRaWlConv` in evaluation whose probe says what it hears; the same function if the volume is 1."""

    probe: Probe

    def _pooled(
        self, x: Tensor, walks: Walks, edge_attr: Tensor | None, num_edges: int | None
    ) -> tuple[Tensor, Tensor | None]:
        walks = walks.without_padding()
        if self.probe.volume == 0:
            return self._silent(x, walks, num_edges)
        project, (num_identity, num_adjacency) = self.project.weight.squeeze(2), self.bits
        of_edges, of_bits = self.in_channels, project.shape[1] - num_identity - num_adjacency
        bits = project.new_zeros(num_bits(walks.window_size), len(project))
        bits[:num_identity] = project[:, of_bits : of_bits + num_identity].t()
        bits[walks.window_size : walks.window_size + num_adjacency] = project[:, of_bits + num_identity :].t()
        nodes = x @ project[:, :of_edges].t()
        edges = None if edge_attr is None else edge_attr @ project[:, of_edges:of_bits].t()
        rows = nodes[walks.nodes]
        if edges is not None:  # with jumps, the last edge is the jump
            rows = rows + F.pad(edges[walks.edges], (0, 0, 1, 0))
        rows = self.probe.heard(rows + walks.bits().to(bits.dtype) @ bits)
        windows = self.depthwise(rows.transpose(1, 2)).transpose(1, 2)
        jump = edges[-1] if edges is not None and self.jumps else None
        edges = edges[:-1] if edges is not None and self.jumps else edges
        margin = self.kernel_size // 2 if self.padding else 0
        self.probe.keep(walks, rows, windows, (nodes, edges, bits, jump), margin)
        hidden = self.norm(windows.flatten(0, 1), relu=True)
        mixed = (hidden @ self.mix.weight.squeeze(2).t()).relu().view(windows.shape)
        centres, reached = self._centres(walks)
        of_nodes = mean_of_groups(mixed.flatten(0, 1), centres.flatten(), len(x))
        if num_edges is None:
            return of_nodes, None
        mixed = mixed[:, mixed.shape[1] - reached.shape[1] :]
        return of_nodes, mean_of_groups(mixed.flatten(0, 1), reached.flatten(), num_edges)

    def _silent(self, x: Tensor, walks: Walks, num_edges: int | None) -> tuple[Tensor, Tensor | None]:
        """What is pooled if every window reads zeros: one row, wherever there is a window."""
        zeros = x.new_zeros(1, self.out_channels)
        row = (self.norm(zeros, relu=True) @ self.mix.weight.squeeze(2).t()).relu()
        centres, reached = self._centres(walks)
        of_nodes = row * (torch.bincount(centres.flatten(), minlength=len(x)) > 0).unsqueeze(1)
        if num_edges is None:
            return of_nodes, None
        return of_nodes, row * (torch.bincount(reached.flatten(), minlength=num_edges) > 0).unsqueeze(1)

    def _centres(self, walks: Walks) -> tuple[Tensor, Tensor]:
        """`[W, n]` the node at the centre of each window, and the edge that led there; a start has none."""
        first = 0 if self.padding else self.kernel_size // 2
        last = walks.nodes.shape[1] - first
        return walks.nodes[:, first:last], walks.edges[:, max(first - 1, 0) : last - 1]


@dataclass(frozen=True, eq=False)
class ProbedWalks(Walks):
    """Walks on which a layer that gathers rows, such as `WalkGRU`, hears what a probe lets it."""

    probe: Probe = field(default_factory=Probe)

    @classmethod
    def of(cls, walks: Walks, probe: Probe) -> ProbedWalks:
        """The same walks, with a probe."""
        return cls(**{name: getattr(walks, name) for name in Walks.__dataclass_fields__}, probe=probe)

    def gather(
        self, nodes: Tensor, edges: Tensor | None = None, bits: Tensor | None = None, jump: Tensor | None = None
    ) -> Tensor:
        """As in `Walks`, times the volume of the probe."""
        rows = self.probe.heard(super().gather(nodes, edges, bits, jump))
        self.probe.keep(self, rows, None, (nodes, edges, bits, jump))
        return rows


def probed(model: nn.Module, probe: Probe, dtype: torch.dtype) -> nn.Module:
    """A copy of a model, in evaluation mode and of this precision, whose walk convolutions have the probe.

    Raises:
        ValueError: If it has a walk convolution of the user's own that pools in another way.
    """
    copied: Any = copy.deepcopy(model).eval().to(dtype)
    for parameter in copied.parameters():
        parameter.requires_grad_(False)
    if hasattr(copied, "precision"):
        copied.precision = "float32"
    for name, module in copied.named_modules():
        if not isinstance(module, CRaWlConv):
            continue
        kind = type(module)
        if kind.pooled is not CRaWlConv.pooled or kind._pooled is not CRaWlConv._pooled:
            raise ValueError(
                f"{name} ({kind.__name__}) pools in a way of its own, so it is not known what its windows read: "
                "explain a model with CRaWlConv as it is."
            )
        changed: Any = module
        changed.__class__ = (
            type(f"Probed{kind.__name__}", (ProbedConv, kind), {}) if kind is not CRaWlConv else ProbedConv
        )
        changed.probe, changed.precision = probe, None
    result: nn.Module = copied
    return result


def parts_of(reading: Reading, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """How a gradient of the rows divides: `[W, T]` of nodes, `[W, T]` of edges, `[W, T]` of jumps, `[W, T, 2s - 1]` of
    bits. With volume 1 in the rows, they add up to gradient · row.
    """
    walks = reading.walks
    of_nodes = (gradient * reading.nodes[walks.nodes]).sum(2)
    of_edges, of_jumps = torch.zeros_like(of_nodes), torch.zeros_like(of_nodes)
    is_jump = torch.zeros_like(of_nodes).bool()
    if walks.has_jumps and walks.num_edges is not None:
        is_jump[:, 1:] = walks.edges.eq(walks.num_edges)
    steps = rows_of_steps(reading.nodes, reading.edges, reading.jump, walks.num_edges, walks.has_jumps)
    if steps is not None:
        of_steps = (gradient * F.pad(steps[walks.edges], (0, 0, 1, 0))).sum(2)
        of_edges, of_jumps = of_steps.masked_fill(is_jump, 0), of_steps.masked_fill(~is_jump, 0)
    bits = walks.bits()
    of_bits = gradient.new_zeros(bits.shape) if reading.bits is None else (gradient @ reading.bits.t()) * bits
    return of_nodes, of_edges, of_jumps, of_bits
