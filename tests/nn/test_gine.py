"""GIN and GINE against PyG."""

from __future__ import annotations

import copy

import pytest
import torch
from batches import WIDTH, assert_equals_pyg, first_state, make_batch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, GINEConv

from crawl.nn import GIN, GINE, Batch, State

MLP = {
    "first.weight": "nn.0.weight",
    "norm.weight": "nn.1.weight",
    "norm.bias": "nn.1.bias",
    "last.weight": "nn.3.weight",
}


def mlp_of(block: GINE) -> nn.Sequential:
    return copy.deepcopy(nn.Sequential(block.first, block.norm, nn.ReLU(), block.last))


def change(block: GINE):
    """The block without its residual."""

    def conv(state: State, batch: Batch) -> Tensor:
        return block(state, batch).nodes - state.nodes

    return conv


@pytest.mark.parametrize("block", [GIN(WIDTH), GINE(WIDTH)], ids=["gin", "gine without edges"])
def test_gin_equals_pyg(block: GINE) -> None:
    assert_equals_pyg(block, GINConv(mlp_of(block)), MLP, change(block))


def test_gine_equals_pyg() -> None:
    block = GINE(WIDTH, WIDTH)
    assert_equals_pyg(block, GINEConv(mlp_of(block)), MLP, change(block), edge_dim=WIDTH)


def test_edges_of_another_width_get_a_linear_map() -> None:
    block = GINE(WIDTH, 3)
    layer = GINEConv(mlp_of(block), edge_dim=3)
    nn.init.zeros_(layer.lin.bias)
    assert_equals_pyg(block, layer, MLP | {"edge.weight": "lin.weight"}, change(block), edge_dim=3)


def test_missing_edge_features_are_zeros() -> None:
    block, batch = GINE(WIDTH, WIDTH), make_batch()
    state = first_state(batch, torch.float32)
    zeros = block(State(state.nodes, torch.zeros_like(state.edges), state.graphs), batch)
    assert torch.equal(block(State(state.nodes, None, state.graphs), batch).nodes, zeros.nodes)
