"""Networks of message-passing blocks: what they see, and that they are not stronger than 1-WL."""

from __future__ import annotations

import pytest
import torch
from batches import first_state, make_batch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

from crawl import Network
from crawl.data import csl
from crawl.nn import BLOCKS, Affine, BatchNorm, BlockSettings, LayerNorm, MessagePassing, OneHot, State
from crawl.theory import rook, shrikhande

NAMES = ("gcn", "gin", "gine", "gat", "sage", "gated_gcn", "pna")
EDGES = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]])

each_layer = pytest.mark.parametrize("layer", NAMES)


def make(layer: str, in_channels: int, out_channels: int, **settings: object) -> Network:
    torch.manual_seed(0)
    return Network(in_channels, out_channels, layer=(layer,), **{"hidden_channels": 8, "num_layers": 2, **settings})


def trained(model: Network, data: Data, target: Tensor) -> Tensor:
    """What the model answers after a few steps that learn from the targets."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()
    with torch.no_grad():
        return model.eval()(data)


@each_layer
def test_csl_graphs_all_look_the_same_to_it_even_when_trained(layer: str) -> None:
    store = csl().store
    batch, target = store.batch(torch.arange(150)), store.y.flatten().long()
    out = trained(make(layer, 1, 10), batch, target)
    torch.testing.assert_close(out, out[:1].expand_as(out), rtol=1e-4, atol=1e-4)
    assert int(target.bincount().max()) == 15  # so any one answer is right for a tenth


@each_layer
def test_rook_and_shrikhande_look_the_same(layer: str) -> None:
    model = make(layer, 1, 3, pool="sum").double()
    answers = []
    for graph in (rook(), shrikhande()):
        answers.append(model.eval()(from_networkx(graph)))
    torch.testing.assert_close(*answers, rtol=1e-10, atol=1e-10)


@each_layer
def test_different_degrees_are_seen(layer: str) -> None:
    """The other way round: a path and a star with as many nodes are told apart, for nodes that are not all alike."""
    model = make(layer, 1, 3, pool="sum").double().eval()
    path, star = (
        torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]),
        torch.tensor([[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]]),
    )
    x = torch.arange(4.0).unsqueeze(1)
    a, b = (model(Data(x=x, edge_index=edges)) for edges in (path, star))
    assert not torch.allclose(a, b, rtol=1e-3)


@each_layer
def test_relabelling_nodes_changes_nothing(layer: str) -> None:
    model = make(layer, 2, 3).eval()
    x, new_name = torch.randn(4, 2), torch.tensor([2, 0, 3, 1])
    renamed = torch.empty(4, 2)
    renamed[new_name] = x
    torch.testing.assert_close(
        model(Data(x=x, edge_index=EDGES)), model(Data(x=renamed, edge_index=new_name[EDGES])), rtol=1e-5, atol=1e-6
    )


@each_layer
def test_an_answer_for_every_node_and_for_every_graph(layer: str) -> None:
    data = Data(x=torch.randn(4, 2), edge_index=EDGES)
    assert make(layer, 2, 3)(data).shape == (1, 3)
    assert make(layer, 2, 3, pool=None)(data).shape == (4, 3)


@each_layer
def test_edge_features_count_where_they_are_seen(layer: str) -> None:
    sees_edges = BLOCKS[layer].sees_edges
    model = make(layer, 2, 1, edge_dim=OneHot((3,)) if sees_edges else None, pool="sum").eval()
    x, kinds = torch.randn(4, 2), torch.tensor([[0], [1], [2], [1], [0]])
    a, b = (Data(x=x, edge_index=EDGES, edge_attr=kinds.roll(k, 0)) for k in (0, 2))
    assert torch.allclose(model(a), model(b)) == (not sees_edges)
    assert sees_edges == (layer in ("gine", "gat", "gated_gcn", "pna"))
    if not sees_edges:
        with pytest.raises(ValueError, match="edge_dim=None"):
            make(layer, 2, 1, edge_dim=OneHot((3,)))


@each_layer
@pytest.mark.parametrize("num_nodes", [1, 5])
def test_no_edges(layer: str, num_nodes: int) -> None:
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=num_nodes)
    for edge_dim in (1, 2) if BLOCKS[layer].sees_edges else (None,):
        model = make(layer, 1, 1, edge_dim=edge_dim)
        out = model(Data(**{**data.to_dict(), "edge_attr": torch.empty(0, 2)}) if edge_dim == 2 else data)
        assert out.shape == (1, 1)
        assert bool(out.isfinite().all())


def test_degrees_scale_pna() -> None:
    data = Data(edge_index=EDGES, num_nodes=4)
    outputs = [make("pna", 1, 1, mean_log_degree=mean).eval()(data) for mean in (1.0, 2.0)]
    assert not torch.allclose(*outputs)


@each_layer
def test_a_seed_has_no_effect(layer: str) -> None:
    model = make(layer, 1, 1).eval()
    data = Data(edge_index=EDGES, num_nodes=4)
    assert model.walk_plan is None
    assert torch.equal(model(data, seed=1), model(data, seed=2))


def test_edge_weights_are_refused() -> None:
    data = Data(edge_index=EDGES, num_nodes=4, edge_weight=torch.rand(5))
    with pytest.raises(ValueError, match=r"edge_weight: make it a feature .*del data\.edge_weight"):
        make("gcn", 1, 3)(data)


def test_unknown_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"gine, gat, .*not 'gatt'.*'gat'"):
        make("gatt", 1, 1)


@each_layer
def test_dropout_acts_on_what_is_added(layer: str) -> None:
    """In training alone; nothing is left of what is dropped, so with a rate of almost 1 the state stays."""
    torch.manual_seed(0)
    block, plain = (BLOCKS[layer].build(BlockSettings(8, 8, dropout=rate)) for rate in (1 - 1e-6, 0.0))
    batch = make_batch()
    before = first_state(batch, torch.float32)
    assert torch.equal(block(before, batch).nodes, before.nodes)
    plain.load_state_dict(block.state_dict())
    assert torch.equal(block.eval()(before, batch).nodes, plain.eval()(before, batch).nodes)
    assert not torch.equal(plain(before, batch).nodes, before.nodes)


@each_layer
def test_without_a_residual_the_state_is_what_would_be_added(layer: str) -> None:
    torch.manual_seed(0)
    adding, alone = (BLOCKS[layer].build(BlockSettings(8, 8, residual=added)) for added in (True, False))
    alone.load_state_dict(adding.state_dict())
    batch = make_batch()
    before = first_state(batch, torch.float32)
    expected = before.nodes + alone.eval()(before, batch).nodes
    torch.testing.assert_close(adding.eval()(before, batch).nodes, expected)


@each_layer
@pytest.mark.parametrize(("norm", "kind"), [("batch", BatchNorm), ("layer", LayerNorm), ("none", Affine)])
def test_norms_are_those_asked_for(layer: str, norm: str, kind: type) -> None:
    """In the blocks and before the head; without batch norms, no node of another graph counts in training."""
    model = make(layer, 2, 1, norm=norm, pool="sum")
    found = {type(module) for module in model.modules() if isinstance(module, BatchNorm | LayerNorm | Affine)}
    assert found == {kind}
    data = Data(x=torch.randn(4, 2), edge_index=EDGES)
    other = Data(x=torch.randn(3, 2), edge_index=EDGES[:, :2])
    beside = model.train()(Batch.from_data_list([data, other]))[:1]
    assert torch.allclose(beside, model(data), atol=1e-6) == (norm != "batch")


def test_a_layer_of_ones_own_says_what_nodes_hear() -> None:
    class Mean(MessagePassing):
        def conv(self, state, batch):
            return batch.edges.mean(batch.sources.spread(state.nodes))

    torch.manual_seed(0)
    model = Network(2, 1, layer=(Mean(8),), num_layers=2, hidden_channels=8)
    out = model(Data(x=torch.randn(4, 2), edge_index=EDGES))
    assert out.shape == (1, 1)
    with pytest.raises(NotImplementedError, match="write its conv"):
        MessagePassing(2).conv(State(torch.zeros(1, 2), None, torch.zeros(1, 2)), None)
