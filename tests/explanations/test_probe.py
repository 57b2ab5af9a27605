"""A probed model is the model; silent walks are what volumes tend to; what rows are made of adds up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import crawl
from crawl.explanations.probe import Probe, parts_of, probed
from crawl.explanations.subject import Subject
from tests.explanations.small_models import house, network

NETWORKS: dict[str, dict[str, Any]] = {
    "crawl": {},
    "padded": {"padding": True, "layer": ("walk", "virtual_node")},
    "hybrid": {"layer": ("walk", "gine", "virtual_node")},
    "edges": {"layer": ("walk_edges", "gine")},
    "gru": {"layer": ("gru", "edge_update")},
    "restart": {"strategy": "restart"},
    "gru, restart": {"layer": ("gru",), "strategy": "restart"},
    "no bits": {"identity": False, "adjacency": False},
}
networks = pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS)


@networks
def test_with_full_volume_nothing_changes(settings: dict[str, Any]) -> None:
    model, data = network(**settings), house()
    subject = Subject(model, 0, double=True)
    inputs = subject.inputs(data, 0)
    found, _ = subject.answer(inputs, 1.0, 1.0)
    data = data.clone()
    data.x, data.edge_attr = data.x.double(), data.edge_attr.double()
    assert torch.allclose(found, model.double()(data, seed=subject.seed_of(0)), atol=1e-12)


@networks
def test_silence_is_what_small_volumes_tend_to(settings: dict[str, Any]) -> None:
    subject = Subject(network(**settings), 0, double=True)
    inputs = subject.inputs(house(), 0)
    silent, loud = (subject.answer(inputs, 1.0, volume)[0] for volume in (0.0, 1.0))
    assert torch.allclose(subject.answer(inputs, 1.0, 1e-12)[0], silent, atol=1e-9)
    assert not torch.allclose(loud, silent, atol=1e-6)


@networks
def test_what_rows_are_made_of_adds_up(settings: dict[str, Any]) -> None:
    subject = Subject(network(**settings), 0, double=True)
    subject.answer(subject.inputs(house(), 0), 1.0, 1.0)
    assert len(subject.probe.readings) == 2
    for reading in subject.probe.readings:
        gradient = torch.randn_like(reading.rows)
        nodes, edges, jumps, bits = parts_of(reading, gradient)
        assert torch.allclose(nodes + edges + jumps + bits.sum(2), (gradient * reading.rows).sum(2))
        assert bool(jumps.any()) == (settings.get("strategy") == "restart")


def test_the_model_stays_as_it_is() -> None:
    model = network().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    copied = probed(model, Probe(), torch.float64)
    assert model.training
    assert not copied.training
    assert all(type(each) is not crawl.CRaWlConv for each in copied.modules())
    assert sum(type(each) is crawl.CRaWlConv for each in model.modules()) == 2
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


class Loud(crawl.CRaWlConv):
    """A layer that pools in a way of its own."""

    def pooled(self, *args: Any, **words: Any) -> tuple[Tensor, Tensor | None]:
        nodes, edges = super().pooled(*args, **words)
        return 2 * nodes, edges


def test_a_layer_that_pools_otherwise_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Loud\) pools in a way of its own"):
        probed(torch.nn.Sequential(Loud(3, 8)), Probe(), torch.float32)
