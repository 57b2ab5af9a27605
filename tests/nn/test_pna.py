"""PNA against PyG."""

from __future__ import annotations

import pytest
import torch
from batches import WIDTH, assert_equals_pyg
from torch import nn
from torch_geometric.nn import PNAConv

from crawl.nn import PNA

MEAN = 0.8


def their_layer(edge_dim: int | None) -> PNAConv:
    """PyG's layer without bias, where it has two linear maps in a row one of them the identity."""
    layer = PNAConv(
        WIDTH,
        WIDTH,
        aggregators=["mean", "min", "max", "std"],
        scalers=["identity", "amplification", "attenuation"],
        deg=torch.tensor([0, 1]),
        edge_dim=edge_dim,
    )
    layer.aggr_module.avg_deg_log.fill_(MEAN)
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
    nn.init.eye_(layer.lin.weight)
    if edge_dim:
        nn.init.eye_(layer.pre_nns[0][0].weight.data[:, 2 * WIDTH :])
    layer.aggr_module.double()
    layer.aggr_module.avg_deg_log.fill_(MEAN)
    return layer


@pytest.mark.parametrize("edge_dim", [0, 3])
def test_equals_pyg(edge_dim: int) -> None:
    torch.manual_seed(0)
    block, layer = PNA(WIDTH, edge_dim, MEAN).double(), their_layer(edge_dim or None)
    message = layer.pre_nns[0][0].weight
    with torch.no_grad():
        block.target.weight.copy_(message[:, :WIDTH])
        block.source.weight.copy_(message[:, WIDTH : 2 * WIDTH])
    weights = {"last.weight": "post_nns.0.0.weight"} | ({"edge.weight": "edge_encoder.weight"} if edge_dim else {})
    assert_equals_pyg(block, layer, weights, block.conv, edge_dim=edge_dim)
    ours = torch.cat([block.target.weight.grad, block.source.weight.grad], 1)
    message = layer.pre_nns[0][0].weight  # in double precision now
    torch.testing.assert_close(ours, message.grad[:, : 2 * WIDTH], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mean", [0, -1.0, "2"])
def test_the_mean_degree_is_positive(mean: object) -> None:
    with pytest.raises(ValueError, match=f"mean_log_degree must be a positive number, not {mean!r}"):
        PNA(WIDTH, mean_log_degree=mean)
