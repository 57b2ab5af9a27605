"""The virtual node: its formula, spelled out graph by graph."""

import pytest
import torch
from torch import nn

from crawl import Segments, VirtualNode


def make_virtual_node(dropout: float = 0.0) -> VirtualNode:
    torch.manual_seed(0)
    node = VirtualNode(3, dropout)
    norm = node.mlp[1]
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    nn.init.normal_(norm.running_mean)
    return node


BATCH = torch.tensor([0, 0, 1, 3, 3, 3], dtype=torch.int32)  # graph 2 has no nodes
MEMBERS = Segments.of(BATCH, 4)


@pytest.mark.parametrize("training", [True, False])
def test_formula(training: bool) -> None:
    node = make_virtual_node().train(training)
    x, state = torch.randn(6, 3), torch.randn(4, 3)
    heard = torch.stack([state[g] + sum(x[v] for v in range(6) if BATCH[v] == g) for g in range(4)])
    new_x, new_state = node(x, state, MEMBERS)
    first, norm, _, _, second = node.mlp
    hidden = heard @ first.weight.t()
    if training:
        hidden = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + norm.eps).sqrt()
    else:
        hidden = (hidden - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
    expected = (hidden * norm.weight + norm.bias).relu() @ second.weight.t()
    torch.testing.assert_close(new_state, expected)
    torch.testing.assert_close(new_x, torch.stack([x[v] + expected[BATCH[v]] for v in range(6)]))


def test_parameters() -> None:
    """Two matrices and a norm: no bias, and no embedding of the node."""
    assert {name: tuple(parameter.shape) for name, parameter in VirtualNode(5).named_parameters()} == {
        "mlp.0.weight": (5, 5),
        "mlp.1.weight": (5,),
        "mlp.1.bias": (5,),
        "mlp.4.weight": (5, 5),
    }


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("num_nodes", "num_graphs"), [(0, 0), (0, 1), (1, 1), (0, 2)])
def test_tiny_batches(num_nodes: int, num_graphs: int, training: bool) -> None:
    x, state = torch.randn(num_nodes, 3), torch.zeros(num_graphs, 3)
    members = Segments.of(torch.zeros(num_nodes, dtype=torch.int32), num_graphs)
    new_x, new_state = make_virtual_node().train(training)(x, state, members)
    assert (new_x.shape, new_state.shape) == (x.shape, state.shape)
    assert new_state.isfinite().all()


def test_inputs_are_only_read() -> None:
    x, state = torch.randn(6, 3), torch.zeros(4, 3)
    before = x.clone()
    make_virtual_node()(x, state, MEMBERS)
    assert torch.equal(x, before)
    assert not state.any()


def test_dropout_is_inside_the_mlp() -> None:
    node = make_virtual_node(dropout=1.0)
    x = torch.randn(6, 3)
    new_x, state = node(x, torch.zeros(4, 3), MEMBERS)
    assert torch.equal(new_x, x)
    assert not state.any()
    assert node.eval()(x, state, MEMBERS)[1].any()


def test_gradients_reach_other_nodes_of_the_graph_only() -> None:
    node = make_virtual_node().eval()
    x = torch.randn(6, 3, requires_grad=True)
    node(x, torch.zeros(4, 3), MEMBERS)[0][0].sum().backward()
    assert x.grad[:2].any(1).all()
    assert not x.grad[2:].any()


def test_nodes_may_have_less_precision_than_the_state() -> None:
    """As under autocast, where the layers before it return bfloat16."""
    node = make_virtual_node()
    x = torch.randn(6, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        new_x, _ = node(x.bfloat16(), torch.zeros(4, 3), MEMBERS)
    torch.testing.assert_close(new_x.float(), node(x, torch.zeros(4, 3), MEMBERS)[0], atol=0.1, rtol=0.1)
