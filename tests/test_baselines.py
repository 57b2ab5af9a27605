from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from crawl.baselines import LAYERS, SEES_EDGES, MessagePassing
from crawl.data import csl
from crawl.nn.encoders import OneHot
from crawl.training import Evaluation, Trainer, Training

each_layer = pytest.mark.parametrize("layer", LAYERS)
EDGES = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]])


@pytest.mark.parametrize("layer", ["gin", "pna"])
def test_csl_graphs_all_look_the_same_to_it_even_when_trained(layer):
    dataset = csl()
    torch.manual_seed(0)
    model = MessagePassing(layer, 1, 10, hidden_channels=8, num_layers=2)
    training = Training(max_epochs=3, batch_size=45, lr=0.01, device="cpu")
    trainer = Trainer(model, dataset, training, Evaluation(num_val_repeats=1), seed=0)
    scores = [record["val_accuracy"] for record in trainer.epochs()]
    assert scores == pytest.approx([0.1] * 3)  # every class has its tenth
    model.eval()
    with torch.no_grad():
        out = model(dataset.store.batch(torch.arange(150)))
    torch.testing.assert_close(out, out[:1].expand_as(out))
    predictions = trainer.evaluate(dataset.split.test, 2, "test")
    assert (predictions.walk_spread < 1e-6).all()
    assert predictions.score_of_mean(dataset.store.y[dataset.split.test].double().numpy()) == pytest.approx(0.1)


@each_layer
def test_relabelling_nodes_changes_nothing(layer):
    torch.manual_seed(0)
    model = MessagePassing(layer, 2, 3, hidden_channels=8, num_layers=2).eval()
    x, new_name = torch.randn(4, 2), torch.tensor([2, 0, 3, 1])
    renamed = torch.empty(4, 2)
    renamed[new_name] = x
    torch.testing.assert_close(
        model(Data(x=x, edge_index=EDGES)), model(Data(x=renamed, edge_index=new_name[EDGES])), rtol=1e-5, atol=1e-6
    )


@each_layer
def test_an_answer_for_every_node_and_for_every_graph(layer):
    data = Data(x=torch.randn(4, 2), edge_index=EDGES)
    assert MessagePassing(layer, 2, 3, hidden_channels=8, num_layers=1)(data).shape == (1, 3)
    assert MessagePassing(layer, 2, 3, hidden_channels=8, num_layers=1, pool=None)(data).shape == (4, 3)


@each_layer
def test_edge_features_count_where_they_are_seen(layer):
    torch.manual_seed(0)
    model = MessagePassing(layer, 2, 1, hidden_channels=8, num_layers=2, edge_dim=OneHot((3,)), pool="sum").eval()
    x, kinds = torch.randn(4, 2), torch.tensor([[0], [1], [2], [1], [0]])
    a, b = (Data(x=x, edge_index=EDGES, edge_attr=kinds.roll(k, 0)) for k in (0, 2))
    assert torch.allclose(model(a), model(b)) == (layer not in SEES_EDGES)


@each_layer
@pytest.mark.parametrize("num_nodes", [1, 5])
def test_no_edges(layer, num_nodes):
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=num_nodes)
    for edge_dim in (1, 2):
        model = MessagePassing(layer, 1, 1, hidden_channels=8, num_layers=2, edge_dim=edge_dim)
        out = model(Data(**{**data.to_dict(), "edge_attr": torch.empty(0, 2)}) if edge_dim == 2 else data)
        assert out.shape == (1, 1)
        assert bool(out.isfinite().all())


def test_degrees_scale_pna():
    data = Data(edge_index=EDGES, num_nodes=4)
    outputs = []
    for mean in (1.0, 2.0):
        torch.manual_seed(0)
        model = MessagePassing("pna", 1, 1, hidden_channels=8, num_layers=1, mean_log_degree=mean).eval()
        outputs.append(model(data))
    assert not torch.allclose(*outputs)


def test_refuses():
    with pytest.raises(ValueError, match="layer must be one of gcn, gin, gine, gat, sage, gated_gcn, pna, not 'gnn'"):
        MessagePassing("gnn", 1, 1)
    with pytest.raises(ValueError, match="multiple of 4, not 90"):
        MessagePassing("gat", 1, 1, hidden_channels=90)


def test_walk_settings_are_ignored():
    model = MessagePassing("gin", 1, 1, hidden_channels=8, num_layers=1).eval()
    data = Data(edge_index=EDGES, num_nodes=4)
    assert torch.equal(model(data, seed=1, num_steps=5), model(data, seed=2))


def test_edge_weights_are_refused():
    model = MessagePassing("gcn", 1, 3, hidden_channels=8, num_layers=1)
    data = Data(edge_index=EDGES, num_nodes=4, edge_weight=torch.rand(5))
    with pytest.raises(ValueError, match=r"do not use edge_weight: make it a feature .*del data\.edge_weight"):
        model(data)
