"""Features of graphs in the head: standardised, beside pooled nodes, or beside the nodes of each graph."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.data import Batch, Data

import crawl
from crawl.nn import GraphFeatures, Readout, Segments

RING = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])


def batch(*rows: list[float]) -> Batch:
    data = [Data(x=torch.ones(3, 1), edge_index=RING, u=torch.tensor([row])) for row in rows]
    return Batch.from_data_list(data)


def test_by_hand():
    features = GraphFeatures([1.0, 10.0], [2.0, 0.5], limit=3)
    u = torch.tensor([[5.0, 10.25], [math.nan, 1e30], [1.0, -1e30]])
    expected = torch.tensor([[2.0, 0.5], [0.0, 3.0], [0.0, -3.0]])
    assert torch.equal(features(u, torch.empty(0)), expected)
    assert not features.state_dict()  # a checkpoint keeps means and deviations with its other features


def test_large_numbers_keep_their_differences():
    u = torch.tensor([[1e9 + 1], [1e9 + 2]], dtype=torch.float64)
    assert GraphFeatures([1e9], [1.0])(u, torch.empty(0)).flatten().tolist() == [1.0, 2.0]


def test_the_readout_sees_both():
    members = Segments.of(torch.tensor([0, 0, 1]), 2)
    x, u = torch.randn(3, 4), torch.randn(2, 3)
    readout = Readout(4, 2, pool="sum", head="linear", graph_channels=3).eval()
    seen = torch.cat([Readout.embed(Readout(4, 2, pool="sum").eval(), x, members), u], dim=1)
    assert torch.equal(readout.embed(x, members, None, u), seen)
    torch.testing.assert_close(readout(x, members, None, u), seen @ readout.head.weight.t() + readout.head.bias)
    per_node = Readout(4, 2, pool=None, graph_channels=3).eval()
    assert torch.equal(per_node.embed(x, members, None, u)[:, 4:], u[[0, 0, 1]])
    targets = (Segments.of(torch.tensor([2, 0]), 3),)
    assert torch.equal(per_node.embed(x, members, targets, u)[:, 4:], u[[1, 0]])
    for wrong in (None, u[:, :2]):
        with pytest.raises(ValueError, match="graph_channels=3: give it u of 3 columns"):
            readout(x, members, None, wrong)


@pytest.mark.parametrize("head", ["mlp", "linear"])
def test_a_network_of_pyg_data(head):
    model = crawl.CRaWl(1, 2, hidden_channels=8, num_layers=1, graph_channels=2, head=head, window_size=4).eval()
    one, other = model(batch([0.0, 1.0], [3.0, 1.0]), seed=0)
    assert not torch.allclose(one, other)  # the graphs are the same, the features are not
    same = model(batch([3.0, 1.0], [3.0, 1.0]), seed=0)
    torch.testing.assert_close(same[1], other)
    assert model.embed(batch([0.0, 1.0]), seed=0).shape == (1, 8 + 2)
    alone = Data(x=torch.ones(3, 1), edge_index=RING, u=torch.tensor([3.0, 1.0]))  # without its dimension
    assert model(alone, seed=0).shape == (1, 2)


def test_networks_without_them_are_what_they_were():
    torch.manual_seed(0)
    before = crawl.CRaWl(1, 2, hidden_channels=8, num_layers=1)
    torch.manual_seed(0)
    after = crawl.CRaWl(1, 2, hidden_channels=8, num_layers=1, graph_channels=0)
    assert list(before.state_dict()) == list(after.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))
    wide = crawl.CRaWl(1, 2, hidden_channels=8, num_layers=1, graph_channels=3)
    assert sum(p.numel() for p in wide.parameters()) == sum(p.numel() for p in before.parameters()) + 3 * 8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GraphFeatures([]), "means of one feature at least"),
        (lambda: GraphFeatures([1.0], [1.0, 2.0]), "There are 1 means but 2 deviations"),
        (lambda: GraphFeatures([1.0], [0.0]), "Each of deviations must be a .*number above 0|positive"),
        (lambda: crawl.CRaWl(1, 1, graph_channels=-1), "graph_channels must be a whole number from 0"),
        (lambda: crawl.CRaWl(1, 1, graph_channels=2, pool=None, pair="dot"), "leave out graph_channels"),
        (lambda: crawl.CRaWl(1, 1)(batch([1.0, 2.0])), "give it graph_channels=2 to use them, or take them away"),
        (
            lambda: crawl.CRaWl(1, 1, graph_channels=3)(batch([1.0, 2.0])),
            r"u must have the shape \[1, 3\], not \[1, 2\]",
        ),
        (lambda: crawl.CRaWl(1, 1, graph_channels=3)(Data(edge_index=RING)), "The data has no u, but 3 features"),
        (lambda: crawl.CRaWl(1, 1, graph_channels=1)(batch([math.inf])), "u holds infinity"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
