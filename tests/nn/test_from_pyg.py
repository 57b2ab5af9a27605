"""PyG's layers as blocks."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from batches import WIDTH, assert_same, first_state, make_batch, one_by_one, pad, pyg_graphs, results
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


def test_gps_attends_within_each_graph_and_hands_edge_features_on() -> None:
    """On exact batches it is what PyG's layer says of each graph alone. It is not captured."""
    torch.manual_seed(0)
    inner = pyg.GATConv(WIDTH, WIDTH, edge_dim=WIDTH)
    layer = pyg.GPSConv(WIDTH, inner, heads=2, norm=None)
    block, batch = from_pyg(layer, activation=None), make_batch()
    assert (block.sees_edges, block.edge_channels, block.in_channels) == (True, WIDTH, WIDTH)
    assert "GPSConv depend on the data" in from_pyg(pyg.GPSConv(WIDTH, pyg.GraphConv(WIDTH, WIDTH))).why_not_captured
    state = first_state(batch, torch.float32)
    found = block(state, batch).nodes - state.nodes
    for part, (nodes, edges, _) in one_by_one(batch):
        alone = layer(state.nodes[nodes], part.edge_index, edge_attr=state.edges[edges])
        torch.testing.assert_close(found[nodes], alone, rtol=1e-4, atol=1e-5)
    changed = block(replace(state, edges=2 * state.edges), batch).nodes
    assert not torch.allclose(found + state.nodes, changed)


@pytest.mark.parametrize(
    ("layer", "sees_edges"),
    [
        (pyg.GPSConv(WIDTH, None), False),
        (pyg.GPSConv(WIDTH, pyg.GATConv(WIDTH, WIDTH)), False),
        (pyg.AntiSymmetricConv(WIDTH, pyg.GATConv(WIDTH, WIDTH, edge_dim=WIDTH)), True),
        (pyg.GIN(WIDTH, WIDTH, 2), False),
        (pyg.GAT(WIDTH, WIDTH, 2, edge_dim=WIDTH), True),
        (pyg.PNA(WIDTH, WIDTH, 2, aggregators=["mean"], scalers=["identity"], deg=torch.tensor([1, 2])), False),
        (pyg.FiLMConv(WIDTH, WIDTH), False),
    ],
)
def test_edge_features_go_to_layers_that_use_them(layer: nn.Module, sees_edges: bool) -> None:
    batch, block = make_batch(), from_pyg(layer)
    assert block.sees_edges == sees_edges
    assert block(first_state(batch, torch.float32), batch).nodes.shape == (14, WIDTH)


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
        (lambda: pyg.GPSConv(WIDTH, pyg.GCNConv(WIDTH, WIDTH, cached=True)), "GCNConv would use .* cached=False"),
        (lambda: pyg.GPSConv(WIDTH, None, attn_type="performer"), "counts padding .* attn_type='multihead'"),
        (
            lambda: pyg.GIN(WIDTH, WIDTH, 2, norm="layer_norm"),
            "LayerNorm inside MLP would .* all graphs of a batch as one",
        ),
        (lambda: pyg.GINConv(nn.Sequential(pyg.GraphNorm(WIDTH))), "GraphNorm inside Sequential would .*a batch norm"),
        (lambda: pyg.ChebConv(WIDTH, WIDTH, 2, normalization=None), "give it normalization='sym'"),
        (lambda: torch.relu, "layer must be a Module.*GINEConv"),
        (pyg_graphs, r"layer must be a Module, .*or use crawl\.data\.from_pyg for graphs"),
        (lambda: pyg.RGCNConv(WIDTH, WIDTH, 3), "RGCNConv takes x, edge_index, edge_type: write a Block"),
        (lambda: pyg.GPSConv(WIDTH, pyg.RGATConv(WIDTH, WIDTH, 3)), "RGATConv takes x, edge_index, edge_type"),
        (lambda: pyg.DNAConv(WIDTH), "DNAConv takes what several layers returned: write a Block"),
        (lambda: pyg.WLConv(), "WLConv takes and returns categories: write a Block"),
        (lambda: pyg.PANConv(WIDTH, WIDTH, 2), "PANConv returns a matrix besides the nodes: write a Block"),
        (lambda: pyg.TopKPooling(WIDTH), "TopKPooling returns other nodes than it takes: write a Block"),
        (lambda: pyg.DeepGCNLayer(pyg.GraphConv(WIDTH, WIDTH)), "DeepGCNLayer takes args, kwargs: write a Block"),
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
    bare, message = replace(state, edges=None), "needs edge features, but there are none: give the network edge_dim"
    for layer in (
        pyg.TransformerConv(WIDTH, WIDTH, edge_dim=3),
        pyg.CGConv(WIDTH, 3),
        pyg.GINEConv(nn.Linear(WIDTH, WIDTH)),
        pyg.NNConv(WIDTH, WIDTH, nn.Linear(WIDTH, WIDTH**2)),
        pyg.GMMConv(WIDTH, WIDTH, WIDTH, 2),
        pyg.GPSConv(WIDTH, pyg.GINEConv(nn.Linear(WIDTH, WIDTH))),
    ):
        with pytest.raises(ValueError, match=f"{type(layer).__name__} {message}"):
            from_pyg(layer)(bare, batch)
    for layer in (pyg.GeneralConv(WIDTH, WIDTH), pyg.CGConv(WIDTH)):  # without edge features
        assert not from_pyg(layer).sees_edges
        assert from_pyg(layer)(state, batch).nodes.shape == (14, WIDTH)
    with pytest.raises(ValueError, match="dim=3, but gets rows of width 8: make it with dim=8"):
        from_pyg(pyg.CGConv(WIDTH, 3))(state, batch)
    with pytest.raises(ValueError, match="edge_dim=3, but gets rows of width 8: make it with edge_dim=8"):
        from_pyg(pyg.GINEConv(nn.Linear(WIDTH, WIDTH), edge_dim=3))(state, batch)
    with pytest.raises(ValueError, match="GPSConv has channels=4, but gets rows of width 8: make it with channels=8"):
        from_pyg(pyg.GPSConv(4, None))(state, batch)
    with pytest.raises(ValueError, match=r"GENConv does not take these shapes: .*edge_attr \[23, 8\]"):
        from_pyg(pyg.GENConv(WIDTH, 5))(state, batch)
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
