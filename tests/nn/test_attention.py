"""Attention: its formula, graph by graph and head by head."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from batches import WIDTH, assert_same, first_state, make_batch, make_block, pad, results
from torch import nn

from crawl.nn import Attention, Batch, Segments, State


class Reference(Attention):
    """The same weights, node by node."""

    def forward(self, state: State, batch: Batch) -> State:
        rows = state.nodes
        rows = (rows - rows.mean(0)) / (rows.var(0, correction=0) + self.norm.eps).sqrt()
        rows = rows * self.norm.weight + self.norm.bias
        query, key, value = (rows @ weight.t() for weight in self.first.weight.split(WIDTH))
        c = self.head_channels
        heard = []
        for v, graph in enumerate(batch.nodes.owner.tolist()):
            members = (batch.nodes.owner == graph).nonzero().flatten()
            heads = []
            for head in range(self.num_heads):
                part = slice(head * c, (head + 1) * c)
                raised = [(query[v, part] @ key[u, part] / math.sqrt(c)).exp() for u in members]
                weighted = [weight * value[u, part] for weight, u in zip(raised, members, strict=True)]
                heads.append(sum(weighted) / sum(raised))
            heard.append(torch.cat(heads))
        return replace(state, nodes=state.nodes + torch.stack(heard) @ self.last.weight.t())


@pytest.mark.parametrize("num_heads", [1, 2, 8])
def test_formula(num_heads: int) -> None:
    torch.manual_seed(0)
    block, reference, batch = Attention(WIDTH, num_heads), Reference(WIDTH, num_heads), make_batch()
    nn.init.uniform_(block.norm.weight, 0.5, 1.5)
    nn.init.normal_(block.norm.bias)
    reference.load_state_dict(block.state_dict())
    assert_same(results(block, batch), results(reference, batch), 1e-10)


def test_nodes_may_come_in_any_order() -> None:
    """`Segments.of` does not ask for the nodes of a graph to follow each other."""
    block, batch = make_block("attention"), make_batch()
    expected = results(block, batch)
    order = torch.randperm(batch.num_nodes, generator=torch.Generator().manual_seed(0))
    owner = batch.nodes.owner[order]
    mixed = replace(batch, x=batch.x[order], nodes=Segments.of(owner, batch.num_graphs))
    found = results(block, mixed, [order.argsort(), torch.arange(batch.num_edges), torch.arange(batch.num_graphs)])
    assert_same(found, expected, 1e-10)


@pytest.mark.parametrize("num_nodes", [0, 2])
def test_graphs_without_nodes(num_nodes: int) -> None:
    nothing = torch.empty(2, 0, dtype=torch.long)
    edges = Segments.of(nothing[0], num_nodes)
    batch = Batch(nothing, Segments.of(torch.full((num_nodes,), 1), 3), edges, edges)
    x = torch.randn(num_nodes, WIDTH, requires_grad=True)
    out = make_block("attention")(State(x, None, torch.zeros(3, WIDTH)), batch).nodes
    out.sum().backward()
    assert out.shape == x.shape
    assert out.isfinite().all()
    assert x.grad.isfinite().all()


def test_dropout_leaves_the_residual() -> None:
    block, batch = Attention(WIDTH, 2, dropout=1.0), make_batch()
    state = first_state(batch, torch.float32)
    assert torch.equal(block(state, batch).nodes, state.nodes)
    assert not torch.equal(block.eval()(state, batch).nodes, state.nodes)


def test_a_longer_grid_changes_nothing() -> None:
    block, batch = make_block("attention").eval(), pad(make_batch())
    longer = replace(batch, nodes=replace(batch.nodes, longest=9))
    assert_same(results(block, longer), results(block, batch), 1e-10)


@pytest.mark.parametrize("num_heads", [0, 3, True])
def test_heads_that_do_not_fit_are_refused(num_heads: int) -> None:
    with pytest.raises(ValueError, match=rf"num_heads.*{num_heads}"):
        Attention(WIDTH, num_heads)
