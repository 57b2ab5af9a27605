"""The feed-forward block: its formula."""

from __future__ import annotations

import torch
from batches import WIDTH, assert_same, first_state, make_batch, make_block, results

from crawl.nn import Batch, FeedForward, State


class Reference(FeedForward):
    """The same weights, spelled out."""

    def forward(self, state: State, batch: Batch) -> State:
        rows = state.nodes @ self.first.weight.t()
        rows = (rows - rows.mean(0)) / (rows.var(0, correction=0) + self.norm.eps).sqrt()
        hidden = (rows * self.norm.weight + self.norm.bias).clamp_min(0)
        return State(state.nodes + hidden @ self.last.weight.t(), state.edges, state.graphs)


def test_formula() -> None:
    block, batch = make_block("feed_forward"), make_batch()
    reference = Reference(WIDTH)
    reference.load_state_dict(block.state_dict())
    assert_same(results(block, batch), results(reference, batch), 1e-10)


def test_dropout_leaves_the_residual() -> None:
    block, batch = FeedForward(WIDTH, dropout=1.0), make_batch()
    state = first_state(batch, torch.float32)
    assert torch.equal(block(state, batch).nodes, state.nodes)
    assert not torch.equal(block.eval()(state, batch).nodes, state.nodes)
