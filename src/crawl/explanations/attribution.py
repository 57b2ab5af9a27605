"""Integrated gradients of one answer, along a path from nothing to the graph as it is, with given walks.

The path has up to three legs. On the first, which only networks that sum over nodes have, the nodes appear, without
features and with silent walks: from the answer for a graph without nodes, their pooled states grow from 0 to what they
are. On the second, the features of nodes and edges grow from 0 to what they are, and walks are still silent: what
changes the answer on these two is what nodes and edges add *by themselves*. On the third, the volume of the walks grows
from 0 to 1: what changes the answer there is what windows *read along walks*. With F the answer, s the share of the
features and a the volume,

    F(s=1, a=1) - baseline  = Σ parts of nodes + Σ parts of features + Σ parts of rows
    part of node v          = ∫ ∂head/∂(c p) · h(v) dc    (p = Σ h(v) is pooled; s = 0, a = 0)
    part of feature x       = ∫ ∂F/∂(s x) · x ds          (a = 0)
    part of row r           = ∫ ∂F/∂(a r) · r(a) da       (s = 1)

A row is a sum over its node, its edge and its bits, and so is its part. A window is linear in its rows, so its part is
the sum over what it takes of them. Integrals are sums over the points of Gauss and Legendre; what they miss is the
`residual`, which is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from crawl.explanations.probe import Reading, parts_of
from crawl.explanations.subject import Inputs, Subject, Target
from crawl.walks.walks import Walks


@dataclass(frozen=True)
class LayerParts:
    """What a walk layer read adds to an answer.

    Attributes:
        walks: The walks.
        nodes: `[W, T]` of the states of the nodes at each position, and of jumps.
        edges: `[W, T]` of the edges that lead there.
        bits: `[W, T, 2s - 1]` of the bits.
        windows: `[W, n]` of each window; of each position for a layer without windows.
        first: The position, from 0 or before, where the first window begins.
        size: Positions of a window. For a layer without windows, those that the bits of a position are about.
    """

    walks: Walks
    nodes: Tensor
    edges: Tensor
    bits: Tensor
    windows: Tensor
    first: int
    size: int


@dataclass(frozen=True)
class Attribution:
    """How an answer is made up, for one set of walks, in the unit of the target.

    Attributes:
        answer: F with all features, and walks at full volume.
        silent: F with all features and silent walks.
        baseline: F for a graph without nodes, for networks that sum over nodes; for others F without features and with
            silent walks; the same as `silent` if features are not numbers.
        own_nodes: `[N]` what each node and its features add by themselves.
        own_edges: `[E]` the same for edges.
        layers: What is read along walks, for each call of a walk layer, in their order.
    """

    answer: float
    silent: float
    baseline: float
    own_nodes: Tensor
    own_edges: Tensor
    layers: tuple[LayerParts, ...]

    @property
    def residual(self) -> float:
        """What the sums over points miss: answer - baseline - all parts."""
        parts = [self.own_nodes, self.own_edges, *(layer.windows for layer in self.layers)]
        return self.answer - self.baseline - sum(float(part.sum()) for part in parts)


def integrate(subject: Subject, inputs: Inputs, target: Target, row: int, num_points: int) -> Attribution:
    """The attribution of `target` in one row of the answer; with this many points on each leg.

    Raises:
        ValueError: If no layer of the model reads walks in a way that is known.
    """
    points = _gauss_legendre(num_points)

    def number(share: float, volume: float) -> tuple[Tensor, dict[str, Tensor]]:
        answers, features = subject.answer(inputs, share, volume)
        return answers[row, target.column] * target.factor + target.offset, features

    with torch.no_grad():
        baseline, silent, answer = (float(number(*place)[0]) for place in ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)))
    if not subject.probe.readings:
        raise ValueError(
            f"{type(subject.model).__name__} reads walks neither by a CRaWlConv nor by Walks.gather, so it is not "
            "known what its windows read: use one of these."
        )
    own = _own_parts(number, points)
    layers: list[LayerParts] = []
    for volume, weight in points:
        value, _ = number(1.0, volume)
        found = _read_parts(value, subject.probe.readings, volume, weight)
        layers = [_sum(*pair) for pair in zip(layers, found, strict=True)] if layers else found
    like = layers[0].nodes
    own_nodes = own.get("x", like.new_zeros(inputs.batch.num_nodes))
    if subject.readout is not None and subject.readout.pool == "sum":
        there, baseline = _parts_of_being_there(subject, inputs, target, points)
        own_nodes = own_nodes + there
    own_edges = own.get("edge_attr", like.new_zeros(inputs.batch.num_edges))
    return Attribution(answer, silent, baseline, own_nodes, own_edges, tuple(layers))


def _gauss_legendre(num_points: int) -> list[tuple[float, float]]:
    """Points between 0 and 1, each with its weight."""
    places, weights = np.polynomial.legendre.leggauss(num_points)
    return [((1 + place) / 2, weight / 2) for place, weight in zip(places.tolist(), weights.tolist(), strict=True)]


def _parts_of_being_there(
    subject: Subject, inputs: Inputs, target: Target, points: list[tuple[float, float]]
) -> tuple[Tensor, float]:
    """`[N]` what each node adds on the first leg, and the answer for a graph without nodes, where it begins."""
    states = subject.last_states(inputs, 0.0, 0.0)
    pooled, gradient = states.sum(0), torch.zeros_like(states[0])
    for share, weight in points:
        at = (share * pooled).requires_grad_()
        gradient += weight * torch.autograd.grad(subject.head(inputs, at)[target.column], at)[0]
    with torch.no_grad():
        nothing = float(subject.head(inputs, torch.zeros_like(pooled))[target.column])
    return target.factor * (states @ gradient), target.factor * nothing + target.offset


def _own_parts(
    number: Callable[[float, float], tuple[Tensor, dict[str, Tensor]]], points: list[tuple[float, float]]
) -> dict[str, Tensor]:
    """What the features of each row add on the first leg, by the name of the features."""
    parts: dict[str, Tensor] = {}
    for share, weight in points:
        value, features = number(share, 0.0)
        if not features or not value.requires_grad:
            return {}
        gradients = torch.autograd.grad(value, list(features.values()), allow_unused=True)
        for (name, scaled), gradient in zip(features.items(), gradients, strict=True):
            if gradient is not None:
                part = weight / share * (gradient * scaled.detach()).flatten(1).sum(1)
                parts[name] = parts[name] + part if name in parts else part
    return parts


def _read_parts(value: Tensor, readings: list[Reading], volume: float, weight: float) -> list[LayerParts]:
    """What each layer read adds at one point of the second leg, times its weight."""
    rows, windows = [each.rows for each in readings], [each.windows for each in readings if each.windows is not None]
    found = torch.autograd.grad(value, [*rows, *windows], allow_unused=True)
    gradients = [
        torch.zeros_like(of) if each is None else each for each, of in zip(found, [*rows, *windows], strict=True)
    ]
    of_windows, layers = iter(gradients[len(rows) :]), []
    for reading, gradient in zip(readings, gradients, strict=False):
        nodes, edges, jumps, bits = parts_of(reading, gradient)
        window_size = reading.walks.window_size
        if reading.windows is None:
            parts, first, size = nodes + edges + jumps + bits.sum(2), -window_size, window_size + 1
        else:
            parts = (next(of_windows) * reading.windows.detach()).sum(2) / volume
            first, size = -reading.margin, reading.rows.shape[1] + 2 * reading.margin - parts.shape[1] + 1
        of_nodes, of_edges, of_bits, of_window = (
            weight * each.detach() for each in (nodes + jumps, edges, bits, parts)
        )
        layers.append(LayerParts(reading.walks, of_nodes, of_edges, of_bits, of_window, first, size))
    return layers


def _sum(one: LayerParts, other: LayerParts) -> LayerParts:
    names = ("nodes", "edges", "bits", "windows")
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in names})
