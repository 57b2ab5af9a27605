"""GCNII against PyG."""

import pytest
import torch
from batches import assert_equals_pyg, first_state, make_batch
from torch import Tensor, nn
from torch.func import functional_call
from torch_geometric.nn import GCN2Conv

from crawl.nn import APPNP, GCN2


class PyGLayers(nn.Module):
    """PyG's layers one after another, as in its examples. They multiply from the other side, so weights are turned."""

    def __init__(self, channels: int, num_steps: int, share: float, strength: float) -> None:
        super().__init__()
        layers = range(1, num_steps + 1)
        self.convs = [GCN2Conv(channels, share, strength, layer) for layer in layers]
        self.steps = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in layers)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first = x = x.relu()
        for conv, step in zip(self.convs, self.steps, strict=True):
            x = functional_call(conv, {"weight1": step.weight.t()}, (x, first, edge_index)).relu()
        return x


@pytest.mark.parametrize(("num_steps", "share", "strength"), [(4, 0.1, 0.5), (1, 0.5, 1.5)])
def test_equals_pyg(num_steps: int, share: float, strength: float) -> None:
    """Also where the graph has self-loops, several of them, parallel edges or nodes without edges."""
    block = GCN2(8, num_steps=num_steps, share=share, strength=strength)
    peer = PyGLayers(8, num_steps, share, strength)
    names = [f"steps.{k}.weight" for k in range(num_steps)]
    assert_equals_pyg(block, peer, dict(zip(names, names, strict=True)), lambda state, batch: block(state, batch).nodes)


def test_without_weights_it_is_appnp_of_the_positive_part() -> None:
    batch = make_batch()
    before = first_state(batch, torch.float32)
    block = GCN2(8, num_steps=5, share=0.2)
    for step in block.steps:
        nn.init.eye_(step.weight)
    positive = type(before)(before.nodes.relu(), before.edges, before.graphs)
    wanted = APPNP(num_steps=5, share=0.2)(positive, batch).nodes
    torch.testing.assert_close(block(before, batch).nodes, wanted, rtol=1e-5, atol=1e-6)


def test_dropout_acts_on_what_flows() -> None:
    batch = make_batch()
    before = first_state(batch, torch.float32)
    block = GCN2(8, dropout=1 - 1e-6, num_steps=3, share=0.3)
    kept = torch.zeros_like(before.nodes)
    for part, step in zip(block.parts, block.steps, strict=True):
        kept = (0.3 * before.nodes.relu()).lerp(step(0.3 * before.nodes.relu()), part).relu()
    torch.testing.assert_close(block(before, batch).nodes, kept)


@pytest.mark.parametrize("wrong", [{"share": 1}, {"strength": 0}, {"num_steps": 0}], ids=str)
def test_wrong_values_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GCN2(8, **wrong)
