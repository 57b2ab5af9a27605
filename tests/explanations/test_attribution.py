"""Integrals add up to what they explain, and are what finite differences say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from crawl.explanations.attribution import Attribution, integrate
from crawl.explanations.probe import Probe
from crawl.explanations.subject import Subject, Target
from tests.explanations.small_models import house, network
from tests.explanations.test_probe import networks


def attribution(settings: dict[str, Any], num_points: int, target: Target | None = None) -> tuple[Subject, Attribution]:
    subject = Subject(network(**settings), 1, double=True)
    inputs = subject.inputs(house(), 0)
    return subject, integrate(subject, inputs, target or Target(1, "output 1"), 0, num_points)


def size(found: Attribution) -> float:
    """How much is attributed, for and against."""
    parts = [found.own_nodes, found.own_edges, *(layer.windows for layer in found.layers)]
    total = sum(float(part.abs().sum()) for part in parts)
    assert total > 1e-3
    return total


@networks
def test_attributions_add_up(settings: dict[str, Any]) -> None:
    _, found = attribution(settings, 100)
    assert abs(found.residual) < 0.01 * size(found)
    rows = sum(float(layer.nodes.sum() + layer.edges.sum() + layer.bits.sum()) for layer in found.layers)
    assert rows == pytest.approx(sum(float(layer.windows.sum()) for layer in found.layers), abs=1e-12)


def test_more_points_miss_less() -> None:
    residuals = [abs(attribution({}, number)[1].residual) for number in (2, 150)]
    assert residuals[1] < residuals[0] / 10


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_a_sum_over_nodes_begins_with_no_nodes(head: str) -> None:
    subject, found = attribution({"pool": "sum", "head": head}, 100)
    with torch.no_grad():
        nothing = subject.model.readout.head(torch.zeros(8, dtype=torch.float64))[1]
    assert found.baseline == pytest.approx(float(nothing), abs=1e-12)
    assert abs(found.residual) < 0.01 * size(found)
    assert bool((found.own_nodes != 0).all())


def test_units_are_those_of_the_target() -> None:
    _, plain = attribution({}, 8)
    _, scaled = attribution({}, 8, Target(1, "y", factor=-3.0, offset=5.0))
    assert scaled.answer == pytest.approx(5 - 3 * plain.answer)
    assert scaled.baseline == pytest.approx(5 - 3 * plain.baseline)
    assert torch.allclose(scaled.own_nodes, -3 * plain.own_nodes)
    assert torch.allclose(scaled.layers[1].windows, -3 * plain.layers[1].windows)


@dataclass
class OneLouder(Probe):
    """One walk is heard a little louder than the others."""

    walk: int = 0
    more: float = 0.0

    def heard(self, rows: Tensor) -> Tensor:
        louder = torch.zeros(len(rows), 1, 1, dtype=rows.dtype)
        louder[self.walk] = self.more
        return rows * (self.volume + louder)


@pytest.mark.parametrize("layer", [("walk",), ("gru",)])
def test_parts_of_walks_are_integrals_of_finite_differences(layer: tuple[str, ...]) -> None:
    from crawl.explanations.attribution import _gauss_legendre

    model, points, step = network(layer=layer), 6, 1e-6
    subject = Subject(model, 1, double=True)
    inputs = subject.inputs(house(), 0)
    found = integrate(subject, inputs, Target(1, "output 1"), 0, points)
    walks = sum(each.windows.sum(1) for each in found.layers)
    louder = Subject(model, 1, double=True)
    louder.probe = OneLouder()
    for module in louder.model.modules():
        if hasattr(module, "probe"):
            module.probe = louder.probe
    inputs = louder.inputs(house(), 0)
    for walk in (0, 3):
        louder.probe.walk, total = walk, 0.0
        for volume, weight in _gauss_legendre(points):
            ends = []
            for more in (step, -step):
                louder.probe.more = more
                ends.append(float(louder.answer(inputs, 1.0, volume)[0][0, 1].detach()))
            total += weight * (ends[0] - ends[1]) / (2 * step)
        assert float(walks[walk]) == pytest.approx(total, abs=1e-7)
        assert abs(total) > 1e-5
