from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from crawl.baselines import GIN
from crawl.data import csl
from crawl.nn.encoders import OneHot
from crawl.training import Evaluation, Trainer, Training

EDGES = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]])


def test_csl_graphs_all_look_the_same_to_it_even_when_trained():
    dataset = csl()
    torch.manual_seed(0)
    model = GIN(1, 10, hidden_channels=8, num_layers=2)
    training = Training(max_epochs=3, batch_size=45, lr=0.01, device="cpu")
    trainer = Trainer(model, dataset, training, Evaluation(num_val_repeats=1), seed=0)
    scores = [record["val_accuracy"] for record in trainer.epochs()]
    assert scores == pytest.approx([0.1] * 3)  # every class has its tenth
    model.eval()
    with torch.no_grad():
        out = model(dataset.store.batch(torch.arange(150)))
    assert torch.equal(out, out[:1].expand_as(out))
    predictions = trainer.evaluate(dataset.split.test, 2, "test")
    assert (predictions.spread == 0).all()
    assert predictions.score_of_mean(dataset.store.y[dataset.split.test].double().numpy()) == pytest.approx(0.1)


def test_relabelling_nodes_changes_nothing():
    torch.manual_seed(0)
    model = GIN(2, 3, hidden_channels=8, num_layers=2).eval()
    x, new_name = torch.randn(4, 2), torch.tensor([2, 0, 3, 1])
    renamed = torch.empty(4, 2)
    renamed[new_name] = x
    torch.testing.assert_close(
        model(Data(x=x, edge_index=EDGES)), model(Data(x=renamed, edge_index=new_name[EDGES])), rtol=1e-5, atol=1e-6
    )


def test_an_answer_for_every_node_and_for_every_graph():
    data = Data(x=torch.randn(4, 2), edge_index=EDGES)
    assert GIN(2, 3, hidden_channels=8, num_layers=1)(data).shape == (1, 3)
    assert GIN(2, 3, hidden_channels=8, num_layers=1, pool=None)(data).shape == (4, 3)


def test_edge_features_count():
    torch.manual_seed(0)
    model = GIN(1, 1, hidden_channels=8, num_layers=1, edge_dim=OneHot((3,))).eval()
    a, b = (Data(edge_index=EDGES, edge_attr=torch.full((5, 1), k), num_nodes=4) for k in (0, 2))
    assert not torch.allclose(model(a), model(b))


@pytest.mark.parametrize("num_nodes", [1, 5])
def test_no_edges(num_nodes):
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=num_nodes)
    for edge_dim in (0, 2):
        model = GIN(1, 1, hidden_channels=8, num_layers=2, edge_dim=edge_dim)
        out = model(Data(**{**data.to_dict(), "edge_attr": torch.empty(0, 2)}) if edge_dim else data)
        assert out.shape == (1, 1)
        assert bool(out.isfinite().all())


def test_walk_settings_are_ignored():
    model = GIN(1, 1, hidden_channels=8, num_layers=1).eval()
    data = Data(edge_index=EDGES, num_nodes=4)
    assert torch.equal(model(data, seed=1, num_steps=5), model(data, seed=2))
