"""PyG's layers as blocks."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from batches import WIDTH, assert_same, first_state, make_batch, pad, pyg_graphs, results
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch as PyGBatch

from crawl import Network
from crawl.nn import BatchNorm, from_pyg

STATIC = {
    "GraphConv": lambda: pyg.GraphConv(WIDTH, WIDTH),
    "GINEConv": lambda: pyg.GINEConv(nn.Linear(WIDTH, WIDTH)),
    "GATv2Conv": lambda: pyg.GATv2Conv(WIDTH, WIDTH, edge_dim=WIDTH, add_self_loops=False),
    "ResGatedGraphConv": lambda: pyg.ResGatedGraphConv(WIDTH, WIDTH, edge_dim=WIDTH),
    "TransformerConv": lambda: pyg.TransformerConv(WIDTH, WIDTH, edge_dim=WIDTH),
    "GCNConv": lambda: pyg.GCNConv(WIDTH, WIDTH, add_self_loops=False),
    "PNAConv": lambda: pyg.PNAConv(
        WIDTH, WIDTH, ["mean", "std"], ["identity"], torch.tensor([1, 2, 3]), edge_dim=WIDTH
    ),
}
DYNAMIC = {
    "GCNConv": (lambda: pyg.GCNConv(WIDTH, WIDTH), "add_self_loops=False"),
    "GATConv": (lambda: pyg.GATConv(WIDTH, WIDTH, edge_dim=WIDTH), "add_self_loops=False"),
    "ChebConv": (lambda: pyg.ChebConv(WIDTH, WIDTH, 2), "depend on the data"),
    "CGConv": (lambda: pyg.CGConv(WIDTH, WIDTH, batch_norm=True), "counts padding"),
    "GINConv": (lambda: pyg.GINConv(nn.Sequential(nn.Linear(WIDTH, WIDTH), BatchNorm(WIDTH))), "counts padding"),
    "MFConv": (lambda: pyg.MFConv(WIDTH, WIDTH), "depend on the data"),
}


@pytest.mark.parametrize("name", STATIC)
def test_layers_with_static_shapes(name: str) -> None:
    torch.manual_seed(0)
    layer, batch = STATIC[name](), make_batch()
    block = from_pyg(layer)
    assert block.why_not_captured is None
    state = first_state(batch, torch.float32)
    edges = [state.edges] if block.sees_edges else []
    expected = state.nodes + layer(state.nodes, batch.edge_index, *edges).relu()
    assert torch.equal(block(state, batch).nodes, expected)
    assert block.sees_edges == (name not in ("GraphConv", "GCNConv"))
    assert_same(results(block, pad(batch)), results(block, batch), 1e-10)


@pytest.mark.parametrize("name", DYNAMIC)
def test_layers_that_cannot_be_captured_say_why(name: str) -> None:
    make, reason = DYNAMIC[name]
    block, batch = from_pyg(make()), make_batch()
    assert reason in block.why_not_captured
    assert block(first_state(batch, torch.float32), batch).nodes.shape == (batch.num_nodes, WIDTH)


def test_norm_and_activation() -> None:
    torch.manual_seed(0)
    layer, norm, batch = pyg.GraphConv(WIDTH, WIDTH), BatchNorm(WIDTH), make_batch()
    state = first_state(batch, torch.float32)
    out = layer(state.nodes, batch.edge_index)
    found = from_pyg(layer, activation=torch.tanh, norm=norm)(state, batch).nodes
    torch.testing.assert_close(found, state.nodes + norm(out).tanh())
    assert torch.equal(from_pyg(layer, activation=None)(state, batch).nodes, state.nodes + out)


def test_padding_does_not_count_in_the_norm(kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    block, batch = from_pyg(pyg.GraphConv(WIDTH, WIDTH, bias=False), norm=BatchNorm(WIDTH)), make_batch()
    found = results(block, pad(batch), dtype=torch.float32)
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())
    assert_same(found, results(block, batch), 1e-5)


def test_another_width_has_no_residual() -> None:
    layer, batch = pyg.GraphConv(WIDTH, 5), make_batch()
    state = first_state(batch, torch.float32)
    assert torch.equal(from_pyg(layer)(state, batch).nodes, layer(state.nodes, batch.edge_index).relu())


def test_copies_have_layers_of_their_own() -> None:
    """An object in `layer` is copied for each layer of a network; no copy may call the layer of another."""
    torch.manual_seed(0)
    layer = pyg.GraphConv(WIDTH, WIDTH)
    block, batch = from_pyg(layer), make_batch()
    model = Network(WIDTH, 1, layer=(block,), num_layers=3, hidden_channels=WIDTH, edge_dim=None)
    layers = [each.layer for each in model.blocks]
    assert len({id(each) for each in [layer, *layers]}) == 4
    state = first_state(batch, torch.float32)
    before, copied = block(state, batch).nodes, copy.deepcopy(block)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    assert torch.equal(copied(state, batch).nodes, before)
    model(PyGBatch.from_data_list(pyg_graphs())).sum().backward()
    assert all(parameter.grad.any() for each in layers[1:] for parameter in each.parameters())
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_the_first_block_may_take_the_features_as_they_are() -> None:
    first = from_pyg(pyg.GraphConv(WIDTH, 16))
    model = Network(WIDTH, 1, layers=[first, "gin"], hidden_channels=16, edge_dim=None)
    assert model.node_embedding is None
    assert model(PyGBatch.from_data_list(pyg_graphs())).shape == (4, 1)
    other = Network(WIDTH, 1, layers=[from_pyg(pyg.GraphConv(16, 16)), "gin"], hidden_channels=16, edge_dim=None)
    assert other.node_embedding is not None
    assert other(PyGBatch.from_data_list(pyg_graphs())).shape == (4, 1)


class Mean(nn.Module):
    """The mean over each graph: a layer that takes `batch`."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        assert batch is not None
        return x.new_zeros(int(batch.max()) + 1, x.shape[1]).index_add(0, batch, x)[batch]


def test_layers_get_the_graph_of_each_node() -> None:
    batch = make_batch()
    state = first_state(batch, torch.float32)
    found = from_pyg(Mean(), activation=None)(state, batch).nodes
    torch.testing.assert_close(found, state.nodes + batch.nodes.sum(state.nodes)[batch.nodes.owner])


class Pair(nn.Module):
    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(WIDTH, WIDTH), "Linear takes input: write a Block"),
        (lambda: pyg.PointNetConv(), "PointNetConv takes x, pos, edge_index: write a Block"),
        (lambda: pyg.GCN2Conv(WIDTH, 0.5), "GCN2Conv takes x, x_0, .*write a Block"),
        (lambda: pyg.GCNConv(WIDTH, WIDTH, cached=True), "cached=False"),
        (lambda: torch.relu, "layer must be a Module.*GINEConv"),
    ],
)
def test_layers_that_need_something_else_are_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_pyg(make())


def test_what_does_not_fit_is_refused() -> None:
    batch = make_batch()
    state = first_state(batch, torch.float32)
    with pytest.raises(ValueError, match="in_channels=5, but gets rows of width 8: make it with in_channels=8"):
        from_pyg(pyg.GraphConv(5, WIDTH))(state, batch)
    with pytest.raises(ValueError, match="edge_dim=3, but gets rows of width 8: make it with edge_dim=8"):
        from_pyg(pyg.TransformerConv(WIDTH, WIDTH, edge_dim=3))(state, batch)
    with pytest.raises(ValueError, match="edge_dim=3, but there are no edge features: give the network edge_dim"):
        from_pyg(pyg.TransformerConv(WIDTH, WIDTH, edge_dim=3))(replace(state, edges=None), batch)
    with pytest.raises(ValueError, match="Pair must return a row for each of 14 nodes, not"):
        from_pyg(Pair())(state, batch)
    with pytest.raises(ValueError, match=r"norm must be a BatchNorm.*crawl\.nn\.BatchNorm"):
        from_pyg(pyg.GraphConv(WIDTH, WIDTH), norm=nn.BatchNorm1d(WIDTH))


def test_models_of_pyg_see_edges_if_their_layers_do() -> None:
    """They all take `edge_attr`."""
    assert from_pyg(pyg.GAT(8, 8, 2, edge_dim=3)).sees_edges
    assert not from_pyg(pyg.GIN(8, 8, 2)).sees_edges
    with pytest.raises(ValueError, match="No block of this network sees edge features"):
        Network(1, 1, layer=(from_pyg(pyg.GIN(8, 8, 2)),), hidden_channels=8, edge_dim=3)
