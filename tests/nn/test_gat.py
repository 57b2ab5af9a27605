"""GAT against PyG."""

from __future__ import annotations

import pytest
import torch
from batches import WIDTH, assert_equals_pyg, first_state, make_batch
from torch_geometric.nn import GATConv

from crawl.nn import GAT, State

WEIGHTS = {"linear.weight": "lin.weight", "source": "att_src", "target": "att_dst"}


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_equals_pyg(num_heads: int) -> None:
    """Also where the graph has self-loops, several of them, parallel edges or nodes without edges."""
    block, layer = GAT(WIDTH, 0, num_heads), GATConv(WIDTH, WIDTH // num_heads, heads=num_heads, bias=False)
    assert_equals_pyg(block, layer, WEIGHTS, block.conv)


def test_equals_pyg_with_edge_features() -> None:
    torch.manual_seed(0)
    block, layer = GAT(WIDTH, 3, 2), GATConv(WIDTH, WIDTH // 2, heads=2, edge_dim=3, bias=False)
    layer.double()
    maps, attention = layer.lin_edge.weight.view(2, WIDTH // 2, 3), layer.att_edge[0]
    block.double()
    with torch.no_grad():  # our one linear map is the product of their two
        block.edge.weight.copy_(torch.einsum("hc,hce->he", attention, maps))
    assert_equals_pyg(block, layer, WEIGHTS, block.conv, edge_dim=3)
    expected = torch.einsum("hce,he->hc", maps, block.edge.weight.grad)
    torch.testing.assert_close(layer.att_edge.grad[0], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [-1e4, 1e4])
def test_large_weights_stay_finite(scale: float) -> None:
    """Softmax subtracts the largest, also at nodes without edges and with nothing but self-loops."""
    block, batch = GAT(WIDTH, 0, 2), make_batch()
    with torch.no_grad():
        block.source.fill_(scale)
    state = first_state(batch, torch.float32)
    out = block.conv(State(state.nodes, None, state.graphs), batch)
    out.sum().backward()
    assert out.isfinite().all()
    assert state.nodes.grad.isfinite().all()
    alone = batch.num_nodes - 1  # hears nothing but itself
    torch.testing.assert_close(out[alone], block.linear(state.nodes)[alone])
